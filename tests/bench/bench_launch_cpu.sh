#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_launch_cpu.sh - whose processor time a launch is, on the test cluster, where all hosts share one machine.
#
# Brings up a cluster in a control group of its own, so that other work on the machine changes little:
#   - processor time of the whole cluster for a launch by srun, srun --hvd and hvdrun (medians of ROUNDS, 5), in turn
#   - the same by process, where perf is installed: samples in a launch (means of PROFILES, 3)
# NODES (16) and RANKS of each node (8). Needs root and control groups of version 2.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
B=$(cd "$top" && realpath "${B:-build}")
nodes=${NODES:-16} each=${RANKS:-8} name=bench$$ hertz=4000
export HVD_PATH="$B/bin" HVD_CLUSTER_NAME=$name
cluster="$top/scripts/cluster/hvd-cluster"
step=(-N"$nodes" -n"$((nodes * each))" --ntasks-per-node="$each" --overcommit)
groups=$(findmnt -n -t cgroup2 -o TARGET | head -n 1)
[ -n "$groups" ] || { echo "bench_launch_cpu: no control groups of version 2 here" >&2 && exit 1; }
group=$groups/$name
profile=$(mktemp)

finish() {
	"$cluster" down >/dev/null 2>&1 || true
	echo $$ >"$groups/cgroup.procs"
	rmdir "$group" || true
	rm -f "$profile" "$profile.old"
}
trap finish EXIT
mkdir "$group"
echo $$ >"$group/cgroup.procs"
"$cluster" up --nodes "$nodes" --plugin "$B/lib/hvd.so:libexecdir=$B/libexec/hvd" >/dev/null

echo "== processor time of the whole cluster: ${step[*]} true"
"$cluster" exec -- salloc -Q "${step[@]}" srun -N1 -n1 --overlap python3 "$here/launch_times.py" --cpu "$group/cpu.stat" \
	"${ROUNDS:-5}" "srun=srun ${step[*]} --overlap true" "srun --hvd=srun --hvd ${step[*]} --overlap true" \
	"hvdrun=hvdrun ${step[*]} --overlap true"

# by_process LABEL COMMAND...: milliseconds of each process, by its name, in a launch.
by_process() {
	local label=$1 runs=${PROFILES:-3}
	shift
	for ((i = 0; i < runs; i++)); do
		perf record -q -a -F "$hertz" -e cpu-clock -G "$name" -o "$profile" -- \
			"$cluster" exec -- "$@" "${step[@]}" true >/dev/null 2>&1
		perf script -i "$profile" -F comm 2>/dev/null
	done | awk -v label="$label" -v per_ms="$((hertz / 1000))" -v runs="$runs" '
		NF && $1 !~ /^(bash|id|enter|hvd-cluster)$/ { n[$1]++; all++ } # hvd-cluster exec takes these
		END { for (c in n) if (n[c] / all > 0.005) printf "%-12s %-16s %8.1f\n", label, c, n[c] / per_ms / runs }' |
		sort -k1,1 -k3,3nr
}

command -v perf >/dev/null || exit 0
echo
echo "== milliseconds of a launch by process, from the login host; sampling adds a third or so"
by_process srun srun -Q
by_process srun--hvd srun -Q --hvd
by_process hvdrun hvdrun -Q
