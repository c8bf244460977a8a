#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # what another shell evaluates
# What ranks on this machine use, as their agent reports it to the driver: the figures are read from the file of --metrics.

load ../cluster/launch

setup_file() {
	built
	unset HVD_METRICS HVD_SAMPLE "${!SLURM_@}"
}
setup() { cd "$BATS_TEST_TMPDIR" || return 1; }
teardown() {
	if [[ ${launch-} ]]; then kill "$launch" 2>/dev/null || true; fi
	wait
}

# begin OPTION… CMD…: a launch in the background, whose figures are in the file prom.
begin() {
	"$B/bin/hvdrun" --launcher=fork --metrics=file:prom "$@" >messages 2>&1 3>&- &
	launch=$!
}

until_true() { # COMMAND…: within two minutes, while the launch runs
	wait_for 120 so_or_gone "$@" && kill -0 "$launch" || { echo "not while it runs: $*" && cat messages prom && return 1; }
}
so_or_gone() { "$@" || ! kill -0 "$launch"; }

# figure NAME RANK: of hvd_rank_NAME, in thousandths; fails if there is none.
figure() {
	awk -v start="hvd_rank_$1{" -v rank="rank=\"$2\"" \
		'index($1, start) == 1 && index($1, rank) { printf "%.0f\n", 1000 * $2; found = 1 } END { exit !found }' prom 2>/dev/null
}
at_least() { # NAME RANK THOUSANDTHS
	local value
	value=$(figure "$1" "$2") && ((value >= $3))
}
at_most() {
	local value
	value=$(figure "$1" "$2") && ((value <= $3))
}

@test "a busy rank, one that grows, one that writes and one that does nothing" {
	cat >rank <<-'E'
		case $RANK in
		0) while :; do :; done ;;
		1) for n in 20 40 60 80; do printf -v x %${n}000000d 0; sleep 1; done; sleep 1000; : ;;
		2) printf -v x %0100000d 0; while :; do echo "$x"; sleep 0.1; done >/dev/null ;;
		3) echo hello; exec sleep 1000 ;;
		esac
	E
	begin --sample=1 -np 4 bash rank
	# Other processes may have the processors; then the rank waits for one.
	busy() {
		local cpu delay
		cpu=$(figure cpu_ratio 0) && delay=$(figure cpu_delay_ratio 0) && ((cpu > 10 && cpu + delay > 700 && cpu < 1500))
	}
	until_true busy
	until_true at_least memory_bytes 1 80000000000
	until_true at_least written_bytes_per_second 2 50000000
	until_true at_most cpu_ratio 3 50
	at_most memory_bytes 3 30000000000
	at_most written_bytes_per_second 3 1000000
	run figure awaited_ratio 3
	[[ $status -eq 1 ]]
}

@test "the age of the last output is known where all output passes through the launch" {
	begin --sample=1 -np 2 --label sh -c 'if [ $RANK = 0 ]; then while echo hi; do sleep 1; done; fi; exec sleep 1000'
	until_true at_least output_age_seconds 1 0
	until_true at_most output_age_seconds 0 30000
}

@test "the peers of a rank that computes longer than they do wait for it" {
	cat >rank.py <<-'E'
		import os, pathlib, socket, time
		rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
		listener = socket.create_server(("127.0.0.1", 0))
		pathlib.Path(f"new.{rank}").write_text(str(listener.getsockname()[1]))
		os.rename(f"new.{rank}", f"port.{rank}")
		after = pathlib.Path(f"port.{(rank + 1) % size}")
		while not after.exists():
		    time.sleep(0.1)
		to = socket.create_connection(("127.0.0.1", int(after.read_text())))
		of = listener.accept()[0]
		while True:  # an all-reduce in a ring, with a step of computing before it
		    time.sleep(0.6 if rank == 2 else 0.1)
		    for _ in range(2 * (size - 1)):
		        to.sendall(b"x" * 1000)
		        n = 0
		        while n < 1000:
		            n += len(of.recv(1000 - n))
	E
	begin --sample=2 -np 4 python3 rank.py
	until_true at_least awaited_ratio 2 600
	for rank in 0 1 3; do until_true at_most awaited_ratio "$rank" 300; done
}
