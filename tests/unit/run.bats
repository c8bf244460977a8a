#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# tests/run itself: what it counts, how it orders, and that nothing outlives it.

bats_require_minimum_version 1.5.0

load ../cluster/helpers

setup() {
	RUN=$BATS_TEST_DIRNAME/../run
	export B=$BATS_TEST_TMPDIR/build
	unset HVD_TEST_LIMIT HVD_TEST_LIMIT_BATS HVD_TEST_CLUSTER HVD_TEST_PATIENCE
	mkdir "$BATS_TEST_TMPDIR/early" "$BATS_TEST_TMPDIR/late" "$BATS_TEST_TMPDIR/tmp" "$B"
	# Other runs begin and end on this machine meanwhile.
	export TMPDIR=$BATS_TEST_TMPDIR/tmp
	# What the tests leave for each other is here: their /tmp may be their own.
	cd "$B" || return 1
}

# program NAME <TEXT: a shell script in the place of a program made with cmocka.
program() {
	{ echo '#!/bin/bash' && cat; } >"$BATS_TEST_TMPDIR/$1"
	chmod 755 "$BATS_TEST_TMPDIR/$1"
}

# ok_program NAME [COMMAND]: one with a test that passes.
ok_program() {
	program "$1" <<-EOF
		cd '$B' || exit 1
		printf '[==========] %s: Running 1 test(s).\n[ RUN      ] one\n' "$1"
		${2-}
		printf '[       OK ] one\n[==========] %s: 1 test(s) run.\n' "$1"
	EOF
}

# bats_file NAME COMMAND [LINE]: one with a test that consists in the command.
bats_file() {
	printf '%s\n@test "it" {\n\tcd "$B"\n\t%s\n}\n' "${3-}" "$2" >"$BATS_TEST_TMPDIR/$1"
}

# tests STATUS ARG...: run them; what it says is in $output.
tests() {
	local want=$1 arg args=()
	shift
	for arg in "$@"; do
		if [[ -e $BATS_TEST_TMPDIR/$arg ]]; then arg=$BATS_TEST_TMPDIR/$arg; fi
		args+=("$arg")
	done
	run timeout 120 "$RUN" "${args[@]}"
	echo "$output"
	[ "$status" -eq "$want" ]
}

says() {
	local text
	for text in "$@"; do
		[[ $output == *"$text"* ]] || { echo "no '$text'" && return 1; }
	done
}

last_line() { [[ ${lines[-1]} == "$1" ]] || { echo "the last line is not '$1'" && return 1; }; }

# What cmocka 1.1.5 prints, and with "group: " in front of Running what 1.1.7 and 2.0 print.
cmocka_output() {
	cat <<-EOF
		cat <<'END'
		[==========] $1Running 6 test(s).
		[ RUN      ] good
		[       OK ] good
		[ RUN      ] bad
		[  ERROR   ] --- 0x1 != 0x2
		[   LINE   ] --- file.c:10: error: Failure!
		[  FAILED  ] bad
		[ RUN      ] skips
		skip: not on this machine
		[  SKIPPED ] skips
		[ RUN      ] sets_up
		Could not run test: Test setup failed
		[  ERROR   ] sets_up
		half a line of the test[ RUN      ] late
		[       OK ] late
		[ RUN      ] last
		[       OK ] last
		[==========] $1${1:+ }6 test(s) run.
		[  PASSED  ] 3 test(s).
		[  SKIPPED ] $1${1:+ }1 test(s), listed below:
		[  SKIPPED ] skips

		 1 SKIPPED TEST(S)
		[  FAILED  ] $1${1:+ }1 test(s), listed below:
		[  FAILED  ] bad

		 2 FAILED TEST(S)
		END
		exit 2
	EOF
}

@test "programs of cmocka, old and new: passed, failed and skipped tests" {
	local group
	for group in '' 'group: ' 'a group of many words: '; do
		cmocka_output "$group" | program test_some
		tests 1 test_some
		last_line "3 passed, 2 failed, 1 skipped"
		says "FAIL test_some" "  bad"$'\n' "  sets_up: set-up or tear-down failed" \
			"test_some: skips: not on this machine" "--- 0x1 != 0x2"
	done
}

@test "a program that ends within a test, and one that runs none" {
	program test_crash <<-'EOF'
		printf '[==========] group: Running 3 test(s).\n[ RUN      ] one\n[       OK ] one\n[ RUN      ] two\n'
		kill -ABRT $$
	EOF
	program test_none <<<'exit 0'
	program test_bad <<-'EOF'
		printf '[==========] group: Running 1 test(s).\n[ RUN      ] one\n[       OK ] one\n'
		exit 3
	EOF
	tests 1 test_crash test_none test_bad
	last_line "2 passed, 4 failed, 0 skipped"
	says "  two: the program ended within this test" "  (a test that was not reached)" "  (the program): it ran no test" \
		"  (the program): exit status 3"
}

