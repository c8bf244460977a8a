#!/usr/bin/env bats
# SrunPortRange: the only ports that a site's firewall lets through to srun's host.

load helpers
load launch

setup_file() { suite_up --nodes 2 --srun-port-range 20000-20005; }
teardown_file() { cluster_down; }
teardown() {
    exec 9>&- || true
    cluster_mend
}

# hold N: take N ports of the range on the login host, until descriptor 9 closes.
hold() {
    exec 9> >(cluster exec --user root -- timeout 30 python3 -c "
import socket, sys
held = []
for port in range(20000, 20006):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if len(held) < $1:
        s.bind(('', port))
        s.listen()
        held.append(s)
sys.stdin.read()" 3>&-)
    wait_for 10 holds "$1"
}

holds() { [[ $(on_login ss -Htln 'sport >= :20000 and sport <= :20005' | wc -l) -eq $1 ]]; }

release() {
    exec 9>&-
    wait_for 10 holds 0
}

# On the login host only: what listens for a moment there while a job runs.
listening() { on_host hvdlogin ss -Htlnp | grep -v munged | awk '{ sub(/.*:/, "", $4); print $4 }' | sort -u; }

@test "driver and rendezvous listen inside the range" {
    for with in srun hvdrun; do
        begin launch "$with" --hvd-rendezvous=launch -N2 -n2 bash -c 'echo ready; sleep 2'
        says 20 ready
        run listening
        echo "$output"
        [[ $(wc -l <<<"$output") -ge 3 ]]
        for port in $output; do ((port >= 20000 && port <= 20005)); done
        ended 20
        exits 0
        run launch "$with" --hvd-rendezvous=launch -N2 -n2 hvd-selftest --quick
        selftest_ok 2 2
    done
    assert_no_leftovers
}

@test "all of the range in use: hvdrun names range and host" {
    hold 6
    run launch hvdrun -N2 -n2 true
    exits 1
    has hvdlogin 20000 20005 SrunPortRange
    run launch srun -N2 -n2 true
    [ "$status" -ne 0 ]
    has 20000 20005
    release
    run launch srun -N2 -n2 true
    exits 0
    assert_no_leftovers
}

@test "the driver finds no port that srun has left: range and host are named" {
    # salloc and srun itself take the last two.
    hold 4
    run on_login salloc --quiet -N2 srun --hvd -N2 -n2 true
    release
    [ "$status" -ne 0 ]
    has hvdlogin "all ports from 20000 to 20005 (SrunPortRange) are in use" "could not start"
    assert_no_leftovers 15
}
