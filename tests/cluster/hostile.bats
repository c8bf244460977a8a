#!/usr/bin/env bats
# Input that no client of a launch would send, on each of its ports, while a
# start is held open and while a job runs: malformed, oversized, slow, silent,
# and far too much of it.  The launch must succeed as if nothing were, memory
# stays bounded, every such connection is ended in time, no descriptor is kept.
#
# The enemy is bob: on the login host, and on a node of the job.  Floods are
# bounded in number and time, and do not leave the cluster's own networks.

# shellcheck disable=SC2030,SC2031,SC2154  # set by functions of the helpers
# shellcheck disable=SC2016  # $HOROVOD_RANK is for the shell that runs the command

load helpers
load launch

setup_file() {
    # Slurm must not give up a host that is held for long.
    suite_up --nodes 4 --slurm-conf SlurmdTimeout=120 --srun-port-range 20000-20999
}
teardown_file() { cluster_down; }
teardown() { cluster_mend; }

# flood HOST ADDRESS PORT WHAT [HOW] --count N --seconds N [OPTION…]: bob opens many connections; succeeds when the other
# side ends them all within these seconds, with HVD_TEST_PATIENCE.
flood() {
    local host=$1 words=()
    shift
    while (($#)); do
        words+=("$1")
        if [[ $1 == --seconds ]]; then words+=($(($2 * HVD_TEST_PATIENCE))) && shift; fi
        shift
    done
    peer bob "$host" flood "${words[@]}" || {
        echo "not all were ended: ${words[*]}"
        return 1
    }
}

# process HOST NAME: prints the id of the oldest process of that name.
process() { as_root "$1" pgrep -x -o "$2"; }

# state HOST PID: prints its peak of memory in kB, and the number of its open descriptors.
state() { as_root "$1" bash -c "echo \$(sed -n 's/VmHWM:[^0-9]*\([0-9]*\).*/\1/p' /proc/$2/status) \$(ls /proc/$2/fd | wc -l)"; }

# bounded HOST PID KB: its peak is at most KB above $peak, and soon it has $fds descriptors again.
bounded() {
    local now_peak now_fds end=$((SECONDS + 5))
    while read -r now_peak now_fds < <(state "$1" "$2"); [[ $now_fds ]]; do
        echo "$1: peak $now_peak kB (was $peak), $now_fds descriptors (were $fds)"
        ((now_peak <= peak + $3)) || return 1
        # An agent may have connected or left meanwhile; a leak shows by the hundred.
        if ((now_fds <= fds + 8)); then return 0; fi
        if ((SECONDS >= end)); then return 1; fi
        sleep 0.5
    done
    return 1
}

# responder_port HOST: prints the port at which the node agent there answers probes.
responder_port() {
    as_root "$1" ss -Htlnp | sed -nE '/"hvd-agent"/ s/.*\*:([0-9]+) .*/\1/p' | head -1
}
has_responder() { [[ $(responder_port "$1") ]]; }

@test "the driver refuses malformed frames, and the launch succeeds" {
    local login launch what
    login=$(cluster addr hvdlogin eth0)
    for launch in "srun --hvd --hvd-verbose --hvd-start-timeout=60" "hvdrun --verbose --start-timeout=60"; do
        # shellcheck disable=SC2086
        hold hvdn4 $launch -N4 hvd-selftest --quick
        driver=$(process hvdlogin "hvd$([[ $launch == srun* ]] && echo -driver || echo run)")
        read -r peak fds < <(state hvdlogin "$driver")
        for what in garbage http announce announce-signed nest nest-signed no-object not-json; do
            # These are refused at their first bytes, or when they are complete.
            flood hvdn2 "$login" "$port" $what --count 50 --seconds 5
        done
        flood hvdlogin 127.0.0.1 "$port" garbage --count 50 --seconds 5
        flood hvdn2 "$(cluster addr hvdlogin eth0 6)" "$port" announce --count 50 --seconds 5
        flood hvdn2 "$login" "$port" partial half --count 50 --seconds 5
        flood hvdn2 "$login" "$port" nothing half --count 50 --seconds 5
        flood hvdn2 "$login" "$port" nothing close --count 500 --seconds 5
        flood hvdn2 "$login" "$port" partial reset --count 500 --seconds 5
        bounded hvdlogin "$driver" 8192
        go_on
        selftest_ok 4 4
        has "the peer announces 4294967295 bytes, over the limit of 8192"
        has "the peer does not speak this protocol"
    done
    assert_no_leftovers
}

@test "the driver: thousands of silent or slow connections do not keep the node agents out" {
    local login pids=() pid
    login=$(cluster addr hvdlogin eth0)
    hold hvdn4 srun --hvd --hvd-start-timeout=60 -N4 hvd-selftest --quick
    driver=$(process hvdlogin hvd-driver)
    read -r peak fds < <(state hvdlogin "$driver")
    # More connections than the driver keeps, from three hosts. The driver must end each within the ten seconds of a
    # handshake.
    flood hvdn2 "$login" "$port" nothing --count 2500 --seconds 20 >"$BATS_TEST_TMPDIR/1" 3>&- &
    pids+=($!)
    flood hvdlogin "$login" "$port" partial --count 2500 --seconds 20 >"$BATS_TEST_TMPDIR/2" 3>&- &
    pids+=($!)
    flood hvdn3 "$login" "$port" garbage slow --count 200 --seconds 20 >"$BATS_TEST_TMPDIR/3" 3>&- &
    pids+=($!)
    sleep 4
    # hvdn4's node agent connects in the midst of it.
    go_on
    selftest_ok 4 4
    [[ $output != *"libevent"* && $output != *"[warn]"* ]]
    [[ $(wc -l <<<"$output") -lt 40 ]]
    for pid in "${pids[@]}"; do wait "$pid"; done
    cat "$BATS_TEST_TMPDIR"/[123]
    assert_no_leftovers
}

@test "the driver closes silent connections after the time of a handshake" {
    local login
    login=$(cluster addr hvdlogin eth0)
    hold hvdn4 srun --hvd --hvd-start-timeout=60 -N4 hvd-selftest --quick
    driver=$(process hvdlogin hvd-driver)
    read -r peak fds < <(state hvdlogin "$driver")
    run flood hvdn2 "$login" "$port" nothing --count 3000 --seconds 16
    echo "$output"
    [ "$status" -eq 0 ]
    python3 -c 'import json, sys
r = json.loads(sys.argv[1])
assert r["left"] == 0 and r["failed"] == 0 and 9 < r["longest"] < 10 + 3 * int(sys.argv[2]), r' "$output" "$HVD_TEST_PATIENCE"
    bounded hvdlogin "$driver" 65536
    go_on
    selftest_ok 4 4
}

@test "the driver: more connections than it may have descriptors neither stop it nor use its CPU" {
    local login cpu pid
    login=$(cluster addr hvdlogin eth0)
    hold hvdn4 bash -c 'ulimit -n 200; exec srun --hvd --hvd-start-timeout=60 -N4 hvd-selftest --quick'
    driver=$(process hvdlogin hvd-driver)
    as_root hvdlogin grep -E '^Max open files +200 +200 ' "/proc/$driver/limits"
    flood hvdn2 "$login" "$port" nothing --count 1500 --seconds 20 >"$BATS_TEST_TMPDIR/1" 3>&- &
    pid=$!
    sleep 3
    go_on
    selftest_ok 4 4
    [[ $output != *"accept"* ]]
    wait "$pid"
    # The driver waits for a free descriptor, and does not try again and again.
    hold hvdn4 bash -c 'ulimit -n 200; exec srun --hvd --hvd-start-timeout=60 -N4 true'
    driver=$(process hvdlogin hvd-driver)
    flood hvdn2 "$login" "$port" nothing --count 1500 --seconds 20
    # shellcheck disable=SC2016
    cpu=$(as_root hvdlogin awk '{ print $14 + $15 }' "/proc/$driver/stat")
    echo "$cpu ticks"
    ((cpu < 200))
    go_on
    [ "$status" -eq 0 ]
}

@test "the driver: credentials without end neither stop it nor flood the user" {
    local login i
    login=$(cluster addr hvdlogin eth0)
    hold hvdn4 srun --hvd --hvd-start-timeout=60 -N4 hvd-selftest --quick
    for ((i = 0; i < 15; i++)); do
        [[ $(peer bob hvdn2 auth "$login" "$port" own) == "refused: the peer is uid"* ]]
    done
    go_on
    selftest_ok 4 4
    (($(grep -c "refused a connection" <<<"$output") <= 8))
    has "further refused connections are not reported"
}

@test "strangers do not start the clock of a job that is still queued" {
    local out="$BATS_TEST_TMPDIR/out" pid queue
    on_login srun -N4 --exclusive sleep 100 3>&- &
    queue=$!
    wait_for 5 on_host hvdn4 pgrep -x sleep
    on_login hvdrun -N4 --exclusive --start-timeout=2 --selftest -- --quick >"$out" 2>&1 3>&- &
    pid=$!
    wait_for 5 has_driver_port
    flood hvdn2 "$(cluster addr hvdlogin eth0)" "$(driver_port)" garbage --count 20
    sleep 3
    on_host hvdctl scancel -n sleep
    wait "$queue" || true
    status=0
    wait "$pid" || status=$?
    output=$(<"$out")
    echo "$output"
    selftest_ok 4 4
}

# timed CMD…: prints how many milliseconds go_on took, and what became of the launch.
timed() {
    local began
    began=$(date +%s%3N)
    go_on
    took=$(($(date +%s%3N) - began))
    echo "$took ms"
}

# connects HOST ADDRESS OPEN: bob connects from HOST to the driver, as often as he can, until stop_connects.
connects() {
    cluster exec --user bob --host "$1" -- "$B/tests/bench/connect_hold" "$2" "$port" 30000 30 "$3" \
        >"$BATS_TEST_TMPDIR/connects" 3>&- &
    connecting=$!
    wait_for 5 as_root "$1" pgrep -x connect_hold
    sleep 0.5
}
stop_connects() {
    as_root "$1" pkill -INT -x connect_hold || true
    wait "$connecting" || true
    cat "$BATS_TEST_TMPDIR/connects"
}

@test "the driver: tens of thousands of connections a second do not hinder a start" {
    local login launch from normal
    login=$(cluster addr hvdlogin eth0)
    for launch in "srun --hvd --hvd-start-timeout=30 -N4" "hvdrun --start-timeout=30 -N4" \
        "salloc -Q -N4 --no-kill hvdrun --start-timeout=30 -np 4 --min-np 4"; do
        # shellcheck disable=SC2086
        hold hvdn4 $launch sh -c 'echo "rank $HOROVOD_RANK is here"'
        timed
        all_here
        normal=$took
        # From a host with a node agent, and from the driver's; connections that are closed at once, and that stay.
        for from in "hvdn2 $login 64" "hvdn4 $login 15000" "hvdlogin 127.0.0.1 15000"; do
            # shellcheck disable=SC2086
            hold hvdn4 $launch sh -c 'echo "rank $HOROVOD_RANK is here"'
            # shellcheck disable=SC2086
            connects $from
            timed
            stop_connects "${from%% *}"
            all_here
            ((took < normal + 2000 * HVD_TEST_PATIENCE))
        done
    done
    assert_no_leftovers
}
all_here() {
    local rank
    [ "$status" -eq 0 ]
    for rank in 0 1 2 3; do has "rank $rank is here"; done
}

# ends_in NAME CMD… [-- CONNECTS…]: sends the process NAME of a running job SIGTERM; $took is how long the job then
# takes.
ends_in() {
    local name=$1 began job words=() running
    shift
    while (($#)) && [[ $1 != -- ]]; do words+=("$1") && shift; done
    on_login "${words[@]}" sleep 100 >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    job=$!
    for running in hvdn{1..4}; do wait_for 10 as_root "$running" pgrep -u alice -x sleep; done
    port=$(driver_port)
    if (($#)); then connects "${@:2}"; fi
    began=$(date +%s%3N)
    as_root hvdlogin pkill -TERM -o -x "$name"
    wait_for 20 no_launch
    took=$(($(date +%s%3N) - began))
    echo "$took ms"
    if (($#)); then stop_connects "$2"; fi
    wait "$job" || true
    cat "$BATS_TEST_TMPDIR/out"
}
no_launch() { ! as_root hvdlogin pgrep -x 'srun|hvdrun|hvd-driver' >/dev/null; }

@test "a launch under tens of thousands of connections a second ends when it is told to" {
    local login name launch normal
    login=$(cluster addr hvdlogin eth0)
    for launch in "srun --hvd" hvdrun; do
        name=${launch%% *}
        # shellcheck disable=SC2086
        ends_in "$name" $launch -N4
        normal=$took
        # shellcheck disable=SC2086
        ends_in "$name" $launch -N4 -- hvdn2 "$login" 15000
        ((took < normal + 2000 * HVD_TEST_PATIENCE))
    done
}

@test "the deadline of a start is kept under tens of thousands of connections a second" {
    local login launch
    login=$(cluster addr hvdlogin eth0)
    for launch in "srun --hvd --hvd-start-timeout=4" "hvdrun --start-timeout=4"; do
        # shellcheck disable=SC2086
        hold hvdn4 $launch -N4 true
        connects hvdn2 "$login" 15000
        within $((6 * HVD_TEST_PATIENCE)) grep -q "the start took longer than 4 seconds" "$frozen_out"
        stop_connects hvdn2
        go_on
        [ "$status" -ne 0 ]
        cluster_mend
    done
}

@test "the probe's responders survive malformed, oversized, slow and silent connections" {
    local pids=() pid addr rport what
    # Without PyTorch no other port of its is open to the network.
    hold hvdn4 srun --hvd --hvd-start-timeout=60 --hvd-frameworks=horovod -N4 hvd-selftest --quick
    wait_for 5 has_responder hvdn1
    rport=$(responder_port hvdn1)
    addr=$(cluster addr hvdn1 ib0)
    agent=$(process hvdn1 hvd-agent)
    read -r peak fds < <(state hvdn1 "$agent")
    for what in garbage http announce announce-signed nest nest-signed no-object not-json; do
        flood hvdn2 "$addr" "$rport" $what --count 50 --seconds 8
    done
    flood hvdn1 127.0.0.1 "$rport" announce-signed --count 50 --seconds 8
    flood hvdn2 "$addr" "$rport" partial-signed half --count 50 --seconds 8
    flood hvdn2 "$addr" "$rport" nothing close --count 500 --seconds 8
    flood hvdn2 "$addr" "$rport" partial-signed reset --count 500 --seconds 8
    # Messages of the greatest length that is allowed; nothing of them is kept.
    flood hvdn2 "$addr" "$rport" most --count 100 --seconds 10
    flood hvdn2 "$addr" "$rport" nothing --count 1500 --seconds 10
    bounded hvdn1 "$agent" 32768
    # The probe itself works among many silent connections.
    flood hvdn2 "$addr" "$rport" nothing --count 1500 --seconds 15 >"$BATS_TEST_TMPDIR/1" 3>&- &
    pids+=($!)
    flood hvdn3 "$addr" "$rport" nest-signed slow --count 300 --seconds 15 >"$BATS_TEST_TMPDIR/2" 3>&- &
    pids+=($!)
    sleep 2
    go_on
    selftest_ok 4 4
    [[ $output == *" ib0 "* ]]
    for pid in "${pids[@]}"; do wait "$pid"; done
    cat "$BATS_TEST_TMPDIR"/[12]
    assert_no_leftovers
}

# one_rank_late CMD…: begins a job on nodes of its own, whose ranks wait at the rendezvous for one that is late. The
# job's hosts reach the relay of hvdn1, the first one, at $rv_addr and $rv_port; its own rank, too, at port $own_port of
# loopback. meet lets the late rank come, finish lets all ranks end.
one_rank_late() {
    on_login rm -f rendezvous own go
    on_login touch busy
    # shellcheck disable=SC2016
    on_login "$@" --exclusive -N4 bash -c '((HOROVOD_RANK)) || echo $HOROVOD_GLOO_RENDEZVOUS_PORT >own
if ((HOROVOD_RANK == 1)); then
    until [[ -s own ]]; do sleep 0.1; done
    echo $MASTER_ADDR $MASTER_PORT >rendezvous
    until [[ -e go ]]; do sleep 0.1; done
fi
hvd-selftest --quick || exit
while [[ -e busy ]]; do sleep 0.1; done' >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    job=$!
    wait_for 10 on_login test -s rendezvous
    read -r rv_addr rv_port < <(on_login cat rendezvous)
    own_port=$(on_login cat own)
    [[ $rv_addr == "$(cluster addr hvdn1 ib0)" && $own_port ]]
    server=$(process hvdn1 hvd-agent)
    read -r peak fds < <(state hvdn1 "$server")
}

meet() {
    on_login touch go
    wait_for "$1" grep -q "hvd-selftest: 4 ranks on 4 hosts: OK" "$BATS_TEST_TMPDIR/out"
}

finish() {
    on_login rm -f busy
    status=0
    wait "$job" || status=$?
    output=$(<"$BATS_TEST_TMPDIR/out")
    echo "$output"
    on_login rm -f rendezvous own go
}

@test "the relay of rank 0's host refuses malformed requests, and the ranks meet" {
    local what
    one_rank_late srun --hvd
    for what in garbage announce announce-more negative chunked long-head headers nest partial-head partial; do
        flood hvdn2 "$rv_addr" "$rv_port" $what --http --count 30 --seconds 14
    done
    # On its own host bob is refused at once, whatever he sends, and so he is from a host that is not the job's.
    for what in nothing garbage announce held; do
        flood hvdn1 "$rv_addr" "$rv_port" $what --http --count 200 --seconds 4
        flood hvdn1 127.0.0.1 "$own_port" $what --http --count 200 --seconds 4
        flood hvdlogin "$(cluster addr hvdn1 eth0)" "$rv_port" $what --http --count 200 --seconds 4
    done
    flood hvdn2 "$rv_addr" "$rv_port" partial half --http --count 50 --seconds 6
    flood hvdn2 "$rv_addr" "$rv_port" partial-head half --http --count 50 --seconds 6
    flood hvdn2 "$rv_addr" "$rv_port" nothing close --http --count 500 --seconds 6
    flood hvdn2 "$rv_addr" "$rv_port" partial reset --http --count 500 --seconds 6
    bounded hvdn1 "$server" 32768
    meet 10
    finish
    selftest_ok 4 4
    assert_no_leftovers
}

@test "the relay: thousands of waiting, slow or silent connections do not keep the ranks apart" {
    local launch pids pid
    for launch in "srun --hvd" hvdrun; do
        pids=()
        # shellcheck disable=SC2086
        one_rank_late $launch
        flood hvdn2 "$rv_addr" "$rv_port" nothing --http --count 2000 --seconds 16 >"$BATS_TEST_TMPDIR/1" 3>&- &
        pids+=($!)
        flood hvdn3 "$rv_addr" "$rv_port" partial-head slow --http --count 300 --seconds 25 >"$BATS_TEST_TMPDIR/2" 3>&- &
        pids+=($!)
        flood hvdn4 "$rv_addr" "$rv_port" held --http --count 2000 --seconds 16 >"$BATS_TEST_TMPDIR/3" 3>&- &
        pids+=($!)
        sleep 2
        meet 8
        for pid in "${pids[@]}"; do wait "$pid" || echo "flood $pid failed"; done
        run cat "$BATS_TEST_TMPDIR"/[123]
        echo "$output"
        [[ $output != *"not all were ended"* ]]
        bounded hvdn1 "$server" 65536
        finish
        selftest_ok 4 4
    done
    assert_no_leftovers
}

@test "the driver bears malformed and silent connections while the job runs" {
    local login what
    hold hvdn4 srun --hvd -N4 bash -c 'sleep 6; exec hvd-selftest --quick'
    driver=$(process hvdlogin hvd-driver)
    read -r peak fds < <(state hvdlogin "$driver")
    fault node-thaw hvdn4
    wait_for 5 on_host hvdn4 pgrep -x sleep
    login=$(cluster addr hvdlogin eth0)
    for what in garbage announce nest; do
        flood hvdn2 "$login" "$port" $what --count 200 --seconds 5
    done
    flood hvdn2 "$login" "$port" partial reset --count 1000 --seconds 5
    bounded hvdlogin "$driver" 32768
    go_on
    selftest_ok 4 4
    assert_no_leftovers
}