@test "files of bats: passed, failed and skipped tests" {
	printf '@test "%s" { %s; }\n' good true bad false "not here" 'skip "it rains"' "not here either" skip \
		>"$BATS_TEST_TMPDIR/early/some.bats"
	: >"$BATS_TEST_TMPDIR/early/none.bats"
	tests 1 early/some.bats early/none.bats
	last_line "1 passed, 2 failed, 2 skipped"
	says "  bad"$'\n' "some.bats: not here: it rains" "some.bats: not here either: no reason given" "(the file): "
}

@test "no test is a failure, and wrong usage another" {
	tests 1
	says "No test has run." "0 passed, 0 failed, 0 skipped"
	bats_file early/skips.bats 'skip "always"'
	tests 1 early/skips.bats
	says "No test has run." "0 passed, 0 failed, 1 skipped"
	local wrong
	for wrong in "-j" "-j 0" "-j x" "--jobs 3" "--prepare" "--only" "--only /nowhere"; do
		# shellcheck disable=SC2086 # two words
		tests 2 $wrong
		says "usage: tests/run [-j N] [--few FOLDER] [--only LIST | --not LIST]"
	done
}

@test "files of one name in two folders are kept apart" {
	bats_file early/same.bats false
	bats_file late/same.bats true
	tests 1 -j 2 early/same.bats late/same.bats
	last_line "1 passed, 1 failed, 0 skipped"
	[[ $(grep -c '^FAILED: .*/early/same.bats (' <<<"$output") -eq 1 ]]
	[[ $(grep -c '^FAILED: ' <<<"$output") -eq 1 ]]
}

# together NAME OTHER: passes when the other one runs at the same time.
together() {
	ok_program "$1" "touch $1.here; for ((i = 0; i < 100; i++)); do [ -e $2.here ] && break; sleep 0.1; done; [ -e $2.here ] || exit 1"
}

@test "-j N: so many files side by side, and not more" {
	together test_a test_b
	together test_b test_a
	tests 0 -j 2 test_a test_b
	last_line "2 passed, 0 failed, 0 skipped"
	local name
	for name in c d e f; do
		ok_program "test_$name" 'mkdir running.$$; ls -d running.* | wc -l >>counts; sleep 0.3; rmdir running.$$'
	done
	tests 0 -j2 test_c test_d test_e test_f
	[ "$(sort -n counts | tail -n 1)" -eq 2 ]
	rm counts
	tests 0 test_c test_d test_e test_f
	[ "$(sort -n counts | tail -n 1)" -eq 1 ]
}

@test "those that take long begin first, those that are to be alone are so at the end; the report is in order" {
	ok_program test_a 'echo a >>begun; exit 1'
	bats_file early/b.bats 'echo b >>begun; for i in {1..100}; do grep -q d begun && break; sleep 0.1; done; false'
	bats_file early/c.bats 'echo c >>begun; touch c; sleep 1; rm c; false' '# bats file_tags=slow, alone'
	bats_file early/d.bats 'echo d >>begun; sleep 0.5; [ ! -e c ]'
	ok_program test_e 'echo e >>begun; [ ! -e c ] || exit 1'
	tests 1 -j 2 test_a early/c.bats early/b.bats test_e early/d.bats
	last_line "2 passed, 3 failed, 0 skipped"
	[[ $(head -n 2 begun | sort | xargs) == "b d" ]]
	# Those that fail begin once more, one by one.
	[[ $(tail -n +5 begun | xargs) == "c a c b" ]]
	[[ $(sed -nE 's/^FAILED: .*\/([^ ]+) .*/\1/p' <<<"$output" | xargs) == "test_a c.bats b.bats" ]]
}

@test "--few: of a folder's files a third runs side by side while there are others, and then as many as of any" {
	local file three='for i in {1..100}; do (($(wc -l <begun) >= 3)) && break; sleep 0.1; done; (($(wc -l <begun) >= 3))'
	mkdir "$BATS_TEST_TMPDIR/late/few"
	for file in {early,late/few}/{a,b,c}.bats; do bats_file "$file" "echo ${file%%/*} >>begun; $three"; done
	tests 0 -j 3 --few few late/few/{a,b,c}.bats early/{a,b,c}.bats
	last_line "6 passed, 0 failed, 0 skipped"
	[[ $(head -n 3 begun | sort | xargs) == "early early late" ]]
	# Where there are no others, or those are to be alone.
	rm begun
	bats_file early/a.bats '(($(wc -l <begun) == 3))' '# bats file_tags=alone'
	tests 0 -j 3 --few few early/a.bats late/few/{a,b,c}.bats
	last_line "4 passed, 0 failed, 0 skipped"
}

