#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_elastic.sh - elastic jobs of hvdrun next to horovodrun's, on four hosts of the test cluster.
#
# First, medians of ROUNDS (3), launchers in turn, in seconds (elastic_times.py says what they are exactly):
#   total    from the event to the first batch of a generation of the wanted size
#   pause    the longest time that the training stood still on the way
#   import   of that, what new processes took until hvd.init(): Python, PyTorch and Horovod
#   rest     total without import
# where
#   - a rank of 2 x 2 is killed (kill -9); the job goes on with what is left, or with a spare host
#   - a host is added, 4 -> 6 ranks; one is removed, 6 -> 4
# The event is the moment in which the discovery script's answer, or the rank, changes. Then what the launcher costs while
# the training goes on and nothing else happens, for IDLE (30) seconds: itself, what it started and has ended (runs of the
# discovery script), and what lives (ssh, srun), in percent of one core (idle_times.py). And for the nodes of a Slurm job
# how long it takes until a drained node is known.
# horovodrun starts ranks by ssh; hvdrun by ssh and in an allocation, and here binds no ranks, for the hosts share one
# machine's cores: those of all hosts would be bound to the same few, and be slower than horovodrun's, which never are.
# WHAT="events idle discovery" selects one or several of these, CASES="fewer spare added removed" some of the events.
# Needs Horovod (tests/peers/install.sh), root, Slurm and sshd.
set -euo pipefail

# shellcheck source=tests/bench/peers.bash
source "$(dirname "$0")/peers.bash"
rounds=${ROUNDS:-3}
bench_cluster
printf '#!/bin/sh\ncat ~/hosts\n' >"$(home)/discover"
chmod 755 "$(home)/discover"
LOG=$(home)/log
script=("$VENV/bin/python" "$TOP/tests/peers/elastic.py" log --quit quit)
by_script=(--min-np 2 -np 4 --host-discovery-script ./discover)

# hosts LINES: what the discovery script says from now on.
hosts() {
	printf '%b\n' "$1" >"$(home)/hosts"
	chmod 666 "$(home)/hosts"
}

# begin_training LAUNCHER ARG…: in the background, PID.
begin_training() {
	local launcher=$1 words
	shift
	case $launcher in
	horovodrun*) words=("$VENV/bin/horovodrun") ;;
	*ssh*) words=(hvdrun --launcher=ssh) ;;
	*slurm* | *jobs*) words=(salloc -Q -N2 --no-kill --ntasks-per-node=2 -J train hvdrun) ;;
	*) words=(salloc -Q -N4 --no-kill --ntasks-per-node=2 hvdrun) ;;
	esac
	case $launcher in
	*0.2*) words+=(--discovery-interval 0.2) ;;
	esac
	case $launcher in
	hvdrun*) words+=(--cpu-bind=none) ;;
	esac
	rm -f "$LOG"* "$(home)/quit"
	timeout 300 "$HVD_CLUSTER_CMD" exec -- "${words[@]}" "$@" >"$B/bench_elastic.out" 2>&1 &
	PID=$!
}

# column N: the medians of a file's Nth column, "-" where there is no number.
column() { awk -v n="$1" '$n ~ /^[0-9.]+$/ { print $n }' "$2" | sort -n | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : "-" }'; }

# shown WHAT FILE…: a line of medians for each launcher, and the first column next to that of the first one, horovodrun.
shown() {
	local what=$1 file first='' value values
	shift
	printf '== %s\n' "$what"
	for file in "$@"; do
		values=()
		for value in 1 2 3 4; do values+=("$(column "$value" "$file")"); done
		: "${first:=${values[0]}}"
		printf '%-26s %9s %9s %9s %9s %9s  %s\n' "$(basename "$file")" "${values[@]}" \
			"$(awk -v a="$first" -v b="${values[0]}" 'BEGIN { if (a + 0 && b + 0) printf "1:%.3g", a / b; else print "-" }')" \
			"n=$(grep -c . "$file")"
	done
}

# event WHAT SIZE HOSTS "LAUNCHER…|…" ARG…: of elastic.py.
event() {
	local what=$1 size=$2 first=$3 launcher launchers round files=()
	IFS='|' read -ra launchers <<<"$4"
	shift 4
	for launcher in "${launchers[@]}"; do
		files+=("$RESULTS/$launcher")
		: >"$RESULTS/$launcher"
	done
	for ((round = 0; round < rounds; round++)); do
		for launcher in "${launchers[@]}"; do
			hosts "$first"
			begin_training "$launcher" "${by_script[@]}" "${script[@]}" --epochs 1000 --pause 0.05 "$@"
			python3 "$BENCH/elastic_times.py" "$LOG" "$size" "$(home)/quit" >>"$RESULTS/$launcher"
			wait "$PID" || true
		done
	done
	shown "$what" "${files[@]}"
}

