#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# shellcheck disable=SC2016 # $HOROVOD_RANK and the like are for the shell that runs the command
# A cluster without files of Slurm's on nodes and login host, with control groups of version 2, and with whole nodes
# only.

load launch
load production

setup_file() {
    cgroups v2
    suite_up --nodes 3 --cpus "$(real_cpus)" "${CGROUPS[@]}" --configless \
        --slurm-conf JobAcctGatherType=jobacct_gather/linux --slurm-conf JobAcctGatherFrequency=5 \
        --slurm-conf PrologFlags=Contain \
        --slurm-conf SelectType=select/linear --slurm-conf SelectTypeParameters=CR_Memory
}
teardown() {
    cluster_mend
    assert_no_leftovers
}

@test "ranks are in their step's control group of version 2" {
    [[ ! $WHY_NOT ]] || skip "$WHY_NOT"
    for with in srun hvdrun; do
        gives 0 launch "$with" -N3 --ntasks-per-node=2 bash -c 'echo "rank $HOROVOD_RANK $(sed -n s/^0:://p /proc/self/cgroup)"'
        echo "$output"
        [ "$(grep -cE '^rank [0-5] /system.slice/[^ ]*slurmstepd.scope/[^/]+/step_[0-9]+/user/task_[0-9]+$' <<<"$output")" -eq 6 ]
    done
}

@test "without Slurm's files, ranks meet from the login host, a batch job and an allocation" {
    for host in hvdlogin hvdn1; do
        run on_host "$host" ls /etc/slurm
        [ -z "$output" ]
    done
    selftest 6 3 launch srun -N3 --ntasks-per-node=2 hvd-selftest --quick
    selftest 6 3 launch hvdrun -N3 --ntasks-per-node=2 hvd-selftest --quick
    batch_job_meets
    for how in "" "--min-np 2"; do
        # shellcheck disable=SC2086
        gives 0 on_login salloc -Q -N2 --ntasks-per-node=2 --no-kill hvdrun $how bash -c 'echo "rank $HOROVOD_RANK"'
        [ "$(grep -c "^rank [0-3]" <<<"$output")" -eq 4 ]
    done
}

# What libslurm has made of the configuration is of no use on another host, nor when hvdrun has ended.
@test "ranks have the node's SLURM_CONF, not the launcher's, and srun works within them" {
    for with in srun hvdrun; do
        gives 0 launch "$with" -N1 -n1 bash -c 'echo "conf <$SLURM_CONF>"; ls "$SLURM_CONF" >/dev/null && scontrol ping'
        has_not "conf </proc" "conf <>"
        has "is UP"
    done
}

@test "a failing rank, scancel and a killed launcher leave nothing" {
    for with in srun hvdrun; do
        run launch "$with" -w "hvdn[1-2]" -N2 -n2 bash -c 'if [[ $HOROVOD_RANK == 1 ]]; then exit 7; fi; sleep 60'
        [ "$status" -ne 0 ]
        has "hvdn2: task 1: Exited with exit code 7"
        begin launch "$with" -N2 -n2 bash -c 'echo ready; sleep 60'
        says_times 10 2 ready
        on_login scancel --user=alice
        ended 20
        [ "$status" -ne 0 ]
        begin launch "$with" -N2 -n2 bash -c 'echo ready; sleep 60'
        says_times 10 2 ready
        on_host hvdlogin pkill -KILL -o -x "$with"
        ended 10
        assert_no_leftovers 15
    done
}

# The controller looks at limits twice a minute.
@test "a job's time limit ends its ranks" {
    script job.sh <<'END'
#!/bin/bash
srun --hvd bash -c 'echo ready; sleep 300' &
hvdrun --overlap bash -c 'echo ready; sleep 300'
wait
END
    local job
    rm -f "$(home)/job.out"
    job=$(on_login sbatch --parsable --time=5 --output=job.out -N2 --ntasks-per-node=1 --overcommit job.sh)
    OUT=$(home)/job.out
    wait_for 20 test -e "$OUT"
    says_times 20 4 ready
    as_root hvdctl scontrol update jobid="$job" endtime=now+1
    wait_for 50 job_over "$job"
    [ "$(job_field "$job" JobState)" = TIMEOUT ]
    has_not warning
}
