#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# Elastic training by real Horovod on several Slurm jobs of one name.

load ../cluster/launch
load peers
load elastic

setup_file() { elastic_file --nodes 2; }
setup() {
    elastic_begin
    rm -f "$(home)/enough"
}
teardown() { elastic_end; }

submit() { on_login sbatch --parsable -N1 --exclusive "$@"; }
wait_job() { submit -o /dev/null "$@" --wrap 'sleep 300'; }

# train: begins a training in a job of its own on the first node. The last epoch begins when ~/enough exists.
train() {
    job=$(submit -w hvdn1 -J mine --no-kill -o train.out --wrap "OMP_NUM_THREADS=1 hvdrun -np 2 --min-np 2 \
        --slots-per-host 2 --start-timeout 100 --discover jobs:mine $PY $HERE/elastic.py log --hold 2:enough")
    wait_for 60 trains 2
}
trains() { [[ $(tail -1 "$LOG" 2>/dev/null) == *" size $1 "* ]]; }
job_is_over() { [[ ! $(on_login squeue -h -j "$job" -t R,CG,PD 2>/dev/null) ]]; }

# shrinks_and_ends: the training shrinks to the ranks of the first node, none of which fails, and ends.
shrinks_and_ends() {
    wait_for 60 trains 2
    : >"$(home)/enough"
    wait_for 100 job_is_over
    cat "$(home)/train.out"
    sizes 2 4 2
    every_batch_once 3
    loss_as_alone
}

@test "a companion job joins, and is preempted: its ranks leave within the grace time" {
    train
    wait_job -J mine -p preempt -w hvdn2
    wait_for 100 trains 4
    wait_job -w hvdn2
    shrinks_and_ends
    grep 'hvdn2 will be taken away in [1-5] s' "$(home)/train.out"
    run grep -E 'failed|silent' "$(home)/train.out"
    [[ ! $output ]]
}

@test "a companion job joins, and is scancelled: its ranks leave" {
    train
    companion=$(wait_job -J mine -w hvdn2)
    wait_for 100 trains 4
    on_login scancel "$companion"
    shrinks_and_ends
}
