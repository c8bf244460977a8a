#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2016,SC2086 # what run sets; what shells on the cluster evaluate; commands and their options
# All hosts, with their Slurm, run as on Linux 4.18, the kernel of RHEL 8: newer system calls answer ENOSYS
# (../standins/old_kernel.h).

load launch
load restart_ranks

setup_file() {
    local old=${B:-build}/tests/standins/old_kernel
    [[ -e $old ]] || skip "there is no $old: make test-tools"
    suite_up --nodes 2 --wrap "$old"
    bring_worker
    discover_script
}
setup() { fresh_work; }
teardown() {
    local left=0
    cluster_mend --clean || left=1
    as_root hvdlogin pkill -KILL -u alice || [ $? -eq 1 ] # what a test has left there that has failed
    return "$left"
}

forked() { on_login hvdrun --launcher=fork "$@"; }

WATCH='import os
try:
    os.pidfd_open(1)
except OSError as e:
    print(e.strerror)'

@test "no process of the cluster has pidfds" {
    local with
    for with in "as_root hvdn1" "on_login" "on_login srun -n1" "on_login hvdrun -N1 -n1"; do
        gives 0 $with python3 -c "$WATCH"
        [ "$output" = "Function not implemented" ]
    done
}

@test "ranks on this machine: their statuses, Ctrl-C, and hvdrun killed" {
    selftest 4 1 forked -np 4 --selftest -- --quick
    gives 3 forked -np 4 sh -c '[ $RANK != 2 ] || exit 3; exec sleep 50'
    has "rank 2" "exit code 3"
    begin forked -np 4 sh -c 'echo ready; exec sleep 50'
    says_times 10 4 ready
    on_host hvdlogin pkill -INT -o -x hvdrun
    ended 8 130
    assert_no_leftovers
    begin forked -np 4 sh -c 'setsid sleep 50 & echo ready; exec sleep 50'
    says_times 10 4 ready
    on_host hvdlogin pkill -KILL -o -x hvdrun
    ended 8 137
}

@test "a script says the hosts, and is asked again; one that fails or hangs is ended" {
    hosts localhost:1
    begin forked -np 1 --min-np 1 --max-np 2 --host-discovery-script ./discover --discovery-interval 0.2 --max-restarts 0 \
        ./restart_worker.py work
    wait_for 10 grep -qs "size 1 rank 0" "$WORK/log"
    hosts localhost:2
    wait_for 20 grep -qs "size 2 rank 1" "$WORK/log"
    ends_well 20
    printf '#!/bin/sh\nsleep 60 & echo localhost:2\n' | script leaves
    gives 0 forked -np 2 --min-np 2 --host-discovery-script ./leaves sh -c 'echo "rank $HOROVOD_RANK"'
    has "rank 0" "rank 1"
    gives 1 forked -np 2 --min-np 2 --host-discovery-script 'exit 3' true
    has "the discovery script exit 3: exit code 3"
}

@test "a rank dies, and all are restarted: on this machine, and on two nodes" {
    begin forked -np 2 --max-restarts 1 ./restart_worker.py work
    wait_for 10 grep -qs "rank 1 .* restarts 0" "$WORK/log"
    kill_rank hvdlogin 1
    wait_for 10 grep -qs "rank 1 .* restarts 1" "$WORK/log"
    ends_well 20
    fresh_work
    train 2 --max-restarts 1
    trains 0 hvdn1 hvdn2
    kill_rank hvdn2 3
    trains 1 hvdn1 hvdn2
    ends_well 20
    has "rank 3 on hvdn2 failed: killed by signal 9"
}

@test "a rank of two nodes hangs: the stacks are shown, and the job is ended" {
    local with
    for with in "srun --hvd --hvd-" "hvdrun --"; do
        begin on_login ${with% *} "${with##* }hang-timeout=3" "${with##* }hang-action=kill" -N2 -n4 hvd-selftest --quick --hang-rank 2
        says 30 "no rank has made progress for"
        ended 60
        ((status != 0))
        has "4 ranks of this launch, by what the main thread does" $'\n  rank 2 on hvdn1: '
        has_not "does not answer"
        assert_no_leftovers
    done
    begin forked -np 3 sh -c 'echo here; exec sleep 1000'
    says_times 10 3 here
    gives 0 on_login hvdrun --stacks "pid:$(as_root hvdlogin pgrep -u alice -x hvdrun)"
    has "3 ranks (0-2)"
    as_root hvdlogin pkill -INT -u alice -x hvdrun
    ended 20 130
}

@test "two nodes: launches, a failed rank, scancel, and launchers that are killed" {
    local with
    for with in srun hvdrun; do
        selftest 4 2 launch "$with" -N2 --ntasks-per-node=2 hvd-selftest --quick
        run launch "$with" -N2 -n4 sh -c '[ $RANK != 2 ] || exit 3; exec sleep 50'
        exits_one_of 3 143
        has "rank 2" "exit code 3"
        signalled_once "$with"
        begin launch "$with" -N2 -n4 sh -c 'echo ready; exec sleep 50'
        says_times 10 4 ready
        as_root hvdlogin pkill -KILL -u alice -o -x "$with"
        ended 10 137
        assert_no_leftovers 15
    done
}

@test "a step daemon killed: hvdrun says so and ends, the ranks go with it" {
    step_daemon_killed 2
}
