#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# soak_busy.sh [SECONDS] - one job with --max-restarts for SECONDS (3600), on a cluster of its own, which nothing may
# end or restart: all processors are busy, and now and then an agent, or hvdrun, is stopped for five seconds.
#
# Environment: B, the build folder (build). HOGS: so many processes that only compute (two for each processor). To leave
# the machine to others, run it in a control group with few shares. Exit status: 0, or 1 when a host was lost, a rank
# has ended early, or anything is left.
set -u

seconds=${1:-3600} hogs=${HOGS:-$((2 * $(nproc)))}
if [[ ! $seconds =~ ^[1-9][0-9]{0,6}$ || ! $hogs =~ ^[0-9]{1,4}$ ]]; then
    echo "usage: soak_busy.sh [SECONDS]" >&2
    exit 2
fi
# shellcheck source=tests/cluster/soak.bash
source "$(dirname "${BASH_SOURCE[0]}")/soak.bash"
STOPPED=5 # seconds
hogging=()

stop_hogs() { ((${#hogging[@]} == 0)) || kill "${hogging[@]}"; }
trap 'stop_hogs; finish' EXIT

soak_up --nodes 4
home=$("$cluster" path)/home/alice
mkdir -p "$home/lib"
cp "$here/restart_worker.py" "$home/"
cp "$here/lib/tcpstore_client.py" "$home/lib/"
on hvdlogin alice mkdir work

timeout $((seconds + 600)) "$cluster" exec -- salloc -Q -N4 --ntasks-per-node=2 --no-kill \
    hvdrun --max-restarts 1000 --verbose --json ./restart_worker.py work >"$work/out" 2>&1 &
job=$!

count() { cat "$home/work/checkpoint" 2>/dev/null || echo 0; }
losses() { grep -cE 'is left out|restarting all ranks|failed:' "$work/out"; }
running() { kill -0 "$job" 2>/dev/null; }

for ((i = 0; i < 600; i++)); do
    if (($(count) > 0)) || ! running; then break; fi
    sleep 0.1
done
for ((i = 0; i < hogs; i++)); do
    # shellcheck disable=SC2016 # for the other shell
    bash -c 'while :; do :; done' &
    hogging+=($!)
done

agents=0 launchers=0 first=$(count) end=$((SECONDS + seconds))
while ((SECONDS < end)) && running && (($(losses) == 0)); do
    case $((RANDOM % 5)) in
    0) victim='^[^ ]*hvdrun --max-restarts' host=hvdlogin launchers=$((launchers + 1)) ;;
    *) victim='[h]vd-agent host ' host=hvdn$((RANDOM % 4 + 1)) agents=$((agents + 1)) ;;
    esac
    on "$host" root pkill -STOP -u alice -f "$victim" || echo "no process on $host fits $victim"
    sleep "$STOPPED"
    on "$host" root pkill -CONT -u alice -f "$victim"
    sleep $((RANDOM % 10 + 1))
done
counted=$(($(count) - first)) lost=$(losses)
stop_hogs
hogging=()
on hvdlogin alice touch work/stop
status=0
wait "$job" || status=$?
generations=$(sed -n 's/.*"generations": *\([0-9]*\).*/\1/p' "$work/out")

echo "$seconds s, $hogs processes that only compute; agents were stopped for $STOPPED s $agents times, hvdrun $launchers times"
echo "rank 0 counted to $counted; $(grep -c 'is silent: asking' "$work/out") times a host was silent; generations: $generations; lost: $lost; status $status"
if ((lost || status || generations != 1 || counted == 0)); then
    grep -v '^size' "$work/out" | tail -n 40
    exit 1
fi
"$cluster" leftovers --wait 20 || exit 1
