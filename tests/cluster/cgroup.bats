#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# shellcheck disable=SC2016 # for the shell that runs the command
# Where Slurm tracks processes by control groups (proctrack/cgroup) it signals its own children only, unless by SIGKILL;
# and the memory that a job asked for is all that it gets.

load launch
load production

setup_file() {
    cgroups v1
    [[ ! $WHY_NOT ]] || return 0
    suite_up --nodes 2 "${CGROUPS[@]}" --slurm-conf SelectTypeParameters=CR_Core_Memory --slurm-conf DefMemPerCPU=200
}
teardown_file() { [[ $WHY_NOT ]] || cluster_down; }
setup() { [[ ! $WHY_NOT ]] || skip "$WHY_NOT"; }
teardown() {
    [[ ! $WHY_NOT ]] || return 0
    cluster_mend
    assert_no_leftovers
}

ALL=(-N2 -n4 --ntasks-per-node=2)

@test "signals of Slurm come to each rank, once" {
    for with in srun hvdrun; do signalled_once "$with"; done
}

@test "a signal of Slurm comes to each rank of an elastic job, once" {
    begin on_login salloc -Q "${ALL[@]}" --no-kill hvdrun --min-np 2 bash -c 'trap "echo USR1; exit 0" USR1
        echo ready
        for i in {1..100}; do sleep 0.2; done'
    says_times 15 4 ready
    on_login sh -c 'scancel --signal=USR1 "$(squeue -h -o %A)"'
    ended 20
    [[ $(grep -cx USR1 <<<"$output") -eq 4 ]] || { echo "$output" && false; }
}

@test "below setsid in a step hvdrun sees by its control group that it is in one" {
    gives 0 on_login salloc -Q -N2 srun -N1 bash -c '(setsid sh -c "(sleep 0.5; exec timeout 15 hvdrun -N2 -n2 true) >below.out 2>&1 </dev/null &"); sleep 2'
    run cat "$(home)/below.out"
    has "hvdrun was started by srun, in step" "hvdrun --overlap"
}

@test "the other ranks get SIGTERM when one has failed, and the launch ends at once" {
    for with in srun hvdrun; do
        rm -f "$(home)/go"
        begin launch "$with" "${ALL[@]}" bash -c "((SLURM_PROCID == 2)) || { $TRAPS; }; until [[ -e go ]]; do sleep 0.1; done; exit 7"
        says_times 10 3 ready
        on_login touch go
        ended 4 7
        [[ $(grep -cx TERM <<<"$output") -eq 3 ]] || { echo "$output" && false; }
        has "rank 2 on hvdn2 failed first: exit code 7"
    done
}

# The step has the first CPU of the node, the job another one. In an elastic job node agents bind the ranks.
@test "a job that was submitted from within a step is not bound to the step's CPUs" {
    local binding='echo "$0 <$SLURM_CPU_BIND_LIST>"'
    script inner.sh <<END
#!/bin/sh
hvdrun -n1 sh -c '$binding' job
hvdrun --dry-run --min-np=1 true
END
    gives 0 on_login srun --no-hvd -w hvdn1 -n1 sh -c "$binding"'
        sbatch --quiet --wait -w hvdn1 --output=inner.out inner.sh; echo "status $?"; cat inner.out' step
    has "step <0x" "status 0" "job <0x" "--bind"
    has_not "Unable to satisfy"
    [[ $(grep -oE '^(step|job) <[^>]+>' <<<"$output" | awk '{ print $2 }' | sort -u | wc -l) -eq 2 ]] || { echo "$output" && false; }
}

@test "a start that fails on one host ends on the others by SIGTERM, at once" {
    fault iface-del hvdn2 ib0
    for with in "srun --hvd-nics=ib0" "hvdrun --nics=ib0"; do
        # shellcheck disable=SC2086 # two words
        begin launch $with "${ALL[@]}" true
        ended 4 2
        has "hvdn2: there is no usable interface ib0 there"
        has_not Killed
    done
}

@test "a rank that is out of memory is named, with the reason" {
    for with in srun hvdrun; do
        begin launch "$with" "${ALL[@]}" --mem=100M \
            bash -c '((SLURM_PROCID == 2)) && exec python3 -c "print(len(b\"x\" * (400 << 20)))"; exec sleep 60'
        ended 20
        if [[ $with == hvdrun ]]; then exits 137; else ((status != 0)); fi # srun's is Slurm's own
        has "rank 2 on hvdn2 failed first: killed by signal 9 (SIGKILL): out of memory" "srun --mem"
    done
}
