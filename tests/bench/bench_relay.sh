#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_relay.sh - the rendezvous with all ranks connected to it, and as a tree of relays, in one run, over loopback:
#   mesh   the full mesh of Gloo contexts of RANKS (256), with values of BYTES (200 0); 0 is Gloo's real size and bytes
#   check  CHECKERS (2000) ranks that look for a key of the TCPStore once a second, for SECONDS_EACH (5)
#
# WHAT="mesh check" RANKS="256" BYTES="200 0" LIMIT=120 PER_HOST=8 FAN_OUT=32 B=build bench_relay.sh
# DIRECT_RANKS says for which RANKS the mesh is made without relays, too (default: all).
set -euo pipefail
cd "$(dirname "$0")/../.."
B=$(realpath "${B:-build}")
export B
WHAT=${WHAT:-mesh check}
RANKS=${RANKS:-256}
DIRECT_RANKS=${DIRECT_RANKS-$RANKS}
BYTES=${BYTES:-200 0}
LIMIT=${LIMIT:-120}
PER_HOST=${PER_HOST:-8}
FAN_OUT=${FAN_OUT:-32}
CHECKERS=${CHECKERS:-2000}
SECONDS_EACH=${SECONDS_EACH:-5}

make -s B="$B" "$B/tests/bench/relay_mesh" "$B/tests/bench/relay_check"
ulimit -n "$(ulimit -H -n)"

out=$(mktemp)
trap 'rm -f "$out"' EXIT

# processor FILE: seconds of the root, of the whole mesh where only a part of it was made.
processor() {
	awk '/% of it/ { for (i = 1; i < NF; i++) if ($(i + 1) == "%") part = $i }
		/the root:/ { print (part > 0 ? $3 * 100 / part : $3) }' "$1"
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f", (b > 0 ? a / b : 0) }'; }

mesh() {
	local n bytes before after
	for n in $RANKS; do
		for bytes in $BYTES; do
			before=
			if [[ " $DIRECT_RANKS " == *" $n "* ]]; then
				"$B/tests/bench/relay_mesh" direct "$n" "$bytes" "$LIMIT" | tee "$out"
				before=$(processor "$out")
			fi
			"$B/tests/bench/relay_mesh" relays "$n" "$bytes" "$LIMIT" "$PER_HOST" "$FAN_OUT" | tee "$out"
			after=$(processor "$out")
			[[ ! $before ]] || echo "ratio: $n ranks, the root's processor time is 1/$(ratio "$before" "$after")"
		done
	done
}

check() {
	local before after
	"$B/tests/bench/relay_check" direct "$CHECKERS" "$SECONDS_EACH" "$PER_HOST" | tee "$out"
	before=$(sed -n 's/.*the root uses \([0-9.]*\) % of a core.*/\1/p' "$out")
	"$B/tests/bench/relay_check" relays "$CHECKERS" "$SECONDS_EACH" "$PER_HOST" | tee "$out"
	after=$(sed -n 's/.*the root uses \([0-9.]*\) % of a core.*/\1/p' "$out")
	echo "ratio: $CHECKERS ranks look once a second: $before % of a core at the root, with relays $after %"
}

for what in $WHAT; do
	case $what in
	mesh | check) "$what" ;;
	*) echo "bench_relay: nothing is called $what (mesh, check)" >&2 && exit 2 ;;
	esac
done
