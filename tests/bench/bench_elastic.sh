#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_elastic.sh - elastic jobs of hvdrun next to horovodrun's, on four hosts of the test cluster.
#
# Seconds from the event to the first batch of the next generation; medians of ROUNDS (3), launchers in turn:
#   - a rank of 2 x 2 is killed (kill -9); the job goes on with what is left, or with a spare host
#   - a host is added, 4 -> 6 ranks; one is removed, 6 -> 4
# The event is the moment in which the discovery
# script's answer, or the rank, changes. New workers import PyTorch and Horovod in the meantime; how long that takes here
# is shown first. horovodrun starts ranks by ssh; hvdrun by ssh and in an allocation.
# Needs Horovod (tests/peers/install.sh), root, Slurm and sshd.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
B=$(cd "$top" && realpath "${B:-build}")
rounds=${ROUNDS:-3}
"$top/tests/peers/install.sh" --check || {
	echo "bench_elastic: Horovod is not there: make peers" >&2
	exit 1
}
venv=$("$top/tests/peers/install.sh" --where)/venv
export OMP_NUM_THREADS=1 B HVD_PATH="$B/bin" HVD_CLUSTER_NAME=bench$$ HVD_TEST_DEADLINE=3600
# shellcheck source=tests/cluster/helpers.bash
source "$top/tests/cluster/helpers.bash"
# shellcheck source=tests/cluster/launch.bash
source "$top/tests/cluster/launch.bash"
# shellcheck source=tests/cluster/sshd.bash
source "$top/tests/cluster/sshd.bash"
# shellcheck source=tests/peers/elastic.bash
source "$top/tests/peers/elastic.bash"
sshd_can || { echo "bench_elastic: OpenSSH is not installed" >&2 && exit 1; }
trap 'cluster down >/dev/null 2>&1 || true' EXIT
cluster up --nodes 4 --login-ib --plugin "$B/lib/hvd.so:libexecdir=$B/libexec/hvd" >/dev/null
sshd_prepare hvdn1 hvdn2 hvdn3 hvdn4
printf '#!/bin/sh\ncat ~/hosts\n' >"$(home)/discover"
chmod 755 "$(home)/discover"
LOG=$(home)/log
script=("$venv/bin/python" "$top/tests/peers/elastic.py" log --pause 0.05)

median() { sort -n | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : "-" }'; }

# one LAUNCHER HOSTS ARGS…: the time of event 0.
one() {
	local launcher=$1 hosts=$2 words
	shift 2
	rm -f "$LOG"*
	printf '%b\n' "$hosts" >"$(home)/hosts"
	chmod 666 "$(home)/hosts"
	case $launcher in
	horovodrun) words=("$venv/bin/horovodrun") ;;
	"hvdrun, ssh") words=(hvdrun --launcher=ssh) ;;
	"hvdrun, srun") words=(salloc -Q -N4 --no-kill hvdrun) ;;
	esac
	timeout 200 "$HVD_CLUSTER_CMD" exec -- "${words[@]}" --min-np 2 -np 4 --host-discovery-script ./discover \
		"${script[@]}" "$@" >"$B/bench_elastic.out" 2>&1 || true
	recovered 0
	echo
}

# shellcheck disable=SC2016 # for the rank's shell
compare() {
	local what=$1 launcher round
	shift
	echo "== $what"
	for launcher in horovodrun "hvdrun, ssh" "hvdrun, srun"; do
		printf '%-14s %s s\n' "$launcher" "$(for ((round = 0; round < rounds; round++)); do one "$launcher" "$@"; done | median)"
	done
}

echo "== importing horovod.torch"
on_login bash -c "time '$venv/bin/python' -c 'import horovod.torch'" 2>&1 | grep real
# shellcheck disable=SC2016
{
	compare "a rank is killed, 4 -> 2" 'hvdn1:2\nhvdn2:2' --epochs 3 --at '1:3:3:kill -9 $PID'
	compare "a rank is killed, 4 -> 4 with a spare host" 'hvdn1:2\nhvdn2:2' --epochs 3 --at '1:3:3:echo hvdn3:2 >>~/hosts; kill -9 $PID'
	compare "a host is added, 4 -> 6" 'hvdn1:2\nhvdn2:2' --epochs 12 --at '1:0:any:echo hvdn3:2 >>~/hosts'
	compare "a host is removed, 6 -> 4" 'hvdn1:2\nhvdn2:2\nhvdn3:2' --epochs 12 --at '1:0:any:printf "hvdn1:2\nhvdn2:2\n" >~/hosts'
}
