#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2016 # what run sets; text for the ranks' shell
# What NCCL's RAS says of a job (tests/standins/nccl_ras.py) is shown with the stacks. The ranks run on this machine, which
# CUDA_VISIBLE_DEVICES gives GPUs.

bats_require_minimum_version 1.5.0

load ../cluster/helpers
load ../cluster/launch

setup_file() {
	built
	export HVD_LAUNCHER=fork
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	OUT=$PWD/out
	HVDRUN_OPTIONS=()
	unset NCCL_RAS_ADDR NCCL_RAS_ENABLE
	export OUT CUDA_VISIBLE_DEVICES=0,1
}

teardown() {
	[[ ! ${PID-} ]] || ! running "$PID" || { kill "$PID" && wait "$PID"; } || true
}

teardown_file() { :; }

# begin_job OPTION…: two ranks, of which the first serves NCCL's RAS with these options.
begin_job() {
	printf '%s\n' '#!/bin/sh' \
		'[ "$RANK" = 0 ] || exec sleep 300' \
		'sleep 300 | exec python3 "$SRC/tests/standins/nccl_ras.py" '"$*" >rank
	chmod +x rank
	"$HVDRUN" "${HVDRUN_OPTIONS[@]}" -np 2 ./rank >"$OUT" 2>&1 3>&- &
	PID=$!
	wait_for 30 grep -qE '^[0-9]+$' "$OUT"
}

stacks() { run -0 "$HVDRUN" --stacks "pid:$PID" "$@"; }

@test "the ranks of a host have one port for NCCL's RAS, a value of the user stays, and hosts without GPUs have none" {
	run -0 "$HVDRUN" -np 2 sh -c 'echo "$NCCL_RAS_ADDR"'
	[[ $(grep -cE '127\.0\.0\.1:[0-9]+$' <<<"$output") -eq 2 ]]
	[[ $(grep -oE '127\.0\.0\.1:[0-9]+$' <<<"$output" | sort -u | wc -l) -eq 1 ]]
	NCCL_RAS_ADDR=localhost:28028 run -0 "$HVDRUN" -np 1 sh -c 'echo "$NCCL_RAS_ADDR"'
	[[ $output == *localhost:28028* ]]
	[[ -e /dev/nvidia0 || -e /sys/class/kfd ]] && return
	CUDA_VISIBLE_DEVICES='' run -0 "$HVDRUN" -np 1 sh -c 'echo "it is: ${NCCL_RAS_ADDR-not set}"'
	[[ $output == *"it is: not set"* ]]
}

@test "--stacks names the ranks that are behind, and those that NCCL has lost" {
	begin_job --ranks=8 --behind=3 --dead=5
	stacks
	has "nccl: rank 3 of 8 (process 4003 on 10.0.0.4) is behind: 41 operations called, 42 by others (missing: AllReduce); no rank calls further ones" \
		"nccl: no answer from rank 5 of 8 (process 4005 on 10.0.0.6), which NCCL holds for dead"
	stacks --json
	[[ $(python3 -c 'import json, sys; print(json.load(sys.stdin)["nccl"]["odd"][0]["ranks"])' <<<"$output") == "[[3, '10.0.0.4', 4003]]" ]]
}

@test "ranks that all wait are even, and a job that goes on is said to" {
	begin_job --moves
	stacks
	has "nccl: in 1 communicator all ranks have called as many operations; ranks call further ones"
}

@test "the watch for hangs shows it, and does not end the job for it" {
	HVDRUN_OPTIONS=(--hang-timeout=2)
	begin_job --behind=1
	wait_for 60 grep -q "nccl: rank 1 of 4" "$OUT"
	running "$PID"
}

@test "without an answer of NCCL the stacks are there all the same" {
	begin_job --mute
	stacks
	has "2 ranks"
	has_not "nccl:"
}

@test "NCCL_RAS_ENABLE=0 is not asked" {
	NCCL_RAS_ENABLE=0 begin_job --behind=1
	stacks
	has "2 ranks"
	has_not "nccl:"
}
