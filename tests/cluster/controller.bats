#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# The controller of Slurm is down, or hangs, while jobs run: nobody notices but who asks it. The ranks of the job with
# restarts are restart_worker.py.
#
# DOWN (8): for so many seconds, at least; more than MessageTimeout.

load helpers
load launch
load restart_ranks

DOWN=${DOWN:-8}

# Slurm's programs wait for a controller that hangs for MessageTimeout.
setup_file() {
    export HVD_TEST_DEADLINE=$((60 + 3 * DOWN))
    suite_up --nodes 4 --slurm-conf MessageTimeout=6
    bring_worker
}
teardown_file() { cluster_down; }
setup() { fresh_work; }
teardown() {
    as_root hvdctl pkill -CONT -x slurmctld || true
    cluster fault clear
    cluster_mend
    assert_no_leftovers 20
}

trains() { wait_for 30 grep -q " rank 3 .* restarts $1 " "$WORK/log" || { cat "$WORK/log" "$OUT" && return 1; }; }
# The controller saves a new job within five seconds. It ends jobs that it does not know when it comes back.
saved() { sleep 6; }
no_controller() { ! as_root hvdctl pgrep -x slurmctld >/dev/null; }

@test "a job with restarts: a rank fails while the controller is down, another one while it hangs" {
    train 2 --max-restarts 3
    trains 0
    saved
    as_root hvdctl pkill -KILL -x slurmctld
    wait_for 5 no_controller
    kill_rank hvdn2 3
    within 9 trains 1
    sleep $((DOWN - 8))
    cluster fault clear
    as_root hvdctl pkill -STOP -x slurmctld
    # Longer than the controller is waited for.
    sleep "$DOWN"
    kill_rank hvdn1 0
    within 9 trains 2
    as_root hvdctl pkill -CONT -x slurmctld
    ends_well 30
    has_not "error" "is left out"
}

@test "launches of fixed size: their ranks end while the controller is down, and it comes back a while later" {
    local with
    for with in srun hvdrun; do
        on_login rm -f work/stop work/up
        begin launch $with -N2 -n4 --ntasks-per-node=2 sh -c ': >work/up; until [ -e work/stop ]; do sleep 0.1; done; echo whole'
        wait_for 20 test -e "$WORK/up"
        saved
        as_root hvdctl pkill -KILL -x slurmctld
        wait_for 5 no_controller
        on_login touch work/stop
        says_times 10 4 whole
        sleep $((DOWN - 8))
        cluster fault clear
        ended 60
        exits 0
        [[ $(grep -cx whole <<<"$output") -eq 4 ]]
        has_not "hvd-agent" "munge"
    done
}
