#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_agents.sh - what hvdrun needs for many hosts, in a job with --max-restarts whose agents are simulated (sim_agents.c):
#   silence   ROUNDS (5) of HOSTS (1000) hosts are cut off, one after the other: seconds until each is given up, and until
#             the last rank of the next generation was started
#   quiet     its share of a core while nothing happens, for IDLE (30) seconds, and memory
#   busy      hosts that are lost while all processors are busy for as long, and all agents of one process after the other
#             are stopped for 5 seconds
#   restart   with SLOTS (8) ranks on each host, a rank fails ROUNDS times: milliseconds from the last old rank's end until
#             the last new rank was started, and from the failure; and the launcher's processor time
#
#   usage     as quiet, with SLOTS ranks on each host, of which each host reports every 5 seconds what they use, against the
#             same without reports; and how long hvdrun --status takes
#
# WHAT="silence quiet busy restart usage" selects. B: the build.
set -euo pipefail
cd "$(dirname "$0")/../.."
B=$(realpath "${B:-build}")
export B
make -s B="$B" all "$B/tests/bench/sim_agents"
hosts=${HOSTS:-1000}
slots=${SLOTS:-8}
rounds=${ROUNDS:-5}
SIM_DIR=$(mktemp -d)
# shellcheck source=tests/bench/sim_job.bash
source tests/bench/sim_job.bash
trap 'sim_end; rm -rf "$SIM_DIR"' EXIT
LAUNCHER='' SIMS=() SIM_FDS=() SIM_OPTIONS=()

cpu() { awk -v tick="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) / tick }' "/proc/$1/stat"; }
kib() { sed -n "s/VmRSS:[^0-9]*\([0-9]*\).*/\1/p" "/proc/$1/status"; }
median() { sort -n | awk '{ v[NR] = $1 } END { printf "median %s worst %s", v[int((NR + 1) / 2)], v[NR] }'; }

# begin SLOTS [OPTION OF hvdrun…]: all hosts are there, and the first generation runs.
begin() {
	sim_begin $((hosts * $1)) "${@:2}"
	sim_agents "$hosts" 0 "$1"
	sim_waits 120 agents.0 '^running'
}

silence() {
	local i before
	begin 1 --min-np $((hosts - rounds))
	for ((i = 0; i < rounds; i++)); do
		before=$(grep -c '^running' "$SIM_DIR/agents.0")
		# What its agent has sent is to be acknowledged before: its kernel takes nothing more, but it would repeat that.
		sleep 1
		sim_tell 0 "silence $((hosts * (i + 1) / (rounds + 1)))"
		sim_waits 60 agents.0 '^running' $((before + 1))
	done
	echo "$hosts hosts, $rounds are cut off: given up after (s) $(sed -n 's/.*is left out: .*has not answered for \([0-9.]*\) .*/\1/p' \
		"$SIM_DIR/out" | median); the next generation runs after (ms) $(sed -n 's/^running [1-9][0-9]* .* //p' "$SIM_DIR/agents.0" | median)"
	[[ $(grep -c 'is left out' "$SIM_DIR/out") -eq $rounds ]] || { grep 'is left out' "$SIM_DIR/out" && exit 1; }
	sim_end
}

quiet() {
	local before sims idle=${IDLE:-30}
	begin 1
	sleep 3
	before=$(cpu "$LAUNCHER") sims=$(cpu "${SIMS[0]}")
	sleep "$idle"
	echo "$hosts hosts, nothing happens: $(cpu "$LAUNCHER" | awk -v a="$before" -v s="$idle" '{ printf "%.2f", ($1 - a) * 100 / s }') % of a core" \
		"(all agents: $(cpu "${SIMS[0]}" | awk -v a="$sims" -v s="$idle" '{ printf "%.2f", ($1 - a) * 100 / s }') %), $(kib "$LAUNCHER") KiB"
	sim_end
}

share() { # of a core, since BEFORE, in SECONDS
	cpu "$LAUNCHER" | awk -v a="$1" -v s="$2" '{ printf "%.2f", ($1 - a) * 100 / s }'
}

usage() {
	local before idle=${IDLE:-30} began with what
	for with in "" 5; do
		SIM_OPTIONS=(${with:+-u "$with"})
		begin "$slots"
		sleep 6
		before=$(cpu "$LAUNCHER")
		sleep "$idle"
		if [[ $with ]]; then what="what they use is reported every $with s"; else what="nothing happens"; fi
		echo "$hosts hosts with $slots ranks, $what: $(share "$before" "$idle") % of a core," \
			"$(kib "$LAUNCHER") KiB"
		if [[ $with ]]; then
			before=$(cpu "$LAUNCHER") began=$(date +%s%N)
			"$B/bin/hvdrun" --status "pid:$LAUNCHER" --json >"$SIM_DIR/status"
			echo "hvdrun --status: $((($(date +%s%N) - began) / 1000000)) ms, $(cpu "$LAUNCHER" | awk -v a="$before" '{ printf "%.2f", $1 - a }') s" \
				"of the launcher, $(jq '[.launches[].ranks[] | select(.cpu)] | length' "$SIM_DIR/status") ranks are known, $(wc -c <"$SIM_DIR/status") bytes"
		fi
		sim_end
	done
	SIM_OPTIONS=()
}

busy() {
	local i hogs=() n end=$((SECONDS + ${IDLE:-30}))
	sim_begin "$hosts" --min-np 1
	for ((i = 0; i < 4; i++)); do sim_agents $((hosts / 4)) $((hosts * i / 4)) 1; done
	sim_waits 120 out 'generation 1: '
	for ((i = 0; i < 2 * $(nproc); i++)); do
		# shellcheck disable=SC2016 # for the other shell
		bash -c 'while :; do :; done' &
		hogs+=($!)
	done
	for ((n = 0; SECONDS < end; n++)); do
		kill -STOP "${SIMS[n % 4]}"
		sleep 5
		kill -CONT "${SIMS[n % 4]}"
	done
	kill "${hogs[@]}"
	echo "$hosts hosts, ${#hogs[@]} processes that only compute, $n times a fourth of the agents is stopped for 5 s: $(grep -c 'is left out' "$SIM_DIR/out") are given up"
	sim_end
}

restart() {
	local i before
	begin "$slots"
	before=$(cpu "$LAUNCHER")
	for ((i = 1; i <= rounds; i++)); do
		sim_tell 0 "fail $((hosts * slots * i / (rounds + 1)))"
		sim_waits 120 agents.0 "^running $i "
	done
	echo "$hosts hosts with $slots ranks, one fails: from the last old rank's end until the last new one was started (ms)" \
		"$(sed -n 's/^running [1-9][0-9]* [0-9]* \([0-9.]*\) .*/\1/p' "$SIM_DIR/agents.0" | median); from the failure" \
		"$(sed -n 's/^running [1-9][0-9]* .* //p' "$SIM_DIR/agents.0" | median);" \
		"the launcher's processor $(cpu "$LAUNCHER" | awk -v a="$before" -v n="$rounds" '{ printf "%.2f", ($1 - a) / n }') s each, $(kib "$LAUNCHER") KiB"
	sim_end
}

printf '#!/bin/sh\n' >"$SIM_DIR/rank"
chmod 755 "$SIM_DIR/rank"
for what in ${WHAT:-silence quiet busy restart usage}; do
	case $what in
	silence | quiet | busy | restart | usage) "$what" ;;
	*) echo "bench_agents: WHAT is silence, quiet, busy, restart, usage or several" >&2 && exit 2 ;;
	esac
done
