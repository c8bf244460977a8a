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

@test "SIGSTOP for all ranks is no progress, SIGCONT is" {
    begin watched hvdrun 2 report -N2 -n2 bash -c 'for ((;;)); do :; done'
    sleep 5
    not_said "$NONE"
    as_root hvdn1 pkill -STOP -u alice -f '^bash -c for'
    sleep 4
    not_said "$NONE"
    as_root hvdn2 pkill -STOP -u alice -f '^bash -c for'
    says 20 "$NONE"
    as_root hvdn1 pkill -CONT -u alice -f '^bash -c for'
    sleep 2
    as_root hvdn1 pkill -STOP -u alice -f '^bash -c for'
    says_times 20 2 "$NONE"
    as_root hvdn1 pkill -KILL -u alice -f '^bash -c for'
    ended 30
}

@test "a frozen node is named, however busy its ranks were" {
    begin watched hvdrun 4 kill -N2 -n2 bash -c '((SLURM_NODEID == 0)) && sleep 60; for ((;;)); do :; done'
    sleep 6
    not_said "$NONE"
    fault node-freeze hvdn2
    says 30 "$NONE"
    says 5 "does not answer: hvdn2"
    fault node-thaw hvdn2
    ended 40
    ((status != 0))
}

# What is no hang: for three times the timeout each.
@test "ranks that compute, read slowly, or print now and then are left alone" {
    local with command
    for with in srun hvdrun; do
        for command in 'end=$((SECONDS + 6)); while ((SECONDS < end)); do :; done' \
            '{ for ((i = 0; i < 60; i++)); do head -c 10000 /dev/zero; sleep 0.1; done; } | cat >/dev/null' \
            'for ((i = 0; i < 6; i++)); do echo "a step is done"; sleep 1; done'; do
            gives 0 watched "$with" 2 kill -N2 -n2 bash -c "((SLURM_PROCID == 1)) || { $command; }"
            has_not "$NONE"
        done
    done
}

@test "a rank that waits for input is left alone" {
    for with in srun hvdrun; do
        begin slow_input "$with"
        ended 30 0
        has "it said: go on"
        has_not "$NONE"
    done
}

# The other rank waits until the first one has its input.
slow_input() {
    on_login rm -f go && on_login mkfifo go
    { sleep 7 && echo "go on"; } |
        watched "$1" 2 kill -N2 -n2 \
            bash -c '((SLURM_PROCID == 0)) || { exec 9<go; exec cat <&9; }; read -r line; echo "it said: $line"; echo over >go'
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
