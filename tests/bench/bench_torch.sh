#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_torch.sh - PyTorch's ranks under srun --hvd and hvdrun next to torchrun, and to srun with MASTER_* by hand.
#
# In an allocation of the test cluster, 8 ranks on 4 nodes; medians of ROUNDS (5), launchers in turn:
#   start   until all ranks have started, and until init_process_group("gloo") and a first allreduce are done, without what
#           imports take (rank_times.py)
#   again   processes that initialize, sum, destroy and initialize again, 20 times in each of LAUNCHES (3) launches of 4
#           ranks on 2 nodes: how often that goes well
#   scale   128 ranks on 16 nodes that import nothing, each of which comes to the store, publishes an address and reads
#           everybody's (store_rank.c), next to ranks that do nothing
#   restart from the death of one of 4 ranks on 2 nodes until all have been started anew (rank_times.py)
#   preload the same with ranks that import PyTorch and do an allreduce, with and without --preload=torch; and the first
#           start
# WHAT="start again restart preload scale" selects. Needs PyTorch (tests/peers/install.sh --torch), root and Slurm.
set -euo pipefail

PEERS=--torch
# shellcheck source=tests/bench/peers.bash
source "$(dirname "$0")/peers.bash"
PY=$VENV/bin/python
TIMES="$PY $BENCH/rank_times.py"

# What a user's script sets in front of each rank; MASTER_ADDR is a name that all nodes know.
by_hand() {
	# shellcheck disable=SC2016
	echo env MASTER_ADDR=hvdn1 MASTER_PORT=29500 bash -c \
		"'"'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID exec "$@"'"'" rank
}

# torchrun NODES RANKS: with agents that meet by PyTorch's c10d rendezvous on the first node, a rank's command behind it.
torchrun() {
	echo "srun -N$1 -n$1 --ntasks-per-node=1 --overcommit --overlap $TIMES --torchrun --nnodes=$1 --nproc-per-node=$2" \
		"--rdzv-backend=c10d --rdzv-endpoint=hvdn1:29400 --rdzv-id=bench --no-python"
}

# allocated NODES RANKS CMD…: in an allocation, on its first node.
allocated() { on_login salloc -Q -N"$1" -n"$2" srun -N1 -n1 --overlap "${@:3}"; }

start() {
	local step="-N4 -n8 --ntasks-per-node=2 --overcommit --overlap"
	echo "== 8 ranks on 4 nodes: init_process_group(\"gloo\") and an allreduce"
	# shellcheck disable=SC2086
	allocated 4 8 $TIMES torch "${ROUNDS:-5}" 8 "$PY" "srun --hvd=srun --hvd $step" "hvdrun=hvdrun $step" \
		"srun, MASTER_* by hand=srun $step $(by_hand)" "torchrun (c10d)=$(torchrun 4 2)"
}

again() {
	local step="-N2 -n4 --ntasks-per-node=2 --overcommit --overlap"
	echo "== init, destroy, init in one process, 4 ranks on 2 nodes: went well"
	# shellcheck disable=SC2086
	allocated 2 4 $TIMES again "${LAUNCHES:-3}" 4 "$PY" "srun --hvd=srun --hvd $step" \
		"srun, MASTER_* by hand=srun $step $(by_hand)" "torchrun (c10d)=$(torchrun 2 2)"
}

restart() {
	echo "== one of 4 ranks on 2 nodes is killed: until the first and the last of the new ones run"
	on_login salloc -Q -N2 -n4 --no-kill python3 "$BENCH/rank_times.py" restart "${ROUNDS:-5}" 4 "$PY" "hvdrun=hvdrun --max-restarts=1 -np 4" \
		"torchrun (c10d)=$(torchrun 2 2) --max-restarts=1"
}

preload() {
	local hvdrun="hvdrun --max-restarts=1 -np 4"
	echo "== one of 4 ranks on 2 nodes is killed: until the first and the last have done an allreduce again"
	on_login salloc -Q -N2 -n4 --no-kill python3 "$BENCH/rank_times.py" restart-torch "${ROUNDS:-5}" 4 "$PY" \
		"hvdrun=$hvdrun" "hvdrun, preload=$hvdrun --preload=torch"
}

scale() {
	local step="-N16 -n128 --ntasks-per-node=8 --overcommit --overlap"
	echo "== 128 ranks on 16 nodes: all come to the store and read everybody's address"
	cluster down >/dev/null
	cluster up --nodes 16 --plugin "$B/lib/hvd.so:libexecdir=$B/libexec/hvd" >/dev/null
	# shellcheck disable=SC2086
	allocated 16 128 python3 "$BENCH/launch_times.py" "${ROUNDS:-5}" "srun true=srun $step true" \
		"srun --hvd true=srun --hvd $step true" "srun --hvd, all meet=srun --hvd $step $B/tests/bench/store_rank" \
		"hvdrun, all meet=hvdrun $step $B/tests/bench/store_rank"
}

bench_cluster
for what in ${WHAT:-start again restart preload scale}; do
	case $what in
	start | again | restart | preload | scale) $what ;;
	*) echo "bench_torch: WHAT is start, again, restart, preload, scale or several" >&2 && exit 2 ;;
	esac
done