@test "what is prepared is awaited by those that need it only" {
	bats_file early/a.bats 'touch a.here; for i in {1..100}; do [ -e b.here ] && break; sleep 0.1; done; [ ! -e ready ]'
	bats_file late/b.bats '[ -e ready ]'
	tests 0 -j 1 --prepare "late=cd '$B'; while [ ! -e a.here ]; do sleep 0.1; done
		echo it is prepared; touch b.here; sleep 1; touch ready" late/b.bats early/a.bats
	last_line "2 passed, 0 failed, 0 skipped"
	grep -q "it is prepared" "$B/test-logs/late.prepare.log"
	# However it ends.
	rm -f ./*.here ready
	tests 1 --prepare late=false late/b.bats
	last_line "0 passed, 1 failed, 0 skipped"
}

# nobody MARK: within some seconds there is no process with this on its command line.
nobody() { within 5 none_has "$1" || { pgrep -af "$1" && return 1; }; }
none_has() { ! pgrep -f "$1" >/dev/null; }

# Where a process namespace can be had, what is in a session of its own ends, too.
away() { if ((EUID == 0)) && unshare --mount --pid --fork --mount-proc true 2>/dev/null; then echo "setsid "; fi; }

scratch() { find "$TMPDIR" -maxdepth 1 -name 'hvd-tests.*' | sort; }

@test "a file that takes too long is ended, with all that it has started" {
	local before mark=86399.$BASHPID
	before=$(scratch)
	ok_program test_slow "sleep $mark"
	bats_file early/slow.bats "$(away)sleep $mark & touch /tmp/$mark; sleep $mark"
	HVD_TEST_LIMIT=1 HVD_TEST_LIMIT_BATS=10 tests 1 test_slow early/slow.bats
	says "over its time limit of 1 s" "over its time limit of 10 s" "  one: the program ended within this test" \
		"  (a test that was not reached)"
	last_line "0 passed, 2 failed, 0 skipped"
	nobody "sleep $mark"
	[ "$(scratch)" = "$before" ]
	if [[ $(away) ]]; then [ ! -e "/tmp/$mark" ]; else rm -f "/tmp/$mark"; fi
}

slow_runs() { [[ -e here ]] && pgrep -f "test_slow" >/dev/null && grep -q "^ok .*test_done" out; }

@test "an interrupted run ends all that it has started, and says what had not ended" {
	local before signal mark pid status
	before=$(scratch)
	for signal in TERM:143 INT:130 HUP:129; do
		mark=86398.$BASHPID${signal#*:}
		ok_program test_done
		ok_program test_slow "sleep $mark"
		bats_file early/slow.bats "touch here; $(away)sleep $mark & sleep $mark"
		bats_file early/never.bats true '# bats file_tags=alone'
		rm -f here
		# A job in the background ignores the keyboard, unless it is told not to.
		env --default-signal=INT "$RUN" -j 2 --prepare "late=sleep $mark" "$BATS_TEST_TMPDIR"/test_{done,slow} \
			"$BATS_TEST_TMPDIR"/early/{slow,never}.bats >out 2>&1 3>&- &
		pid=$!
		within 20 slow_runs || { kill "$pid" && cat out && return 1; }
		kill -s "${signal%:*}" "$pid"
		status=0
		wait "$pid" || status=$?
		cat out
		[ "$status" -eq "${signal#*:}" ]
		grep -q "^Interrupted by SIG${signal%:*}; not ended: .*test_slow" out
		grep -q "^Interrupted .*/slow.bats.*" out && grep -q "^Interrupted .*/never.bats" out
		[ "$(tail -n 1 out)" = "1 passed, 0 failed, 0 skipped" ]
		nobody "sleep $mark"
		[ "$(scratch)" = "$before" ]
	done
}

