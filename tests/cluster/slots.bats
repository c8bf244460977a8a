#!/usr/bin/env bats
# How many ranks there are and where, when nobody gives numbers of tasks: slots
# from GPUs, lists of hosts, and what does not fit.

load launch

# Names do not resolve here, so that nothing may lean on that.
setup_file() { suite_up --nodes 4 --gpus 2 --no-dns; }
teardown() { cluster_mend --clean; }

WHERE='echo "$SLURMD_NODENAME $HOROVOD_RANK/$HOROVOD_SIZE $HOROVOD_LOCAL_RANK/$HOROVOD_LOCAL_SIZE"'

# in_job CMD…: in a batch job with two GPUs on each of four nodes.
in_job() {
    script gpu.sh <<<"#!/bin/bash
$*"
    submit -N4 --gpus-per-node=2 --cpus-per-gpu=1 gpu.sh
}

hosts_are() {
    local found
    found=$(awk '/^hvdn/ { n[$1]++ } END { for (h in n) print h ":" n[h] }' <<<"$output" | sort | xargs)
    [[ $found == "$1" ]] || { echo "hosts $found: $output" && return 1; }
}

# lines N PATTERN: N lines of $output match.
lines() {
    [[ $(grep -cE "$2" <<<"$output") -eq $1 ]] || { echo "not $1 of '$2': $output" && return 1; }
}

# what_is NAME: what $output of ranks' env has for it, sorted.
what_is() { sed -n "s/^$1=//p" <<<"$output" | sort | xargs; }

@test "hosts whose names do not resolve can be used" {
    for with in srun hvdrun; do
        selftest 8 4 launch "$with" -N4 --ntasks-per-node=2 hvd-selftest --quick
    done
}

@test "there is a rank for each GPU" {
    in_job hvdrun --selftest -- --quick
    selftest_ok 8 4
    in_job hvdrun bash -c "'$WHERE'"
    exits 0
    hosts_are "hvdn1:2 hvdn2:2 hvdn3:2 hvdn4:2"
    has "hvdn1 0/8 0/2" "hvdn1 1/8 1/2" "hvdn4 7/8 1/2"
}

@test "-np takes fewer ranks than slots, and more are refused" {
    in_job hvdrun -np 3 bash -c "'$WHERE'"
    exits 0
    hosts_are "hvdn1:2 hvdn2:1"
    in_job hvdrun -np 9 hostname
    exits 2
    has "9 processes were asked for" "8 slots" "hvdn1      2" "hvdn4      2"
}

@test "--slots-per-host says how many slots each host has" {
    in_job hvdrun --slots-per-host 1 bash -c "'$WHERE'"
    exits 0
    hosts_are "hvdn1:1 hvdn2:1 hvdn3:1 hvdn4:1"
    in_job hvdrun --slots-per-host 1 -np 5 true
    exits 2
    has "4 slots"
}

@test "listed hosts get ranks in the order of the list, also unevenly" {
    in_job hvdrun --hosts hvdn4:1,hvdn2:2 bash -c "'$WHERE'"
    exits 0
    hosts_are "hvdn2:2 hvdn4:1"
    has "hvdn4 0/3" "hvdn2 1/3" "hvdn2 2/3"
    in_job hvdrun --hosts hvdn4:1,hvdn2:2 --selftest -- --quick
    selftest_ok 3 2
    in_job hvdrun -np 2 --hosts hvdn4:1,hvdn2:2 bash -c "'$WHERE'"
    hosts_are "hvdn2:1 hvdn4:1"
    printf '# mine\nhvdn3 slots=2\n\nhvdn1 slots=1\n' | script hosts
    in_job hvdrun --hostfile hosts bash -c "'$WHERE'"
    exits 0
    hosts_are "hvdn1:1 hvdn3:2"
    has "hvdn3 0/3" "hvdn1 2/3"
}

