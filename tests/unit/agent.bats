#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The command line of hvd-agent: its subcommands, what is refused, and the program's name in older releases.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || return 1
    AGENT=$(realpath "${B:-build}/libexec/hvd/hvd-agent")
    unset SLURM_HVD_BOOT SLURM_HVD_TASK_PROLOG
}

@test "--help lists the subcommands, and each has a --help of its own" {
    local name
    run -0 "$AGENT" --help
    [[ $output == "usage: hvd-agent SUBCOMMAND"* ]]
    for name in connect host shim plan inspect gpus topology drain; do
        grep -qE "^  $name +[a-z]" <<<"$output"
        run -0 "$AGENT" "$name" --help
        [[ $output == "usage: hvd-agent $name"* ]]
        run -0 "$AGENT" --help
    done
    run -0 "$AGENT" --version
    [[ $output == "hvd-agent "[0-9]* ]]
}

# misused WHY ARG…: that is refused with status 2, for this reason, and the usage follows.
misused() {
    local said status=0
    said=$("$AGENT" "${@:2}" 2>&1) || status=$?
    [[ $status -eq 2 && $said == *"$1"*"usage: hvd-agent"* ]] || { echo "$status: $said" && return 1; }
}

@test "misuse ends with status 2, the reason, and the usage of the subcommand" {
    misused "" # without the variables of a TaskProlog
    misused "there is no subcommand 'nonesuch'" nonesuch
    misused "there is no subcommand '--join=x'" --join=x
    misused "unknown option --nonesuch" host --nonesuch -- true
    misused "COMMAND is missing" host --host=0:1:n1 --ranks=0:1
    misused "--ranks is missing" host --host=0:1:n1 -- true
    misused "--host is missing" host --ranks=0:1 -- true
    misused "unknown option --mpi=a:1" host --mpi=a:1 -- true
    misused "--mpi and --jsrun exclude each other" shim --mpi=a:1 --jsrun=a:1 -- true
    misused "--input needs --stdin" shim --input=0 -- true
    misused "unknown option --guarded" shim --guarded -- true
    misused "unexpected argument 'true'" topology true
    misused "WHICH is missing" inspect
    misused "ADDRESS is missing" connect --key-file=/dev/null
    misused "unexpected argument 'b:1/0'" connect --join=a:1/0 --key-file=/dev/null b:1/0
    local number
    for number in --slots=5x --slots=0 --index=-1 --timeout=soon; do
        run -2 "$AGENT" connect "127.0.0.1:1/$(printf %032d 0)" --key-file=/dev/null "$number"
        [[ $output == *"option ${number%=*}: \"${number#*=}\" "* ]] || { echo "$output" && false; }
    done
    run -2 "$AGENT" shim -- true
    [[ $output == "hvd-agent: error: SLURM_HVD_BOOT is not set: hvd-agent is started by srun --hvd"* ]]
}

@test "hvd-task --join=ADDRESS, as in older releases, is hvd-agent connect ADDRESS" {
    local task key=$BATS_TEST_TMPDIR/key nowhere=127.0.0.1:1/0123456789abcdef0123456789abcdef
    task=$(dirname "$AGENT")/hvd-task
    [ "$(readlink "$task")" = hvd-agent ]
    echo 0000000000000000000000000000000000000000000000000000000000000000 >"$key"
    chmod 600 "$key"
    run -1 "$task" --key-file="$key" --timeout 1 --join="$nowhere"
    [[ $output == "hvd-agent: error: "*"127.0.0.1"* ]]
    run -1 "$AGENT" connect "$nowhere" --timeout 1 --key-file="$key"
    [[ $output == "hvd-agent: error: "*"127.0.0.1"* ]]
    run -2 "$task" --key-file=x
    [[ $output == *"ADDRESS is missing"*"usage: hvd-agent connect"* ]]
    run -0 "$task" drain </dev/null
}
