#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# soak_faults.sh [N [SEED]] - N launches (60) on a cluster of its own, each with
# one process that is killed, or stopped for a while, at a random moment.
#
# Eight ranks on four nodes, which meet, check collectives and go on for three
# seconds; hvdrun and srun --hvd in turns.  The victim is a rank, an hvd-task, a step
# daemon, srun, the driver, the rendezvous process, munged or slurmd, on a random
# host.  Each launch must end within a time, with status 0 or a message that
# names a host and a cause; nothing may be left, no node drained; and the next
# launch must work.  What only Slurm can end is ended after the time, and
# counted: srun waits for ever for ranks of a killed step daemon, or of a host
# whose munged has gone.
#
# The same SEED makes the same choices; it is printed.  Environment: B, the build
# folder (build).  SOAK_LOG: what each launch has printed.  Exit status: 0, or 1
# when one launch was not as it must be.
set -u

n=${1:-60} seed=${2:-$((SRANDOM % 100000))}
if [[ ! $n$seed =~ ^[0-9]{1,12}$ || $n == 0 ]]; then
    echo "usage: soak_faults.sh [N [SEED]]" >&2
    exit 2
fi
# shellcheck source=tests/cluster/soak.bash
source "$(dirname "${BASH_SOURCE[0]}")/soak.bash"
RANDOM=$seed
echo "seed $seed"

# Seconds from the fault until the launch must have ended; a stopped process is woken before.
BOUND=40
STOPPED_MOST=12

soak_up --nodes 4 --slurm-conf SlurmdTimeout=8

JOB=(-N4 -n8 --ntasks-per-node=2 --hvd-start-timeout=15 "$B/bin/hvd-selftest" --quick --sleep 3)
# Behind a shell: what enters a host stops with the program that it has started, and nobody would wake it.
launch() {
    local by=(hvdrun)
    if [[ $1 == srun ]]; then by=(srun --hvd); fi
    on hvdlogin alice bash -c '"$@"; exit "$?"' launch "${by[@]}" "${JOB[@]}"
}

# What pgrep finds a victim by, on which host; several processes: one of them.
choose() {
    local victims=(rank task stepd srun driver serve munged slurmd)
    victim=${victims[RANDOM % ${#victims[@]}]} host=hvdn$((RANDOM % 4 + 1))
    case $victim in
    rank) find=(-f '^[^ ]*hvd-selftest') ;;
    task) find=(-f '[h]vd-task (--plan|.*--|.*hvd-selftest)') ;;
    stepd) find=(-x slurmstepd) ;;
    srun) find=(-o -x srun) host=hvdlogin ;;
    driver) find=(-x "$([[ $1 == srun ]] && echo hvd-driver || echo hvdrun)") host=hvdlogin ;;
    serve) find=(-f '[h]vd-task --serve') host=hvdn1 ;;
    *) find=(-x "$victim") ;;
    esac
    how=$([[ $((RANDOM % 3)) == 0 ]] && echo STOP || echo KILL)
    # In some launches during the start, which takes a few tenths of a second.
    delay=$(printf '%d.%d' $((RANDOM % 3)) $((RANDOM % 10)))
    pick=$RANDOM
}

# Prints the pid of the victim, if there is one.
strike() {
    # shellcheck disable=SC2016
    on "$host" root bash -c 'how=$1 pick=$2; shift 2; pids=($(pgrep "$@")); ((${#pids[@]})) || exit 1
        pid=${pids[pick % ${#pids[@]}]}; kill -"$how" "$pid"; echo "$pid"' strike "$how" "$pick" "${find[@]}"
}

gone_within() {
    local i
    for ((i = 0; i < $1 * 10; i++)); do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 0.1
    done
    return 1
}

# Does what was printed tell of a failure well enough? Nobody is left to tell that srun or hvdrun was killed.
explained() {
    if [[ $how$victim == KILL@(driver|srun) ]]; then
        [[ $1$victim != hvdrunsrun ]] || grep -q "srun ended: killed by signal 9" "$out"
        return
    fi
    grep -qE 'hvdn[1-4]|hvdlogin' "$out" &&
        grep -qiE 'killed|ended|lost|Terminated|exit code|timed out|cannot|refused|no word|Node failure|failed' "$out"
}

mend() {
    if [[ $how == STOP && $struck ]]; then on "$host" root kill -CONT "$struck" 2>/dev/null; fi
    case $how$victim in
    KILLmunged) timeout 60 "$cluster" fault munged-start "$host" ;;
    KILLslurmd) timeout 60 "$cluster" restart-node "$host" >/dev/null ;;
    esac
}

bad=0 by_slurm=0 well=0 failed=0 untouched=0
complain() {
    echo "launch $i ($with, $how $victim on $host after $delay s): $1"
    sed 's/^/    /' "$out"
    wrong=1
}

one() {
    local status=0 woken=0 struck=''
    out=$work/out wrong=0
    choose "$with"
    launch "$with" >"$out" 2>&1 &
    pid=$!
    sleep "$delay"
    struck=$(strike)
    if [[ $struck && $how == STOP ]]; then
        woken=$((RANDOM % (STOPPED_MOST - 1) + 1))
        gone_within "$woken" || true
        on "$host" root kill -CONT "$struck" 2>/dev/null
    fi
    began=$SECONDS
    if ! gone_within $BOUND; then
        if [[ $with == srun && $victim == @(stepd|munged|slurmd) ]]; then
            by_slurm=$((by_slurm + 1))
            echo "Slurm waits for ever" >>"$out"
            on hvdlogin root pkill -TERM -o -x srun
            gone_within 30 || complain "SIGTERM did not end it"
        else
            complain "it has not ended $BOUND s after"
            on hvdlogin root ps -u alice -o pid,stat,args | sed 's/^/    /'
        fi
        on hvdlogin root pkill -KILL -u alice
    fi
    wait "$pid" || status=$?
    took=$((SECONDS - began))
    if [[ ! $struck ]]; then
        untouched=$((untouched + 1))
    elif ((status == 0)); then
        grep -q "8 ranks on 4 hosts: OK" "$out" || complain "status 0 without a result"
        well=$((well + 1))
    else
        failed=$((failed + 1))
        explained "$with" || complain "status $status, and no host and cause are named"
    fi
    mend
    if ! timeout 60 "$cluster" leftovers --wait 25 >"$work/left"; then
        complain "this is left:"
        sed 's/^/    /' "$work/left"
        on hvdctl root scancel --user=alice
        timeout 60 "$cluster" fault clear || true
        timeout 60 "$cluster" wait 40 || true
    fi
    if ! on hvdlogin alice hvdrun -N4 -n8 --ntasks-per-node=2 --selftest -- --quick >"$work/next" 2>&1; then
        complain "the next launch failed:"
        sed 's/^/    /' "$work/next"
    fi
    printf '%3d %-6s %-4s %-6s on %-8s after %s s: %s, status %d, %d s later\n' "$i" "$with" "$how" "$victim" "$host" \
        "$delay" "$([[ $struck ]] && echo hit || echo "no such process")" "$status" "$took"
    if [[ ${SOAK_LOG-} ]]; then
        { echo "== $i $with $how $victim $host $delay: status $status, $took s"; cat "$out"; } >>"$SOAK_LOG"
    fi
    bad=$((bad + wrong))
}

for ((i = 0; i < n; i++)); do
    if ((i % 2)); then with=srun; else with=hvdrun; fi
    one
done
echo "$n launches: $well went well, $failed failed, $untouched had no such process, Slurm had to be ended in $by_slurm;"
echo "$bad were not as they must be"
((bad == 0))
