#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Ranks that srun has started, which meet at relays, in a tree or at that of rank 0's host: what other users of the same
# hosts, and of others, get at (strangers.bats has other launchers); and what happens when a relay is killed
# or stopped. The ranks are lib/relay_rank.py; with a fan-out of 2 the relay of one host of four is below that of another.

# shellcheck disable=SC2030,SC2031,SC2046,SC2086,SC2154 # set by functions of the helpers; lists of words

load helpers
load launch
load store_ranks
load strangers

setup_file() {
    suite_up --nodes 4
    export HVD_RELAY_FAN_OUT=2
}
teardown_file() { cluster_down; }
setup() { fresh_work; }
teardown() {
    as_root hvdlogin pkill -KILL -u alice || true
    cluster_mend
}

@test "strangers neither read, write, delete nor flood what ranks at a tree of relays share" {
    local host
    begin_ranks 8 on_login srun --hvd -N4 -n8 --ntasks-per-node=2 $RANK
    # Each rank of PyTorch was told the relay of rank 0's host, and each of Horovod that of its own.
    [[ $(cat "$WORK"/at.? | awk '{ print $2 }' | sort -u) == "$(cluster addr hvdn1 ib0)" ]]
    for host in hvdn1 hvdn2 hvdn3 hvdn4; do ports "$host" | grep -q '^127.0.0.1 '; done
    strangers_get_nothing hvdlogin hvdn1 hvdn2 hvdn4
    # root may do as he likes, but not by mistake.
    attack root hvdn2 127.0.0.1 "$(ports hvdn2 | awk '$1 == "127.0.0.1" { print $2; exit }')"
    ends_well 30
    intact 8
    assert_no_leftovers
}

@test "strangers get nothing, on rank 0's host, from other hosts of the job and from outside of it" {
    local with open
    export HVD_RELAY_FAN_OUT=32
    for with in "srun --hvd" hvdrun; do
        fresh_work
        begin_ranks 4 on_login $with -w 'hvdn[1-2]' -N2 -n4 --ntasks-per-node=2 $RANK
        # All ranks' connections are to one port of one address.
        [[ $(awk '{ print $2 }' "$WORK"/at.? | sort -u) == "$(cluster addr hvdn1 ib0)" ]]
        open=$(awk '{ print $3 }' "$WORK"/at.? | sort -u)
        [[ $open =~ ^[0-9]+$ ]]
        ports hvdn1 | grep -qE "^[^1].* $open "
        left_alone 4 hvdlogin hvdn1 hvdn2
        assert_no_leftovers
    done
}

# client_ports HOST FIRST LAST: from which the kernel of HOST chooses. With few of them the one that bob has just had is soon
# alice's.
client_ports() {
    as_root "$1" sh -c "echo $2 $3 >/proc/sys/net/ipv4/ip_local_port_range"
}

# flood SECONDS TEXT HOST ADDRESS PORT: bob sends this request from HOST to that relay, on connections that he resets at
# once, with all source ports that alice's clients can have, one after the other. She connects from there as often as she
# can meanwhile.
flood() {
    cluster exec --user alice --host "$3" -- timeout "$1" python3 -c "
import http.client
while True:
    try:
        web = http.client.HTTPConnection('$4', $5, timeout=1)
        web.request('HEAD', '/scope/none')
        web.getresponse().read()
        web.close()
    except OSError:
        pass" 3>&- &
    hers=$!
    client_ports "$3" 42000 43999
    cluster exec --user bob --host "$3" -- "$B/tests/bench/connect_flood" "$4" "$5" 1000000 "$1" "$2" 42000-43999 |
        tee "$BATS_TEST_TMPDIR/flood" || true
    client_ports "$3" 32768 60999
    wait "$hers" || [[ $? -eq 124 ]]
    [[ $(sed -n 's/^\([0-9]*\) connections a second.*/\1/p' "$BATS_TEST_TMPDIR/flood") -gt 500 ]]
    running "$PID" || { cat "$OUT" && return 1; }
}

