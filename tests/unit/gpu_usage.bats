#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2016 # what run sets; text for the ranks' shell
# What ranks use of GPUs, with a stand-in for NVIDIA's library (tests/standins/nvml.c), on this machine. Its /dev has GPUs in
# a mount namespace of the test.

bats_require_minimum_version 1.5.0

load ../cluster/helpers
load ../cluster/launch

setup_file() {
	built
	export HVD_LAUNCHER=fork
	[[ -e $B/tests/standins/nvml/libnvidia-ml.so.1 ]] || { echo "make test-tools" >&2 && return 1; }
}

# with_gpus COMMAND…: two more GPUs than the machine has are in its /dev.
with_gpus() {
	unshare --mount bash -euc 'mount -t tmpfs none /mnt
		mkdir /mnt/upper /mnt/work
		mount -t overlay overlay -o lowerdir=/dev,upperdir=/mnt/upper,workdir=/mnt/work /dev
		touch /dev/nvidia8 /dev/nvidia9
		exec "$@"' - "$@"
}

setup() {
	((EUID == 0)) || skip "a /dev of its own needs root"
	with_gpus true 2>/dev/null || skip "the kernel has no overlay file system for /dev here"
	cd "$BATS_TEST_TMPDIR" || return
	OUT=$PWD/out
	export OUT NVML_STANDIN=$PWD/script LD_LIBRARY_PATH=$B/tests/standins/nvml
	TIME=1000
	echo "gpus 2" >script
}

teardown() {
	[[ ! ${PID-} ]] || ! running "$PID" || { kill "$PID" && wait "$PID"; } || true
	[[ ! ${HUNG-} ]] || ! running "$HUNG" || kill "$HUNG"
	[[ ! -e $NVML_STANDIN.misused ]] || { cat "$NVML_STANDIN.misused" && return 1; }
}

teardown_file() { :; }

has_pids() { [[ -s pid.0 && -s pid.1 ]]; }

# begin_job OPTION…: two ranks.
begin_job() {
	with_gpus "$HVDRUN" --sample=0.5 "$@" -np 2 sh -c 'echo $$ >pid.$RANK; while ! [ -e stop ]; do sleep 0.1; done' \
		>"$OUT" 2>&1 3>&- &
	PID=$!
	wait_for 30 has_pids
}

# of_rank_0 TEXT: its use goes on, and the metrics have this line of it.
of_rank_0() {
	echo "sample 0 $(<pid.0) $((++TIME)) 87" >>script
	grep -q "^hvd_rank_gpu_$1" metrics
}

@test "time and memory of ranks on GPUs are in the metrics, and the process that looks ends with the job" {
	begin_job --metrics=file:"$PWD/metrics"
	printf 'gpus 2\nprocess 0 %d 5000000000\nprocess 1 %d 7000000\n' "$(<pid.0)" "$(<pid.1)" >script
	wait_for 30 of_rank_0 'ratio.*rank="0"} 0.870*$'
	wait_for 30 of_rank_0 'memory_bytes.*rank="0"} 5000000000$'
	wait_for 30 of_rank_0 'memory_bytes.*rank="1"} 7000000$'
	grep -q '^hvd_rank_gpu_ratio.*rank="1"} 0$' metrics
	[[ $(lookers | wc -l) -eq 1 ]]
	touch stop
	wait "$PID"
	[[ ! $(lookers) ]]
}

# The processes that look, of this test.
lookers() {
	local pid
	for pid in $(pgrep -x hvd-gpus); do
		! tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qx "NVML_STANDIN=$NVML_STANDIN" || echo "$pid"
	done
}

# It sleeps there until it is killed, and is in state D from then on.
asks_fuse() { [[ $(lookers) && $(<"/proc/$(lookers)/wchan") == request_wait_answer ]]; }

@test "a driver that hangs in the kernel keeps no job from its end" {
	mkdir hung
	[[ -e /dev/fuse ]] || skip "the kernel has no FUSE"
	python3 "$SRC/tests/cluster/lib/hung_fs.py" "$PWD/hung" >mounted 2>&1 3>&- &
	HUNG=$!
	wait_for 10 grep -q mounted mounted
	echo "hang nvmlDeviceGetCount_v2 $PWD/hung/file" >>script
	begin_job
	wait_for 30 asks_fuse
	touch stop
	wait_for 20 stopped "$PID"
	wait "$PID"
	[[ $(ps -o state= -p "$(lookers)") == D ]]
	kill "$HUNG"
	wait_for 20 none_looks
}

none_looks() { [[ ! $(lookers) ]]; }

@test "without --sample nothing is started" {
	begin_job --sample=0
	sleep 1
	[[ ! $(lookers) ]]
	touch stop
	wait "$PID"
}
