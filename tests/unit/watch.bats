#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# hvdrun --watch of a launch on this machine, on a terminal and without one.

bats_require_minimum_version 1.5.0

load ../cluster/helpers
load ../cluster/launch

setup_file() {
	B=$(cd "$BATS_TEST_DIRNAME/../.." && cd "${B:-build}" && pwd)
	export B HVDRUN=$B/bin/hvdrun
	[[ -x $HVDRUN ]] || { echo "there is no hvdrun in $B: make all" >&2 && return 1; }
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	begin "$HVDRUN" --launcher=fork -np 3 --sample=1 bash -c 'echo here; exec sleep 1000'
	says_times 30 3 here
	JOB=$PID
}

teardown() {
	kill "$JOB" 2>/dev/null || true
	wait "$JOB" 2>/dev/null || true
}

# user SCENARIO: a user on a terminal finds what watch_pty.py expects, and the job goes on.
user() {
	[[ $(ldd "$B/libexec/hvd/hvd-watch") == *ncurses* ]] || skip "built without ncurses"
	run -0 python3 "$BATS_TEST_DIRNAME/watch_pty.py" "$HVDRUN" "pid:$JOB" "$1" || { echo "$output" && return 1; }
}

@test "keys show ranks, hosts, stacks and help; the size may change; q leaves the job alone" {
	user keys
	running "$JOB"
}

@test "Ctrl-C, SIGTERM and the end of the terminal leave the job alone, and restore the terminal" {
	user signals
	running "$JOB"
}

@test "a terminal that cannot move its cursor gets lines" {
	user dumb
	running "$JOB"
}

@test "when the launch ends its last state stays, and the status is 0" {
	user end
	wait_for 20 stopped "$JOB"
}

states() { [[ $(grep -c "ranks: 3 running" text) -ge 2 && $(wc -l <json) -ge 2 ]]; }

@test "without a terminal it prints the text, or lines of JSON, until the launch ends" {
	local text json status=0
	"$HVDRUN" --watch="pid:$JOB" --interval=1 >text 2>said 3>&- &
	text=$!
	"$HVDRUN" --watch="pid:$JOB" --interval=1 --json >json 3>&- &
	json=$!
	wait_for 60 states
	kill "$JOB"
	wait "$text" || status=$?
	[[ $status -eq 0 ]] || { cat said && return 1; }
	wait "$json"
	grep -qE '^---- [0-9:]{8} ----$' text
	grep -qxF "hvdrun: the launch has ended" said
	[[ $(jq -r '.launches[0].pid' json | sort -u) == "$JOB" ]]
}

@test "a job that is not there is an error" {
	run -2 "$HVDRUN" --watch=pid:1
	[[ $output == "hvdrun: error: process 1 is not an hvdrun"* ]] || { echo "$output" && return 1; }
	run -2 "$HVDRUN" --watch="pid:$JOB" --interval=0
}
