#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# lsf/esub.hvd, given files such as bsub writes. There is no LSF here: what the tests know of its files is the format
# that its documents describe.

# shellcheck disable=SC2030,SC2031 # each test has a shell of its own
bats_require_minimum_version 1.5.0

setup_file() {
	local build
	cd "$BATS_TEST_DIRNAME/../.." || return 1
	build=$(cd "${B:-build}" && pwd)
	export BIN=$build/bin ESUB=$BATS_FILE_TMPDIR/esub.hvd
	sed -e "s|@BINDIR@|$BIN|g" lsf/esub.hvd.in >"$ESUB"
	chmod +x "$ESUB"
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	unset LSB_DJOB_RTASK_GONE_ACTION LSB_DJOB_COMMFAIL_ACTION LSF_INVOKE_CMD
	export LSB_SUB_PARM_FILE=$PWD/parm LSB_SUB_MODIFY_FILE=$PWD/modify LSB_SUB_MODIFY_ENVFILE=$PWD/modify.env
	export LSB_SUB_ABORT_VALUE=97
}

# submit LINE...: run the esub on a file of these lines. Afterwards nothing of the submission may have been changed.
submit() {
	rm -f modify.env
	printf '%s\n' "$@" >parm
	run "$ESUB" </dev/null
	echo "status $status: $output"
	[ ! -e modify ]
	[ ! -e hacked ]
	# A job that is refused gets no environment either.
	[ "$status" -eq 0 ] || [ ! -e modify.env ]
}
accepted() { submit "$@" && [ "$status" -eq 0 ] && [ -z "$output" ]; }
refused() {
	local why=$1
	shift
	submit "$@"
	[ "$status" -eq 97 ]
	[[ $output == "hvd: the job is not submitted: "*"$why"* ]]
}

@test "ordinary jobs pass, and find hvdrun" {
	accepted 'LSB_SUB_NUM_PROCESSORS=8' 'LSB_SUB_MAX_NUM_PROCESSORS=8' 'LSB_SUB_ADDITIONAL="hvd"' \
		'LSB_SUB_RES_REQ="span[ptile=4]"' 'LSB_SUB_COMMAND_LINE="hvdrun python train.py"'
	grep -qxF "PATH=\"$BIN:$PATH\"" modify.env
	grep -qxF 'LSB_DJOB_RTASK_GONE_ACTION="IGNORE_TASKCRASH"' modify.env
	grep -qxF 'LSB_DJOB_COMMFAIL_ACTION="KILL_TASKS"' modify.env
	[ "$(wc -l <modify.env)" -eq 3 ]
}

@test "what the user has set stays" {
	export PATH=$BIN:$PATH LSB_DJOB_RTASK_GONE_ACTION=KILLJOB_TASKEXIT LSB_DJOB_COMMFAIL_ACTION=x
	accepted 'LSB_SUB_NUM_PROCESSORS=2'
	[ ! -e modify.env ]
}

@test "bmod changes no environment" {
	export LSF_INVOKE_CMD=bmod
	accepted 'LSB_SUB_NUM_PROCESSORS=2'
	[ ! -e modify.env ]
}

@test "what another esub has written stays" {
	echo 'OTHER="1"' >modify.env
	printf 'LSB_SUB_NUM_PROCESSORS=2\n' >parm
	run -0 "$ESUB"
	[ "$(head -n 1 modify.env)" = 'OTHER="1"' ]
	[ "$(wc -l <modify.env)" -eq 4 ]
}

@test "more ranks than slots are refused" {
	local np
	for np in '-np 16' '-n 16' '-n16' '--num-proc=16' '--num-proc 16' '--verbose -np 16' '-np "16"' \
		'--start-timeout 60 --json --blacklist-cooldown-range 1 2 -np 16'; do
		refused 'asks for 16 ranks, but bsub for 8 slots' 'LSB_SUB_NUM_PROCESSORS=8' \
			"LSB_SUB_COMMAND_LINE=\"hvdrun $np python train.py\""
	done
	refused 'asks for 2 ranks, but bsub for 1 slot' 'LSB_SUB_COMMAND_LINE="/opt/hvd/bin/hvdrun -np 2 ./a"'
	refused 'asks for 9 ranks' 'LSB_SUB_NUM_PROCESSORS=2' 'LSB_SUB_MAX_NUM_PROCESSORS=8' \
		'LSB_SUB_COMMAND_LINE="horovodrun -np 9 ./a"'
	[[ $output == *"bsub -n 9"* ]]
}

@test "as many ranks as slots pass, and where slots are GPUs that are not known here" {
	accepted 'LSB_SUB_NUM_PROCESSORS=8' 'LSB_SUB_COMMAND_LINE="hvdrun -np 8 python train.py"'
	accepted 'LSB_SUB_NUM_PROCESSORS=2' 'LSB_SUB_MAX_NUM_PROCESSORS=8' 'LSB_SUB_COMMAND_LINE="hvdrun -np 8 ./a"'
	accepted 'LSB_SUB_NUM_PROCESSORS=2' 'LSB_SUB4_GPU_REQ="num=4"' 'LSB_SUB_COMMAND_LINE="hvdrun -np 8 ./a"'
	accepted 'LSB_SUB_NUM_PROCESSORS=2' 'LSB_SUB_RES_REQ="rusage[ngpus_physical=4]"' \
		'LSB_SUB_COMMAND_LINE="hvdrun -np 8 ./a"'
	accepted 'LSB_SUB_NUM_PROCESSORS=2' 'LSB_SUB_COMMAND_LINE="hvdrun --slots-per-host=4 -np 8 ./a"'
	# behind the command options are the command's own
	accepted 'LSB_SUB_NUM_PROCESSORS=2' 'LSB_SUB_COMMAND_LINE="hvdrun python train.py -np 16"'
	accepted 'LSB_SUB_NUM_PROCESSORS=2' 'LSB_SUB_COMMAND_LINE="hvdrun -- python -np 16"'
	accepted 'LSB_SUB_NUM_PROCESSORS=2' 'LSB_SUB_COMMAND_LINE="python hvdrun -np 16"'
	accepted 'LSB_SUB_NUM_PROCESSORS=2' 'LSB_SUB_COMMAND_LINE="hvdrun --unknown -np 16"'
}

