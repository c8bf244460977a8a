#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2154 # code that ranks evaluate, and what bats sets
# hvd-selftest as a launcher would start it, against our rendezvous, on the loopback interface.

bats_require_minimum_version 1.5.0

load ../cluster/helpers

setup_file() {
	B=${B:-build}
	[[ $B == /* ]] || B=$BATS_TEST_DIRNAME/../../$B
	export SELFTEST=$B/bin/hvd-selftest RENDEZVOUS=$B/bin/hvd-rendezvous
}

setup() {
	[[ -x $SELFTEST ]] || skip "hvd-selftest is not built"
	[[ -x $RENDEZVOUS ]] || skip "hvd-rendezvous is not built"
	while IFS= read -r name; do
		unset "$name"
	done < <(compgen -e HOROVOD_)
	rendezvous_pid=
}

teardown() {
	if [[ -n $rendezvous_pid ]]; then
		kill "$rendezvous_pid" 2>/dev/null || true
		wait "$rendezvous_pid" 2>/dev/null || true
	fi
}

# rendezvous [ADDRESS] - starts the server; its address and port are then in $addr and $port.
rendezvous() {
	local started=$BATS_TEST_TMPDIR/rendezvous

	addr=${1:-127.0.0.1}
	: >"$started"
	"$RENDEZVOUS" --bind "$addr" --port 0 --json >"$started" 2>"$started.err" 3>&- &
	rendezvous_pid=$!
	wait_for 10 has_port "$started" || { cat "$started.err" && return 1; }
}
has_port() { [[ $(<"$1") =~ \"port\":\ ?([0-9]+) ]] && port=${BASH_REMATCH[1]}; }

# job "2 2" [ARGUMENT]... - runs one rank for each slot; host number h is called node<h>. What rank r printed is then in
# out.<r> and err.<r> in $BATS_TEST_TMPDIR, its exit status in ${status_of[r]}. The variable `change` may hold shell
# code that changes the environment of a rank.
job() {
	local slots host local_rank other cross_rank cross_size rank=0 size=0 pids=()
	read -ra slots <<<"$1"
	shift

	for other in "${slots[@]}"; do
		size=$((size + other))
	done
	for host in "${!slots[@]}"; do
		for ((local_rank = 0; local_rank < slots[host]; local_rank++)); do
			cross_rank=0 cross_size=0
			for other in "${!slots[@]}"; do
				((slots[other] > local_rank)) || continue
				cross_size=$((cross_size + 1))
				((other >= host)) || cross_rank=$((cross_rank + 1))
			done
			(
				export HOROVOD_RANK=$rank HOROVOD_SIZE=$size
				export HOROVOD_LOCAL_RANK=$local_rank HOROVOD_LOCAL_SIZE=${slots[host]}
				export HOROVOD_CROSS_RANK=$cross_rank HOROVOD_CROSS_SIZE=$cross_size
				export HOROVOD_HOSTNAME=node$host HOROVOD_GLOO_IFACE=lo
				export HOROVOD_GLOO_RENDEZVOUS_ADDR=$addr HOROVOD_GLOO_RENDEZVOUS_PORT=$port
				export HOROVOD_CONTROLLER=gloo HOROVOD_GLOO_TIMEOUT_SECONDS=${seconds:-20}
				eval "${change:-}"
				exec "$SELFTEST" "$@" 3>&-
			) >"$BATS_TEST_TMPDIR/out.$rank" 2>"$BATS_TEST_TMPDIR/err.$rank" &
			pids+=($!)
			rank=$((rank + 1))
		done
	done
	job_pids=("${pids[@]}")
	[[ -z ${background:-} ]] || return 0
	finish_job
}

finish_job() {
	local rank

	status_of=()
	for rank in "${!job_pids[@]}"; do
		status_of[rank]=0
		wait "${job_pids[rank]}" 2>/dev/null || status_of[rank]=$?
	done
}

show() {
	tail -n +1 "$BATS_TEST_TMPDIR"/out.* "$BATS_TEST_TMPDIR"/err.*
	echo "exit statuses: ${status_of[*]}"
}

last_line() {
	tail -n 1 "$BATS_TEST_TMPDIR/out.0"
}

# What rank $1 says on standard error has each of the other arguments in it.
complains() {
	local rank=$1 text
	shift

	for text in "$@"; do
		grep -qF -- "$text" "$BATS_TEST_TMPDIR/err.$rank" || {
			echo "rank $rank does not say: $text"
			return 1
		}
	done
}

@test "four ranks on two hosts pass, and only rank 0 prints" {
	rendezvous
	job "2 2" --quick
	show
	[[ ${status_of[*]} == "0 0 0 0" ]]
	[[ $(last_line) == "hvd-selftest: 4 ranks on 2 hosts: OK" ]]
	grep -qE '^ +3 +node1 +1/2 +1/2 +lo +127\.0\.0\.1$' "$BATS_TEST_TMPDIR/out.0"
	grep -qF 'cross allreduce' "$BATS_TEST_TMPDIR/out.0"
	[[ ! -s $BATS_TEST_TMPDIR/out.1 && ! -s $BATS_TEST_TMPDIR/out.2 && ! -s $BATS_TEST_TMPDIR/out.3 ]]
	[[ -z $(cat "$BATS_TEST_TMPDIR"/err.*) ]]
}

@test "an uneven layout passes" {
	rendezvous
	job "3 1" --quick
	show
	[[ ${status_of[*]} == "0 0 0 0" ]]
	[[ $(last_line) == "hvd-selftest: 4 ranks on 2 hosts: OK" ]]
	grep -qE '^ +2 +node0 +2/3 +0/1 ' "$BATS_TEST_TMPDIR/out.0"
}

@test "all ranks on one host pass" {
	rendezvous
	job "3" --quick
	show
	[[ $(last_line) == "hvd-selftest: 3 ranks on 1 host: OK" ]]
}

@test "hosts whose names differ in length pass" {
	unshare --uts true 2>/dev/null || skip "giving ranks hosts' names of their own needs root"
	rendezvous
	named=$BATS_TEST_TMPDIR/named
	cat >"$named" <<-END
		#!/usr/bin/env python3
		import os, socket, sys
		socket.sethostname("n" + str(9 + int(os.environ["HOROVOD_CROSS_RANK"])))
		os.execv("$SELFTEST", ["hvd-selftest"] + sys.argv[1:])
	END
	chmod 755 "$named"
	change='set -- --uts "$named" "$@"; SELFTEST=unshare' job "2 1" --quick --json
	show
	[[ ${status_of[*]} == "0 0 0" ]]
	[[ -z $(cat "$BATS_TEST_TMPDIR"/err.*) ]]
	grep -qF '"node":"n9"' "$BATS_TEST_TMPDIR/out.0"
	grep -qF '"node":"n10"' "$BATS_TEST_TMPDIR/out.0"
}

@test "one rank passes without a rendezvous" {
	HOROVOD_RANK=0 HOROVOD_SIZE=1 run -0 "$SELFTEST"
	[[ ${lines[-1]} == "hvd-selftest: 1 rank on 1 host: OK" ]]
}

@test "a rendezvous on IPv6 is reached" {
	grep -q '^0\{31\}1 ' /proc/net/if_inet6 2>/dev/null || skip "no IPv6 on the loopback interface"
	rendezvous ::1
	job "2 2" --quick
	show
	[[ ${status_of[*]} == "0 0 0 0" ]]
}

@test "measurements and --json" {
	rendezvous
	job "2 1" --json --max-bytes 64 --iterations 2 --time-file "$BATS_TEST_TMPDIR/times" --since "$(date +%s.%N)"
	show
	[[ ${status_of[*]} == "0 0 0" ]]
	[[ $(wc -l <"$BATS_TEST_TMPDIR/out.0") -eq 1 ]]
	python3 - "$BATS_TEST_TMPDIR" <<-'END'
		import json, sys
		j = json.load(open(sys.argv[1] + "/out.0"))
		assert j["ok"] is True and j["error"] is None
		assert j["ranks"] == 3 and j["hosts"] == 2
		assert [p["host"] for p in j["placement"]] == ["node0", "node0", "node1"]
		assert [p["local_rank"] for p in j["placement"]] == [0, 1, 0]
		assert [m["bytes"] for m in j["allreduce"]] == [4, 16, 64]
		assert all(m["iterations"] == 2 and m["mean_us"] > 0 for m in j["allreduce"])
		assert j["rendezvous"]["requests"] > 0 and j["rendezvous"]["retries"] == 0
		t = json.load(open(sys.argv[1] + "/times"))["time_ms"]
		assert t == j["time_ms"]
		assert 0 < t["main_to_contexts"] <= t["main_to_first_allreduce"]
		assert 0 < t["launch_to_first_allreduce"]
	END
}

@test "a missing variable is named" {
	addr=127.0.0.1 port=9 change='unset HOROVOD_LOCAL_RANK' job "1 1" --quick
	show
	[[ ${status_of[*]} == "2 2" ]]
	complains 1 "rank 1" "HOROVOD_LOCAL_RANK is not set" "hvdrun -np 4 hvd-selftest"
	run -2 --separate-stderr "$SELFTEST"
	[[ $stderr == *"HOROVOD_RANK is not set"* && -z $output ]]
}

@test "variables that contradict each other are named" {
	addr=127.0.0.1 port=9 change='HOROVOD_RANK=$((HOROVOD_RANK + 2))' job "1 1" --quick
	show
	[[ ${status_of[*]} == "2 2" ]]
	complains 0 "HOROVOD_RANK=2 is not below HOROVOD_SIZE=2"
	addr=127.0.0.1 port=9 change='HOROVOD_LOCAL_SIZE=two' job "1 1" --quick
	complains 0 "HOROVOD_LOCAL_SIZE=two is not a number"
}

@test "a host name that ranks of two hosts share is found out" {
	rendezvous
	change='HOROVOD_HOSTNAME=node0' job "2 2" --quick
	show
	[[ ${status_of[*]} == "2 2 2 2" ]]
	complains 0 "HOROVOD_LOCAL_SIZE=2, but 4 ranks name the host node0"
	[[ $(last_line) == "hvd-selftest: FAILED: "* ]]
}

@test "sizes that differ between ranks are found out" {
	rendezvous
	seconds=3 change='[[ $HOROVOD_RANK != 0 ]] || HOROVOD_SIZE=3' job "1 1" --quick
	show
	[[ ${status_of[0]} -ne 0 && ${status_of[1]} -ne 0 ]]
	complains 0 "HOROVOD_SIZE"
}

@test "a wrong interface is named, with those that there are" {
	rendezvous
	change='HOROVOD_GLOO_IFACE=nosuch0' job "1 1" --quick
	show
	[[ ${status_of[*]} == "2 2" ]]
	complains 1 "rank 1 on node1" "HOROVOD_GLOO_IFACE=nosuch0" "no such interface" "lo (127.0.0.1)"
	change='HOROVOD_GLOO_IFACE=lo,eth0' job "1 1" --quick
	complains 1 "one interface, not a list"
}

@test "a dead rendezvous is an error within bounded time" {
	rendezvous
	kill "$rendezvous_pid"
	wait "$rendezvous_pid" || true
	rendezvous_pid=
	SECONDS=0
	job "2 2" --quick
	show
	[[ ${status_of[*]} == "1 1 1 1" ]]
	((SECONDS < 10))
	complains 2 "rank 2 on node1 (lo, 127.0.0.1)" "127.0.0.1:$port" "Connection refused"
}

@test "a rendezvous that takes requests and never answers is an error in time" {
	local silent=$BATS_TEST_TMPDIR/silent

	: >"$silent"
	python3 -c 'import socket, time
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
time.sleep(60)' >"$silent" 3>&- &
	rendezvous_pid=$!
	wait_for 30 test -s "$silent"
	addr=127.0.0.1 port=$(<"$silent")
	SECONDS=0
	seconds=2 job "1 1" --quick
	show
	[[ ${status_of[*]} == "1 1" ]]
	((SECONDS < 10))
	complains 1 "127.0.0.1:$port does not answer"
}

@test "a rank that never comes is named" {
	rendezvous
	SECONDS=0
	seconds=2 change='[[ $HOROVOD_RANK != 2 ]] || exit 9' job "2 2" --quick
	show
	[[ ${status_of[*]} == "1 1 9 1" ]]
	((SECONDS < 20))
	complains 0 "rank 2 did not come" "scope global"
}

@test "--fail-rank exits as told, and rank 0 names the rank" {
	rendezvous
	job "2 2" --quick --fail-rank 1:3
	show
	[[ ${status_of[*]} == "1 3 1 1" ]]
	complains 0 "no report from rank 1 on node0 (lo, 127.0.0.1)"
	[[ $(last_line) == "hvd-selftest: FAILED: no report from rank 1"* ]]
}

@test "--fail-rank kills as told" {
	rendezvous
	job "1 1" --quick --fail-rank 1:SIGTERM
	show
	[[ ${status_of[*]} == "1 143" ]]
}

@test "--hang-rank hangs, and is named when the time is over" {
	rendezvous
	seconds=2 background=1 job "1 1 1" --quick --hang-rank 1
	wait "${job_pids[0]}" || true
	kill "${job_pids[1]}"
	finish_job
	show
	[[ ${status_of[1]} -eq 143 && ${status_of[2]} -eq 1 ]]
	complains 0 "no report from rank 1 on node1"
}

@test "--sleep keeps the ranks waiting" {
	rendezvous
	SECONDS=0
	job "1 1" --quick --sleep 2
	show
	[[ ${status_of[*]} == "0 0" ]]
	((SECONDS >= 2))
}

@test "options that cannot be right are refused" {
	local args
	for args in "--nosuch" "--iterations 0" "--max-bytes 3" "--max-bytes 2G" "--fail-rank x" "--fail-rank 1:NOSIG" \
		"--sleep -1" "--max-bytes" "extra"; do
		# shellcheck disable=SC2086
		run -2 "$SELFTEST" $args
	done
	run -0 "$SELFTEST" --help
	[[ $output == *--fail-rank* ]]
	run -0 "$SELFTEST" --version
	[[ $output == "hvd-selftest "* ]]
}
