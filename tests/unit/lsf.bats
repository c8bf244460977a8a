#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# hvdrun in environments such as jobs of LSF have: which hosts and slots it takes, what it says and refuses. There is no
# LSF here; CSM's tools are stand-ins. Ranks that start do so on this machine.

# shellcheck disable=SC2030,SC2031 # each test has a shell of its own
bats_require_minimum_version 1.5.0

load ../cluster/helpers

setup_file() {
	cd "$BATS_TEST_DIRNAME/../.." || return 1
	SRC=$PWD B=$(cd "${B:-build}" && pwd)
	export SRC B
}

setup() {
	local name
	cd "$BATS_TEST_TMPDIR" || return 1
	for name in $(compgen -v | grep -E '^(SLURM|LSB|CSM|JSM|HVD|CUDA|ROCR|HIP)_'); do
		unset "$name"
	done
	HERE=$(hostname)
	export HVD_STANDIN_CSM=$PWD/csm
	mkdir csm
	export PATH=$B/bin:$PATH
}

# in_job NAME=VALUE... -- ARGUMENT...: hvdrun in such an environment.
in_job() {
	local vars=(LSB_JOBID=71)
	while [[ $1 != -- ]]; do
		vars+=("$1")
		shift
	done
	shift
	run --separate-stderr env "${vars[@]}" hvdrun "$@"
	echo "status $status"
	echo "$output"
	# shellcheck disable=SC2154 # set by run
	echo "$stderr"
}
# hosts: "a:2 b:1" of a --dry-run --json
hosts() { python3 -c 'import json, sys; print(*(h["name"] + ":" + str(h["slots"]) for h in json.load(sys.stdin)["hosts"]))' <<<"$output"; }
# ssh as launcher: it needs none of LSF's commands to be there
dry=(--launcher=ssh --dry-run --json)

@test "a dry run says where hosts and slots come from" {
	in_job "LSB_MCPU_HOSTS=a 2 b 2 " -- --launcher=ssh --dry-run true
	[ "$status" -eq 0 ]
	[[ $output == *"# 4 ranks on 2 hosts (LSF job 71: LSB_MCPU_HOSTS, a slot per task):"* ]]
}

@test "all slots by default, -np takes the first of them, more are refused" {
	in_job "LSB_MCPU_HOSTS=a 2 b 2" -- "${dry[@]}" true
	[ "$(hosts)" = "a:2 b:2" ]
	in_job "LSB_MCPU_HOSTS=a 2 b 2" -- "${dry[@]}" -np 3 true
	[ "$(hosts)" = "a:2 b:1" ]
	in_job "LSB_MCPU_HOSTS=a 2 b 2" -- "${dry[@]}" -np 2 true
	[ "$(hosts)" = "a:2" ]
	in_job "LSB_MCPU_HOSTS=a 2 b 2" -- "${dry[@]}" -np 5 true
	[ "$status" -eq 2 ]
	[[ $stderr == *"5 processes were asked for, but there are 4 slots (LSF job 71"* ]]
	in_job "LSB_MCPU_HOSTS=a 2 b 2" -- "${dry[@]}" --slots-per-host=4 true
	[ "$(hosts)" = "a:4 b:4" ]
}

@test "--hosts and --hostfile choose among the job's hosts" {
	in_job "LSB_MCPU_HOSTS=a 2 b 2 c 4" -- "${dry[@]}" --hosts c:3,a:1 true
	[ "$(hosts)" = "c:3 a:1" ]
	printf 'b slots=2\n' >hostfile
	in_job "LSB_MCPU_HOSTS=a 2 b 2 c 4" -- "${dry[@]}" --hostfile hostfile true
	[ "$(hosts)" = "b:2" ]
	in_job "LSB_MCPU_HOSTS=a 2 b 2" -- "${dry[@]}" --hosts a:1,d:1 true
	[ "$status" -eq 2 ]
	[[ $stderr == *"host d is not in this allocation"* ]]
	in_job "LSB_MCPU_HOSTS=a 2 b 2" -- "${dry[@]}" --hosts a:3 true
	[ "$status" -eq 2 ]
	[[ $stderr == *"3 slots on a are more than the job has there, 2"* ]]
}

@test "a hostfile that is empty or unreadable is passed over, and hvdrun says so" {
	: >empty
	in_job LSB_DJOB_HOSTFILE="$PWD/empty" "LSB_MCPU_HOSTS=a 1" -- "${dry[@]}" true
	[ "$(hosts)" = "a:1" ]
	[[ $stderr == *"warning: LSB_DJOB_HOSTFILE cannot be used: it names no host"* ]]
	in_job LSB_DJOB_HOSTFILE=/nowhere "LSB_HOSTS=a b a" -- "${dry[@]}" true
	[ "$(hosts)" = "a:2 b:1" ]
	[[ $stderr == *"LSB_DJOB_HOSTFILE cannot be used: cannot open the file /nowhere"* ]]
	in_job LSB_DJOB_HOSTFILE=/nowhere -- "${dry[@]}" true
	[ "$status" -eq 1 ]
	[[ $stderr == *"LSF names no host of job 71"* ]]
}

