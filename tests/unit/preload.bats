#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# hvdrun --preload on this machine, with modules of Python itself: a rank is as one that is started plainly.

bats_require_minimum_version 1.5.0

load ../cluster/helpers
load ../cluster/launch

setup_file() {
	SRC=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	B=$(cd "$SRC" && cd "${B:-build}" && pwd)
	export SRC B HVDRUN=$B/bin/hvdrun HVD_LAUNCHER=fork
	[[ -x $HVDRUN ]] || { echo "there is no hvdrun in $B: make all" >&2 && return 1; }
}

setup() {
	PY=$(python3 -c 'import sys; print(sys.executable if sys.version_info >= (3, 8) else "")') || true
	[[ $PY ]] || skip "there is no Python 3.8 or later"
	export PY
	cd "$BATS_TEST_TMPDIR" || return
	cp "$BATS_TEST_DIRNAME/preload_probe.py" probe.py
}

MODULES=json,decimal,random,multiprocessing

# start NAME ARG…: runs hvdrun with that; what it prints, and its status, go to NAME.out and NAME.err.
start() {
	local status=0
	timeout --kill-after=5 100 "$HVDRUN" "${@:2}" <<<"first line" >out 2>err || status=$?
	echo "status $status" >>out
	mv out "$1.out"
	mv err "$1.err"
}

# both ARG…: runs hvdrun with that twice, without and with --preload, and compares.
both() {
	start plain "$@"
	start forked --hvd-verbose --preload="$MODULES" "$@"
	grep -q "has imported $MODULES" forked.err || { cat forked.err && return 1; }
	diff plain.out forked.out || return 1
	diff <(rank_text plain.err) <(rank_text forked.err) || return 1
}

# rank_text FILE: its lines that hvdrun has not printed.
rank_text() { grep -vE '^ *(hvdrun|hvd-agent)\b|^  ' "$1"; grep -E '^  [A-Z]|^  File' "$1" || true; }

@test "arguments, environment, descriptors, signals and all else are those of a plain start" {
	both -np 1 "$PY" probe.py
	grep -q "^comm = b'python" forked.out
	both -np 1 "$PY" ./probe.py '' 'b c' $'new\nline' --preload=x
	both -np 1 "$PY" "$PWD/probe.py" -- -x
	both -np 1 "$PY" -m probe one two
	both -np 1 "$PY" -c "$(cat probe.py)" one
	both -np 1 "$PY" -u -O -W error -X dev probe.py x
	both -np 1 "$PY" -OBum probe
	mkdir folder && cp probe.py folder/__main__.py
	both -np 1 "$PY" folder
	both -np 1 --output-filename=files "$PY" probe.py
	(cd "$BATS_TEST_TMPDIR/folder" && PYTHONPATH=/nowhere:x LC_ALL=C X=$'a\xffb' PYTHONUNBUFFERED=1 both -np 1 "$PY" ../probe.py)
}

@test "exits, exceptions, signals and what comes at the end are those of a plain start" {
	local how
	for how in raise text code interrupt kill stack thread warn; do
		echo "how: $how"
		both -np 1 "$PY" probe.py "$how"
		grep -qx "not flushed" forked.out || [[ $how == kill ]]
	done
	! grep -q preload/sitecustomize forked.out forked.err
}
