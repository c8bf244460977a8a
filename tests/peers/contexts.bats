#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# Ranks of real Horovod meet and work together, however they were started.

load ../cluster/launch
load peers

setup_file() {
    peers
    suite --nodes 4
}
setup() { needs_cluster; }
teardown() { mend --clean; }

# ranks PLACE…: the job succeeded, and rank 0, 1, … printed these places.
ranks() {
    local size=$# rank=0 said=''
    exits 0
    for said in "$@"; do
        has "rank $rank of $size on $said"$'\n'
        rank=$((rank + 1))
    done
    info "$(grep -F 'hvd.init()' <<<"$output")"
}

# Four hosts with two ranks each.
BLOCK=("hvdn1: local 0/2 cross 0/4" "hvdn1: local 1/2 cross 0/4" "hvdn2: local 0/2 cross 1/4" "hvdn2: local 1/2 cross 1/4"
    "hvdn3: local 0/2 cross 2/4" "hvdn3: local 1/2 cross 2/4" "hvdn4: local 0/2 cross 3/4" "hvdn4: local 1/2 cross 3/4")

@test "srun --hvd: eight ranks on four hosts, which meet in a tree of relays, use all contexts" {
    HVD_RELAY_FAN_OUT=2 run launch srun -N4 -n8 --ntasks-per-node=2 "$PY" "$HERE/contexts.py"
    ranks "${BLOCK[@]}"
}

@test "hvdrun: eight ranks on four hosts use all contexts" {
    run launch hvdrun -N4 -n8 --ntasks-per-node=2 "$PY" "$HERE/contexts.py"
    ranks "${BLOCK[@]}"
}

@test "three ranks on one host and one on another use all contexts" {
    run launch srun -N2 -n4 --distribution=arbitrary -w hvdn1,hvdn1,hvdn1,hvdn2 "$PY" "$HERE/contexts.py"
    ranks "hvdn1: local 0/3 cross 0/2" "hvdn1: local 1/3 cross 0/1" "hvdn1: local 2/3 cross 0/1" \
        "hvdn2: local 0/1 cross 1/2"
}

@test "ranks dealt to the hosts in turn use all contexts" {
    run launch hvdrun --exclusive -N2 -n5 -w 'hvdn[1-2]' --distribution=cyclic "$PY" "$HERE/contexts.py"
    ranks "hvdn1: local 0/3 cross 0/2" "hvdn2: local 0/2 cross 1/2" "hvdn1: local 1/3 cross 0/2" \
        "hvdn2: local 1/2 cross 1/2" "hvdn1: local 2/3 cross 0/1"
}

@test "ranks connect over interfaces of different names, which only the launcher can find" {
    fault iface-rename hvdn2 ib0 ib7
    for with in srun hvdrun; do
        run launch "$with" -N3 -n3 -w 'hvdn[1-3]' "$PY" "$HERE/contexts.py"
        ranks "hvdn1: local 0/1 cross 0/3" "hvdn2: local 0/1 cross 1/3" "hvdn3: local 0/1 cross 2/3"
    done
}
