#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2030,SC2031 # what shells on the cluster evaluate; $JOB is of one test
# Jobs that begin again: before their time limit, after a failed host, when a rank asks for it.
#
# cred_expire is how long Slurm waits before it starts a requeued job.

load helpers
load launch

setup_file() {
    suite_up --nodes 5 --slurm-conf AuthInfo=cred_expire=5 --slurm-conf \
        'PartitionName=grace Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=CANCEL GraceTime=40'
}
teardown_file() { cluster_down; }
teardown() { cluster_mend; }

# counter: a program that counts to 40 and adds up, at most 10 numbers in each cycle; then it waits for SIGUSR1. Each
# rank has a checkpoint, a file whose name begins with the argument.
counter() {
    script counter.sh <<'END'
#!/bin/bash
left=0
trap 'left=1' USR1
file=$1.$HOROVOD_RANK n=0 sum=0
[[ ! -e $file ]] || read -r n sum <"$file"
for ((most = n + 10; n < 40 && n < most; )); do
    ((++n, sum += n))
    echo "$n $sum" >"$file"
done
if ((n == 40)); then
    echo "rank $HOROVOD_RANK has counted to 40 in cycle $SLURM_RESTART_COUNT: $sum"
    exit 0
fi
until ((left)); do sleep 0.1; done
exit 1
END
}

count() { grep -cF -e "$1" <<<"$output" || true; }

counts() {
    local found
    found=$(count "$2")
    [[ $found -eq $1 ]] || { echo "$found times '$2', not $1: $output" && return 1; }
}

# A limit of time is a minute at least: the ranks get the signal some seconds after their start. The last task of an
# array has the array's number, by which Slurm would requeue all of its tasks. The elastic job is of PyTorch's kind, in
# which a rank that fails would be started anew. All of them run at the same time.
@test "jobs that the time limit ends begin again until they are done, elastic ones as well" {
    local elastic
    counter
    script limit.sh <<'END'
#!/bin/bash
if ((SLURM_ARRAY_TASK_ID == 0)); then
    hvdrun --signal-ranks=USR1@56 --requeue-on=limit ./counter.sh checkpoint.0
else
    srun --hvd --hvd-signal-ranks=USR1@56 --hvd-requeue-on=limit ./counter.sh checkpoint.1
fi
END
    script elastic.sh <<'END'
#!/bin/bash
hvdrun --max-restarts=3 --signal-ranks=USR1@54 --requeue-on=limit \
    sh -c 'HOROVOD_RANK=$RANK exec ./counter.sh checkpoint.elastic'
END
    rm -f "$(home)"/{checkpoint.*,elastic.out}
    for rank in 0 1; do echo "21 231" >"$(home)/checkpoint.elastic.$rank"; done # 40 is reached in the 2nd cycle
    chmod 666 "$(home)"/checkpoint.*
    elastic=$(on_login sbatch --parsable --output=elastic.out --open-mode=append -N2 --ntasks-per-node=1 --time=1 \
        --requeue elastic.sh)
    HVD_TEST_DEADLINE=150 submit -N2 --ntasks-per-node=2 --time=1 --requeue --array=0-1 limit.sh
    wait_for 30 job_over "${JOB}_0"
    wait_for 30 job_over "${JOB}_1"
    output=$(<"$(home)/job.out")
    counts 8 "has counted to 40 in cycle 3: 820"
    counts 6 "sending SIGUSR1 to all ranks"
    for task in 0 1; do
        counts 3 "requeueing job ${JOB}_$task (restart "
    done
    counts 2 "this is restart 3 of job"
    wait_for 30 job_over "$elastic"
    [[ $(job_field "$elastic" ExitCode) == 0:* ]]
    output=$(<"$(home)/elastic.out")
    counts 1 "requeueing job $elastic (restart 1): its time limit"
    counts 2 "has counted to 40 in cycle 1: 820"
    has_not "starting all ranks anew"
    assert_no_leftovers
}

