#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# shellcheck disable=SC2016 # $HOROVOD_RANK and the like are for the shell that runs the command
# A cluster as sites run them: control groups (version 1) that track, bind and account, extern steps, interactive steps,
# a private /tmp for each job, prolog, epilog and task prolog, a topology, a port range, and users who see little.

load launch
load production

setup_file() {
    production_place || return 0
    cgroups v1
    if [[ $WHY_NOT ]]; then CGROUPS=(--slurm-conf JobAcctGatherType=jobacct_gather/linux); fi
    site_script task-prolog <<'END'
#!/bin/bash
echo "export SITE_SCRATCH=/scratch/$SLURM_JOB_ID"
if [[ ${NAME_FOR_HOST-} ]]; then echo "export HOROVOD_HOSTNAME=$NAME_FOR_HOST"; fi
END
    site_script prolog <<'END'
#!/bin/bash
echo "$SLURM_JOB_ID" >>/run/prolog
END
    # What a job has left is there at its end, if anything is.
    site_script epilog <<'END'
#!/bin/bash
echo "$SLURM_JOB_ID $(pgrep -u "$SLURM_JOB_UID" | wc -l)" >>/run/epilog
END
    suite_up --nodes 3 --cpus "$(real_cpus)" "${CGROUPS[@]}" --srun-port-range 20000-20999 \
        --slurm-conf JobAcctGatherType=jobacct_gather/cgroup --slurm-conf JobAcctGatherFrequency=5 \
        --slurm-conf PrologFlags=Alloc,Contain,X11 \
        --slurm-conf LaunchParameters=use_interactive_step,enable_nss_slurm \
        --slurm-conf JobContainerType=job_container/tmpfs \
        --conf-file "job_container.conf=AutoBasePath=true
BasePath=/run/job_container" \
        --slurm-conf PrivateData=jobs,nodes,usage,users \
        --slurm-conf TopologyPlugin=topology/tree \
        --conf-file "topology.conf=SwitchName=leaf1 Nodes=hvdn[1-2]
SwitchName=leaf2 Nodes=hvdn3
SwitchName=spine Switches=leaf[1-2]" \
        --slurm-conf TmpFS=/run --slurm-conf MpiDefault="$(mpi_default)" \
        --slurm-conf Prolog="$SITE/prolog" --slurm-conf Epilog="$SITE/epilog" --slurm-conf TaskProlog="$SITE/task-prolog"
}
teardown_file() {
    cluster_down
    rm -rf "$SITE"
}
setup() { [[ ! ${NO_PLACE-} ]] || skip "$NO_PLACE"; }
teardown() {
    [[ ! ${NO_PLACE-} ]] || return 0
    cluster_mend
    assert_no_leftovers
}

needs_cgroups() { [[ ! $WHY_NOT ]] || skip "$WHY_NOT"; }

# alone N: $output is of so many ranks, each with a memory group, a CPU and a /tmp of its job's own.
WHERE='echo "rank $HOROVOD_RANK $(hostname) $(sed -n "s/.*:memory://p" /proc/self/cgroup) cpus $(taskset -pc $$ | sed "s/.* //") $(findmnt -no FSROOT /tmp | tail -n 1)"'
alone() {
    echo "$output"
    [ "$(grep -cE "^rank [0-9]+ hvdn[12] /slurm[^ ]*/job_[0-9]+/step_[0-9]+[^ ]* cpus [0-9]+ /job_container/" <<<"$output")" -eq "$1" ]
    # Different CPUs on a host, one each.
    [ "$(grep ^rank <<<"$output" | awk '{ print $3, $6 }' | sort -u | wc -l)" -eq "$1" ]
}

@test "ranks are in their job's control groups, bound, and have its private /tmp" {
    needs_cgroups
    for with in srun hvdrun; do
        gives 0 launch "$with" -N2 --ntasks-per-node=2 bash -c "$WHERE"
        alone 4
    done
}

@test "ranks meet, over srun, hvdrun and in a batch job" {
    for with in srun hvdrun; do
        selftest 6 3 launch "$with" -N3 --ntasks-per-node=2 hvd-selftest --quick
        has_not warning
    done
    batch_job_meets
}

