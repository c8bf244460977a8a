#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Whatever starts the ranks: another user of a host of theirs, and anybody on the network, can neither read, write nor
# delete what they have stored, over HTTP or as a TCPStore. The ranks are lib/relay_rank.py, which look for changes, and
# the attacks lib/relay_attack.py. relay.bats has launches by srun.

# shellcheck disable=SC2030,SC2031,SC2086,SC2154 # set by functions of the helpers; lists of words

load helpers
load launch
load lsf
load store_ranks
load strangers

setup_file() { hosts_up --ssh --auth munge --nodes 4; }
teardown_file() { cluster_down; }
setup() { fresh_work; }
teardown() {
    local host
    for host in hvdlogin hvdn1 hvdn2; do as_root "$host" pkill -KILL -f standins/resd || true; done
    cluster_mend
}

@test "the attacks get at everything as the launch's own user: so they are good ones" {
    local port
    begin_ranks 4 on_login hvdrun --hosts hvdn1:2,hvdn2:2 $RANK
    port=$(ports hvdn1 | awk '$1 == "127.0.0.1" { print $2; exit }')
    [[ $(peer alice hvdn1 http 127.0.0.1 "$port" GET /scope/3) == "200 of rank 3" ]]
    run attack alice hvdn1 127.0.0.1 "$port"
    exits 1
    # All at once: what one reads another one may have deleted before.
    has "HTTP PUT: b'HTTP/1.1 200" "HTTP DELETE: b'HTTP/1.1 200" ": SET: b" ": ADD: b" ": DELETE_KEY: b" ": LIST_KEYS: b"
    # The ranks notice.
    ended 20
    ((status != 0))
    [[ $output == *"somebody else counts"* || $output == *"nobody of the job has written"* || $output == *"was changed"* ]]
    assert_no_leftovers
}

@test "strangers get nothing of a launch over ssh" {
    begin_ranks 4 on_login hvdrun --hosts hvdn1:2,hvdn2:2 $RANK
    left_alone 4 hvdlogin hvdn1 hvdn2
}

@test "strangers get nothing of a launch by each of LSF's launchers" {
    local each
    standins_up hvdlogin hvdn1 hvdn2
    for each in jsrun blaunch lsrun; do
        fresh_work
        JOB_HOSTS="hvdn1 2 hvdn2 2"
        if [[ $each == jsrun ]]; then JOB_HOSTS="hvdlogin 1 $JOB_HOSTS"; fi
        installed "$each"
        begin_ranks 4 in_job hvdrun $RANK
        [[ $(called "$each") -ge 1 ]]
        left_alone 4 hvdlogin hvdn1 hvdn2 || { echo "$each" && return 1; }
        nothing_left
    done
    forget_calls
}

@test "strangers get nothing of a launch whose agents come by themselves" {
    local host
    rm -f "$(home)"/{key,at}
    begin on_login hvdrun --launcher=join --key-file key --join-file at -np 4 $RANK
    wait_for 10 test -s "$(home)/at"
    for host in hvdn1 hvdn2; do
        cluster exec --host "$host" -- "$B/libexec/hvd/hvd-agent" connect "$(<"$(home)/at")" --key-file key --slots=2 \
            >"$BATS_TEST_TMPDIR/$host" 2>&1 3>&- &
    done
    wait_for 30 met 4 || { cat "$OUT" "$BATS_TEST_TMPDIR"/hvdn? && return 1; }
    left_alone 4 hvdlogin hvdn1 hvdn2
    assert_no_leftovers
}

@test "strangers get nothing of a launch by mpirun" {
    command -v mpirun.openmpi >/dev/null || skip "Open MPI is not installed: scripts/install-deps --test"
    HVD_MPIRUN=mpirun.openmpi begin_ranks 4 on_login hvdrun --launcher=mpirun --hosts hvdn1:2,hvdn2:2 $RANK
    left_alone 4 hvdlogin hvdn1 hvdn2
    assert_no_leftovers
}

@test "strangers get nothing of a launch on one machine" {
    begin_ranks 4 on_login hvdrun -np 4 $RANK
    left_alone 4 hvdlogin
    assert_no_leftovers
}

# one_request: how long alice's request from hvdn2 to the relay of rank 0's host takes, in whole seconds, and its status.
one_request() {
    cluster exec --user alice --host hvdn2 -- python3 -c "
import http.client, time
began = time.monotonic()
try:
    web = http.client.HTTPConnection('$addr', $port, timeout=40)
    web.request('GET', '/scope/2')
    status = web.getresponse().status
except (OSError, http.client.HTTPException):
    status = 'refused'
print(int(time.monotonic() - began), status)"
}

@test "while strangers flood rank 0's relay from a host of the job, its ranks connect from there, and others use the store" {
    local addr port out=$BATS_TEST_TMPDIR/flood pid took status i
    begin_ranks 4 on_login hvdrun --hosts hvdn1:2,hvdn2:2 $RANK
    read -r _ addr port <"$WORK/at.2"
    cluster exec --user bob --host hvdn2 -- "$B/tests/bench/connect_flood" "$addr" "$port" 30000 60 "GET /scope/2 HTTP/1.1" \
        >"$out" 2>&1 3>&- &
    pid=$!
    wait_for 10 grep -q connecting "$out"
    for ((i = 0; i < 8; i++)); do
        read -r took status < <(one_request)
        ((status == 200 && took <= 5 * HVD_TEST_PATIENCE)) || { echo "$status after $took s" && return 1; }
    done
    as_root hvdn2 pkill -TERM -u bob -x connect_flood
    wait "$pid" || true
    cat "$out"
    [[ $(sed -n 's/^\([0-9]*\) connections a second.*/\1/p' "$out") -gt 200 ]]
    ends_well 30
    intact 4
    assert_no_leftovers
}

@test "a host whose agent is stopped gets no further connections, and a warning says why, until the agent goes on" {
    local addr port agent took status
    begin_ranks 4 on_login hvdrun --hosts hvdn1:2,hvdn2:2 $RANK
    read -r _ addr port <"$WORK/at.2"
    agent=$(as_root hvdn2 pgrep -x -o hvd-agent)
    as_root hvdn2 kill -STOP "$agent"
    read -r took status < <(one_request)
    as_root hvdn2 kill -CONT "$agent"
    [[ $status == refused ]] && ((took >= 9 && took <= 12 * HVD_TEST_PATIENCE))
    [[ $(grep -c "refused a connection from $(cluster addr hvdn2 ib0) to the rendezvous: its host did not say whose it is" "$OUT") -eq 1 ]]
    read -r took status < <(one_request)
    ((status == 200 && took <= 5 * HVD_TEST_PATIENCE))
    ends_well 30
    [[ $(grep -c intact <<<"$output") -eq 4 ]] || { echo "$output" && return 1; }
    assert_no_leftovers
}
