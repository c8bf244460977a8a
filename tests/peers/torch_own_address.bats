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

# ran N LABEL: so many ranks say that this went well, and nothing else was said of it.
ran() {
    exits 0
    [[ $(grep -cE "^rank [0-9]+ of [0-9]+: $2 ok$" <<<"$output") -eq $1 ]] || { echo "not $1 times $2: $output" && return 1; }
    has_not "warning:" "failed to bind" Traceback
}

# Two ranks on two nodes: by the plugin; by srun with shims; by agents of each host.
ways() { printf '%s\n' "srun --hvd" "hvdrun" "hvdrun --min-np=2 --max-restarts=0"; }

own() { run on_login $1 -N2 -n2 "$PY" "$HERE/torch_own_address.py" "${@:2}"; }

@test "a program sets MASTER_ADDR and MASTER_PORT itself, from Slurm's variables" {
    local way
    while read -r way; do
        own "$way" env hvdn1 23456
        ran 2 env
    done < <(ways)
}

@test "a program names address and port by init_method=tcp://" {
    local way
    while read -r way; do
        own "$way" tcp hvdn1 23457
        ran 2 tcp
    done < <(ways)
}

@test "each rank starts processes that are a world of their own on localhost" {
    local way
    while read -r way; do
        own "$way" spawn localhost 23458
        ran 4 spawn
    done < <(ways)
}

@test "workers of another framework below the ranks make one world, as Ray's do" {
    local way
    while read -r way; do
        own "$way" actors hvdn1 23459
        ran 4 actors
    done < <(ways)
}

@test "a second store beside the one of the default group" {
    local way
    while read -r way; do
        own "$way" second hvdn1 23460
        ran 2 second
    done < <(ways)
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

@test "the launch's store at its address: no line says that the server has failed to bind" {
    local way
    while read -r way; do
        run on_login $way -N2 -n2 "$PY" "$HERE/torch_cluster.py" collectives
        exits 0
        has_not "failed to bind"
    done < <(ways)
}

@test "a TCPStore at MASTER_ADDR and a port of its own, and DCP that saves in a process of its own" {
    local way
    for way in "srun --hvd" hvdrun "srun --hvd --exclusive"; do
        own "$way" by_hand
        ran 2 by_hand
        own "$way" async
        exits 0
        [[ $(grep -cE "^rank [01] of 2: async ok$" <<<"$output") -eq 2 ]]
    done
}

@test "torchrun --standalone in a step with one task for each node: a world of its own on each" {
    local way
    for way in "srun --hvd" hvdrun; do
        run on_login $way -N2 -n2 "${PY%/*}/torchrun" --standalone --nproc-per-node=2 "$HERE/torch_own_address.py" plain
        exits 0
        [[ $(grep -cE "^rank [01] of 2: plain ok$" <<<"$output") -eq 4 ]] || { echo "$output" && false; }
        run on_login $way -N2 -n2 bash -c "'${PY%/*}/torchrun' --standalone --nproc-per-node=2 '$HERE/torch_own_address.py' plain"
        exits 0
        [[ $(grep -cE "^rank [01] of 2: plain ok$" <<<"$output") -eq 4 ]] || { echo "$output" && false; }
    done
}
