#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/fuzz/seed.sh NAME DIRECTORY - write the seeds of a fuzz target: each block of tests/fuzz/seeds/NAME, which
# blank lines separate, through printf '%b', so that bytes can be written as \xHH and no file holds raw ones.

set -eu
seeds=$(dirname "${BASH_SOURCE[0]}")/seeds/$1
[[ -f $seeds ]] || exit 0
n=0
block=''
emit() {
	[[ -n $block ]] || return 0
	printf '%b' "$block" >"$2/seed-$1"
}
while IFS= read -r line || [[ -n $line ]]; do
	if [[ -z $line ]]; then
		emit $n "$2"
		block=''
		n=$((n + 1))
	else
		block=${block:+$block$'\n'}$line
	fi
done <"$seeds"
emit $n "$2"