@test "LSB_JOBID that was left behind does not make a job" {
	run -0 env LSB_JOBID=71 hvdrun -np 2 --dry-run true
	[[ $output == *"backend: fork"* ]]
}

@test "ranks of the job's first host start without any launcher, one for each GPU" {
	in_job "LSB_MCPU_HOSTS=$HERE 40" CUDA_VISIBLE_DEVICES=0,1 -- sh -c 'echo $HOROVOD_RANK of $HOROVOD_SIZE'
	[ "$status" -eq 0 ]
	[ "$(sort <<<"$output")" = $'0 of 2\n1 of 2' ]
}

@test "ranks are bound as LSF has bound the tasks" {
	local cpus cpu
	cpus=$(awk '/Cpus_allowed_list/ { print $2 }' /proc/self/status)
	cpu=${cpus%%[-,]*}
	printf '%s\n' "b 5,6 0" "$HERE $cpu 0" "$HERE $cpu" >affinity
	in_job "LSB_MCPU_HOSTS=$HERE 2 b 1" LSB_AFFINITY_HOSTFILE="$PWD/affinity" -- "${dry[@]}" true
	[[ $output == *"--cpus=$cpu:$cpu"* ]]
	[[ $output == *'"--cpus=5,6"'* ]]
	in_job "LSB_MCPU_HOSTS=$HERE 2" LSB_AFFINITY_HOSTFILE="$PWD/affinity" -- grep Cpus_allowed_list /proc/self/status
	[ "$status" -eq 0 ]
	[ "$(awk '{ print $2 }' <<<"$output")" = "$cpu"$'\n'"$cpu" ]
	# another host's file: ranks start all the same
	printf '%s\n' "$HERE 1022" "$HERE 1023" >affinity
	in_job "LSB_MCPU_HOSTS=$HERE 2" LSB_AFFINITY_HOSTFILE="$PWD/affinity" -- echo here
	[ "$output" = $'here\nhere' ]
	[[ $stderr == *"cannot use the scheduler's list of CPUs, ranks are bound without it: some of the CPUs"* ]]
}

@test "elastic jobs use the job's hosts, as they are" {
	in_job "LSB_MCPU_HOSTS=$HERE 2" LSB_DJOB_HOSTFILE=/nowhere -- --min-np 1 sh -c 'echo "rank $HOROVOD_RANK"'
	[ "$status" -eq 0 ]
	[ "$(sort <<<"$output")" = $'rank 0\nrank 1' ]
	[[ $stderr == *"warning: LSB_DJOB_HOSTFILE cannot be used"* ]]
	in_job "LSB_MCPU_HOSTS=$HERE 2" -- --min-np 1 --hosts elsewhere:1 true
	[ "$status" -eq 2 ]
	[[ $stderr == *"host elsewhere is not in this allocation"* ]]
}

@test "a host whose name does not resolve is named" {
	# ssh itself does not say it in a way that can be read.
	printf '#!/bin/sh\nexit 255\n' >ssh
	chmod +x ssh
	in_job LSB_MCPU_HOSTS="no-such-host.invalid 1" HVD_SSH="$PWD/ssh" -- --launcher=ssh true
	[ "$status" -eq 1 ]
	[[ $stderr == *"no-such-host.invalid: its name does not resolve on this host"* ]]
	[[ $stderr == *"getent hosts no-such-host.invalid must find it"* ]]
}

