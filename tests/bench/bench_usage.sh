#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_usage.sh - what it costs the agent of a host to look at RANKS (8) ranks every SAMPLE (5) seconds: processor time of
# hvd-agent over LOOK (120) seconds, as a share of one processor, with --sample=0 and with it. Each rank has THREADS (64) threads,
# two processes below it and a connection to each other rank (usage_rank.py). The difference must be less than 0.5 %. B: the
# build.
set -euo pipefail
cd "$(dirname "$0")/../.."
B=$(realpath "${B:-build}")
ranks=${RANKS:-8} seconds=${LOOK:-120}
dir=$(mktemp -d)
launcher=''
trap '[[ ! $launcher ]] || kill "$launcher" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT

# The nanoseconds that all threads of hvdrun's agent have run.
agent_ns() {
	local task sum=0 ns
	for task in /proc/"$agent"/task/*/schedstat; do
		read -r ns _ <"$task"
		sum=$((sum + ns))
	done
	echo "$sum"
}

# share SAMPLE: millionths of a processor.
share() {
	local before deadline=$((SECONDS + 120))
	rm -rf "$dir/ranks" && mkdir "$dir/ranks"
	"$B/bin/hvdrun" --launcher=fork --sample="$1" -np "$ranks" python3 tests/bench/usage_rank.py "$dir/ranks" "${THREADS:-64}" \
		2>"$dir/said" &
	launcher=$!
	while (($(find "$dir/ranks" -name '*.ready' | wc -l) < ranks)); do
		((SECONDS < deadline)) || { echo "the ranks did not start" >&2 && cat "$dir/said" >&2 && exit 1; }
		sleep 0.2
	done
	agent=$(pgrep -x hvd-agent -P "$launcher")
	sleep $(($1 + 1))
	before=$(agent_ns)
	sleep "$seconds"
	share=$((($(agent_ns) - before) / seconds / 1000))
	kill "$launcher"
	wait "$launcher" || true
	launcher=''
}

share 0
without=$share
share "${SAMPLE:-5}"
printf '%s ranks, %s processes on this host: without looks %d.%04d %%, with --sample=%s %d.%04d %% of a processor\n' "$ranks" \
	"$(find /proc -maxdepth 1 -name '[0-9]*' | wc -l)" $((without / 10000)) $((without % 10000)) "${SAMPLE:-5}" \
	$((share / 10000)) $((share % 10000))
((share - without < 5000)) || { echo "a look costs too much" >&2 && exit 1; }
