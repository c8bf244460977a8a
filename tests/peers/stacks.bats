#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2154 # what another shell evaluates, what run sets
# hvdrun --stacks of a training with real PyTorch that hangs, by real py-spy.

load ../cluster/launch
load peers

setup_file() {
    peers --torch
    suite --nodes 2
    [[ ! $PEERS_WHY && ! $CLUSTER_WHY ]] || return 0
    # One program of 3 MB, which PyPI has for this.
    "$PY" -m pip --quiet install --target "$(home)/spy" py-spy >&2 ||
        export PEERS_WHY="py-spy cannot be fetched from PyPI"
    chmod -R a+rX "$(home)/spy"
}
setup() { needs_cluster; }

# line_of TEXT: where hang.py has it.
line_of() { grep -nF -- "$1" "$HERE/hang.py" | cut -d : -f 1 | tail -n 1; }

@test "the rank that sleeps before an all_reduce is told from the others, with the lines of the program" {
    local job
    begin on_login bash -c 'PATH=$HOME/spy/bin:$PATH exec "$@"' bash srun --hvd -N2 -n4 --ntasks-per-node=2 "$PY" "$HERE/hang.py"
    says_times 60 4 "has met 4"
    job=$(on_login squeue -h -u alice -o %A)
    sleep 1
    run on_login hvdrun --stacks "$job"
    info "$output"
    exits 0
    has "rank 3 on hvdn" ": late (hang.py:$(line_of 'time.sleep(600)'))" \
        "3 ranks (0-2): all_reduce (hang.py:$(line_of 'dist.all_reduce(ones)'))" "distributed_c10d.py"
    [[ ${output%%3 ranks (0-2)*} == *"rank 3 on"* ]]
    on_login scancel "$job"
    ended 20
}

@test "a rank that sleeps in its loader at each step is named by several samples" {
    local job target
    begin on_login bash -c 'PATH=$HOME/spy/bin:$PATH exec "$@"' bash srun --hvd -N2 -n4 --ntasks-per-node=2 \
        "$PY" "$HERE/slow_loader.py" slow
    says_times 120 4 "trains"
    job=$(on_login squeue -h -u alice -o %A)
    # By the step beside the job's, and by the driver.
    for target in "$job" "$job.0"; do
        run on_login hvdrun --stacks "$target" --samples=5
        info "$output"
        exits 0
        has "4 ranks of job $target in 5 samples" "rank 3 (hvdn" " differs from the other 3 in " \
            " of 5 samples: load (slow_loader.py:$(grep -nF 'time.sleep(8)' "$HERE/slow_loader.py" | cut -d : -f 1))" \
            "3 ranks (0-2): "
        has_not "no rank differs"
    done
    on_login scancel "$job"
    ended 20
}
