#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Trainings by real PyTorch (DDP on Gloo), three ranks each, side by side. In three of them rank 1 is slower than its peers: it
# is found within a minute, whatever makes it slow, and nobody else. In the fourth the ranks are even, and none is found.
#
# HVD_EVEN_SECONDS=600 bats tests/peers/slow_rank.bats: the even ranks train for so long, not for a minute.

load ../cluster/launch
load peers

setup_file() {
    peers --torch
    built
    if [[ $PEERS_WHY ]]; then return 0; fi
    cd "$BATS_FILE_TMPDIR" || return 1
    for job in even step loader taken; do train "$job"; done
    for job in even step loader taken; do
        { wait_for 180 begun "$job" && steps "$job"; } || { cat "$job/out" && return 1; }
        stat -c %Y "$job/out" >"$job/began" # its only line
    done
    take_processor
    date +%s >taken/began
}
setup() {
    needs_peers
    cd "$BATS_FILE_TMPDIR" || return 1
}
teardown() { :; }
teardown_file() {
    local pids
    if [[ $PEERS_WHY ]]; then return 0; fi
    cd "$BATS_FILE_TMPDIR" || return 1
    mapfile -t pids < <(cat ./*/pid)
    kill "${pids[@]}"
    for pid in "${pids[@]}"; do wait_for 20 stopped "$pid"; done
}

# train HOW: in the background, in the folder HOW. DDP imports the second module.
train() {
    mkdir "$1"
    (
        cd "$1" || exit 1
        exec setsid "$HVDRUN" --launcher=fork --preload=torch,torch._dynamo --events=events --metrics=file:prom -np 3 "$PY" \
            "$HERE/slow_rank.py" "$1" >out 2>&1 3>&-
    ) &
    echo $! >"$1/pid"
}
steps() { grep -q 'the third step is done' "$1/out"; }
begun() { steps "$1" || ! kill -0 "$(<"$1/pid")"; }

# Other processes have the last processor. The kernel may share processors among sessions; so each has its own.
take_processor() {
    local last i
    last=$(python3 -c 'import os; print(max(os.sched_getaffinity(0)))')
    for i in 1 2 3 4; do
        mkdir "other$i"
        setsid timeout 600 taskset -c "$last" sh -c 'while :; do :; done' 3>&- &
        echo $! >"other$i/pid"
    done
}

slow_ranks() { jq -r 'select(.name == "rank-slow") | .context.rank' "$1/events"; }
found() { [[ $(slow_ranks "$1") ]]; }
figures() { grep -E '^hvd_rank_(awaited|cpu)' "$1/prom"; }

# named HOW REASON: rank 1 is found within a minute, with this reason.
named() {
    wait_for 60 found "$1" || { figures "$1" && return 1; }
    run jq -r --argjson began "$(<"$1/began")" 'select(.name == "rank-slow" and .context.rank == 1) |
        "\(.timestamp - $began | round) s: \(.context.why)"' "$1/events"
    info "$1: $output"
    has "$2"
    ((${output%% *} <= 60 * HVD_TEST_PATIENCE))
}
# only HOW [RANK]: no other rank was found.
only() {
    [[ $(slow_ranks "$1" | sort -u) == "${2-}" ]] || { cat "$1/events" && figures "$1" && return 1; }
}

@test "a rank that sleeps in each step is found" { named step "it waits outside of the collectives"; }
@test "a rank whose data loader is slow is found" { named loader "it waits outside of the collectives"; }
@test "a rank whose processor other processes take is found" { named taken "its processors are taken by other processes"; }

@test "of even ranks none is found" {
    local left=$(($(<even/began) + ${HVD_EVEN_SECONDS:-60} - $(date +%s)))
    if ((left > 0)); then sleep "$left"; fi
    running "$(<even/pid)"
    only even
    for job in step loader taken; do only "$job" 1; done
}
