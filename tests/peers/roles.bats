#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# Jobs of several roles with real PyTorch: scripts/examples/roles.sbatch, and replica groups of torchft by torchft.sbatch.

load ../cluster/launch
load peers

setup_file() {
    peers --torchft
    export NO_TORCHFT=$PEERS_WHY
    if [[ $PEERS_WHY ]]; then peers --torch; fi
    built
    export EXAMPLES=$SRC/scripts/examples
    suite --nodes 4
}
setup() { needs_cluster; }
teardown() { mend --clean; }

# submit roles.sbatch
@test "roles.sbatch: a trainer asks two inference servers and the judges of its hosts, and all of it ends" {
    submit --export="ALL,OMP_NUM_THREADS=1" "$EXAMPLES/roles.sbatch" "$PY" "$EXAMPLES/roles.py"
    exits 0
    has "[rollout/0:0] inference server 0 begins" "[rollout/1:0] inference server 1 begins" "[trainer:0] step 39 score"
    # Two ranks use each server, all have the same model, and it is near to what only the judges know.
    local server
    for server in 0 1; do
        [[ $(grep -cE "rank [0-3] of 4: server $server, off by 0\.[0-3]" <<<"$output") -eq 2 ]] || { echo "$output" && return 1; }
    done
    has_not Traceback
}

# in_step GROUP RESTART GROUPS: this group trains with so many others.
in_step() { grep -qE "group $1 restart $2 step [0-9]+ of $3 groups" "$(home)/job.out"; }

# submit torchft.sbatch
@test "torchft.sbatch: a replica group is killed and comes back, the others train on, and all end with the same weights" {
    if [[ $NO_TORCHFT ]]; then skip "$NO_TORCHFT"; fi
    local group
    rm -f "$(home)/stop"
    (
        wait_for 120 in_step 1 0 3
        as_root hvdn2 pkill -KILL -u alice -f 'torchft-groups.py'
        wait_for 60 in_step 0 0 2
        wait_for 120 in_step 1 1 3
        on_login touch stop
    ) 3>&- &
    submit --export="ALL,OMP_NUM_THREADS=1,PATH=${PY%/*}:$HVD_PATH:$PATH" "$EXAMPLES/torchft.sbatch" \
        "$PY" "$EXAMPLES/torchft-groups.py" --until stop --pause 0.1
    exits 0
    has "group/1: restarting all ranks, restart 1 of 10"
    has_not "group/0: restarting" "group/2: restarting" "group 0 restart 1" "group 2 restart 1"
    [[ $(grep -oE "done at step .*" <<<"$output" | sort | uniq -c | awk '{ print $1 }') -eq 3 ]] || { echo "$output" && return 1; }
    for group in 0:0 1:1 2:0; do has "group ${group%:*} restart ${group#*:} done at step"; done
}