@test "requests on connections that another user has reset are never taken for those of the job" {
    local seconds=${HVD_TEST_FLOOD_SECONDS-3} zeros='\x00\x00\x00\x00\x00\x00\x00' put set addr port
    begin_ranks 4 on_login srun --hvd -N2 -n4 --ntasks-per-node=2 $RANK
    # Of HTTP, where a rank reads it; and a TCPStore client's VALIDATE, and SET of a key for which ranks look.
    put=$'PUT /scope/1 HTTP/1.1\r\nContent-Length: 4\r\n\r\nevil'
    set='\x00\xce\xf7\x85\x3c\x01\x05'"$zeros/evil"'\x04'"${zeros}evil"
    port=$(ports hvdn1 | awk '$1 == "127.0.0.1" { print $2; exit }')
    flood "$seconds" "$put" hvdn1 127.0.0.1 "$port"
    flood "$seconds" "$set" hvdn1 127.0.0.1 "$port"
    # From another host of the job; and with resets that never arrive.
    read -r _ addr port <"$WORK/at.2"
    flood "$seconds" "$put" hvdn2 "$addr" "$port"
    flood "$seconds" "$set" hvdn2 "$addr" "$port"
    printf '%s\n' "add table inet test_resets" "add chain inet test_resets out { type filter hook output priority 0; }" \
        "add rule inet test_resets out tcp dport $port tcp flags & rst == rst drop" | as_root hvdn2 nft -f -
    flood "$seconds" "$put" hvdn2 "$addr" "$port"
    flood "$seconds" "$set" hvdn2 "$addr" "$port"
    as_root hvdn2 nft delete table inet test_resets
    ends_well 40
    [[ $(grep -c 'intact' <<<"$output") -eq 4 ]] || { echo "$output" && return 1; }
    assert_no_leftovers
}

met_anew() { [[ $(find "$WORK" -name 'at.*' ! -name '*.new' | wc -l) -eq $1 ]]; }

@test "nor what those of an elastic job do, also from a host that has left it" {
    discover_script
    hosts hvdn1:2 hvdn3:2
    HVD_TEST_DEADLINE=150 begin_ranks 4 on_login salloc -Q -N3 --ntasks-per-node=2 --no-kill \
        hvdrun -np 4 --min-np=2 --max-restarts=3 --host-discovery-script=./discover $RANK
    # Agents still answer the signed pings of hosts that come later, and nothing else, without a greeting.
    # shellcheck disable=SC2034 # for strangers_get_nothing
    local quiet=silent
    as_root hvdlogin rm -f "$WORK"/at.?
    hosts hvdn1:2
    wait_for 30 met_anew 2 || { cat "$OUT" && return 1; }
    [[ $(cat "$WORK"/at.? | awk '{ print $1, $2 }' | sort -u) == "hvdn1 $(cluster addr hvdn1 ib0)" ]]
    [[ ! $(ports hvdn3) ]]
    strangers_get_nothing hvdlogin hvdn1
    ends_well 30
    intact 2
    assert_no_leftovers
}

# The root takes two relays: those of hvdn1 and hvdn2. Those of hvdn3 and hvdn4 are below that of hvdn1.
parent_relay() { ports hvdn1 | awk '$1 !~ /^127/ { print $3 }' | sort -u; }
has_child() { [[ $(as_root hvdn1 ss -Htnp state established | grep -c "pid=$1,") -ge 3 ]]; }

alive() { cat "$WORK/alive.$1"; }
# go_on_counting RANK…: each of them counts on, soon.
counts_beyond() { [[ $(alive "$1") -gt $2 ]]; }
go_on_counting() {
    local rank now
    for rank in "$@"; do
        now=$(alive "$rank")
        wait_for 20 counts_beyond "$rank" $((now + 3)) || { cat "$OUT" && return 1; }
    done
}
@test "a relay that is killed takes only its own host's ranks with it: those below it go to the root" {
    local pid
    begin_ranks 8 on_login srun --hvd --kill-on-bad-exit=0 -N4 -n8 --ntasks-per-node=2 $RANK own
    pid=$(parent_relay)
    has_child "$pid"
    as_root hvdn1 kill -KILL "$pid"
    go_on_counting 2 3 4 5 6 7
    stop
    ended 40
    [[ $(grep -c 'intact' <<<"$output") -eq 6 ]] || { echo "$output" && return 1; }
    [[ $(grep -c 'rank [01]: its store is lost' <<<"$output") -eq 2 ]] || { echo "$output" && return 1; }
    assert_no_leftovers
}

@test "a relay that is stopped stops nobody but those who are below it, and all go on after it" {
    local pid
    begin_ranks 8 on_login srun --hvd -N4 -n8 --ntasks-per-node=2 $RANK own
    pid=$(parent_relay)
    has_child "$pid"
    as_root hvdn1 kill -STOP "$pid"
    sleep 1
    go_on_counting 2 3
    as_root hvdn1 kill -CONT "$pid"
    go_on_counting 0 1 2 3 4 5 6 7
    ends_well 40
    [[ $(grep -c 'intact' <<<"$output") -eq 8 ]] || { echo "$output" && return 1; }
    assert_no_leftovers
}
