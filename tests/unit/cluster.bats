#!/usr/bin/env bats
# What of scripts/cluster can be looked at without a cluster.

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || return
    export NEIGH_DIR=$BATS_TEST_TMPDIR/run NEIGH_SYSCTL=$BATS_TEST_TMPDIR/net
    mkdir -p "$NEIGH_SYSCTL"/ipv{4,6}/neigh/default
    limits 512 1024
    . scripts/cluster/neighbours.sh
}

limits() {
    local family
    for family in ipv4 ipv6; do
        echo "$1" >"$NEIGH_SYSCTL/$family/neigh/default/gc_thresh2"
        echo "$2" >"$NEIGH_SYSCTL/$family/neigh/default/gc_thresh3"
    done
}

has_limits() {
    [[ $(cat "$NEIGH_SYSCTL"/ipv4/neigh/default/gc_thresh{2,3} "$NEIGH_SYSCTL"/ipv6/neigh/default/gc_thresh{2,3} | xargs) == "$1 $2 $1 $2" ]] ||
        { head "$NEIGH_SYSCTL"/ipv*/neigh/default/* && return 1; }
}

@test "a small cluster leaves the kernel's ARP table alone" {
    neigh_reserve $$ 6 2
    has_limits 512 1024
    [ ! -e "$NEIGH_DIR" ]
    neigh_release
}

@test "large clusters make room, and the last one puts it back" {
    sleep 100 3>&- &
    local one=$!
    sleep 100 3>&- &
    local two=$!
    neigh_reserve $one 66 2
    has_limits 9604 9604
    neigh_reserve $two 102 2
    has_limits 30208 30208
    kill $one
    wait $one || true
    neigh_release
    has_limits 21628 21628
    kill $two
    wait $two || true
    neigh_release
    has_limits 512 1024
    [ ! -e "$NEIGH_DIR" ]
}

@test "where the table cannot grow it is said" {
    rm -r "$NEIGH_SYSCTL/ipv4"
    run neigh_reserve $$ 66 2
    [ "$status" -eq 0 ]
    [[ $output == *"66 hosts need 8580 entries in the kernel's ARP table, and it holds unknown"* ]]
}
