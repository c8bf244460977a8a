#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # what shells on the cluster evaluate
# Jobs in which no rank makes progress any longer, and jobs that only look so.

load launch

setup_file() { suite_up --nodes 3 --slurm-conf AuthInfo=cred_expire=5; }
teardown() {
    cluster_mend
    assert_no_leftovers
}

# watched srun|hvdrun SECONDS ACTION ARG…: as launch, with --hang-timeout.
watched() {
    case $1 in
    srun) launch srun --hvd-hang-timeout="$2" --hvd-hang-action="$3" "${@:4}" ;;
    hvdrun) launch hvdrun --hang-timeout="$2" --hang-action="$3" "${@:4}" ;;
    esac
}

NONE="no rank has made progress for"

times() {
    local found
    found=$(grep -cF -e "$2" <<<"$output" || true)
    [[ $found -eq $1 ]] || { echo "$found times '$2', not $1: $output" && return 1; }
}

# One rank sleeps, the others wait for it in an allreduce.
@test "ranks that wait for one that sleeps: reported once, and ended" {
    for with in srun hvdrun; do
        begin watched "$with" 3 kill -N2 -n4 hvd-selftest --quick --hang-rank 2
        says 30 "$NONE"
        ended 60
        ((status != 0))
        times 2 "$NONE" # the report, and why the job is ended
        has "4 ranks of this launch, by what the main thread does" $'\n  rank 2 on hvdn1: '
        has_not "does not answer"
    done
}

@test "ranks that only sleep are reported once, and the job goes on" {
    for with in srun hvdrun; do
        begin watched "$with" 2 report -N2 -n2 bash -c 'exec -a stuck sleep 60'
        says 20 "$NONE"
        sleep 3
        output=$(<"$OUT")
        times 1 "$NONE"
        running "$PID"
        as_root hvdn1 pkill -u alice -f "^stuck"
        ended 20
    done
}

@test "ranks that are stopped by SIGSTOP do not hang" {
    begin watched hvdrun 2 kill -N2 -n2 bash -c 'exec -a stuck sleep 60'
    wait_for 10 runs_on hvdn2 '^stuck'
    for host in hvdn1 hvdn2; do as_root "$host" pkill -STOP -u alice -f '^stuck'; done
    sleep 7
    not_said "$NONE"
    for host in hvdn1 hvdn2; do as_root "$host" pkill -CONT -u alice -f '^stuck'; done
    says 20 "$NONE"
    ended 20
}

# Each launch in a batch job, whose hvdrun and srun are stopped, too, and on the login host, where they are not.
@test "a job that Slurm suspends and resumes does not hang, however it was started" {
    local jobs job
    script work.sh <<'END'
#!/bin/bash
until [[ -e stop ]]; do sleep 0.2; echo works >&2; done
END
    script three.sh <<'END'
#!/bin/bash
srun --hvd --exact -N2 -n2 --hvd-hang-timeout=2 --hvd-hang-action=kill ./work.sh & one=$!
hvdrun --exact -N2 -n2 --hang-timeout=2 --hang-action=kill ./work.sh & two=$!
hvdrun -np 2 --min-np 2 --max-restarts=3 --hang-timeout=2 --hang-action=kill ./work.sh & three=$!
wait $one && wait $two && wait $three && echo "all went well"
END
    rm -f "$(home)"/{stop,job.out}
    on_login sbatch --quiet --output=job.out -N2 -n8 --ntasks-per-node=4 three.sh
    begin on_login salloc --quiet -N2 -n8 --ntasks-per-node=4 ./three.sh
    says_times 20 6 works
    wait_for 20 said_times_in_job
    jobs=$(on_login squeue --noheader --format=%A)
    for job in $jobs; do as_root hvdctl scontrol suspend "$job"; done
    sleep 20 # an agent may take 16 seconds to answer
    for job in $jobs; do as_root hvdctl scontrol resume "$job"; done
    sleep 6
    touch "$(home)/stop"
    ended 30 0
    wait_for 20 grep -q "all went well" "$(home)/job.out"
    for output in "$output" "$(<"$(home)/job.out")"; do
        has "all went well"
        has_not "$NONE" "is left out" "error" "generation 2"
    done
}
said_times_in_job() { [[ $(grep -c works "$(home)/job.out") -ge 6 ]]; }

@test "a frozen node is named, however busy its ranks were" {
    begin watched hvdrun 4 kill -N2 -n2 bash -c '((SLURM_NODEID == 0)) && sleep 60; for ((;;)); do :; done'
    sleep 6
    not_said "$NONE"
    fault node-freeze hvdn2
    says 30 "$NONE"
    says 5 "does not answer: hvdn2"
    says 20 "ending the job" # until then a rank that goes on would save the job
    fault node-thaw hvdn2
    ended 40
    ((status != 0))
}

# What is no hang: for three times the timeout each.
# left_alone CMD…: for srun and for hvdrun CMD… WITH, a launch, ends well, and is not said to hang.
left_alone() {
    local with pid pids=() status=0
    for with in srun hvdrun; do
        "$@" $with >"$BATS_TEST_TMPDIR/$with" 2>&1 3>&- &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
    output=$(cat "$BATS_TEST_TMPDIR"/{srun,hvdrun})
    exits 0
    has_not "$NONE"
}
works() { watched "$2" 2 kill -N2 -n2 bash -c "((SLURM_PROCID == 1)) || { $1; }"; }

@test "ranks that compute, read slowly, or print now and then are left alone" {
    local command
    for command in 'end=$((SECONDS + 6)); while ((SECONDS < end)); do :; done' \
        '{ for ((i = 0; i < 60; i++)); do head -c 10000 /dev/zero; sleep 0.1; done; } | cat >/dev/null' \
        'for ((i = 0; i < 6; i++)); do echo "a step is done"; sleep 1; done'; do
        left_alone works "$command"
    done
}

@test "a rank that waits for input is left alone" {
    left_alone slow_input
    [[ $(grep -c "it said: go on" <<<"$output") -eq 2 ]]
}

# The other rank waits until the first one has its input.
slow_input() {
    on_login rm -f "go.$1" && on_login mkfifo "go.$1"
    { sleep 7 && echo "go on"; } |
        watched "$1" 2 kill -N2 -n2 bash -c '((SLURM_PROCID == 0)) || { exec 9<"go.$0"; exec cat <&9; }
            read -r line; echo "it said: $line"; echo over >"go.$0"' "$1"
}

@test "a batch job whose ranks hang begins again" {
    for with in srun hvdrun; do
        script hang.sh <<'END'
#!/bin/bash
what='((${SLURM_RESTART_COUNT:-0} > 0)) && echo "the second time: rank $SLURM_PROCID" || exec sleep 300'
case $1 in
srun) srun --hvd --hvd-hang-timeout=3 --hvd-requeue-on=hang bash -c "$what" ;;
hvdrun) hvdrun --hang-timeout=3 --hang-action=requeue bash -c "$what" ;;
esac
END
        HVD_TEST_DEADLINE=90 submit -N2 --ntasks-per-node=1 --requeue hang.sh "$with"
        exits 0
        times 2 "$NONE" # the report, and why the job is ended
        times 2 "the second time"
    done
}
