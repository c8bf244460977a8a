#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2016 # what run sets; what a script on the cluster reads
# Elastic jobs whose hosts or node agents go or fall silent, started by ssh: what hvdrun notices by itself.
# elastic_steps.bats has what Slurm says. The ranks are restart_worker.py.

load helpers
load launch
load restart_ranks

setup_file() {
    hosts_up --ssh --nodes 4
    bring_worker
}
teardown_file() { cluster_down; }
setup() { fresh_work; }
teardown() {
    local host status=0
    if [[ -s $(cluster path)/faults ]]; then fault clear; fi
    for host in hvdlogin hvdn{1,2,3,4}; do as_root "$host" pkill -CONT -u alice || true; done
    # What was cut off or stopped ends by itself.
    assert_no_leftovers 10 || status=1
    cluster_mend
    return $status
}

@test "a host's link is cut, and a rank of another host fails before that is noticed: the job goes on without it" {
    train 4 -np 6 --max-restarts 2
    trains 0 hvdn{1,2,3}
    fault silence hvdn2
    kill_rank hvdn1 0
    says 5 "restarting all ranks, restart 1 of 2, when the others have ended"
    within 9 trains_so 1 "$(printf '%s\n' hvdn1 hvdn1 hvdn3 hvdn3 hvdn4 hvdn4)"
    ends_well 30
    has "hvdn2 is left out: the connection to its node agent was lost: it has not answered for " \
        " seconds, and does not answer hvdn3 and hvdn4 either" \
        "generation 2: 6 ranks on 3 hosts (hvdn4 added, hvdn2 removed)"
}

@test "a host's link is cut while all ranks train: that is noticed in seconds" {
    train 3 -np 6 --min-np 4 --max-restarts 1
    trains 0 hvdn{1,2,3}
    fault silence hvdn2
    within 9 trains_so 1 "$(printf '%s\n' hvdn1 hvdn1 hvdn3 hvdn3)"
    ends_well 30
}

ranks_gone() { ! as_root "$1" pgrep -f restart_worker.py >/dev/null; }

@test "the ranks of a host that is cut off get no SIGTERM, at which they would write a checkpoint beside their successors" {
    train 3 -np 6 --min-np 4 --max-restarts 1 -- --heed
    trains 0 hvdn{1,2,3}
    fault silence hvdn2
    trains 1 hvdn1 hvdn3
    wait_for 20 ranks_gone hvdn2
    [[ -e $WORK/heeded.0 && ! -e $WORK/heeded.2 && ! -e $WORK/heeded.3 ]] || { ls "$WORK" && return 1; }
    ends_well 30
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
    ends_well 30
    has_not "is left out"
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
    ends_well 30
    has "hvdn2 is left out: its node agent has not answered for 6 seconds" \
        "hvdn3 is left out: its node agent has not answered for 6 seconds"
}

@test "a node agent that is stopped while nobody is told anything is given up" {
    train 3 -np 6 --min-np 4 --max-restarts 1 --start-timeout 6
    trains 0 hvdn{1,2,3}
    as_root hvdn2 pkill -STOP -f "$AGENT"
    within 28 trains_so 1 "$(printf '%s\n' hvdn1 hvdn1 hvdn3 hvdn3)"
    ends_well 30
    has "hvdn2 is left out: its node agent has not answered for 6 seconds"
}

@test "a host without ranks is lost when the others are about to end: the training is complete" {
    train 3 -np 4 --max-np 4 --max-restarts 1
    trains 0 hvdn{1,2}
    fault silence hvdn3
    ends_well 30
    has "hvdn3"
    has_not "error" "may be missing"
}

@test "a host is lost for good before the first generation: the others begin, as --min-np lets them" {
    before_first --elastic-timeout 16
    fault node-kill hvdn2
    fault node-thaw hvdn4
    within 12 trains_so 0 "$(printf '%s\n' hvdn1 hvdn1 hvdn3 hvdn3 hvdn4 hvdn4)"
    ends_well 20
    has "generation 1: 6 ranks on 3 hosts (-np asks for 8)"
}

@test "--trace has the generations of a job with restarts, and the hosts that come and go; at each ending" {
    fails_twice --trace trace.json
    traced "launch - queue, and start of the agents" "launch - start" \
        "launch 1 ranks start, until the first init" "launch 1 init, from the first rank to the last" \
        "launch 1 ranks run" "launch 1 ranks end, or wait for the next generation: rank 3 on hvdn2: killed by signal 9" \
        "launch 2 ranks start" "launch 2 init" "launch 2 ranks run" \
        "launch 2 ranks end, or wait for the next generation: hvdn1" "launch 3 ranks start" "launch 3 ranks run"
    traced "hvdn1 - wait for the host" "hvdn1 - wait for the other hosts" "hvdn1 - probe" "hvdn1 - wait for the plan" \
        "hvdn1 - part of the job: "
    traced "hvdn3 - wait for the host" "hvdn3 - part of the job"
    # The first failure ends the job; Ctrl-C, while ranks train and while a host is awaited.
    on_login rm -rf trace.json work/log work/stop work/checkpoint
    train 2 -np 4 --max-restarts 0 --trace trace.json
    trains 0 hvdn{1,2}
    kill_rank hvdn1 0
    ended 20
    exits 137
    traced "launch 1 ranks run" "launch 1 ranks end"
    on_login rm -rf trace.json work/log work/checkpoint
    train 2 -np 4 --min-np 2 --max-restarts 1 --trace trace.json
    trains 0 hvdn{1,2}
    as_root hvdlogin pkill -INT -x hvdrun
    ended 20
    traced "launch - start" "launch 1 ranks run"
    traced "hvdn2 - wait for the host" "hvdn2 - part of the job"
    fault silence hvdn2
    for how in "" "--max-restarts 1"; do
        on_login rm -rf trace.json work/log
        # shellcheck disable=SC2086
        train 2 -np 4 $how --trace trace.json
        wait_for 10 runs_on hvdn1 "$AGENT"
        as_root hvdlogin pkill -INT -x hvdrun
        ended 20
        traced
    done
}
