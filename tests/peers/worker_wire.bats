#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# Notifications of elastic workers, between this suite and Horovod's own classes.

load ../cluster/launch
load peers

setup_file() {
    peers
    built
}
setup() {
    needs_peers
    wire=$B/tests/bench/worker_wire
    [[ -x $wire ]] || skip "there is no $wire: make benches"
}

@test "Horovod's notification service takes what is sent to it" {
    gives 0 on_this "$PY" "$HERE/worker_wire.py" worker "$wire"
    [[ $output == *'26 exchanges'* ]]
}

@test "Horovod's driver is understood, and takes the answers" {
    gives 0 on_this "$PY" "$HERE/worker_wire.py" driver "$wire"
    [[ $output == *'3 exchanges'* ]]
}
