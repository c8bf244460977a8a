#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What make matrix is made of, without a network: its report, with results that are written here; making and entering
# roots, with a debootstrap that only pretends.

# shellcheck disable=SC2030,SC2031 # each test has a shell of its own
bats_require_minimum_version 1.5.0

load ../cluster/helpers

setup() {
	cd "$BATS_TEST_DIRNAME/../matrix" || return 1
	export HVD_MATRIX_DIR=$BATS_TEST_TMPDIR/roots R=$BATS_TEST_TMPDIR/results
	unset HVD_MATRIX_MIRROR
}

# results ROOT LINE...: fields that are separated by commas; facts of Slurm 99.1 for one called "next", 98.2 for "last".
results() {
	local root=$1
	mkdir -p "$R/$root"
	printf '%s\n' "${@:2}" | tr , '\t' >"$R/$root/results"
	printf 'selection ci\ncommit abc123\ndate 2001-02-03\n' >"$R/$root/run"
	case $root in
	next) printf 'os Next 9\narch x86_64\nslurm 99.1\ngcc 30.1\n' >"$R/$root/facts" ;;
	last) printf 'os Last 8\narch x86_64\nslurm 98.2\ngcc 29.1\n' >"$R/$root/facts" ;;
	esac
}

two_roots() {
	results last pass,test_addr,one, pass,test_addr,two, pass,test_wire,one, 'pass,cluster/smoke.bats,it starts,' \
		'skip,cluster/mpi.bats,by mpirun,no MPI here' 'skip,cluster/mpi.bats,by srun,no MPI here'
	results next pass,test_addr,one, 'fail,test_addr,two,exit status 3' 'pass,cluster/smoke.bats,it starts,' \
		'fail,cluster/new.bats,a | b,'
}

# row TEXT: the line that begins with it, blanks made one.
row() { grep "^$1" <<<"$output" | tr -s ' '; }

@test "the table has a row for each file, a column for each release, and a dash for what did not run" {
	two_roots
	run ./report table "$R" last next
	echo "$output"
	[ "$status" -eq 1 ]
	[[ "$output" == *" last "*" next "* && "$output" == *" Slurm 98.2 "*" Slurm 99.1"* ]]
	[ "$(row programs)" = "programs of unit tests 3 0 0 1 1 0" ]
	[ "$(row cluster/smoke.bats)" = "cluster/smoke.bats 1 0 0 1 0 0" ]
	[ "$(row cluster/mpi.bats)" = "cluster/mpi.bats 0 0 2 - - -" ]
	[ "$(row cluster/new.bats)" = "cluster/new.bats - - - 0 1 0" ]
	[ "$(row all)" = "all 4 0 2 2 2 0" ]
	[ "${lines[-1]}" = "6 passed, 2 failed, 2 skipped" ]
}