@test "horovodrun's own spelling of hosts is understood" {
    in_job exec -a horovodrun "$B/bin/hvdrun" -np 3 -H hvdn4:1,hvdn2:2 bash -c "'$WHERE'"
    exits 0
    has "[0]<stdout>:hvdn4 0/3" "[2]<stdout>:hvdn2 2/3"
    output=${output//\[?\]<stdout>:/}
    hosts_are "hvdn2:2 hvdn4:1"
    in_job hvdrun -H hvdn4:1 true
    exits 2
    has "--hosts hvdn4:1"
}

@test "a listed host that the job does not have is refused" {
    in_job hvdrun --hosts hvdn1:1,nowhere:2 true
    exits 2
    has "host nowhere is not in this allocation" "hvdn1      2"
    has_not $'\n\n' "hvdn4      2 "
    # The name of a node with any domain: names do not resolve here.
    in_job hvdrun --hosts hvdn3.cluster.local:1,hvdn2:2 bash -c "'$WHERE'"
    exits 0
    hosts_are "hvdn2:2 hvdn3:1"
    has "hvdn3 0/3" "hvdn2 1/3"
}

@test "a job that was submitted with a number of tasks keeps it" {
    script tasks.sh <<<"#!/bin/bash
exec hvdrun bash -c '$WHERE'"
    submit -N2 --ntasks-per-node=3 tasks.sh
    hosts_are "hvdn1:3 hvdn2:3"
    submit -N2 -n5 tasks.sh
    exits 0
    [[ $(grep -c / <<<"$output") -eq 5 ]]
    has 0/5 4/5
}

# Each of these would give the agent's step one task's share, end it early, or keep it from starting.
@test "what users export for srun's tasks does not change the steps of an elastic job, and its ranks see it" {
    script step.sh <<'END'
#!/bin/bash
echo "$SLURMD_NODENAME" $(scontrol -o show step "$SLURM_JOB_ID.$SLURM_STEP_ID" | grep -oE "CPUs=[0-9]+|TimeLimit=[^ ]*") \
    "$CUDA_VISIBLE_DEVICES $SRUN_CPUS_PER_TASK $SLURM_CONSTRAINT $SLURM_MEM_PER_CPU"
END
    in_job 'export SRUN_CPUS_PER_TASK=1 SLURM_GPUS_PER_TASK=1 SLURM_DEBUG=1 SLURM_CONSTRAINT=none SLURM_RESV_PORTS=1
        export SLURM_TIMELIMIT=1 SLURM_MEM_PER_CPU=10
        hvdrun -np 8 --max-restarts=1 ./step.sh'
    exits 0
    for n in 1 2 3 4; do has "hvdn$n TimeLimit=UNLIMITED CPUs=2 0,1 1 none 10"; done
    has_not "srun: error"
}

# Slurm would ask the one host of an agent's step for the GPUs of the whole job.
@test "sbatch -G: each host's step of an elastic job has the GPUs that the job has there" {
    script where.sh <<'END'
#!/bin/bash
echo "$SLURMD_NODENAME $RANK/$WORLD_SIZE $CUDA_VISIBLE_DEVICES"
END
    script gpus.sh <<'END'
#!/bin/bash
hvdrun --max-restarts=1 ./where.sh
END
    submit -N2 -G4 gpus.sh
    exits 0
    for rank in 0 1 2 3; do has " $rank/4 0,1"; done
}

@test "ranks that lack device LOCAL_RANK: one warning says why, and JAX gets a device that is there" {
    local ordinal='fails with "invalid device ordinal"'
    for with in srun hvdrun; do
        gives 0 launch "$with" -N2 -n8 --ntasks-per-node=4 --overcommit --gpus-per-node=2 env
        lines 1 "warning: this host has 4 ranks, which see 2 GPUs, .*$ordinal where LOCAL_RANK is 2 or more"
        [[ $(what_is JAX_LOCAL_DEVICE_IDS) == "0 0 0 0 1 1 1 1" ]] || { echo "$output" && return 1; }
        for how in --gpus-per-task=1 "--gpus-per-node=2 --gpu-bind=mask_gpu:0x1,0x2"; do
            # shellcheck disable=SC2086
            gives 0 launch "$with" -N2 -n4 --ntasks-per-node=2 $how env
            lines 1 "warning: each rank of this host sees one GPU, .*$ordinal"
            [[ $(what_is JAX_LOCAL_DEVICE_IDS) == "0 0 0 0" ]] || { echo "$output" && return 1; }
        done
        gives 0 launch "$with" -N2 -n4 --ntasks-per-node=2 --gpus-per-node=2 env
        has_not ordinal JAX_LOCAL_DEVICE_IDS= warning:
    done
    # A restart does not say it again.
    in_job hvdrun -np 8 --slots-per-host=4 --max-restarts=1 sh -c "'[ \$TORCHELASTIC_RESTART_COUNT = 1 ]'"
    exits 0
    lines 1 "warning: this host has 4 ranks, which see 2 GPUs"
}

@test "one task on a node with several GPUs, of a program that uses one: a note says what to type" {
    script one.py <<<'import os
os.environ["LOCAL_RANK"]'
    script many.py <<<'import os, multiprocessing
multiprocessing.get_context("spawn").Value("i", int(os.environ["LOCAL_RANK"]))'
    for with in srun hvdrun; do
        gives 0 launch "$with" -N2 -n2 --gpus-per-node=2 python3 one.py
        lines 1 "2 ranks, one on each host, and 2 GPUs on this one, .*--ntasks-per-node=2"
        gives 0 launch "$with" -N2 -n2 --gpus-per-node=2 python3 many.py
        has_not GPUs
        gives 0 launch "$with" -N2 -n2 --gpus-per-node=2 hostname
        has_not GPUs
        gives 0 launch "$with" -N2 -n2 --gpus-per-node=1 python3 one.py
        has_not GPUs
    done
}
