#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# A rank of real Horovod fails on the cluster.

load ../cluster/launch
load peers

setup_file() {
    peers
    suite --nodes 2
}
setup() { needs_cluster; }

# fails HOW STATUS TEXT [SECONDS]: rank 2 of four, which is on the second host, fails; hvdrun ends with STATUS and prints TEXT.
fails() {
    run launch hvdrun -N2 -n4 --ntasks-per-node=2 -w 'hvdn[1-2]' "$PY" "$HERE/fail.py" "$1" 2 mark
    rank_2_failed hvdn2 "$2" "$3" "$EPOCHREALTIME" "${4-4}"
    assert_no_leftovers
}

@test "a rank that raises an exception ends the job soon, with 1" {
    fails raise 1 "exit code 1" 10 # Python first ends Horovod
    has "RuntimeError: out of data"
}

@test "a rank that is killed ends the job soon, with 137" {
    fails kill 137 "killed by signal 9 (SIGKILL)"
}

@test "with srun --hvd the step ends as well, and srun names the rank first of all" {
    local how ended_at
    declare -A ends=([raise]="Exited with exit code 1" [exit]="Exited with exit code 7" [kill]="Killed")
    for how in raise exit kill; do
        run launch srun -N2 -n4 --ntasks-per-node=2 "$PY" "$HERE/fail.py" "$how" 2 mark
        ended_at=$EPOCHREALTIME
        [ "$status" -ne 0 ]
        [[ $(grep -m 1 "error: hvdn[12]: task" <<<"$output") == *"hvdn2: task 2: ${ends[$how]}" ]] ||
            { echo "$output" && return 1; }
        soon "$ended_at" "$([[ $how == raise ]] && echo 10 || echo 4)"
        assert_no_leftovers
    done
}
