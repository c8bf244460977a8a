#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_ray.sh - a Ray cluster on four nodes of a Slurm job: by the script of Ray's documentation, by `ray symmetric-run`, and
# by `hvdrun --ray`. Seconds until ray.nodes() has all four in the driver, and until the job has ended; medians of ROUNDS
# (1), in turn. The first two run on the first node of a job, as a batch script does.
set -euo pipefail

PEERS=--ray
# shellcheck source=SCRIPTDIR/peers.bash
. "$(dirname "$0")/peers.bash"
# shellcheck source=tests/cluster/helpers.bash
export HVD_PATH="$B/bin" HVD_CLUSTER_NAME=bench$$ HVD_TEST_DEADLINE=900 RAY_USAGE_STATS_ENABLED=0 RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=300
source "$TOP/tests/cluster/helpers.bash"
nodes=4 cpus=2 rounds=${ROUNDS:-1}
RESULTS=$(mktemp -d)
trap 'cluster down >/dev/null 2>&1 || true; rm -rf "$RESULTS" /tmp/ray-[0-9]*-hvdn[1-4]' EXIT
cluster up --nodes $nodes --plugin "$B/lib/hvd.so:libexecdir=$B/libexec/hvd" >/dev/null
chmod 777 "$RESULTS"

driver=("$VENV/bin/python" "$BENCH/ray_nodes.py" "$nodes")
declare -A way=(
	[documented]="srun -N1 -n1 --overlap -w hvdn1 $BENCH/ray_by_hand.sh $VENV/bin/ray $cpus ${driver[*]} $RESULTS/time"
	[symmetric]="srun --overlap -N$nodes -n$nodes $BENCH/ray_symmetric.sh $VENV/bin hvdn1:6379 $nodes $cpus ${driver[*]} $RESULTS/time"
	[hvdrun]="hvdrun --ray -N$nodes ${driver[*]} $RESULTS/time"
)

# once WAY: adds the times of a job to files.
once() {
	local began ended
	rm -f "$RESULTS/time"
	began=$(date +%s.%N)
	# shellcheck disable=SC2086 # it is several words
	on_login salloc -Q -N$nodes --exclusive timeout -s INT 200 ${way[$1]} >"$RESULTS/out" 2>&1 || true
	ended=$(date +%s.%N)
	[[ -s $RESULTS/time ]] || { echo "$1: no time" && cat "$RESULTS/out" && return 1; }
	awk -v a="$began" -v b="$(<"$RESULTS/time")" -v c="$ended" 'BEGIN { printf "%.2f %.2f\n", b - a, c - a }' >>"$RESULTS/$1"
}

# median WAY COLUMN
median() { awk -v c="$2" '{ print $c }' "$RESULTS/$1" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

for ((i = 0; i < rounds; i++)); do
	for which in documented symmetric hvdrun; do once $which; done
done
for which in documented symmetric hvdrun; do
	printf '%-11s all nodes after %6.2f s (%.2f), the job has ended after %6.2f s; all: %s\n' "$which" "$(median $which 1)" \
		"$(awk -v a="$(median $which 1)" -v b="$(median hvdrun 1)" 'BEGIN { print a / b }')" "$(median $which 2)" \
		"$(cut -d ' ' -f 1 "$RESULTS/$which" | paste -sd ' ')"
done