@test "two launches of a job requeue it once" {
    script ask.sh <<'END'
#!/bin/bash
if [[ ! ${SLURM_RESTART_COUNT-} ]]; then
    hvdrun -N1 -n2 --exact --requeue-on=ask sh -c 'exit 85' &
    HVD_REQUEUE_FILE=ask-file srun --hvd -N1 -n2 --exact --hvd-requeue-on=ask sh -c '>ask-file' &
    wait
    sleep 1
    echo "the script goes on"
fi
echo "this is cycle ${SLURM_RESTART_COUNT-}"
# What the launch has left that Slurm has ended first asks for nothing any longer.
HVD_REQUEUE_FILE=ask-file srun --hvd -N1 -n1 --hvd-requeue-on=ask true
END
    submit -N2 --ntasks-per-node=2 --requeue ask.sh
    exits 0
    counts 1 "this is cycle 1"
    [ "$(job_field "$JOB" Restarts)" -eq 1 ]
    has_not "the script goes on" "cannot" "refuses"
    [ ! -e "$(home)/ask-file" ]
}

# lose FAULT: submits a job of two hosts, the 2nd of which fails; sets $output. hvdn5 is excluded by the user.
lose() {
    rm -f "$(home)/job.out"
    JOB=$(on_login sbatch --parsable --output=job.out --open-mode=append -N2 --ntasks-per-node=1 --requeue \
        --exclude=hvdn5 node.sh "${@:2}")
    wait_for 10 runs_on hvdn2 'sleep 50'
    wait_for 10 runs_on hvdn1 'sleep 50'
    [[ $2 != srun ]] || sleep 4 # the agent beside the tasks connects some seconds after the start
    fault "$1" hvdn2
    wait_for 60 job_over "$JOB"
    output=$(<"$(home)/job.out")
    fault clear
    has "cycle 0 on hvdn[1-2]" "cycle 1 on"
    [[ $output != *"cycle 1 on"*[[,-]2* ]]
    [ "$(job_field "$JOB" Restarts)" -eq 1 ]
    cluster wait $((30 * HVD_TEST_PATIENCE))
}

# Slurm gives a host up sooner than a connection breaks that nobody has closed, and requeues the job by itself.
# The script does not end by SIGTERM: else Slurm may kill all of its processes before the host is excluded.
@test "a host that has failed does not come back" {
    script node.sh <<'END'
#!/bin/bash
trap : TERM
echo "cycle ${SLURM_RESTART_COUNT-0} on $SLURM_JOB_NODELIST"
[[ ! ${SLURM_RESTART_COUNT-} ]] || exit 0
"$@" sleep 50
END
    lose node-freeze hvdrun --requeue-on=node
    for with in "hvdrun --requeue-on=node" "srun --hvd --hvd-requeue-on=node"; do
        # shellcheck disable=SC2086 # several words
        lose node-kill $with
        has "job $JOB will no longer run on hvdn2"
        # On a busy machine Slurm may be the first to notice it.
        grep -qE "requeueing job $JOB \(restart 1\): a failed host, hvdn2|job $JOB was requeued already" <<<"$output"
        [ "$(job_field "$JOB" ExcNodeList)" = "hvdn5,hvdn2" ]
    done
}

# The third generation asks for the requeueing.
@test "a host that restarts have found bad does not come back" {
    script twice.sh <<'END'
#!/bin/bash
trap : TERM
echo "cycle ${SLURM_RESTART_COUNT-0} on $SLURM_JOB_NODELIST"
[[ ! ${SLURM_RESTART_COUNT-} ]] || exit 0
hvdrun --requeue-on=ask --max-restarts 5 --min-np 2 -np 3 bash -c '[ "$TORCHELASTIC_RESTART_COUNT" -lt 2 ] || exit 85
    [ "$(hostname)" != hvdn2 ] || exit 3; sleep 60'
END
    submit -N3 --ntasks-per-node=1 --no-kill --requeue twice.sh
    exits 0
    has "cycle 0 on hvdn[1-3]" "cycle 1 on"
    has "hvdn2: a rank failed there; the host is no longer used" "generation 3: 2 ranks on 2 hosts (hvdn2 removed)" \
        "job $JOB will no longer run on hvdn2: the first failure of two generations in a row was there"
    [[ $output != *"cycle 1 on"*[[,-]2* ]]
    [ "$(job_field "$JOB" ExcNodeList)" = hvdn2 ]
}

@test "an elastic job that too few hosts are left for begins again without the lost one" {
    script short.sh <<'END'
#!/bin/bash
#SBATCH --no-kill
trap : TERM
echo "cycle ${SLURM_RESTART_COUNT-0} on $SLURM_JOB_NODELIST"
[[ ! ${SLURM_RESTART_COUNT-} ]] || exit 0
hvdrun --requeue-on=node --max-restarts 5 --elastic-timeout 3 -np 3 sleep 50
END
    rm -f "$(home)/job.out"
    JOB=$(on_login sbatch --parsable --output=job.out --open-mode=append -N3 --ntasks-per-node=1 --requeue short.sh)
    wait_for 20 grep -q "generation 1" "$(home)/job.out"
    fault node-kill hvdn2
    wait_for 60 job_over "$JOB"
    output=$(<"$(home)/job.out")
    fault clear
    has "cycle 0 on hvdn[1-3]" "cycle 1 on" "requeueing job $JOB (restart 1): a failed host, hvdn2" \
        "job $JOB will no longer run on hvdn2: it "
    [[ $output != *"cycle 1 on"*[[,-]2* ]]
    [ "$(job_field "$JOB" ExcNodeList)" = hvdn2 ]
    cluster wait $((30 * HVD_TEST_PATIENCE))
}

# The script ends as soon as hvdrun does.
@test "hvdrun is killed: the job begins again, unless it was cancelled" {
    local with
    script killed.sh <<'END'
#!/bin/bash
echo "cycle ${SLURM_RESTART_COUNT-0}"
[[ ${SLURM_RESTART_COUNT-} ]] || hvdrun --requeue-on=node "$@" sleep 50
END
    for with in "" --max-restarts=3; do
        rm -f "$(home)/job.out"
        # shellcheck disable=SC2086 # no word at all
        JOB=$(on_login sbatch --parsable --output=job.out --open-mode=append -N2 --ntasks-per-node=1 --requeue \
            killed.sh $with)
        wait_for 10 runs_on hvdn2 'sleep 50'
        as_root hvdn1 pkill -KILL -x hvdrun
        wait_for 60 job_over "$JOB"
        output=$(<"$(home)/job.out")
        has "requeueing job $JOB (restart 1): hvdrun was killed" "cycle 1"
        [ "$(job_field "$JOB" Restarts)" -eq 1 ]
        assert_no_leftovers
    done
    rm -f "$(home)/job.out"
    JOB=$(on_login sbatch --parsable --output=job.out --open-mode=append -N2 --ntasks-per-node=1 --requeue killed.sh)
    wait_for 10 runs_on hvdn2 'sleep 50'
    as_root hvdn1 pkill -STOP -x hvdrun # so that Slurm kills it
    on_login scancel "$JOB"
    wait_for 60 job_over "$JOB"
    [ "$(job_field "$JOB" Restarts)" -eq 0 ]
    assert_no_leftovers
}

@test "a job that is preempted begins again" {
    script preempted.sh <<'END'
#!/bin/bash
echo "cycle ${SLURM_RESTART_COUNT-0}"
[[ ${SLURM_RESTART_COUNT-} ]] || hvdrun --requeue-on=preempt sleep 50
END
    rm -f "$(home)/job.out"
    JOB=$(on_login sbatch --parsable --output=job.out --open-mode=append -p preempt -N5 --requeue preempted.sh)
    wait_for 10 runs_on hvdn2 'sleep 50'
    as_user bob sbatch --quiet --exclusive -p debug -N5 --output=/dev/null --chdir=/tmp --wrap 'sleep 2'
    wait_for 60 job_over "$JOB"
    output=$(<"$(home)/job.out")
    has "requeueing job $JOB (restart 1): it is preempted" "cycle 1"
    [ "$(job_field "$JOB" Restarts)" -eq 1 ]
}

# saver: a rank whose number 0 takes 7 seconds to save at SIGTERM, longer than KillWait. The others end at once. The
# argument names the job.
saver() {
    script saver.py <<'END'
#!/usr/bin/env python3
import os, signal, sys, time
rank, name = int(os.environ["RANK"]), sys.argv[1]
def term(*_):
    if rank != 0:
        os._exit(143)
    time.sleep(7)
    open("saved." + name, "w").close()
    os._exit(0)
signal.signal(signal.SIGTERM, term)
signal.signal(signal.SIGUSR1, lambda *_: print("rank", rank, "of", name, "is told", flush=True))
open("ready.%s.%d" % (name, rank), "w").close()
while True:
    time.sleep(0.1)
END
    script save.sh <<'END'
#!/bin/bash
echo "cycle ${SLURM_RESTART_COUNT-0}"
[[ ${SLURM_RESTART_COUNT-} ]] || "$@"
END
}

# Slurm sends SIGTERM to all processes of steps at the beginning of the grace time. hvdrun ends the ranks when 15
# seconds, or half of the notice if that is less, are left: rank 0 must have saved by then, on a busy machine, too.
@test "a job that is preempted has its grace time: rank 0 saves after the others have ended, and it begins again" {
    local name ids=()
    saver
    rm -f "$(home)"/{saved,ready}.* "$(home)"/*.out
    for name in srun hvdrun elastic; do
        case $name in
        srun) set -- srun --hvd --hvd-requeue-on=preempt --hvd-signal-ranks=USR1@300 ;;
        hvdrun) set -- hvdrun --requeue-on=preempt --signal-ranks=USR1@300 ;;
        elastic) set -- hvdrun --max-restarts=3 --requeue-on=preempt --signal-ranks=USR1@300 ;;
        esac
        ids+=("$(on_login sbatch --parsable --output=$name.out --open-mode=append -p grace -N2 --ntasks-per-node=1 \
            --time=60 --requeue save.sh "$@" ./saver.py $name)")
    done
    for name in srun hvdrun elastic; do
        wait_for 20 test -e "$(home)/ready.$name.0"
        wait_for 20 test -e "$(home)/ready.$name.1"
    done
    as_user bob sbatch --quiet --exclusive -p debug -N5 --output=/dev/null --chdir=/tmp --wrap 'sleep 2'
    for JOB in "${ids[@]}"; do wait_for 60 job_over "$JOB"; done
    for name in srun hvdrun elastic; do
        JOB=${ids[0]} ids=("${ids[@]:1}")
        output=$(<"$(home)/$name.out")
        echo "== $name: $output"
        has "is preempted, and ends in " "rank 0 of $name is told" "requeueing job $JOB (restart 1): it is preempted" \
            "cycle 1"
        has_not "generation 2" "pkill" "Terminated" "restarting all ranks" "not requeueing it"
        [ -e "$(home)/saved.$name" ]
        [ "$(job_field "$JOB" Restarts)" -eq 1 ]
    done
}

# srun does not do it then.
@test "with --requeue-on=preempt a rank that fails ends the others, unless -K0 is given" {
    local with fails='((SLURM_PROCID == 0)) || exit 3; sleep "$0" && echo slept'
    for with in srun hvdrun; do
        case $with in
        srun) set -- srun --hvd-requeue-on=preempt ;;
        hvdrun) set -- hvdrun --requeue-on=preempt ;;
        esac
        begin launch "$@" -N2 -n2 bash -c "$fails" 50
        ended 20
        ((status != 0))
        has "rank 1 on hvdn2 failed" "exit code 3"
        has_not slept
        gives 3 launch "$@" -K0 -N2 -n2 bash -c "$fails" 4
        has slept
        submit -N2 -n2 --wrap "${with/srun/srun --hvd} ${*:2} bash -c '$fails' 50; echo status \$?"
        has "rank 1 on hvdn2 failed" "exit code 3"
        has_not slept "status 0"
    done
}

job_runs() { [[ $(job_field "$JOB" JobState) == RUNNING ]]; }

@test "what cannot be requeued is told" {
    script ask.sh <<'END'
#!/bin/bash
hvdrun --requeue-on=ask sh -c 'exit 85'
echo "status $?"
END
    submit -N1 --no-requeue ask.sh
    has "job $JOB may not be requeued" "submitted with --no-requeue" "status 85"
    run launch hvdrun -N1 -n1 --requeue-on=ask sh -c 'exit 85'
    exits 85
    has "this launch is not part of a batch job"
    run on_login salloc --quiet -N1 hvdrun --requeue-on=ask sh -c 'exit 85'
    exits 85
    has "has no batch script"
    # The job of another user. That Slurm refuses is not that the job was requeued before.
    JOB=$(as_user bob sbatch --parsable --requeue -N1 --output=/dev/null --chdir=/tmp --wrap 'sleep 50')
    wait_for 10 job_runs
    run on_login env SLURM_JOB_ID="$JOB" hvdrun --launcher=fork -np 1 --requeue-on=ask sh -c 'exit 85'
    as_user bob scancel "$JOB"
    exits 85
    has "job $JOB: Slurm refuses"
    has_not "was requeued already"
}
