#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# hvd-rendezvous as a TCPStore, as a process: what bad clients cost it.

load ../cluster/helpers

setup() {
	B=$(cd "$BATS_TEST_DIRNAME/../.." && realpath "${B:-build}")
	"$B/bin/hvd-rendezvous" --json --bind=127.0.0.1 >"$BATS_TEST_TMPDIR/server" 2>"$BATS_TEST_TMPDIR/log" 3>&- &
	server=$!
	wait_for 10 test -s "$BATS_TEST_TMPDIR/server"
	port=$(sed -n 's/.*"port":\([0-9]*\).*/\1/p;q' "$BATS_TEST_TMPDIR/server")
}

teardown() {
	kill "$server"
	wait "$server" || true
}

@test "10,000 half-open connections, announced lengths, slow senders and deaf readers cost the store little" {
	run timeout 120 python3 "$BATS_TEST_DIRNAME/../cluster/lib/tcpstore_hostile.py" "$port" "$server"
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(grep -c '^kept ' <<<"$output")" -eq 4 ]
}
