#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# hvdrun --preload=torch with real PyTorch.

load ../cluster/helpers
load ../cluster/launch
load peers

setup_file() {
    peers --torch
    built
    export TRAIN=$BATS_TEST_DIRNAME/../../scripts/examples/elastic-torch.py
}
setup() {
    needs_peers
    cd "$BATS_TEST_TMPDIR" || return
}

# start NAME ARG…: two ranks of preload.py, with these options; what they print goes to the folder NAME, and the status.
start() {
    local status=0
    on_this "$HVDRUN" --launcher=fork -np 2 --keep-going --hvd-verbose --output-filename="$1" "${@:2}" "$PY" "$HERE/preload.py" \
        >"$1.said" 2>&1 || status=$?
    echo "$status" >"$1/status"
}
text_of() { sed -E 's/0x[0-9a-f]+|[0-9]{4,}/N/g' "$1"; }

@test "forked ranks find and print what others do, to the traceback" {
    local r
    start plain
    start forked --preload=torch
    grep -q "has imported torch" forked.said
    diff plain/status forked/status
    for r in 0 1; do diff <(text_of plain/rank.$r/stdout) <(text_of forked/rank.$r/stdout); done
    grep -q "^sum \[1.0, 1.0, 1.0, 1.0\]" forked/rank.0/stdout
    for r in 0 1; do diff <(text_of plain/rank.$r/stderr) <(text_of forked/rank.$r/stderr); done
    grep -q "RuntimeError: " forked/rank.1/stderr
    run on_this "$HVDRUN" --launcher=fork -np 2 --preload=torch "$PY" -c 'import sys, torch; sys.stdout.write("seed %d\n" % torch.initial_seed())'
    exits 0
    [[ $(grep '^seed [0-9]' <<<"$output" | sort -u | wc -l) -eq 2 ]]
}

epochs() { grep -o '^epoch [0-9]* loss [^ ]*' "$1" | sort -u | sort -s -k2n,2; }
at_epoch() { awk -v n="$1" -v text="$2" '/^epoch/ && $2 >= n && index($0, text) { ok = 1 } END { exit !ok }' "$OUT"; }

@test "a rank is killed: forked ranks go on from the checkpoint, to the same numbers" {
    local train=("$PY" "$TRAIN" --epochs 60 --pause 0.05 --checkpoint)
    on_this "$HVDRUN" --launcher=fork -np 2 "${train[@]}" alone.pt >alone
    begin "$HVDRUN" --launcher=fork -np 2 --max-restarts 1 --preload=torch --hvd-verbose "${train[@]}" forked.pt
    wait_for 90 at_epoch 5 "restarts 0"
    pkill -KILL -n -f -- "--checkpoint forked.pt"
    ended 120
    exits 0
    has "restarts 1" "killed by signal 9" "restarting all ranks, restart 1 of 1"
    [[ $(grep -c "has imported torch" "$OUT") -eq 1 ]]
    has_not "without --preload"
    diff <(epochs "$OUT") <(epochs alone)
}

@test "the stacks of a forked rank are those of its program" {
    [[ -x $(dirname "$PY")/py-spy ]] || command -v py-spy || skip "py-spy is not installed"
    begin "$HVDRUN" --launcher=fork -np 2 --preload=torch "$PY" -c 'import time
def waits_here():
    print("here", flush=True)
    time.sleep(100)
waits_here()'
    says_times 90 2 here
    run on_this "$HVDRUN" --stacks "pid:$PID"
    exits 0
    has "waits_here" "2 ranks"
    has_not "sitecustomize"
    kill -TERM "$PID"
    ended 20
}