@test "numbers and launchers that cannot be are refused" {
	refused "'x' is not a valid number of processes" 'LSB_SUB_NUM_PROCESSORS=2' 'LSB_SUB_COMMAND_LINE="hvdrun -np x ./a"'
	refused "'0' is not a valid number of processes" 'LSB_SUB_NUM_PROCESSORS=2' 'LSB_SUB_COMMAND_LINE="hvdrun -np 0 ./a"'
	refused "'-3' is not a valid number" 'LSB_SUB_NUM_PROCESSORS=2' 'LSB_SUB_COMMAND_LINE="hvdrun -np -3 ./a"'
	refused "'99999999999999999999' is not a valid number" 'LSB_SUB_COMMAND_LINE="hvdrun -np 99999999999999999999 ./a"'
	refused "option -np needs a value" 'LSB_SUB_COMMAND_LINE="hvdrun -np"'
	refused "'many' is not a valid number of slots" 'LSB_SUB_COMMAND_LINE="hvdrun --slots-per-host many ./a"'
	refused "--launcher=srun does not work in an LSF job" 'LSB_SUB_COMMAND_LINE="hvdrun --launcher=srun ./a"'
	accepted 'LSB_SUB_COMMAND_LINE="hvdrun --launcher=blaunch ./a"'
}

@test "two programs that start ranks are refused" {
	refused '-a hvd and -a openmpi both start the ranks' 'LSB_SUB_ADDITIONAL="hvd openmpi"'
	refused '-a poe' 'LSB_SUB_ADDITIONAL="poe(x) hvd"'
	accepted 'LSB_SUB_ADDITIONAL="hvd bb myopenmpi"'
}

@test "the file is text: nothing in it is run" {
	accepted 'LSB_SUB_COMMAND_LINE="hvdrun $(touch hacked) -np 1 `touch hacked` ./a; touch hacked"' \
		'LSB_SUB_JOB_NAME="$(touch hacked)"' 'touch hacked' 'LSB_SUB_X[$(touch hacked)]=1' '; touch hacked' \
		'LSB_SUB_NUM_PROCESSORS=$(touch hacked)' 'LSB_SUB_ADDITIONAL="hvd $(touch hacked) *"'
	submit 'LSB_SUB_NUM_PROCESSORS=a[$(touch hacked)]' 'LSB_SUB_MAX_NUM_PROCESSORS=a[$(touch hacked)]' \
		'LSB_SUB_COMMAND_LINE="hvdrun -np a[$(touch hacked)] ./a"'
	[ "$status" -eq 97 ]
	accepted 'LSB_SUB_NUM_PROCESSORS=a[$(touch hacked)]' 'LSB_SUB_COMMAND_LINE="hvdrun -np 4 ./a"'
}

@test "a script on stdin is left alone" {
	accepted 'LSB_SUB_NUM_PROCESSORS=2' \
		'LSB_SUB_COMMAND_LINE="#! /bin/bash; hvdrun -np 16 ./a; echo done"'
	accepted 'LSB_SUB_NUM_PROCESSORS=2' 'LSB_SUB_COMMAND_LINE="hvdrun -np 16 ./a;wait"'
}

@test "a file that cannot be read stops no job" {
	local file
	for file in "" /nowhere "$PWD"; do
		LSB_SUB_PARM_FILE=$file run -0 "$ESUB"
		[ "$output" = "hvd: LSB_SUB_PARM_FILE cannot be read, so nothing is checked" ]
	done
	unset LSB_SUB_PARM_FILE
	run -0 "$ESUB"
	[ ! -e modify.env ]
}

@test "rubbish is no reason to fail" {
	head -c 100000 /dev/urandom >parm
	run -0 "$ESUB"
	[ -z "$output" ]
	: >parm
	run -0 "$ESUB"
}

@test "names without the prefix, a last line without its end, and no abort value" {
	printf 'NUM_PROCESSORS=2\nCOMMAND_LINE="hvdrun -np 4 ./a"' >parm
	unset LSB_SUB_ABORT_VALUE
	run -97 "$ESUB"
	LSB_SUB_ABORT_VALUE=5 run "$ESUB"
	[ "$status" -eq 5 ]
}

@test "a PATH that the file's format cannot hold is left as it is" {
	export PATH="$PATH:/a\"b"
	accepted 'LSB_SUB_NUM_PROCESSORS=2'
	run ! grep -q '^PATH=' modify.env
}

@test "without hvdrun the command is not looked into" {
	sed -e "s|@BINDIR@|/nowhere|g" "$BATS_TEST_DIRNAME/../../lsf/esub.hvd.in" >esub
	chmod +x esub
	printf '%s\n' 'LSB_SUB_NUM_PROCESSORS=2' 'LSB_SUB_COMMAND_LINE="hvdrun -np 16 ./a"' >parm
	PATH=/usr/bin:/bin run -0 ./esub
	[ -z "$output" ]
}
