#!/usr/bin/env bats
# SrunPortRange: the only ports that a site's firewall lets through to srun's host.

load helpers
load launch

setup_file() {
    suite_up --nodes 2 --srun-port-range 20000-20007
}
teardown_file() { cluster_down; }
teardown() {
    exec 9>&- || true
    cluster_mend
}

# take_ports N [HOST]: takes N ports of the range on a host (the login host) until descriptor 9 closes.
take_ports() {
    exec 9> >(cluster exec --user root --host "${2:-hvdlogin}" -- timeout 30 python3 -c "
import socket, sys
taken_ports = []
for port in range(20000, 20008):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if len(taken_ports) < $1:
        s.bind(('', port))
        s.listen()
        taken_ports.append(s)
sys.stdin.read()" 3>&-)
    wait_for 10 taken "$1" "${2:-hvdlogin}"
}

taken() { [[ $(on_host "$2" ss -Htln 'sport >= :20000 and sport <= :20007' | wc -l) -eq $1 ]]; }

release() {
    exec 9>&-
    wait_for 10 taken 0 "${1:-hvdlogin}"
}

# Prints where processes of alice's listen on a host at any moment while a job runs: on the login host also those of srun.
listening() {
    as_root "$1" ss -Htlne | grep "uid:$(as_user alice id -u) " | awk '{ sub(/.*:/, "", $4); print $4 }' | sort -u
}

in_range() { (($1 >= 20000 && $1 <= 20007)); }

@test "the driver, and agents on all hosts, listen inside the range" {
    local with host port
    for with in srun hvdrun; do
        begin launch "$with" -N2 -n2 bash -c 'echo ready; sleep 3; exec hvd-selftest --quick'
        says_times 20 2 ready
        for host in hvdlogin hvdn1 hvdn2; do
            run listening $host
            echo "$host: $output"
            [[ $(wc -l <<<"$output") -ge $([[ $host == hvdlogin ]] && echo 3 || echo 1) ]]
            for port in $output; do in_range "$port"; done
        done
        ended 20
        selftest_ok 2 2
    done
    assert_no_leftovers
}

@test "the relay of rank 0's host that all ranks of PyTorch meet at listens inside the range, and knows their number" {
    local addr port
    # shellcheck disable=SC2016
    run on_login salloc -Q -N2 -n2 hvdrun -N2 -n2 bash -c '((RANK)) || echo "$MASTER_PORT $(hostname) $MASTER_ADDR"'
    exits 0
    in_range "${output%% *}"
    [[ $output == *" hvdn1 $(cluster addr hvdn1 ib0)" ]]
    on_login rm -f rendezvous
    # shellcheck disable=SC2016
    begin launch srun -N2 -n2 bash -c '((RANK)) || echo "$MASTER_ADDR" "$MASTER_PORT" >rendezvous; sleep 20'
    wait_for 10 on_login test -s rendezvous
    read -r addr port < <(on_login cat rendezvous)
    in_range "$port"
    [[ $addr == "$(cluster addr hvdn1 ib0)" ]]
    # When a rank has deleted its key, the value stays until the other rank has deleted its own.
    for scope in global cross_0; do
        [[ $(peer alice hvdn1 http "$addr" "$port" PUT /$scope/0 hello) == 200* ]]
        [[ $(peer alice hvdn1 http "$addr" "$port" DELETE /$scope/0) == 200* ]]
        [[ $(peer alice hvdn2 http "$addr" "$port" GET /$scope/0) == "200 hello" ]]
        [[ $(peer alice hvdn2 http "$addr" "$port" DELETE /$scope/1) == 200* ]]
        [[ $(peer alice hvdn2 http "$addr" "$port" GET /$scope/0) == 404* ]]
    done
    # Of one rank.
    [[ $(peer alice hvdn1 http "$addr" "$port" PUT /local_hvdn2/0 hello) == 200* ]]
    [[ $(peer alice hvdn1 http "$addr" "$port" DELETE /local_hvdn2/0) == 200* ]]
    [[ $(peer alice hvdn2 http "$addr" "$port" GET /local_hvdn2/0) == 404* ]]
    as_root hvdlogin pkill -TERM -u alice -x srun
    ended $((20 * HVD_TEST_PATIENCE))
    assert_no_leftovers
}

@test "all of a node's range in use: there can be no relay, and the launch fails, with node and range named" {
    local with
    for with in srun hvdrun; do
        take_ports 8 hvdn1
        run launch $with -N2 -n2 echo started
        exits 1
        has "error: hvdn1: cannot open the port of the rendezvous relay: " "20000" "20007" "in use"
        has_not started "took longer"
        release hvdn1
        run launch $with -N2 -n2 true
        exits 0
        has_not warning
    done
    assert_no_leftovers
}

@test "all of the range in use: hvdrun names range and host" {
    take_ports 8
    run launch hvdrun -N2 -n2 true
    exits 1
    has hvdlogin 20000 20007 SrunPortRange
    run launch srun -N2 -n2 true
    exits 1
    has 20000 20007
    release
    run launch srun -N2 -n2 true
    exits 0
    assert_no_leftovers
}

@test "the driver finds no port that srun has left: range and host are named" {
    # salloc and srun itself take the last two.
    take_ports 6
    run on_login salloc --quiet -N2 srun --hvd -N2 -n2 true
    release
    [ "$status" -ne 0 ] # of srun itself, which finds no port either
    has hvdlogin "all ports from 20000 to 20007 (SrunPortRange) are in use"
    assert_no_leftovers 15
}
