#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2016 # what run sets; what a script on the cluster reads
# Elastic jobs whose hosts, node agents, step daemons or munged go or fall silent. The ranks are restart_worker.py.

load helpers
load launch
load restart_ranks

# shellcheck disable=SC2034 # read by train
TRAIN_OPTIONS=(--slots-per-host=2)

# Slurm itself is slow to notice: what is tested here is what hvdrun does by itself.
setup_file() {
    suite_up --nodes 4 --slurm-conf SlurmdTimeout=120
    bring_worker
}
teardown_file() { cluster_down; }
setup() { fresh_work; }
teardown() {
    cluster_mend
    assert_no_leftovers 10
}

# trains RESTARTS HOST…: the ranks of the generation after so many restarts are two on each of these hosts.
trains() {
    local want
    want=$(for host in "${@:2}"; do printf '%s\n%s\n' "$host" "$host"; done)
    wait_for 30 trains_so "$1" "$want" || { echo "not after $1 restarts: $want" && cat "$WORK/log" "$OUT" && return 1; }
}
trains_so() { [[ $(sed -nE "s/.* on (\S+) .* restarts $1 .*/\1/p" "$WORK/log" 2>/dev/null | sort) == "$2" ]]; }
AGENT='[h]vd-agent host .*--host='

@test "a host's link is cut, and a rank of another host fails before that is noticed: the job goes on without it" {
    train 4 -np 6 --max-restarts 2
    trains 0 hvdn{1,2,3}
    fault silence hvdn2
    kill_rank hvdn1 0
    says 5 "restarting all ranks, restart 1 of 2, when the others have ended"
    within 9 trains_so 1 "$(printf '%s\n' hvdn1 hvdn1 hvdn3 hvdn3 hvdn4 hvdn4)"
    stop
    ended 30
    exits 0
    has "hvdn2 is left out: the connection to its node agent was lost: it has not answered for " \
        " seconds, and does not answer hvdn3 and hvdn4 either" \
        "generation 2: 6 ranks on 3 hosts (hvdn4 added, hvdn2 removed)"
}

@test "a host's link is cut while all ranks train: that is noticed in seconds" {
    train 3 -np 6 --min-np 4 --max-restarts 1
    trains 0 hvdn{1,2,3}
    fault silence hvdn2
    within 9 trains_so 1 "$(printf '%s\n' hvdn1 hvdn1 hvdn3 hvdn3)"
    stop
    ended 30
    exits 0
}

# The others reach it over their own network all the time.
@test "a host that only hvdrun's host does not reach for some seconds, or whose agent is stopped as long, is not lost" {
    local addr
    train 3 -np 6 --min-np 4 --max-restarts 1 --verbose
    trains 0 hvdn{1,2,3}
    addr=$(cluster addr hvdn2 eth0)
    as_root hvdn3 pkill -STOP -f "$AGENT"
    as_root hvdlogin nft -f - <<END
add table inet cut
add chain inet cut out { type filter hook output priority 0; }
add rule inet cut out ip daddr $addr drop
END
    says 6 "hvdn2 is silent: asking"
    says 6 "hvdn2 is silent, but answers hvdn1"
    sleep 2
    as_root hvdlogin nft delete table inet cut
    as_root hvdn3 pkill -CONT -f "$AGENT"
    kill_rank hvdn2 2
    trains 1 hvdn{1,2,3}
    stop
    ended 30
    exits 0
    has_not "is left out"
}

@test "a host is lost, and Slurm says so: that is believed at once" {
    train 3 -np 6 --min-np 4 --max-restarts 1
    trains 0 hvdn{1,2,3}
    fault silence hvdn2
    as_root hvdctl scontrol update nodename=hvdn2 state=down reason=test
    within 8 said "generation 2: 4 ranks on 2 hosts (hvdn2 removed)"
    stop
    ended 30
    exits 0
    # srun of 24.11 ends by itself then, which is noticed first.
    if slurm_before 24.11; then
        has "hvdn2 is left out: its node agent has not answered for 3 seconds"
    else
        has "hvdn2: its node agent ended before its ranks did"
    fi
}

