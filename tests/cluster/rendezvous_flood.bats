#!/usr/bin/env bats
# Another user connects to the relay at which alice's ranks meet as often as he can: over loopback on their host; and on
# nodes of the job's own over the network, from another node of the job and from a host outside of it. Her ranks meet all
# the same, and the job ends when it is told to.

# shellcheck disable=SC2030,SC2031,SC2154  # set by functions of the helpers

load helpers
load launch

setup_file() {
    suite_up --nodes 3
    export FLOOD=$B/tests/bench/connect_flood
    [[ -x $FLOOD ]] || {
        echo "make test-tools builds connect_flood" >&2
        return 1
    }
}
teardown_file() { cluster_down; }
teardown() {
    stop_flood
    cluster_mend
}

# flood HOST TEXT: bob, from HOST, until stop_flood; TEXT is the beginning of a request.
flood() {
    local text=$2 addr=$rv_addr
    flood_from=$1
    # That host is in another network than the one in which ranks meet.
    if [[ $flood_from == hvdlogin ]]; then addr=$(cluster addr hvdn1 eth0); fi
    : >"$BATS_TEST_TMPDIR/flood"
    cluster exec --user bob --host "$flood_from" -- "$FLOOD" "$addr" "$rv_port" 30000 50 "$text" \
        >"$BATS_TEST_TMPDIR/flood" 2>&1 3>&- &
    flooding=$!
    wait_for 10 grep -q connecting "$BATS_TEST_TMPDIR/flood"
    sleep 0.5
}

# He did connect.
stop_flood() {
    [[ ${flooding-} ]] || return 0
    as_root "$flood_from" pkill -TERM -u bob -x connect_flood || true
    wait "$flooding" || true
    flooding=
    cat "$BATS_TEST_TMPDIR/flood"
}

# waiting CMD…: a job whose ranks wait until alice's file "go" is there, and then run their command; $rv_addr and
# $rv_port are where rank 0 on hvdn1, and on nodes of the job's own all, would find PyTorch's store.
waiting() {
    on_login rm -f rendezvous go
    # shellcheck disable=SC2016
    begin on_login "$@" bash -c '((RANK)) || echo $MASTER_ADDR $MASTER_PORT >rendezvous
        until [[ -e go ]]; do sleep 0.1; done; exec hvd-selftest --quick'
    wait_for 10 on_login test -s rendezvous
    read -r rv_addr rv_port < <(on_login cat rendezvous)
    [[ $rv_port ]]
}

many() {
    local n
    n=$(sed -n 's/^\([0-9]*\) connections a second.*/\1/p' "$BATS_TEST_TMPDIR/flood")
    ((n > 200)) || { echo "he made no more than $n connections a second" && return 1; }
}

@test "ranks meet while another user floods the rendezvous" {
    local with each where text
    for with in "srun --hvd" hvdrun; do
        # On loopback, and from hosts over the network.
        for each in hvdn1 "hvdn2 --exclusive" "hvdlogin --exclusive"; do
            read -ra where <<<"$each"
            for text in "" "GET /global/0 HT"; do
                # shellcheck disable=SC2086
                waiting $with "${where[@]:1}" -N3 -n3
                flood "${where[0]}" "$text"
                on_login touch go
                ended $((20 * HVD_TEST_PATIENCE))
                selftest_ok 3 3
                stop_flood
                many
            done
        done
    done
    assert_no_leftovers
}

@test "signals and limits work while another user floods the rendezvous" {
    waiting srun --hvd -N3 -n3
    flood hvdn1 "GET /global/0 HTTP/1.1"
    as_root hvdlogin pkill -TERM -u alice -x srun
    ended $((10 * HVD_TEST_PATIENCE))
    [[ $status == @(137|143) ]] # srun's way to end the ranks: SIGTERM, and SIGKILL soon after
    stop_flood
    many
    waiting hvdrun --exclusive -N3 -n3
    flood hvdn2 "GET /global/0 HTTP/1.1"
    as_root hvdlogin pkill -TERM -u alice -x hvdrun
    ended $((10 * HVD_TEST_PATIENCE))
    [[ $status == @(137|143) ]] # srun's way to end the ranks: SIGTERM, and SIGKILL soon after
    stop_flood
    many
    assert_no_leftovers
}