@test "failures are named one by one with what they have said, skipped tests by file and reason" {
	two_roots
	printf '%s\n' 'ok   test_wire' '' 'FAILED: test_addr (build/test_addr.log)' '  two: exit status 3' '    a word' '    more' '' \
		'Skipped:' '  other' '1 passed' >"$R/next/tests.log"
	run ./report table "$R" last next
	echo "$output"
	[[ "$output" == *"Failed on next ($R/next):
  test_addr: two: exit status 3
  cluster/new.bats: a | b

FAILED: test_addr (build/test_addr.log)
  two: exit status 3
    a word
    more
"* && "$output" != *"Failed on last"* && "$output" != *"Skipped:"* ]]
	[[ "$output" == *"Skipped on last:
  cluster/mpi.bats: 2 tests: no MPI here
"* && "$output" != *"Skipped on next"* ]]
}

@test "without a failure the table's status is 0, also when a release could not be had" {
	results last pass,test_addr,one,
	results gone 'skip,(root),gone,no way to the mirror'
	run ./report table "$R" last gone
	echo "$output"
	[ "$status" -eq 0 ]
	[[ "$output" == *"Slurm -"* && "$output" == *"Skipped on gone:
  no way to the mirror
"* ]]
	[ "${lines[-1]}" = "1 passed, 0 failed, 1 skipped" ]
}

@test "a flaky test has passed, and is named" {
	results last pass,test_addr,one, flaky,cluster/mpi.bats,srun,
	run ./report table "$R" last
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(row cluster/mpi.bats)" = "cluster/mpi.bats 1 0 0" ]
	[[ "$output" == *"Flaky on last:
  cluster/mpi.bats: srun
"* ]]
	[ "${lines[-1]}" = "1 passed, 0 failed, 0 skipped, 1 flaky" ]
}

@test "the page keeps what is written by hand, and lists releases by Slurm's version" {
	local page=$BATS_TEST_TMPDIR/page.md slurm
	two_roots
	results gone 'skip,(root),gone,no way to the mirror'
	printf '%s\n' 'before' '<!-- begin: made -->' 'what was there' '<!-- end -->' 'after' >"$page"
	./report page "$R" "$page"
	./report page "$R" "$page" # again: the same
	cat "$page"
	[ "$(head -n 2 "$page")" = $'before\n<!-- begin: made -->' ]
	[ "$(tail -n 2 "$page")" = $'<!-- end -->\nafter' ]
	run ! grep -q 'what was there\|gone' "$page"
	[ "$(grep -c '^<!-- ' "$page")" -eq 2 ]
	slurm=$(sed -nE 's/^\| ([0-9.]+) \| (last|next) .*/\1/p' "$page")
	[ "$slurm" = $'98.2\n99.1' ]
	grep -qF '| 99.1 | Next 9, x86_64 | 30.1 | - |' "$page"
	grep -qF '| 98.2 | last | ci | 4 | 0 | 2 | 2001-02-03 | abc123 |' "$page"
	grep -qxF -- '- cluster/new.bats: a \| b' "$page"
	[ "$(ls "$BATS_TEST_TMPDIR")" = $'page.md\nresults' ]
}

@test "a page without the marks, and no results, are errors that leave the page alone" {
	local page=$BATS_TEST_TMPDIR/page.md
	echo text >"$page"
	mkdir -p "$R"
	run -1 ./report page "$R" "$page"
	[[ "$output" == *"make matrix first"* ]]
	two_roots
	run -1 ./report page "$R" "$page"
	[[ "$output" == *"has no lines <!-- begin:"* ]]
	[ "$(<"$page")" = text ]
}

@test "wrong usage is status 2, and roots have no odd names" {
	local wrong
	for wrong in '' 'table' 'page x' 'other a b'; do
		# shellcheck disable=SC2086
		run -2 ./report $wrong
	done
	for wrong in '' '..' 'a/b' '--other' '--change sid /'; do
		# shellcheck disable=SC2086
		run -2 ./root.sh $wrong
	done
	for wrong in '' '../x' '--only no-such-file sid' '-j x sid' '-j'; do
		# shellcheck disable=SC2086
		run -2 ./run $wrong
	done
	[ ! -e "$HVD_MATRIX_DIR" ]
	[ "$(./root.sh --where)" = "$HVD_MATRIX_DIR" ]
}

needs_root() {
	((EUID == 0)) || skip "roots are for root"
	unshare --mount --pid --fork --kill-child true 2>/dev/null || skip "there are no namespaces here"
}

# pretend BODY: a debootstrap with this body, which knows $suite and $target, and a network that has everything.
pretend() {
	mkdir -p "$BATS_TEST_TMPDIR/bin"
	printf '#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nsuite=$1 target=$2\n%s\n' "$1" >"$BATS_TEST_TMPDIR/bin/debootstrap"
	printf '#!/bin/sh\nexit %s\n' "${2:-0}" >"$BATS_TEST_TMPDIR/bin/wget"
	chmod 755 "$BATS_TEST_TMPDIR"/bin/*
	PATH=$BATS_TEST_TMPDIR/bin:$PATH
	export HVD_MATRIX_MIRROR=http://mirror.invalid/debian
}

@test "a root is there when it is complete, and not made twice" {
	needs_root
	pretend 'mkdir -p "$target/etc"; echo "$suite" >"$target/etc/suite"; date +%N >"$target/etc/made"'
	run ! ./root.sh --check sid
	./root.sh sid
	./root.sh --check sid
	[ "$(<"$HVD_MATRIX_DIR/sid/etc/suite")" = sid ]
	[ -e "$HVD_MATRIX_DIR/sid/etc/dpkg/dpkg.cfg.d/hvd-matrix" ]
	local made
	made=$(<"$HVD_MATRIX_DIR/sid/etc/made")
	./root.sh sid
	[ "$(<"$HVD_MATRIX_DIR/sid/etc/made")" = "$made" ]
	# What is found incomplete is made anew, and nothing of it stays.
	rm "$HVD_MATRIX_DIR/sid/.ready"
	touch "$HVD_MATRIX_DIR/sid/etc/old"
	./root.sh sid
	[ "$(<"$HVD_MATRIX_DIR/sid/etc/made")" != "$made" ]
	[ ! -e "$HVD_MATRIX_DIR/sid/etc/old" ]
	./root.sh --anew sid
	[ ! -e "$HVD_MATRIX_DIR/sid.new" ]
}

@test "why a root cannot be had is kept, and told from what should have worked" {
	needs_root
	pretend 'exit 1' 4
	run ./root.sh sid
	echo "$output"
	[ "$status" -eq 77 ]
	[ "$(<"$HVD_MATRIX_DIR/sid.why-not")" = $'77\tthe mirror of this machine\'s apt is out of reach, or has no sid' ]
	pretend "echo \"E: Couldn't download packages: libc6\" >&2; exit 1"
	run -77 ./root.sh sid
	pretend 'echo "E: Tried to extract package, but file already exists." >&2; exit 1'
	run -1 ./root.sh sid
	[[ "$(<"$HVD_MATRIX_DIR/sid.why-not")" == $'1\tdebootstrap has failed: E: Tried to extract'* ]]
	[ ! -e "$HVD_MATRIX_DIR/sid" ] && [ ! -e "$HVD_MATRIX_DIR/sid.new" ]
	pretend 'mkdir -p "$target/etc"'
	./root.sh sid
	[ ! -e "$HVD_MATRIX_DIR/sid.why-not" ]
}

gone() { ! pgrep -xf "sleep $1" >/dev/null; }

@test "an interrupted making leaves no process and no half-made root; a killed one no process" {
	needs_root
	local maker signal
	for signal in TERM KILL; do
		pretend 'mkdir -p "$target/etc"; sleep 30741; exit 1'
		./root.sh sid 3>&- &
		maker=$!
		within 20 pgrep -xf 'sleep 30741'
		[ -e "$HVD_MATRIX_DIR/sid.new" ]
		kill "-$signal" "$maker"
		wait "$maker" || true
		within 10 gone 30741
		[ ! -e "$HVD_MATRIX_DIR/sid" ]
		[[ $signal == KILL || ! -e "$HVD_MATRIX_DIR/sid.new" ]]
	done
	# What the killed one has left is in nobody's way.
	pretend 'mkdir -p "$target/etc"'
	./root.sh sid
	[ ! -e "$HVD_MATRIX_DIR/sid.new" ]
}

@test "what is written in a root entered with --scratch is gone, and so is what was started there" {
	needs_root
	local mounts caller
	mounts=$(wc -l </proc/mounts)
	mkdir "$BATS_TEST_TMPDIR/bound"
	# This machine's own root will do.
	run ./enter.sh --scratch --bind "$BATS_TEST_TMPDIR/bound:/etc/hvd-bound" / sh -c '
		touch /etc/hvd-scratch /etc/hvd-bound/stays
		sleep 30742 &
		ls /proc | grep -c "^[0-9]*$"; exit 7'
	echo "$output"
	[ "$status" -eq 7 ]
	((output < 6))
	[ -e "$BATS_TEST_TMPDIR/bound/stays" ]
	[ ! -e /etc/hvd-scratch ] && [ ! -e /etc/hvd-bound ]
	within 10 gone 30742
	# Also when nobody is left to end it.
	bash -c './enter.sh --scratch / sh -c "sleep 30743; true"; true' 3>&- &
	caller=$!
	within 20 pgrep -xf 'sleep 30743'
	kill -KILL "$caller"
	wait "$caller" || true
	within 10 gone 30743
	./enter.sh --scratch / sh -c "sleep 30744; true" 3>&- &
	caller=$!
	within 20 pgrep -xf 'sleep 30744'
	kill -TERM "$caller"
	wait "$caller" || [ $? -eq 143 ]
	within 10 gone 30744
	[ "$(wc -l </proc/mounts)" -eq "$mounts" ]
}

registered() { unshare --mount sh -c 'mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc && ls /proc/sys/fs/binfmt_misc' | grep -qx "hvd-arm64-$1"; }

@test "arm64 is emulated while a command runs, and not longer, however it ends" {
	needs_root
	local status=0 signal command
	./emulate.sh true || status=$?
	((status != 77)) || skip "arm64 cannot be emulated here"
	[ "$status" -eq 0 ]
	run -5 ./emulate.sh sh -c 'exit 5'
	for signal in TERM KILL; do
		./emulate.sh ./enter.sh --scratch / sh -c "sleep 30745; true" 3>&- &
		command=$!
		within 20 pgrep -xf 'sleep 30745'
		registered "$command"
		kill "-$signal" "$command"
		status=0
		wait "$command" || status=$?
		[ "$status" -eq $((128 + $(kill -l "$signal"))) ]
		within 10 gone 30745
		within 10 eval '! registered "$command"'
	done
}

@test "a run whose mirror is out of reach is one skipped test for each root, with the reason" {
	needs_root
	git -C "$BATS_TEST_DIRNAME" rev-parse HEAD >/dev/null 2>&1 || skip "this is no clone"
	pretend 'exit 1' 4
	B=$BATS_TEST_TMPDIR/build run ./run --only smoke trixie sid
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(grep -c "^  the mirror of this machine's apt is out of reach" <<<"$output")" -eq 2 ]
	[ "${lines[-1]}" = "0 passed, 0 failed, 2 skipped" ]
}
