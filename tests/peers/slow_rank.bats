#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A training by real PyTorch (DDP on Gloo) of which one rank is slower than its peers: it is found within a minute, whatever
# makes it slow. None is found in one whose ranks are even.

load ../cluster/launch
load peers

setup_file() {
    peers --torch
    built
}
setup() {
    needs_peers
    cd "$BATS_TEST_TMPDIR" || return 1
}
teardown() {
    if [[ ${launch-} ]]; then kill "$launch" 2>/dev/null || true; fi
    wait
}

# train HOW: four ranks in the background; returns when they do steps.
train() {
    "$HVDRUN" --launcher=fork --events=events --metrics=file:prom -np 4 "$PY" "$HERE/slow_rank.py" "$1" >out 2>&1 3>&- &
    launch=$!
    wait_for 180 begun || true
    steps || { cat out && return 1; }
}
steps() { grep -q 'the third step is done' out; }
begun() { steps || ! kill -0 "$launch"; }
slow_ranks() { jq -r 'select(.name == "rank-slow") | .context.rank' events; }
found() { [[ $(slow_ranks) ]]; }

# named HOW: rank 1 is found, and nobody else. A minute is enough; on a machine with other work two are.
named() {
    train "$1"
    wait_for 120 found || { grep awaited prom && return 1; }
    [[ $(slow_ranks | sort -u) == 1 ]] || { cat events && return 1; }
}

@test "a rank that sleeps in each step is found" { named step; }
@test "a rank whose data loader is slow is found" { named loader; }

@test "of even ranks none is found" {
    train none
    sleep 90
    [[ ! $(slow_ranks) ]] || { cat events && grep awaited prom && return 1; }
}
