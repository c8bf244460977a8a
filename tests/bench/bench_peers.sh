#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_peers.sh - hvdrun and srun --hvd next to Horovod's own horovodrun.
#
# On this machine for each number of ranks (NP: 2 4 8), then eight ranks on four
# hosts of the test cluster, which horovodrun and hvdrun reach by ssh; medians of
# ROUNDS (7), launchers in turn:
#   - whole launches of `true`; on the cluster, horovodrun with and without its cache
#   - real Horovod ranks: until all have started, and until hvd.init() and a
#     first allreduce are done, without what imports take
#   - a rank dies: how long until all others, and the launcher, are gone
# Needs Horovod (tests/peers/install.sh), and for the cluster root, Slurm, sshd.
# WHERE="here cluster" selects.
set -euo pipefail

# shellcheck source=tests/bench/peers.bash
source "$(dirname "$0")/peers.bash"
rounds=${ROUNDS:-7}

one_machine() {
	local np theirs ours
	for np in ${NP:-2 4 8}; do
		theirs="$VENV/bin/horovodrun -np $np" ours="$B/bin/hvdrun -np $np"
		echo "== $np ranks: true"
		python3 "$BENCH/launch_times.py" "$rounds" "horovodrun=$theirs true" "hvdrun=$ours true"
		echo "== $np ranks: hvd.init() and an allreduce"
		python3 "$BENCH/rank_times.py" horovod "$rounds" "$np" "$VENV/bin/python" "horovodrun=$theirs" "hvdrun=$ours"
		echo "== $np ranks: the last one dies"
		python3 "$BENCH/rank_times.py" death "$rounds" "$np" python3 "horovodrun=$theirs" "hvdrun=$ours"
	done
}

# Eight ranks on four hosts.
cluster_bench() {
	local hosts=hvdn1:2,hvdn2:2,hvdn3:2,hvdn4:2 step="-N4 -n8 --ntasks-per-node=2" theirs
	bench_cluster
	theirs="$VENV/bin/horovodrun -np 8 -H $hosts"
	echo "== four hosts, 8 ranks: true"
	on_login python3 "$BENCH/launch_times.py" "$rounds" "horovodrun, no cache=$theirs --disable-cache true" \
		"horovodrun, cached=$theirs true" "hvdrun, ssh=hvdrun --hosts $hosts true" \
		"hvdrun, srun=hvdrun $step true" "srun --hvd=srun --hvd $step true"
	echo "== four hosts, 8 ranks: hvd.init() and an allreduce"
	on_login python3 "$BENCH/rank_times.py" horovod "$rounds" 8 "$VENV/bin/python" "horovodrun=$theirs" \
		"hvdrun, ssh=hvdrun --hosts $hosts" "hvdrun, srun=hvdrun $step" "srun --hvd=srun --hvd $step"
	echo "== four hosts, 8 ranks: the last one dies"
	on_login python3 "$BENCH/rank_times.py" death "$rounds" 8 python3 "horovodrun=$theirs" "hvdrun, ssh=hvdrun --hosts $hosts" \
		"hvdrun, srun=hvdrun $step" "srun --hvd=srun --hvd $step"
}

for where in ${WHERE:-here cluster}; do
	case $where in
	here) one_machine ;;
	cluster) cluster_bench ;;
	*) echo "bench_peers: WHERE is here, cluster or both" >&2 && exit 2 ;;
	esac
done