# shellcheck disable=SC2016 # for the rank's shell
events() {
	local all='horovodrun|hvdrun, ssh|hvdrun, srun' each
	printf '\n%-26s %9s %9s %9s %9s %9s\n' seconds total pause import rest 'of total'
	for each in ${CASES:-fewer spare added removed}; do
		case $each in
		fewer) event "a rank is killed, 4 -> 2" 2 'hvdn1:2\nhvdn2:2' "$all" --at '1:3:3:kill -9 $PID' ;;
		spare)
			event "a rank is killed, 4 -> 4 with a spare host" 4 'hvdn1:2\nhvdn2:2' "$all" \
				--at '1:3:3:echo hvdn3:2 >>~/hosts; kill -9 $PID'
			;;
		added)
			event "a host is added, 4 -> 6" 6 'hvdn1:2\nhvdn2:2' "$all" --at '1:0:any:echo hvdn3:2 >>~/hosts'
			;;
		removed)
			event "a host is removed, 6 -> 4" 4 'hvdn1:2\nhvdn2:2\nhvdn3:2' \
				"$all|hvdrun, ssh, every 0.2 s|hvdrun, srun, every 0.2 s" \
				--at '1:0:any:printf "hvdn1:2\nhvdn2:2\n" >~/hosts'
			;;
		*) echo "bench_elastic: CASES are fewer, spare, added, removed" >&2 && exit 2 ;;
		esac
	done
}

trains() { grep -q '^epoch 0 batch 1 size 4' "$LOG" 2>/dev/null; }

# idle LAUNCHER ARG…
idle() {
	local launcher=$1
	shift
	hosts 'hvdn1:2\nhvdn2:2'
	begin_training "$launcher" "$@" "${script[@]}" --epochs 1000 --pause 1
	: >"$RESULTS/$launcher"
	if wait_for 60 trains; then
		sleep 3
		idle_of "$launcher" >"$RESULTS/$launcher"
	fi
	touch "$(home)/quit"
	wait "$PID" || true
}

# idle_of LAUNCHER: where its processes can be seen.
idle_of() {
	local name='hvdrun'
	case $1 in horovodrun*) name="[^ ]*python[^ ]* $VENV/bin/horovodrun" ;; esac
	as_root hvdlogin bash -c "exec python3 '$BENCH/idle_times.py' \$(pgrep -o -u alice -f '^$name .*elastic.py log') ${IDLE:-30}"
}

idles() {
	local all=('horovodrun, script' 'hvdrun, ssh, script' 'hvdrun, ssh, hosts' 'hvdrun, srun, slurm' 'hvdrun, srun, jobs') files=()
	idle "${all[0]}" "${by_script[@]}"
	idle "${all[1]}" "${by_script[@]}"
	idle "${all[2]}" --min-np 2 -np 4 --hosts hvdn1:2,hvdn2:2
	idle "${all[3]}" --min-np 2 -np 4
	idle "${all[4]}" --min-np 2 -np 4 --discover jobs:train
	for name in "${all[@]}"; do files+=("$RESULTS/$name"); done
	printf '\n%-26s %9s %9s %9s %9s %9s\n' '% of a core' total itself ended living 'of total'
	shown "nothing happens for ${IDLE:-30} s" "${files[@]}"
}

told() { [[ $(grep -sc '^hosts' "$RESULTS/told") -ge $1 ]]; }

# discovery NAME ARG…: of discovery_watch; seconds from the controller's answer to scontrol until discovery_watch tells the
# change, a line for each change.
discovery() {
	local before state lines=1 round began
	timeout 300 "$HVD_CLUSTER_CMD" exec -- salloc -Q -N4 --no-kill "$B/tests/bench/discovery_watch" --discover slurm "${@:2}" \
		100 >"$RESULTS/told" 2>/dev/null &
	PID=$!
	wait_for 30 told 1
	: >"$RESULTS/$1"
	for ((round = 0; round < 2 * rounds; round++)); do
		for state in drain resume; do
			sleep "1.$((RANDOM % 10))"
			as_root hvdctl scontrol update node=hvdn2 state=$state reason=bench
			before=$EPOCHREALTIME
			lines=$((lines + 1))
			until told "$lines"; do sleep 0.01; done
			began=$EPOCHREALTIME
			awk -v a="$before" -v b="$began" 'BEGIN { printf "%.2f\n", b - a }' >>"$RESULTS/$1"
		done
	done
	kill "$PID"
	wait "$PID" || true
}

discoveries() {
	discovery 'every second'
	discovery 'every 0.2 s' --discovery-interval 0.2
	printf '\n%-26s %9s\n' seconds total
	shown 'a node of the job is drained, or used again' "$RESULTS/every second" "$RESULTS/every 0.2 s"
}

for what in ${WHAT:-events idle discovery}; do
	case $what in
	discovery) discoveries ;;
	events) events ;;
	idle) idles ;;
	*) echo "bench_elastic: WHAT is events, idle, discovery or several of them" >&2 && exit 2 ;;
	esac
done
echo
uptime
