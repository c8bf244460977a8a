#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2030,SC2031,SC2154 # what run sets
# Real PyTorch on a cluster whose hosts cannot resolve each other's names. Importing torch takes seconds of a core for each
# rank, so one launch proves as much as it can (torch_cluster.py); ../cluster/torch.bats has what needs no PyTorch.

load ../cluster/launch
load peers

setup_file() {
    peers --torch
    suite --nodes 4 --no-dns
}
setup() { needs_cluster; }
teardown() { mend --clean; }

# did RANKS PART…: so many ranks say that each of these parts went well.
did() {
    local n=$1 part
    for part in "${@:2}"; do
        [[ $(grep -cE "^rank [0-9]+ of $n on hvdn[0-9]: $part ok" <<<"$output") -eq $n ]] ||
            { echo "not $n times $part: $output" && return 1; }
    done
}

# slowest PART: the most seconds that a rank says it took.
slowest() { sed -nE "s/.*: $1 ok ([0-9.]+) s.*/\1/p" <<<"$output" | sort -n | tail -n 1; }

@test "eight ranks on four nodes: subgroups, DDP to one process's loss, init again, and rank 0 ends first" {
    gives 0 on_login srun --hvd -N4 -n8 --ntasks-per-node=2 "$PY" "$HERE/torch_cluster.py"
    did 8 init collectives groups objects ddp again
    [[ $(grep -cE ': last ok' <<<"$output") -eq 7 ]]
    has_not Traceback "shut down too early" EADDRINUSE
    info "slowest init: $(slowest init) s"
}

@test "DCP's async_save() in a process, which opens a further port at MASTER_ADDR, works on shared nodes" {
    local way
    for way in "srun --hvd" "env DCP_USE_PREFIX_STORE=1 srun --hvd" hvdrun; do
        # shellcheck disable=SC2086 # it is several words
        run on_login $way -N2 -n2 "$PY" "$HERE/torch_async_save.py" "checkpoint.$RANDOM"
        exits 0
        [[ $(grep -cE "^rank [01]: async_save ok$" <<<"$output") -eq 2 ]] || { echo "$output" && return 1; }
    done
}

@test "torchrun on four nodes that cannot resolve their names needs no options" {
    gives 0 on_login srun --hvd -N4 --ntasks-per-node=1 "${PY%/*}/torchrun" "$HERE/torch_cluster.py" collectives objects
    did 4 init collectives objects
}

@test "FSDP shards parameters over two nodes and trains to one process's loss" {
    gives 0 on_login srun --hvd -N2 -n2 "$PY" "$HERE/torch_cluster.py" fsdp
    did 2 init fsdp
}

# name_server drop|none: hosts ask a name server that drops all questions; or none, as before.
name_server() {
    local etc file
    etc=$(cluster path)/etc
    # The files are mounted on the hosts: they must not be replaced.
    if [[ $1 == none ]]; then
        for file in resolv.conf nsswitch.conf; do cp "$BATS_FILE_TMPDIR/$file" "$etc/$file"; done
        as_root hvdctl nft delete table inet test_names
        return
    fi
    cp "$etc/resolv.conf" "$etc/nsswitch.conf" "$BATS_FILE_TMPDIR"
    printf '%s\n' "add table inet test_names" \
        "add chain inet test_names in { type filter hook input priority 0; }" \
        "add rule inet test_names in udp dport 53 drop" | as_root hvdctl nft -f -
    echo "nameserver $(cluster addr hvdctl eth0)" >"$etc/resolv.conf"
    sed 's/^hosts:.*/hosts: files dns/' "$BATS_FILE_TMPDIR/nsswitch.conf" >"$etc/nsswitch.conf"
}

# timed CMD…: run, and set $took to its milliseconds.
timed() {
    local began
    began=$(date +%s%3N)
    run "$@"
    took=$(($(date +%s%3N) - began))
}

@test "a name server that drops what it is asked delays the first allreduce by less than 2 s" {
    local init before
    run on_login srun --hvd -N2 -n4 --ntasks-per-node=2 "$PY" "$HERE/torch_cluster.py" collectives
    before=$(slowest init)
    name_server drop
    timed on_login getent hosts 192.0.2.1
    echo "getent: $took ms"
    ((took > 4000)) # else the name server is not what it should be
    run on_login srun --hvd -N2 -n4 --ntasks-per-node=2 "$PY" "$HERE/torch_cluster.py" collectives
    name_server none
    exits 0
    did 4 init collectives
    has "name servers have not answered" /etc/resolv.conf
    init=$(slowest init)
    info "slowest init: $before s, and where names are not found: $init s"
    # What the launch itself waits is limited to 0.4 s (lib/net/name_service.h). One question that is not answered would
    # take 5 s: a busy machine may take some of them.
    awk -v init="$init" -v before="$before" -v most="$((HVD_TEST_PATIENCE > 1 ? 4 : 2))" \
        'BEGIN { exit !(before > 0 && init - before < most - 0.4) }'
}

@test "rank 0 is killed after init: the others end, and the launch names it" {
    gives 137 on_login hvdrun -N2 -n4 --ntasks-per-node=2 "$PY" "$HERE/torch_cluster.py" kill
    did 4 init
    has "rank 0 on hvdn1 failed first: killed by signal 9 (SIGKILL)"
    has_not "shut down too early"
}

@test "a rank that exits while others wait for it ends the step, and srun names it first" {
    run on_login srun --hvd -N2 -n3 "$PY" "$HERE/torch_cluster.py" leave
    [[ $status -ne 0 ]]
    did 3 init
    [[ $(grep -m 1 "error: hvdn[12]: task" <<<"$output") == *"hvdn2: task 2: Exited with exit code 5" ]] ||
        { echo "$output" && return 1; }
}

# by_address LAUNCHER…: its two ranks meet where the program says, or do not within 10 s.
by_address() {
    run on_login "$@" "$PY" "$HERE/torch_by_address.py" "$(cluster addr hvdn1 eth0)" 23456 "$((10 * HVD_TEST_PATIENCE))"
}

@test "a program for plain srun, which names rank 0's address and port itself, runs with the store in rank 0" {
    local launcher
    for launcher in "srun --hvd --hvd-store=rank0" "hvdrun --store=rank0"; do
        # shellcheck disable=SC2086 # it is several words
        by_address $launcher -N2 -n2
        exits 0
        [[ $(grep -cE '^rank [01]: by address ok 3$' <<<"$output") -eq 2 ]]
        has_not "seem to wait for a server"
    done
}
