#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_launch.sh - what --hvd and hvdrun add to srun, on the test cluster.
#
# Brings up a cluster of its own, compares in one run (medians of ROUNDS, 11):
#   - on the batch host of an allocation
#   - on the login host, where each command gets its own allocation
#   - jobs of one and of three roles
#   - 128 ranks on 16 nodes
# and the time until the first allreduce of real Gloo ranks.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
B=$(cd "$top" && realpath "${B:-build}")
rounds=${ROUNDS:-11}
name=bench$$
cluster="$top/scripts/cluster/hvd-cluster"
export HVD_PATH="$B/bin"

finish() {
	for each in "$name" "$name-large"; do "$cluster" down --name "$each" >/dev/null 2>&1 || true; done
}
trap finish EXIT
"$cluster" up --name "$name" --plugin "$B/lib/hvd.so:libexecdir=$B/libexec/hvd" >/dev/null

tasks="-N4 -n8 --ntasks-per-node=2 --overcommit"
step="$tasks --overlap"
inside() { "$cluster" exec --name "$name" -- salloc -Q -N4 -n8 --ntasks-per-node=2 \
	srun -N1 -n1 --overlap "$@"; }

echo "== in an allocation, on the batch host: $step true"
inside python3 "$here/launch_times.py" "$rounds" \
	"srun=srun $step true" "srun --hvd=srun --hvd $step true" "hvdrun=hvdrun $step true"
echo
echo "== on the login host, an allocation for each: $tasks true"
"$cluster" exec --name "$name" -- python3 "$here/launch_times.py" "$rounds" \
	"srun=srun -Q $tasks true" "srun --hvd=srun -Q --hvd $tasks true" "hvdrun=hvdrun -Q $tasks true"
echo
each="--ntasks-per-node=2 true"
echo "== roles, in an allocation of 4 nodes with 2 ranks each"
"$cluster" exec --name "$name" -- salloc -Q -N4 -n8 --ntasks-per-node=2 python3 "$here/launch_times.py" "$rounds" \
	"hvdrun=hvdrun -N4 $each" \
	"hvdrun, agents start the ranks=hvdrun --max-restarts=0 -n8 true" \
	"one role=hvdrun --role=a -N4 $each" \
	"three roles=hvdrun --role=a -N2 $each : --role=b -N1 $each : --role=c -N1 $each"
echo
large=(-N16 -n128 --ntasks-per-node=8 --overcommit)
echo "== 128 ranks on 16 nodes, in an allocation: ${large[*]} true"
"$cluster" up --name "$name-large" --nodes 16 --plugin "$B/lib/hvd.so:libexecdir=$B/libexec/hvd" >/dev/null
"$cluster" exec --name "$name-large" -- salloc -Q "${large[@]}" srun -N1 -n1 --overlap python3 "$here/launch_times.py" "$rounds" \
	"srun=srun ${large[*]} --overlap true" "srun --hvd=srun --hvd ${large[*]} --overlap true" \
	"hvdrun=hvdrun ${large[*]} --overlap true"
"$cluster" down --name "$name-large" >/dev/null
echo
echo "== srun with the plugin configured but not asked for, against srun without it"
"$cluster" up --name "$name-bare" >/dev/null
trap 'finish; "$cluster" down --name "$name-bare" >/dev/null 2>&1 || true' EXIT
for round in 1 2 3; do
	printf 'without, round %d: ' "$round"
	"$cluster" exec --name "$name-bare" -- python3 "$here/launch_times.py" "$rounds" "srun=srun -Q $tasks true" | tail -1
	printf 'with,    round %d: ' "$round"
	"$cluster" exec --name "$name" -- python3 "$here/launch_times.py" "$rounds" "srun=srun -Q $tasks true" | tail -1
done
if [ -x "$B/bin/hvd-selftest" ]; then
	echo
	echo "== milliseconds from a Gloo rank's main() to its first allreduce (8 ranks), and from before the launch"
	for launch in "srun --hvd" hvdrun; do
		for _ in 1 2 3 4 5; do
			inside bash -c "$launch $step hvd-selftest --quick --json --since \$(date +%s.%N)" |
				jq -r '.time_ms | "\(.main_to_first_allreduce) \(.launch_to_first_allreduce)"'
		done | sort -n | awk -v l="$launch" '{ a[NR] = $0 } END { printf "%-12s median of %d: %s\n", l, NR, a[int((NR + 1) / 2)] }'
	done
fi
