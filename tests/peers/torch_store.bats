#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# hvd-rendezvous as the TCPStore of PyTorch: next to torch's own servers, and with torch's own ranks.

load ../cluster/launch
load peers

setup_file() {
    peers --torch
    built
}
setup() {
    needs_peers
    rendezvous=$B/bin/hvd-rendezvous
}
teardown() {
    if [[ ${server-} ]]; then
        kill "$server" 2>/dev/null || true
        wait "$server" || true
    fi
}

# serve: a server of this user on this machine, on $port.
serve() {
    "$rendezvous" --json >"$BATS_TEST_TMPDIR/server" 2>"$BATS_TEST_TMPDIR/log" 3>&- &
    server=$!
    wait_for 10 test -s "$BATS_TEST_TMPDIR/server"
    port=$(sed -n 's/.*"port":\([0-9]*\).*/\1/p;q' "$BATS_TEST_TMPDIR/server")
    [[ $port ]]
}

cases() { sed -nE '/^CASES/,/\]/ { s/.*\[|\].*//g; s/[, ]+/\n/gp }' "$HERE/torch_clients.py" | grep .; }

@test "clients that ranks make besides their groups share one store, whatever their number" {
    local case
    gives 0 on_this "$HVDRUN" -np 3 "$PY" "$HERE/torch_clients.py"
    while read -r case; do
        [[ $(grep -cE "^rank [0-2]: $case ok$" <<<"$output") -eq 3 ]] || { echo "$case: $output" && return 1; }
    done < <(cases)
    [[ $(grep -cE '^rank [0-2]: .* ok$' <<<"$output") -eq 36 ]]
}

@test "the store answers 10,000 random operations as torch's two servers do" {
    serve
    gives 0 on_this "$PY" "$HERE/torch_store.py" compare "$port" --operations 10000
    info "${lines[@]:1}"
    has "torch, libuv: 10000 operations" "torch, no libuv: 10000 operations"
}

@test "the store has the limits that torch's server has" {
    serve
    gives 0 on_this "$PY" "$HERE/torch_store.py" limits "$port"
    has "12 limits are the same"
    grep -q "uses PyTorch older than 2.2, which cannot use this store" "$BATS_TEST_TMPDIR/log"
}

@test "torch's ranks meet at the store, 20 times in one process, in groups, by address, and by hand" {
    serve
    gives 0 on_this "$PY" "$HERE/torch_init.py" "$port" --ranks 4 --rounds 20
    for step in again_and_again:.20.of.20.times groups: by_address: stores: two_stores:; do
        [[ $(grep -cE "^rank [0-3]: $step" <<<"$output") -eq 4 ]] || { echo "$step: $output" && return 1; }
    done
    info "$(grep again_and_again <<<"$output" | head -n 1)"
    # The store outlives the ranks: it is still there.
    kill -0 "$server"
}
