#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# --hang-timeout with real PyTorch whose ranks are busy: a loop that hangs the job, and computations that do not, by real
# py-spy.

load ../cluster/launch
load peers

setup_file() {
    peers --torch
    [[ ! $PEERS_WHY ]] || return 0
    built
    # One program of 3 MB, which PyPI has for this.
    "$PY" -m pip --quiet install --target "$BATS_FILE_TMPDIR/spy" py-spy >&2 ||
        export PEERS_WHY="py-spy cannot be fetched from PyPI"
}
setup() {
    STOP=$BATS_TEST_TMPDIR/stop
    needs_peers
}
teardown() {
    [[ ! ${PID-} ]] || ! running "$PID" || kill -KILL "$PID"
    all_gone 20 "$STOP"
}
teardown_file() { :; }

# busy HOW ACTION: four ranks of busy_hang.py.
busy() {
    export PATH=$BATS_FILE_TMPDIR/spy/bin:$PATH
    begin "$HVDRUN" --verbose --launcher=fork -np 4 --hang-timeout=6 --hang-action="$2" "$PY" "$HERE/busy_hang.py" "$1" "$STOP"
    says_times 120 4 "has met 4"
}

# line_of TEXT: where busy_hang.py has it.
line_of() { grep -nF -- "$1" "$HERE/busy_hang.py" | cut -d : -f 1 | head -n 1; }

ends_well() {
    touch "$STOP"
    ended 60 0
    [[ $(grep -c "it went well" <<<"$output") -eq 4 ]]
}

NONE="no rank has made progress for"
SPIN="some are busy: rank 3 (localhost) in spin (busy_hang.py"

@test "a loop in one rank while others wait in a collective is a hang, with rank and line" {
    busy spins report
    says 120 "$SPIN:$(line_of 'while True: pass')); 1 is busy, 3 wait"
    says 20 "the job goes on; --hang-action=kill would end it"
    kill -TERM "$PID"
    ended 60
    has "3 ranks (0-2): all_reduce (busy_hang.py:" "rank 3 on localhost: spin (busy_hang.py:"
    [[ $(grep -c "$NONE" <<<"$output") -eq 1 ]]
}

@test "a job that hangs in a loop is ended by --hang-action=kill" {
    busy spins kill
    ended 120
    ((status != 0))
    has "$SPIN" "ending the job: no rank has made progress"
}

@test "a long computation whose lines change is no hang, while others wait for it" {
    busy steps kill
    says 120 "ranks have used their processors only: the stacks of ranks change"
    ends_well
    has_not "$NONE" "may hang"
}

@test "a long call in one rank, while others wait for it, may hang, and is not ended" {
    busy alone kill
    says 120 "ranks may hang: none has made progress for"
    says 20 "the job goes on, because a long call looks the same"
    ends_well
    has "some are busy: rank 3 (localhost) in one_line (busy_hang.py:$(line_of 'while not os.access'))"
    has_not "$NONE" "ending the job"
}

@test "the same long call in all ranks is no hang" {
    busy all kill
    says 120 "ranks have used their processors only: all ranks compute in the same call"
    ends_well
    has_not "$NONE" "may hang"
}
