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

# begin_job OPTION…: two ranks, of which the first serves NCCL's RAS with these options, and the second runs SECOND.
begin_job() {
	printf '%s\n' '#!/bin/sh' \
		'echo $$ >pid.$RANK' "[ \"\$RANK\" = 0 ] || exec ${SECOND-sleep 300}" \
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
	has "nccl: in a communicator of 8, its rank 3 (process 4003 on 10.0.0.4) is behind: 41 operations called, 42 by others (missing: AllReduce); no rank calls further ones" \
		"nccl: in a communicator of 8, there is no answer from its rank 5 (process 4005 on 10.0.0.6), which NCCL holds for dead"
	stacks --json
	[[ $(python3 -c 'import json, sys; print(json.load(sys.stdin)["nccl"]["odd"][0]["ranks"][0]["pid"])' <<<"$output") == 4003 ]]
}

@test "a rank in a pid namespace of its own, as in a container, is found by its number there" {
	unshare --user --map-root-user --pid --fork true || skip "no pid namespaces"
	echo 2 >pid.inner # below the first one, which heeds SIGTERM by the trap only
	SECOND="unshare --user --map-root-user --pid --fork sh -c 'trap exit TERM; sleep 300 & wait'" begin_job --ranks=2 --behind=1 --pids pid.0 pid.inner
	stacks
	has "nccl: in a communicator of 2, rank 1 (localhost) is behind: 41 operations called, 42 by others (missing: AllReduce)"
}

@test "ranks that all wait are even, and a job that goes on is said to" {
	begin_job --moves
	stacks
	has "nccl: in 1 communicator all ranks have called as many operations; ranks call further ones"
}

# begin_busy WHAT…: two ranks under a watch for hangs, as py-spy shows them. Rank 0 serves NCCL's RAS with the options in RAS,
# and is busy; rank 1, which has another number there, is "idle", or "busy". PLACE is the function in which busy ones are.
begin_busy() {
	mkdir bin
	printf '%s\n' '#!/bin/bash' 'read -r name file <"place.$(tr "\0" "\n" </proc/${*: -1}/environ | sed -n "s/^RANK=//p")"' \
		'cat <<END' '[{"pid":1,"thread_id":1,"thread_name":"MainThread","os_thread_id":1,"active":true,"owns_gil":false,"frames":[' \
		' {"name":"$name","filename":"$file","line":900}, {"name":"step","filename":"/work/train.py","line":41}]}]' END >bin/py-spy
	# A quarter of a processor is busy enough (BUSY_SHARE in launcher/diagnosis/busy_hang.c), and leaves some to other tests.
	printf '%s\n' '#!/bin/bash' 'echo $$ >pid.$RANK' 'mkfifo never.$RANK && exec {never}<>never.$RANK' \
		'compute() { while kill -0 $$; do for ((i = 0; i < 20000; i++)); do :; done; read -t 0.1 -u $never; done; }' \
		'[[ $RANK == 0 || $1 == busy ]] || exec sleep 300' '[[ $RANK == 0 ]] || compute' \
		'compute 2>/dev/null &' 'until [[ -s pid.1 ]]; do sleep 0.1; done' \
		'sleep 300 | exec python3 "$SRC/tests/standins/nccl_ras.py" --ranks=2 --pids pid.1 pid.0 $RAS' >rank
	chmod +x bin/py-spy rank
	echo "${PLACE-synchronize /opt/torch/cuda/__init__.py}" | tee place.0 >place.1
	[[ $1 == busy ]] || echo "get /usr/lib/python3/queue.py" >place.1
	PATH=$PWD/bin:$PATH "$HVDRUN" --verbose --events=events --hang-timeout=2 --hang-action=kill -np 2 ./rank "$1" >"$OUT" 2>&1 3>&- &
	PID=$!
}

ends() {
	wait_for 60 stopped "$PID"
	output=$(<"$OUT")
}

@test "a rank that is idle, and behind while another one waits for its GPU, hangs the job" {
	RAS=--behind=0 begin_busy idle
	ends
	has "some are busy: rank 1 (localhost) in get (train.py:41), behind with 41 operations of NCCL, 42 of others; 1 is busy, 1 waits" \
		"nccl: in a communicator of 2, rank 1 (localhost) is behind" "ending the job: no rank has made progress"
}

@test "the watch for hangs shows it, and does not end the job for it" {
	HVDRUN_OPTIONS=(--hang-timeout=2)
	begin_job --behind=1
	wait_for 60 grep -q "nccl: in a communicator of 4, its rank 1" "$OUT"
	running "$PID"
}

@test "ranks that have called as many operations, and wait for their GPUs, hang together" {
	begin_busy busy
	ends
	has "all ranks have called as many operations of NCCL, and call no further ones; 2 are busy" "ending the job"
}

@test "a rank that computes, and is behind, may hang the job, which goes on" {
	export PLACE="step /work/model.py"
	RAS=--behind=0 begin_busy busy
	says 60 "but some are busy: rank 1 (localhost) in step (model.py:900), behind"
	says 60 "a long call looks the same"
	grep -q '"name":"may-hang",.*behind with 41' events
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
