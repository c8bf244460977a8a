#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2086 # what run sets; a way to start is several words
# Programs that rendezvous at an address and port of their own, as they do under plain srun, with real PyTorch
# (torch_own_address.py).

load ../cluster/launch
load peers

setup_file() {
    peers --torch
    suite --nodes 2
}
setup() { needs_cluster; }
teardown() { mend --clean; }

# ran N OF LABEL: so many ranks of worlds of so many say that this went well, and nothing else was said of it.
ran() {
    exits 0
    [[ $(grep -cE "^rank [0-9]+ of $2: $3 ok$" <<<"$output") -eq $1 ]] || { echo "not $1 times $3 of $2: $output" && return 1; }
    has_not "warning:" "failed to bind" Traceback
}

# Two ranks on two nodes: by the plugin; by srun with shims; by agents of each host, whose step is of one task.
ways() { printf '%s\n' "srun --hvd" "hvdrun" "hvdrun --min-np=2 --max-restarts=0"; }

own() { run on_login $1 -N2 -n2 "$PY" "$HERE/torch_own_address.py" "${@:2}"; }

@test "a program sets MASTER_ADDR and MASTER_PORT itself, from Slurm's variables" {
    local way
    while read -r way; do
        own "$way" env hvdn1 23456
        ran 2 2 env
    done < <(ways | head -n 2)
}

@test "a program names address and port by init_method=tcp://, makes a second store beside the launch's, and a TCPStore at MASTER_ADDR" {
    local way label
    while read -r way; do
        own "$way" tcp,second,by_hand hvdn1 23457
        for label in tcp second by_hand; do ran 2 2 $label; done
    done < <(ways)
}

@test "each rank starts processes that are a world of their own on localhost" {
    own hvdrun spawn localhost 23458
    ran 4 2 spawn
}

@test "workers of another framework below the ranks make one world, as Ray's do" {
    local way
    for way in "srun --hvd" "hvdrun --min-np=2 --max-restarts=0"; do
        own "$way" actors hvdn1 23459
        ran 4 4 actors
    done
}

@test "rank 0 begins to serve 9 s after the others: who waits is told, but no warning" {
    run on_login srun --hvd -N1 -n2 "$PY" "$HERE/torch_own_address.py" late hvdn1 23461
    exits 0
    [[ $(grep -cE "^rank [01] of 2: late ok$" <<<"$output") -eq 2 ]]
    # Of both the library is loaded.
    [[ $(grep -cE "ranks 0, 1 on hvdn1 wait for a server at .* port 23461, where nobody listens yet: rank 0, if it runs" <<<"$output") -eq 1 ]] ||
        { echo "$output" && false; }
    has_not warning:
}

@test "where PyTorch starts no server, a warning within five seconds names who waits where, and what to do" {
    export OWN_ADDRESS_SECONDS=$((10 * HVD_TEST_PATIENCE))
    # shellcheck disable=SC2016 # another shell expands it
    run on_login env TORCHELASTIC_USE_AGENT_STORE=True bash -c \
        '"$@" 2>&1 | while IFS= read -r line; do printf "%(%s)T %s\n" -1 "$line"; done' \
        - srun --hvd -N2 -n2 "$PY" "$HERE/torch_own_address.py" env hvdn1 23462
    [[ $(grep -c "rank 0 on hvdn1 waits for a server at .* port 23462, where nobody listens: PyTorch before 2.7 starts none" <<<"$output") -eq 1 ]] ||
        { echo "$output" && false; }
    has "--store=rank0 (srun: --hvd-store=rank0) makes rank 0 start one"
    # Its line comes once PyTorch is imported.
    began=$(sed -nE 's/^([0-9]+) rank 0 on .*/\1/p' <<<"$output" | head -n 1)
    told=$(sed -nE 's/^([0-9]+) .*where nobody listens: .*/\1/p' <<<"$output")
    echo "began $began, told $told"
    ((told - began <= 5 * HVD_TEST_PATIENCE + 1))
}

@test "torchrun --standalone in a step with one task for each node: a world of its own on each" {
    local torchrun=("${PY%/*}/torchrun" --standalone --nproc-per-node=2 "$HERE/torch_own_address.py" plain)
    run on_login srun --hvd -N2 -n2 "${torchrun[@]}"
    ran 4 2 plain
    # The launch does not see that the command is torchrun.
    run on_login hvdrun -N2 -n2 bash -c "${torchrun[*]@Q}"
    ran 4 2 plain
}