@test "a node agent that is stopped, and a frozen host, are given up when their ranks are to end" {
    train 4 -np 8 --min-np 4 --max-restarts 1 --start-timeout 6
    trains 0 hvdn{1,2,3,4}
    as_root hvdn2 pkill -STOP -f "$AGENT"
    fault node-freeze hvdn3
    kill_rank hvdn4 6
    says 5 "restarting all ranks, restart 1 of 1, when the others have ended"
    within 15 trains_so 1 "$(printf '%s\n' hvdn1 hvdn1 hvdn4 hvdn4)"
    fault node-thaw hvdn3
    stop
    ended 30
    exits 0
    has "hvdn2 is left out: its node agent has not answered for 6 seconds" \
        "hvdn3 is left out: its node agent has not answered for 6 seconds"
}

@test "a node agent that is stopped while nobody is told anything is given up" {
    train 3 -np 6 --min-np 4 --max-restarts 1 --start-timeout 6
    trains 0 hvdn{1,2,3}
    as_root hvdn2 pkill -STOP -f "$AGENT"
    within 28 trains_so 1 "$(printf '%s\n' hvdn1 hvdn1 hvdn3 hvdn3)"
    stop
    ended 30
    exits 0
    has "hvdn2 is left out: its node agent has not answered for 6 seconds"
}

@test "a step daemon is killed: its host counts as lost at once, and the job goes on" {
    train 3 -np 4 --max-restarts 1
    trains 0 hvdn{1,2}
    as_root hvdn2 pkill -KILL -x slurmstepd
    within 8 trains_so 1 "$(printf '%s\n' hvdn1 hvdn1 hvdn3 hvdn3)"
    stop
    ended 20
    exits 0
    has "hvdn2 is left out: slurmstepd ended before the ranks that it had started"
}

@test "a host without ranks is lost when the others are about to end: the training is complete" {
    train 3 -np 4 --max-np 4 --max-restarts 1
    trains 0 hvdn{1,2}
    fault silence hvdn3
    stop
    ended 30
    exits 0
    has "hvdn3"
    has_not "error" "may be missing"
}

# After that srun is not waited for. hvdrun's end is what counts: salloc's needs munged itself.
@test "munged is killed, or stopped, on a host of ranks or on hvdrun's own, and the job ends: the host is named" {
    local how where
    for where in hvdn2 hvdlogin; do
        for how in KILL STOP; do
            as_root hvdlogin rm -rf "$WORK"/{log,stop}
            train 2 -np 4 --max-restarts 1
            trains 0 hvdn{1,2}
            as_root "$where" pkill -"$how" -x munged
            stop
            within 15 no_hvdrun
            as_root "$where" pkill -CONT -x munged || fault munged-start "$where"
            ended 30
            exits 1
            has "$where: munged does not answer there, so srun cannot learn that its ranks have ended; ending it" \
                "the last output of its ranks may be missing"
        done
    done
    assert_no_leftovers 20
}
no_hvdrun() { ! as_root hvdlogin pgrep -x hvdrun >/dev/null; }

# before_first [OPTION OF hvdrun…]: a job of eight ranks, at least four, whose fourth host is not there yet when the
# agent of the second one is killed. Then the fourth host comes.
before_first() {
    fault node-freeze hvdn4
    train 4 -np 8 --min-np 4 --max-restarts 1 "$@"
    wait_for 10 runs_on hvdn2 "$AGENT"
    sleep 0.5
    as_root hvdn2 pkill -KILL -f "$AGENT"
    says 5 "hvdn2"
}

@test "an agent is killed before the first generation: its host is tried again" {
    before_first
    fault node-thaw hvdn4
    says 15 "hvdn2: trying the host again"
    trains 0 hvdn{1,2,3,4}
    stop
    ended 20
    exits 0
    has "generation 1: 8 ranks on 4 hosts"
}

@test "a host is lost for good before the first generation: the others begin, as --min-np lets them" {
    before_first --elastic-timeout 16
    fault node-kill hvdn2
    fault node-thaw hvdn4
    within 12 trains_so 0 "$(printf '%s\n' hvdn1 hvdn1 hvdn3 hvdn3 hvdn4 hvdn4)"
    stop
    ended 20
    exits 0
    has "generation 1: 6 ranks on 3 hosts (-np asks for 8)"
}
