#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_tcpstore.sh - hvd-rendezvous as a TCPStore next to PyTorch's own server (with libuv), over loopback.
#
# The same client in turns, one request of a connection at a time (tcpstore_rate.c), medians of ROUNDS (5) of SECONDS_EACH
# (1): requests a second, the server's processor time for each, and how long all CONNECTIONS (1 64 2000) take to
# register. Needs PyTorch (tests/peers/install.sh --torch).
set -euo pipefail
cd "$(dirname "$0")/../.."
B=$(realpath "${B:-build}")
export B
ROUNDS=${ROUNDS:-5}
SECONDS_EACH=${SECONDS_EACH:-1}
CONNECTIONS=${CONNECTIONS:-1 64 2000}
QUERIES=${QUERIES:-check get set}

make -s B="$B" "$B/bin/hvd-rendezvous" "$B/tests/bench/tcpstore_rate"
tests/peers/install.sh --torch --check || {
	echo "bench_tcpstore: skipped, PyTorch is not there: make peers"
	exit 0
}
python=$(tests/peers/install.sh --torch --where)/venv/bin/python

# torch's server looks up the name of each peer, which can take seconds: without a network it has failed at once.
if ((EUID == 0)) && [[ ! ${BENCH_ALONE-} ]]; then
	# shellcheck disable=SC2016
	exec unshare --net -- sh -c 'ip link set lo up && BENCH_ALONE=1 exec "$0"' "$PWD/tests/bench/bench_tcpstore.sh"
fi

ulimit -n "$(ulimit -H -n)"
dir=$(mktemp -d)
pids=()
finish() {
	((!${#pids[@]})) || kill "${pids[@]}" 2>/dev/null || true
	wait 2>/dev/null || true
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM

# start NAME COMMAND...: a server that says its port in its first line.
start() {
	local name=$1
	shift
	"$@" >"$dir/$name" 2>"$dir/$name.log" <"$dir/held" &
	pids+=($!)
	for _ in $(seq 300); do
		if [[ -s $dir/$name ]]; then break; fi
		sleep 0.1
	done
	port=$(grep -oE '"port":[0-9]+|^[0-9]+$' "$dir/$name" | head -n 1)
	port=${port##*:}
	[[ $port ]] || { echo "bench_tcpstore: $name does not start: $(<"$dir/$name.log")" && exit 1; }
}

mkfifo "$dir/held"
exec 9<>"$dir/held"
start torch "$python" tests/peers/torch_store.py serve
torch=$port torch_pid=${pids[-1]}
start ours "$B/bin/hvd-rendezvous" --json --bind=::1
ours=$port ours_pid=${pids[-1]}

column() { cut -d ' ' -f "$2" "$1" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", (b > 0 ? a / b : 0) }'; }

echo "torch $("$python" -c 'import torch; print(torch.__version__)'), libuv; $(nproc) processors; medians of $ROUNDS"
for connections in $CONNECTIONS; do
	for query in $QUERIES; do
		rm -f "$dir"/r.*
		for _ in $(seq "$ROUNDS"); do
			"$B/tests/bench/tcpstore_rate" ::1 "$torch" "$connections" "$SECONDS_EACH" "$query" "$torch_pid" >>"$dir/r.torch"
			"$B/tests/bench/tcpstore_rate" ::1 "$ours" "$connections" "$SECONDS_EACH" "$query" "$ours_pid" >>"$dir/r.ours"
		done
		for name in torch ours; do
			echo "$connections connections, $query, $name: $(column "$dir/r.$name" 2)/s," \
				"$(column "$dir/r.$name" 3) us of the server each, p50 $(column "$dir/r.$name" 4) us," \
				"p99 $(column "$dir/r.$name" 5) us, registered in $(column "$dir/r.$name" 1) s"
		done
		echo "$connections connections, $query: $(ratio "$(column "$dir/r.ours" 2)" "$(column "$dir/r.torch" 2)") times" \
			"the requests, $(ratio "$(column "$dir/r.ours" 3)" "$(column "$dir/r.torch" 3)") of the processor for each"
	done
done
