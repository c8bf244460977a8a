#!/usr/bin/env bats
# Thousands of node agents that come to one driver at once.

setup_file() {
    B=$(cd "$BATS_TEST_DIRNAME/../.." && cd "${B:-build}" && pwd)
    export B
    [[ -x $B/tests/bench/bench_driver ]] || skip "make test-tools builds what this needs"
}

# register HOSTS FILES: all of them get their plan, from a driver that may open so many files.
register() {
    (($(ulimit -Hn) >= $2)) || skip "the limit of open files is $(ulimit -Hn), this needs $2"
    # shellcheck disable=SC2016
    run timeout 50 bash -c 'ulimit -n "$1" && exec "$2" "$3"' - "$2" "$B/tests/bench/bench_driver" "$1"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ ${lines[1]} =~ ^\ *$1\  ]]
}

@test "5,000 node agents that register at once" { register 5000 16000; }

@test "more at once than the driver has room for: who was closed comes back" { register 2000 2100; }