# With proctrack/cgroup Slurm kills what is left, and then sleeps for a second before it looks again: launches that end
# sooner after their last rank, all but one, did not need that.
@test "the node agent is in the step's control group, and ends before Slurm has to end it" {
    local with end ended late
    for with in srun hvdrun; do
        late=''
        for _ in 1 2 3 4 5; do
            run launch "$with" -w "hvdn[1-2]" -N2 -n4 --ntasks-per-node=2 bash -c '
                ((HOROVOD_LOCAL_RANK == 0)) && exit
                # The first host stays until the other one has been looked at.
                sleep $((HOROVOD_RANK == 1 ? 2 : 1))
                for pid in $(pgrep -u "$USER" "^hvd-[aw]"); do
                    echo "$(hostname): $(</proc/$pid/comm): $(sed -n "s/.*:memory:.*\(step_[^/]*\).*/\1/p" /proc/$pid/cgroup)"
                done
                echo "ended $(date +%s%3N)"'
            end=$(date +%s%3N)
            exits 0
            has_not warning error
            if [[ ! $WHY_NOT ]]; then has "hvdn1: hvd-agent: step_0" "hvdn2: hvd-agent: step_0" "hvdn2: hvd-watchdog: step_0"; fi
            [[ $(grep -c hvd-agent <<<"$output") == 2 ]]
            ended=$(sed -n 's/^.*ended //p' <<<"$output" | sort -n | tail -n 1)
            if ((end - ended >= 900)); then late+=" $((end - ended))"; fi
        done
        [[ $(wc -w <<<"$late") -le 1 ]] || { echo "$with ended$late ms after its last rank" && false; }
    done
}

@test "a task prolog's variables reach the ranks, but do not replace the launch's" {
    export NAME_FOR_HOST=of-the-site
    for with in srun hvdrun; do
        gives 0 launch "$with" -N2 -n2 bash -c 'echo "rank $HOROVOD_RANK <$HOROVOD_HOSTNAME> <$SITE_SCRATCH>"'
        [ "$(grep -cE '^rank [01] <hvdn[12]> </scratch/[0-9]+>$' <<<"$output")" -eq 2 ]
    done
}

@test "a failing rank ends the others, and gives its status" {
    for with in srun hvdrun; do
        SECONDS=0
        run launch "$with" -w "hvdn[1-2]" -N2 --ntasks-per-node=2 bash -c 'if [[ $HOROVOD_RANK == 3 ]]; then sleep 0.5; exit 7; fi; sleep 60'
        # What srun says is how the ranks ended that it has ended itself.
        if [[ $with == srun ]]; then exits 143; else exits 7; fi
        has "hvdn2: task 3: Exited with exit code 7"
        has_not "node agent" hvd-agent
        ((SECONDS < 20))
    done
}

@test "scancel ends a launch, ranks that ignore SIGTERM too" {
    for with in srun hvdrun; do
        # Their patience, KillWait, is five seconds.
        begin launch "$with" -N2 --ntasks-per-node=2 bash -c '
            if [[ $1 == srun ]]; then trap "" TERM; fi
            echo ready
            while :; do sleep 1; done' - "$with"
        says_times 10 4 ready
        on_login scancel --user=alice
        ended 20
        [ "$status" -ne 0 ]
        assert_no_leftovers 10
    done
}

@test "a launcher killed in mid-run leaves nothing" {
    for with in srun hvdrun; do
        begin launch "$with" -N2 --ntasks-per-node=2 bash -c 'echo ready; sleep 60'
        says_times 10 4 ready
        on_host hvdlogin pkill -KILL -o -x "$with"
        ended 10
        assert_no_leftovers 15
    done
}

@test "srun --hvd and hvdrun work from the shell of an interactive step" {
    script inside <<'END'
echo "shell on $(hostname)"
srun --hvd hvd-selftest --quick
hvdrun hvd-selftest --quick
hvdrun --min-np 2 bash -c 'echo "elastic $HOROVOD_RANK"'
echo "all d""one"
END
    gives 0 on_login "$BATS_TEST_DIRNAME/on_tty" --wait '$ ' --type $'. ./inside\r' --wait 'all done' --type $'exit\r' -- \
        salloc -Q -w "hvdn[1-2]" -N2 --ntasks-per-node=2 --no-kill
    has "shell on hvdn1"
    [ "$(grep -c "4 ranks on 2 hosts: OK" <<<"$output")" -eq 2 ]
    [ "$(grep -cE "^elastic [0-3]" <<<"$output")" -eq 4 ]
}

@test "an elastic job leaves a node that is out of its Slurm job, where users see no states of nodes" {
    run on_login sinfo
    has denied
    begin on_login salloc -Q -N3 --ntasks-per-node=1 --no-kill hvdrun --min-np 2 \
        bash -c 'echo "ready $HOROVOD_SIZE"; until [[ -e ~/go ]]; do sleep 0.1; done'
    says_times 20 3 "ready 3"
    on_login bash -c 'scontrol update jobid="$(squeue --me -ho %i)" nodelist="hvdn[1-2]"'
    says 20 "hvdn3 is left out"
    touch "$(home)/go"
    ended 20
    has_not denied
}

@test "the epilog of each job finds none of its processes, and each job had its prolog" {
    for host in hvdn1 hvdn2; do
        run as_root "$host" sort -u /run/prolog
        [[ $output ]]
        run as_root "$host" awk '$2 != 0' /run/epilog
        [ -z "$output" ]
        diff <(as_root "$host" sort -u /run/prolog) <(as_root "$host" sh -c 'cut -d " " -f 1 /run/epilog | sort -u')
    done
}
