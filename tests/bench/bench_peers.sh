#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_peers.sh - hvdrun next to Horovod's own horovodrun, on this machine.
#
# For each number of ranks (NP: 2 4 8), medians of ROUNDS (7), launchers in turn:
#   - whole launches of `true`
#   - real Horovod ranks: until all have started, and until hvd.init() and a
#     first allreduce are done, without what imports take
# Needs Horovod: tests/peers/install.sh.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
B=$(cd "$top" && realpath "${B:-build}")
rounds=${ROUNDS:-7}
"$top/tests/peers/install.sh" --check || {
	echo "bench_peers: Horovod is not there: make peers" >&2
	exit 1
}
venv=$("$top/tests/peers/install.sh" --where)/venv
export OMP_NUM_THREADS=1

for np in ${NP:-2 4 8}; do
	theirs="$venv/bin/horovodrun -np $np" ours="$B/bin/hvdrun -np $np"
	echo "== $np ranks: true"
	python3 "$here/launch_times.py" "$rounds" "horovodrun=$theirs true" "hvdrun=$ours true"
	echo "== $np ranks: hvd.init() and an allreduce"
	python3 "$here/peer_times.py" "$rounds" "$np" "$venv/bin/python" "horovodrun=$theirs" "hvdrun=$ours"
done
