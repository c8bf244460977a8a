#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A job of the real hvdrun with 1,000 simulated agents (tests/bench/sim_agents.c): which hosts are given up, and which are not.

load ../cluster/helpers

setup() {
    B=$(cd "$BATS_TEST_DIRNAME/../.." && cd "${B:-build}" && pwd)
    export B
    [[ -x $B/tests/bench/sim_agents ]] || skip "make test-tools builds what this needs"
    (($(ulimit -Hn) >= 2500)) || skip "the limit of open files is $(ulimit -Hn), this needs 2500"
    SIM_DIR=$BATS_TEST_TMPDIR
    # shellcheck source=tests/bench/sim_job.bash
    source "$BATS_TEST_DIRNAME/../bench/sim_job.bash"
    printf '#!/bin/sh\n' >"$SIM_DIR/rank"
    chmod 755 "$SIM_DIR/rank"
}
teardown() { sim_end; }

left_out() { sed -n 's/.*: \(sim[0-9]*\) is left out: .*/\1/p' "$SIM_DIR/out"; }
# given_up HOST…: these hosts have been left out, in this order, and no others.
given_up() { [[ $(left_out | xargs) == "$*" ]] || { grep 'is left out' "$SIM_DIR/out" && return 1; }; }

@test "one of 1,000 hosts is cut off: it alone is given up, when two others do not reach it either" {
    sim_begin 1000 --min-np 900
    sim_agents 1000 0 1
    sim_waits 60 agents.0 '^running 0 1000 '
    sim_tell 0 'silence 500'
    sim_waits 60 agents.0 '^running 1 999 '
    given_up sim0500
    grep -qE 'sim0500 is left out: .* and does not answer node[0-9]+ and node[0-9]+ either' "$SIM_DIR/out" ||
        { grep 'left out' "$SIM_DIR/out" && return 1; }
}

@test "agents, or hvdrun itself, that are stopped for seconds are not given up; an agent that is stopped for long is" {
    sim_begin 200 --min-np 100
    sim_agents 198 0 1
    sim_agents 1 198 1
    sim_agents 1 199 1
    sim_waits 60 out 'generation 1: 200 ranks'
    # All agents but one.
    kill -STOP "${SIMS[0]}" "${SIMS[1]}"
    sleep 5
    kill -CONT "${SIMS[0]}" "${SIMS[1]}"
    sleep 3 # they answer what they were asked meanwhile
    # All agents, until all were asked whether they are there. Their answers come while hvdrun is stopped, and are there to
    # be read when it goes on, but the time is over.
    kill -STOP "${SIMS[@]}"
    sleep 6
    kill -STOP "$LAUNCHER"
    kill -CONT "${SIMS[@]}"
    sleep 18
    kill -CONT "$LAUNCHER"
    kill -STOP "${SIMS[1]}"
    sim_waits 60 out 'generation 2: '
    given_up sim0198
    grep -q 'sim0198 is left out: its node agent has not answered for 8 seconds' "$SIM_DIR/out"
}

# known N: hvdrun --status knows what so many ranks use.
known() {
    "$B/bin/hvdrun" --status "pid:$LAUNCHER" --json >"$SIM_DIR/status" &&
        (($(jq '[.launches[0].ranks[] | select(.memory > 0)] | length' "$SIM_DIR/status") == $1))
}

@test "of 1,600 ranks each is known, and they are shown as quantiles" {
    SIM_OPTIONS=(-u 1)
    sim_begin 1600
    sim_agents 200 0 8
    sim_waits 60 agents.0 '^running 0 1600 '
    wait_for 60 known 1600 || { head -c 2000 "$SIM_DIR/status" && return 1; }
    [[ $(jq -c '.launches[0] | [.ranks[].rank] == [range(1600)]' "$SIM_DIR/status") == true ]]
    [[ $(jq -c '[.launches[0].hosts[] | select(.ranks == 8 and .memory > 8e9)] | length' "$SIM_DIR/status") == 200 ]]
    run "$B/bin/hvdrun" --status "pid:$LAUNCHER"
    # shellcheck disable=SC2154 # run sets it
    [[ $output == *"ranks: 1600 running"* && $output == *"1600 ranks are left out"* ]] || { echo "$output" && return 1; }
    (($(awk '{ if (length > most) most = length } END { print most }' <<<"$output") <= 80)) || { echo "$output" && return 1; }
}