@test "CSM: hosts × GPUs, cores less the isolated ones, and no launch node" {
	export PATH=$SRC/tests/standins:$PATH
	printf '%s\n' 'compute_nodes: h1 h2' 'launch_node_name: batch1' 'isolated_cores: 1' >csm/allocation.12
	printf '%s\n' 'h1 44 2 6' 'h2 44 2 6' >csm/nodes
	in_job CSM_ALLOCATION_ID=12 "LSB_MCPU_HOSTS=batch1 1 h1 42 h2 42" -- "${dry[@]}" true
	[ "$(hosts)" = "h1:6 h2:6" ]
	[ -z "$stderr" ]
	[ "$(cat csm/calls)" = 'csm_allocation_query -a 12
csm_node_attributes_query -n h1\,h2' ]
	in_job CSM_ALLOCATION_ID=12 "LSB_MCPU_HOSTS=batch1 1 h1 42 h2 42" -- "${dry[@]}" -np 7 true
	[ "$(hosts)" = "h1:6 h2:1" ]
}

@test "CSM: when its tools fail LSF's list is taken, and hvdrun says so" {
	export PATH=$SRC/tests/standins:$PATH
	in_job CSM_ALLOCATION_ID=12 HVD_STANDIN_CSM_FAIL="csm_allocation_query=daemon csm_node_attributes_query=daemon" \
		"LSB_MCPU_HOSTS=batch1 1 h1 42 h2 42" -- "${dry[@]}" true
	[ "$(hosts)" = "h1:42 h2:42" ]
	[[ $stderr == *"warning: CSM does not report which hosts the job has, LSF's list is used: csm_allocation_query: exit code 18"* ]]
	[[ $stderr == *"warning: CSM does not report the GPUs and cores of the hosts"* ]]
}

@test "the stand-ins of CSM refuse what is not documented" {
	export PATH=$SRC/tests/standins:$PATH
	: >csm/nodes
	run -9 csm_allocation_query --allocation 12
	run -9 csm_allocation_query -a x
	run -8 csm_allocation_query
	run -4 csm_allocation_query -a 5
	[[ $output == *"Total_Records: 0"* ]]
	run -9 csm_node_attributes_query -n 'a b'
	run -8 csm_node_attributes_query
	run -4 csm_node_attributes_query -n a
}

@test "--check-build has Horovod's sections, and its own words in them" {
	local section
	mkdir bin
	run -0 env PATH="$PWD/bin" "$B/bin/hvdrun" --check-build
	for section in "Available Frameworks:" "    [ ] PyTorch" "Available Controllers:" "    [ ] Gloo" \
		"Available Tensor Operations:" "    [ ] NCCL" "Launch backends:" "Horovod: neither python nor python3"; do
		grep -qF -x -e "$section" -e "$section, as PATH has them, can import it" <<<"$output" || { echo "$output" && false; }
	done
	printf '#!/bin/sh\n%s\n' 'echo "No module named horovod" >&2; exit 1' >bin/python
	# shellcheck disable=SC2016 # for the stand-in
	printf '#!/bin/sh\n%s\n' 'echo "Horovod v9.9:"; echo; echo "Available Frameworks:"; echo "    [X] PyTorch"; echo "$*"' >bin/python3
	chmod +x bin/python*
	run -0 env PATH="$PWD/bin" "$B/bin/hvdrun" --check-build
	[[ $output == *$'\n'"Horovod v9.9:"$'\n\n'"Available Frameworks:"$'\n'"    [X] PyTorch"$'\n'"-m horovod.runner.launch --check-build" ]]
}

@test "--check-build names every value of --launcher" {
	local launcher launchers
	run -2 --separate-stderr hvdrun --launcher=nosuch true
	launchers=$(grep -o "auto|[a-z|]*" <<<"$stderr")
	run -0 hvdrun --check-build
	for launcher in ${launchers//|/ }; do
		[[ $launcher == auto ]] || grep -qE "^    \[X\] (.*, )?${launcher}[, ]" <<<"$output" || { echo "no $launcher in: $output" && false; }
	done
}

@test "a Horovod that lacks the controller of its ranks is told of in one line" {
	local env=$PWD/env lib
	lib=$env/lib/python3.11/site-packages/horovod/torch/mpi_lib_v2.cpython-311-x86_64-linux-gnu.so
	mkdir -p "$env/bin" "${lib%/*}"
	: >"$env/pyvenv.cfg"
	printf '#!/bin/sh\n' >"$env/bin/python3"
	chmod +x "$env/bin/python3"
	# said OPTION...: what hvdrun says of Horovod
	said() { hvdrun --launcher=fork -np 2 "$@" python3 train.py 2>&1 | grep -F horovod || true; }
	local PATH=$env/bin:$PATH gloo='"_ZTIN7horovod6common14GlooControllerE"' mpi='"_ZTIN7horovod6common13MPIControllerE"'
	[[ -z $(said) ]]
	echo "$gloo" >"$lib"
	[[ -z $(said) && -z $(said --min-np=2) ]]
	echo "$gloo $mpi" >"$lib"
	[[ -z $(said) && -z $(said --min-np=2) ]]
	echo "$mpi" >"$lib"
	[[ $(said) == "hvdrun: warning: "*"/site-packages/horovod was built for MPI only, but its ranks would use Gloo: --mpi"* ]]
	[[ $(said --min-np=2) == "hvdrun: warning: "*"/site-packages/horovod was built without Gloo, which elastic jobs"* ]]
	[[ $(said --min-np=2 | wc -l) -eq 1 && $(said | wc -l) -eq 1 ]]
	# Programs of other frameworks do not need it.
	[[ -z $(said --min-np=2 --max-restarts=1) && -z $(said --frameworks=torch) ]]
	# By its path, and from PYTHONPATH.
	mv "$env/lib" "$PWD/moved"
	[[ -z $(said) && $(PYTHONPATH=/nowhere:$PWD/moved/python3.11/site-packages said) == *"$PWD/moved/python3.11/site-packages/horovod was built"* ]]
}

soon() { within 30 "$@"; }
state_is() { [[ $(awk '{ print $3 }' "/proc/$2/stat" 2>/dev/null) == "$1" ]]; }
goes_on() { ! state_is T "$1"; }
gone() { [[ ! -e /proc/$1 ]]; }

# LSF signals the process group of the job: for bstop TSTP and then STOP, for bresume CONT, for bkill CONT and INT first.
@test "bstop stops the ranks as well, bresume continues them, bkill ends them" {
	# shellcheck disable=SC2016
	setsid env LSB_JOBID=71 LSB_MCPU_HOSTS="$HERE 2" hvdrun sh -c \
		'echo $$ >pid.$HOROVOD_RANK.new; mv pid.$HOROVOD_RANK.new pid.$HOROVOD_RANK; exec sleep 120' 3>&- &
	local job=$! rank process status=0
	soon [ -e pid.0 ]
	soon [ -e pid.1 ]
	kill -TSTP -- "-$job"
	for process in "$(cat pid.0)" "$(cat pid.1)" "$job"; do soon state_is T "$process"; done
	kill -STOP -- "-$job"
	kill -CONT -- "-$job"
	for process in "$(cat pid.0)" "$(cat pid.1)" "$job"; do soon goes_on "$process"; done
	# a second time, and ended while it is stopped
	kill -TSTP -- "-$job"
	for process in "$(cat pid.0)" "$(cat pid.1)" "$job"; do soon state_is T "$process"; done
	kill -CONT -- "-$job"
	kill -INT -- "-$job"
	wait "$job" || status=$?
	[ "$status" -eq 130 ]
	for rank in 0 1; do soon gone "$(cat "pid.$rank")"; done
}

@test "a job that is killed leaves nothing behind" {
	# shellcheck disable=SC2016
	setsid env LSB_JOBID=71 LSB_MCPU_HOSTS="$HERE 2" hvdrun sh -c \
		'echo $$ >pid.$HOROVOD_RANK.new; mv pid.$HOROVOD_RANK.new pid.$HOROVOD_RANK; exec sleep 120' 3>&- &
	local job=$! rank status=0
	soon [ -e pid.0 ]
	soon [ -e pid.1 ]
	kill -KILL -- "-$job"
	wait "$job" || status=$?
	[ "$status" -eq 137 ]
	for rank in 0 1; do soon gone "$(cat "pid.$rank")"; done
}

# What the scripts say to hvdrun, which here is asked what it would do.
example() {
	local script=$SRC/scripts/examples/$1
	shift
	mkdir -p bin
	printf '%s\n' '#!/bin/bash' 'echo "hvdrun $*" >>'"'$PWD/asked'" \
		'[[ " $* " == *" --dry-run "* ]] || set -- --dry-run "$@"' "exec '$B/bin/hvdrun' \"\$@\"" >bin/hvdrun
	chmod +x bin/hvdrun
	: >asked
	run env PATH="$PWD/bin:$PATH" LSB_JOBID=71 LSB_MCPU_HOSTS="$HERE 4" "$@" bash "$script"
	echo "$output"
	cat asked
	[ "$status" -eq 0 ]
}

@test "the examples of job scripts ask for what hvdrun has" {
	local file
	for file in "$SRC"/scripts/examples/*.bsub; do
		grep -q "example ${file##*/}" "$BATS_TEST_FILENAME" || { echo "not tested: $file" && false; }
	done
	example gpus.bsub CUDA_VISIBLE_DEVICES=0,1,2,3
	[[ $output == *"4 ranks on 1 host"* ]]
	[ "$(cat asked)" = "hvdrun --start-timeout=120 python train.py" ]
	example interactive.bsub
	[ "$(wc -l <asked)" -eq 2 ]
	printf '%s\n' 'compute_nodes: h1 h2' >csm/allocation.12
	printf '%s\n' 'h1 44 2 6' 'h2 44 2 6' >csm/nodes
	export PATH=$SRC/tests/standins:$PATH
	# not by jsrun, which would be asked what the compute nodes have
	example jsrun.bsub CSM_ALLOCATION_ID=12 HVD_LAUNCHER=ssh
	[ "$(grep -c '12 ranks on 2 hosts' <<<"$output")" -eq 2 ]
}
