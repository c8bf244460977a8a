#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# --hang-timeout with real PyTorch whose ranks are busy: a loop that hangs the job, and computations that do not, by real
# py-spy. One job has all of them, in phases: to import PyTorch in four ranks takes long.

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

# line_of TEXT: where busy_hang.py has it.
line_of() { grep -nF -- "$1" "$HERE/busy_hang.py" | cut -d : -f 1 | head -n 1; }

# phase NAME TEXT: while the ranks are in this phase, the launch prints the text.
phase() {
    local before
    says_times 120 4 "$1 begins"
    before=$(grep -cF -e "$2" "$OUT") || (($? == 1))
    says_times 60 "$((before + 1))" "$2"
    touch "$STOP.$1"
}

NONE="no rank has made progress for"

@test "computations are no hang, a long call for which others wait may be one, and a loop in Python is one, with rank and line" {
    export PATH=$BATS_FILE_TMPDIR/spy/bin:$PATH
    begin "$HVDRUN" --verbose --launcher=fork --events="$BATS_TEST_TMPDIR/events" -np 4 --hang-timeout=4 --hang-action=kill \
        "$PY" "$HERE/busy_hang.py" "$STOP"
    phase all "ranks have used their processors only: all ranks compute in the same call"
    phase steps "ranks have used their processors only: the stacks of ranks change"
    not_said "may hang"
    phase alone "the job goes on, because a long call looks the same"
    not_said "$NONE"
    says 120 "ending the job: no rank has made progress"
    ended 60
    ((status != 0))
    has "but some are busy: rank 3 (localhost) in one_line (busy_hang.py:$(line_of 'while not os.access'))" \
        "some are busy: rank 3 (localhost) in spin (busy_hang.py:$(line_of 'while True: pass')); 1 is busy, 3 wait" \
        "3 ranks (0-2): all_reduce (busy_hang.py:" "rank 3 on localhost: spin (busy_hang.py:"
    grep -q '"name":"may-hang".*"why":"rank 3 (localhost) in one_line' "$BATS_TEST_TMPDIR/events"
    run grep -c '"name":"hang"' "$BATS_TEST_TMPDIR/events"
    [[ $output == 1 ]]
}