@test "a file that fails beside others is repeated alone, which counts and is told" {
	# shellcheck disable=SC2016 # for the file
	bats_file early/busy.bats '[ -e was_here ] || { touch was_here && false; }'
	bats_file early/broken.bats 'echo again >>times && false'
	ok_program fine
	tests 1 -j 2 early/busy.bats early/broken.bats fine
	says 'Once more, one by one:' 'Failed beside other files' 'early/busy.bats: it' 'FAILED: '
	[ "$(grep -c '^FAILED: ' <<<"$output")" -eq 1 ]
	last_line '1 passed, 1 failed, 0 skipped, 1 flaky'
	[ "$(grep -c again times)" -eq 2 ]
	grep -q $'^flaky\t.*/busy.bats\tit\t' "$B/test-logs/results"
	rm was_here
	tests 1 early/busy.bats
	last_line '0 passed, 1 failed, 0 skipped'
}

@test "of a file of bats only what has failed is repeated, or all when its set-up has" {
	local name='busy (a|b) [c] * $d ^ #1, "e" \\f'
	printf '@test "%s" { echo "%s" >>"$B/runs"; %s; }\n' \
		good g true "${name//\"/\\\"}" b '[[ $(grep -c b "$B/runs") -eq 2 ]]' other o 'skip "it rains"' >"$BATS_TEST_TMPDIR/early/some.bats"
	tests 0 -j 2 early/some.bats
	last_line '1 passed, 0 failed, 1 skipped, 1 flaky'
	says "early/some.bats: busy (a|b)" "other: it rains"
	[[ $(xargs -a runs) == "g b o b" ]]
	{
		echo 'setup_file() { echo s >>"$B/runs"; [[ $(grep -c s "$B/runs") -eq 2 ]]; }'
		cat "$BATS_TEST_TMPDIR/early/some.bats"
	} >"$BATS_TEST_TMPDIR/late/some.bats"
	echo b >"$B/runs"
	tests 0 -j 2 late/some.bats
	last_line '2 passed, 0 failed, 1 skipped, 1 flaky'
	says '/late/some.bats: (the file)'
	[[ $(xargs -a runs) == "b s s g b o" ]]
}

@test "of a program all is repeated, and what had passed before is not flaky" {
	ok_program steady
	program busy <<-EOF
		cd '$B' || exit 1
		printf '[==========] busy: Running 2 test(s).\n[ RUN      ] good\n[       OK ] good\n[ RUN      ] bad\n'
		[ -e was_here ] || { touch was_here; printf '[  FAILED  ] bad\n'; exit 1; }
		printf '[       OK ] bad\n[==========] busy: 2 test(s) run.\n'
	EOF
	tests 0 -j 2 steady busy
	last_line '2 passed, 0 failed, 0 skipped, 1 flaky'
	says 'busy: bad'
	program busy <<-EOF
		printf '[==========] busy: Running 1 test(s).\n[ RUN      ] good\n[       OK ] good\n'
		[ -e '$B/was_there' ] || { touch '$B/was_there'; exit 1; }
	EOF
	tests 0 -j 2 steady busy
	last_line '2 passed, 0 failed, 0 skipped, 1 flaky'
	says 'busy: (the file)'
}

@test "more files with flaky tests than HVD_TEST_FLAKY are a failure" {
	local name
	for name in one two; do
		bats_file "early/$name.bats" "[ -e $name ] || { touch $name && false; }"
	done
	HVD_TEST_FLAKY=1 tests 1 -j 2 early/one.bats early/two.bats
	says '2 files are more than 1'
	last_line '0 passed, 0 failed, 0 skipped, 2 flaky'
	rm one two
	HVD_TEST_FLAKY=2 tests 0 -j 2 early/one.bats early/two.bats
	last_line '0 passed, 0 failed, 0 skipped, 2 flaky'
}

@test "the last line says which tests these are, if it is told" {
	ok_program fine
	tests 0 --say "first tier" fine
	last_line '1 passed, 0 failed, 0 skipped (first tier)'
}

@test "each file that has ended says how far the run is, and leaves its seconds" {
	ok_program test_one 'for ((i = 0; i < 20000; i++)); do :; done'
	printf '@test "%s" { :; }\n' a b >"$BATS_TEST_TMPDIR/early/two.bats"
	tests 0 test_one early/two.bats
	says "(1 of 2 files, 1 tests, 1 min left)" "(2 of 2 files, 3 tests)"
	grep -E '^[0-9.]+ test_one [0-9.]+$' "$B/test-logs/seconds"
	grep -E '^[0-9.]+ .*/two.bats [0-9.]+$' "$B/test-logs/seconds"
	[ "$(wc -l <"$B/test-logs/seconds")" -eq 2 ]
}

told_so() { grep -q 'failed: .*/some.bats: bad' out && grep -q '0 of 1 files, 1 tests, 1 min left: .*/some.bats' out; }

