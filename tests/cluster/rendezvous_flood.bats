#!/usr/bin/env bats
# Floods and malformed input where it needs Slurm: the relay of rank 0's host, which is open to the network; a launch by
# srun that is to end; a job that is still queued. The enemy is bob, on rank 0's host, on another node of the job, and on a
# host outside of it. hostile.bats has the driver and the probe.

# shellcheck disable=SC2030,SC2031,SC2154  # set by functions of the helpers
# shellcheck disable=SC2016,SC2034  # what the ranks' shells evaluate; what bounded reads

load helpers
load launch
load floods

setup_file() {
    suite_up --nodes 4
    export FLOOD=$B/tests/bench/connect_flood
    [[ -x $FLOOD ]] || {
        echo "make test-tools builds connect_flood" >&2
        return 1
    }
}
teardown_file() { cluster_down; }
setup() { FLOODS=(); }
teardown() {
    stop_connecting || true
    cluster_mend
}

# connecting HOST ADDRESS PORT TEXT: bob connects from HOST as often as he can, until stop_connecting; TEXT is the
# beginning of a request.
connecting() {
    local out="$BATS_TEST_TMPDIR/flood.${#FLOODS[@]}"
    cluster exec --user bob --host "$1" -- "$FLOOD" "$2" "$3" 30000 50 "$4" >"$out" 2>&1 3>&- &
    FLOODS+=("$1 $! $out")
    wait_for 10 grep -q connecting "$out"
    sleep 0.5
}

# He did connect.
stop_connecting() {
    local flood host pid out n status=0
    for flood in "${FLOODS[@]}"; do
        read -r host pid out <<<"$flood"
        as_root "$host" pkill -TERM -u bob -x connect_flood || true
        wait "$pid" || true
        n=$(sed -n 's/^\([0-9]*\) connections a second.*/\1/p' "$out")
        ((n > 200)) || { status=1 && echo "no more than $n connections a second from $host"; }
    done
    FLOODS=()
    return $status
}

# waiting CMD…: a job whose ranks meet again and again. Each time they wait for rank 1, which waits for
# alice's file go.N. All ranks of PyTorch, and hosts of the job, reach the relay of hvdn1 at $rv_addr and $rv_port, and its own ranks as Horovod
# has it at $own_port of loopback.
waiting() {
    begin on_login "$@" bash -c '((RANK)) || echo $MASTER_ADDR $MASTER_PORT $HOROVOD_GLOO_RENDEZVOUS_PORT >rendezvous
        for ((n = 1;; n++)); do
            until ((RANK != 1)) || [[ -e go.$n ]]; do sleep 0.05; done
            HOROVOD_GLOO_TIMEOUT_SECONDS=120 hvd-selftest --quick || exit
        done'
    wait_for 10 on_login test -s rendezvous
    read -r rv_addr rv_port own_port <"$(home)/rendezvous"
    [[ $rv_addr == "$(cluster addr hvdn1 ib0)" && $own_port ]]
}
fresh() { on_login bash -c 'rm -f rendezvous go.*'; }

# meet N RANKS: for the Nth time.
meet() {
    on_login touch "go.$1"
    says_times 20 "$1" "hvd-selftest: $2 ranks on $2 hosts: OK"
}

@test "ranks meet, and a launch ends when it is told to, while another user floods the rendezvous and the driver" {
    local with where text n
    for with in "srun --hvd" hvdrun; do
        fresh
        # shellcheck disable=SC2086
        waiting $with -N3 -n3
        n=0
        for where in "hvdn1 127.0.0.1 $own_port" "hvdn1 $rv_addr $rv_port" "hvdn2 $rv_addr $rv_port" \
            "hvdlogin $(cluster addr hvdn1 eth0) $rv_port"; do
            for text in "" "GET /global/0 HT"; do
                # shellcheck disable=SC2086
                connecting $where "$text"
                meet $((++n)) 3
                stop_connecting
            done
        done
        connecting hvdn1 "$rv_addr" "$rv_port" "GET /global/0 HTTP/1.1"
        connecting hvdn3 "$(cluster addr hvdlogin eth0)" "$(driver_port)" ""
        as_root hvdlogin pkill -TERM -u alice -x "${with%% *}"
        ended $((10 * HVD_TEST_PATIENCE))
        exits_one_of 137 143 # srun's way to end the ranks: SIGTERM, and SIGKILL soon after
        stop_connecting
    done
    assert_no_leftovers
}

@test "the relay of rank 0's host refuses malformed requests, and bears thousands of connections; the ranks meet" {
    local what server pids=() pid
    fresh
    waiting srun --hvd -N4
    server=$(process hvdn1 hvd-agent)
    read -r peak fds < <(state hvdn1 "$server")
    # The job's own user, whose requests are read.
    for what in garbage announce announce-more negative chunked long-head headers nest partial-head partial; do
        FLOODER=alice flood hvdn2 "$rv_addr" "$rv_port" $what --http --count 30 --seconds 14
    done
    # Bob is refused, whatever he sends: on the relay's host, from another host of the job, and from one that is not.
    for what in garbage announce held; do
        flood hvdn2 "$rv_addr" "$rv_port" $what --http --count 200 --seconds 4
    done
    for what in nothing garbage announce held; do
        flood hvdn1 "$rv_addr" "$rv_port" $what --http --count 200 --seconds 4
        flood hvdn1 127.0.0.1 "$own_port" $what --http --count 200 --seconds 4
        flood hvdlogin "$(cluster addr hvdn1 eth0)" "$rv_port" $what --http --count 200 --seconds 4
    done
    FLOODER=alice flood hvdn2 "$rv_addr" "$rv_port" partial half --http --count 50 --seconds 6
    FLOODER=alice flood hvdn2 "$rv_addr" "$rv_port" partial-head half --http --count 50 --seconds 6
    FLOODER=alice flood hvdn2 "$rv_addr" "$rv_port" nothing close --http --count 500 --seconds 6
    FLOODER=alice flood hvdn2 "$rv_addr" "$rv_port" partial reset --http --count 500 --seconds 6
    bounded hvdn1 "$server" 32768
    # Waiting, slow and silent ones do not keep the ranks apart.
    flood hvdn2 "$rv_addr" "$rv_port" nothing --http --count 2000 --seconds 16 >"$BATS_TEST_TMPDIR/1" 3>&- &
    pids+=($!)
    FLOODER=alice flood hvdn3 "$rv_addr" "$rv_port" partial-head slow --http --count 300 --seconds 25 >"$BATS_TEST_TMPDIR/2" 3>&- &
    pids+=($!)
    flood hvdn4 "$rv_addr" "$rv_port" held --http --count 2000 --seconds 16 >"$BATS_TEST_TMPDIR/3" 3>&- &
    pids+=($!)
    sleep 2
    on_login touch go.1
    says 8 "hvd-selftest: 4 ranks on 4 hosts: OK"
    for pid in "${pids[@]}"; do wait "$pid" || echo "flood $pid failed"; done
    run cat "$BATS_TEST_TMPDIR"/[123]
    echo "$output"
    has_not "not all were ended"
    bounded hvdn1 "$server" 65536
    as_root hvdlogin pkill -TERM -u alice -x srun
    ended $((10 * HVD_TEST_PATIENCE))
    assert_no_leftovers
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