@test "on a terminal a test that fails is told while others of its file run, and the last line says how far the run is" {
	bats_file early/some.bats 'for i in {1..100}; do [ -e told ] && break; sleep 0.1; done; [ -e told ]' '@test "bad" { false; }'
	# A shell other than bash would not hand on the functions that bats has in its environment.
	SHELL=$BASH script -qfec "'$RUN' -j 2 '$BATS_TEST_TMPDIR/early/some.bats'" /dev/null </dev/null >out 2>&1 3>&- &
	local late=0 status=0
	within 10 told_so || late=1
	touch told
	wait "$!" || status=$?
	cat out
	((late == 0))
	[ "$status" -eq 1 ]
	# Once, and once more when it is repeated.
	[ "$(grep -c 'failed: .*/some.bats: bad' out)" -eq 2 ]
	grep -q '^1 passed, 1 failed, 0 skipped' out
}

@test "--only: the tests that a list names, and no others; --not: these others" {
	local file
	for file in early late; do
		printf '@test "%s" { echo "%s" >>"$B/ran"; }\n' "it (really) works: \\\"so\\\"" "$file-1" "it works" "$file-2" other "$file-3" \
			>"$BATS_TEST_TMPDIR/$file/some.bats"
		bats_file "$file/all.bats" "echo $file-all >>ran"
	done
	ok_program test_a 'echo a >>ran'
	ok_program test_b 'echo b >>ran'
	ok_program test_c 'echo c >>ran'
	{
		printf '# What is to run\n\ntest_*\n- test_b\n'
		echo "$BATS_TEST_TMPDIR/early/*.bats"
		echo "- $BATS_TEST_TMPDIR/early/some.bats: other"
		echo "$BATS_TEST_TMPDIR/late/some.bats: it (really) works: \\\"so\\\""
		echo "elsewhere.bats: what is not here does not matter"
	} >list
	tests 0 -j 2 --only "$PWD/list" test_{a,b,c} {early,late}/{some,all}.bats
	[[ $(sort ran | xargs) == "a c early-1 early-2 early-all late-1" ]]
	last_line '6 passed, 0 failed, 0 skipped'
	says '5 of 5 files'
	rm ran
	tests 0 -j 2 --not "$PWD/list" test_{a,b,c} {early,late}/{some,all}.bats
	[[ $(sort ran | xargs) == "b early-3 late-2 late-3 late-all" ]]
	last_line '5 passed, 0 failed, 0 skipped'
	# Not what has been renamed.
	echo "$BATS_TEST_TMPDIR/late/some.bats: it works no longer" >>list
	tests 2 --only "$PWD/list" test_{a,b,c} {early,late}/{some,all}.bats
	says "no test is '$BATS_TEST_TMPDIR/late/some.bats: it works no longer'"
}

@test "--only: of a file that is repeated the others do not run either, and where none can run only those are skipped" {
	{
		echo 'setup_file() { echo s >>"$B/ran"; [[ $(grep -c s "$B/ran") -eq 2 ]]; }'
		printf '@test "%s" {\n\techo %s >>"$B/ran"\n}\n' one 1 two 2
	} >"$BATS_TEST_TMPDIR/early/some.bats"
	echo "$BATS_TEST_TMPDIR/early/some.bats: one" >list
	tests 0 -j 2 --only "$PWD/list" early/some.bats
	[[ $(xargs -a ran) == "s s 1" ]]
	mkdir "$BATS_TEST_TMPDIR/bin"
	ln -s -t "$BATS_TEST_TMPDIR/bin" /usr/bin/*
	rm -f "$BATS_TEST_TMPDIR/bin/bats"
	PATH=$BATS_TEST_TMPDIR/bin tests 1 --only "$PWD/list" early/some.bats
	says "some.bats: one: bats is not installed"
	last_line '0 passed, 0 failed, 1 skipped'
}

@test "the results have the seconds of each test of bats" {
	printf '@test "%s" { %s; }\n' 'sleeps in 5ms' 'sleep 0.3' skips 'skip "it rains"' fails 'sleep 0.3; false' >"$BATS_TEST_TMPDIR/early/some.bats"
	tests 1 early/some.bats
	cut -f 1,3- "$B/test-logs/results" | grep -E $'^pass\tsleeps in 5ms\t\t0\\.[3-9]$'
	cut -f 1,3- "$B/test-logs/results" | grep -E $'^skip\tskips\tit rains\t0\\.[0-9]$'
	cut -f 1,3- "$B/test-logs/results" | grep -E $'^fail\tfails\t\t0\\.[3-9]$'
}
