#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_faults.sh - one training by real PyTorch with a spare host, and one fault after the other: hvdrun next to torchrun.
#
# Four ranks of scripts/examples/elastic-torch.py on five hosts of the test cluster, in one allocation for each launcher.
# FAULTS (14) of FAULT_KINDS in turn (tests/peers/faults.bash). After each fault the host is repaired, and the next fault
# waits until the training has gone on. Printed for each fault, in seconds after it: when the first and when the last of
# the new ranks ran its first line, and when the training had made an epoch; then medians and the worst for each kind.
# A training that does not go on within PATIENCE (180) seconds counts as ended ("ends"), and is started anew from its
# checkpoint.
#
# torchrun gets what helps it: its rendezvous is on the login host, where nothing fails; the ranks' store is of their own;
# on each host a loop starts torchrun again when it has ended; and a host whose step has ended gets a new step.
# TORCHRUN_SPARE=0: no torchrun waits on the fifth host.
# FAULTS_LOG: a file for what a launcher has said whose training has ended. LAUNCHERS="hvdrun torchrun" selects. Needs PyTorch (tests/peers/install.sh --torch), root and Slurm.
set -euo pipefail

PEERS=--torch
# shellcheck source=tests/bench/peers.bash
source "$(dirname "$0")/peers.bash"
PY=$VENV/bin/python
TRAIN=$TOP/scripts/examples/elastic-torch.py
faults=${FAULTS:-14}
patience=${PATIENCE:-180}
read -ra kinds <<<"${FAULT_KINDS:-rank agent link stepd slurmd frozen stopped}"
export B HVD_PATH="$B/bin" HVD_CLUSTER_NAME=bench$$ HVD_TEST_DEADLINE=7200
# shellcheck source=tests/cluster/helpers.bash
source "$TOP/tests/cluster/helpers.bash"
# shellcheck source=tests/cluster/launch.bash
source "$TOP/tests/cluster/launch.bash"
# shellcheck source=tests/peers/faults.bash
source "$TOP/tests/peers/faults.bash"
RESULTS=$(mktemp -d)
BATS_TEST_TMPDIR=$RESULTS
trap 'cluster down >/dev/null 2>&1 || true; rm -rf "$RESULTS"' EXIT
cluster up --nodes 5 --slurm-conf SlurmdTimeout=300 --plugin "$B/lib/hvd.so:libexecdir=$B/libexec/hvd" >/dev/null
LOG=$(home)/log

# What each rank runs: it says first when it was started.
cat >"$(home)/rank" <<END
#!/bin/bash
echo "start \$RANK \$EPOCHREALTIME" >>log
exec $PY -u $TRAIN --epochs 1000000 --pause 0.1 --checkpoint checkpoint
END
# torchrun on one host, until the training is to end.
cat >"$(home)/torchrun" <<END
#!/bin/bash
export TORCHELASTIC_ERROR_FILE= OMP_NUM_THREADS=1 TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
until [[ -e stop ]]; do
	$PY -m torch.distributed.run --nnodes=4:4 --nproc-per-node=1 --max-restarts=1000 --rdzv-backend=c10d \
		--rdzv-endpoint=hvdlogin:29400 --rdzv-id=bench --rdzv-conf=is_host=0 --no-python ./rank || sleep 1
done
END
# The server of its rendezvous.
cat >"$(home)/store" <<END
#!$PY
import datetime, time
from torch.distributed import TCPStore
store = TCPStore("hvdlogin", 29400, None, True, timeout=datetime.timedelta(seconds=60), wait_for_workers=False, multi_tenant=True)
time.sleep(100000)
END
chmod 755 "$(home)"/{rank,torchrun,store}

launch_hvdrun() {
	AGENT='[h]vd-agent host'
	begin on_login env OMP_NUM_THREADS=1 salloc -Q -N5 --ntasks-per-node=1 --no-kill hvdrun --max-restarts 1000 --spares 1 \
		--progress-file 'checkpoint*' --json ./rank
}
launch_torchrun() {
	AGENT='[t]orch.distributed.run'
	on_login ./store >"$RESULTS/store" 2>&1 3>&- &
	local hosts=$((4 + ${TORCHRUN_SPARE:-1}))
	begin on_login salloc -Q -N5 --ntasks-per-node=1 --no-kill srun "-N$hosts" "-n$hosts" --no-kill --kill-on-bad-exit=0 \
		--overlap ./torchrun
}
# A host without a step gets a new one.
mend_torchrun() {
	local job
	if as_root "$1" pgrep -u alice -f '[.]/torchrun' >/dev/null; then return; fi
	job=$(as_root hvdctl squeue -h -u alice -o %A)
	on_login srun --jobid="$job" -N1 -n1 -w "$1" --overlap ./torchrun >>"$OUT" 2>&1 3>&- &
}

epochs() { grep -c '^epoch' "$OUT" || true; }
more_epochs() { (($(epochs) > $1)); }
# goes_on LINES: soon there is a rank 0 that was started after the fault, and an epoch after that.
new_rank0() { awk -v at="$at" '$1 == "start" && $2 == 0 && $3 > at { found = 1 } END { exit !found }' "$LOG"; }
goes_on() {
	within "$patience" new_rank0 2>/dev/null || return 1
	within "$patience" more_epochs "$(epochs)" 2>/dev/null
}

# end_training: whatever is left of it.
end_training() {
	touch "$(home)/stop"
	cluster fault clear >/dev/null 2>&1 || true
	for host in hvdlogin hvdn{1..5}; do as_root "$host" pkill -KILL -u alice || true; done
	# shellcheck disable=SC2119 # not the arguments of this script
	cluster_mend >/dev/null 2>&1
	wait "$PID" 2>/dev/null || true
	rm -f "$(home)/stop"
}
begin_training() {
	: >"$LOG" && chmod 666 "$LOG"
	"launch_$1"
	within "$patience" more_epochs 3 2>/dev/null || { tail -n 30 "$OUT" >&2 && exit 1; }
}

# times KIND HOST: of the fault at $at, whose training has gone on at $trains.
times() {
	awk -v at="$at" -v kind="$1" -v host="$2" -v trains="$EPOCHREALTIME" '
		$1 == "start" && $3 > at { if (!first) first = $3; last[$2] = $3 }
		END { for (r in last) if (last[r] > most) most = last[r]
			printf "%-8s %-6s %8.2f %8.2f %8.2f\n", kind, host, first - at, most - at, trains - at }' "$LOG"
}

# summary FILE: the medians and worst times of each kind, and how often the training has ended.
summary() {
	awk '{ n[$1]++ } $3 == "ends" { ends[$1]++; next }
		{ k = $1; m = ++c[k]; f[k, m] = $4; t[k, m] = $5 }
		function sort(v, k, m,  i, j, x) { for (i = 2; i <= m; i++) for (j = i; j > 1 && v[k, j - 1] > v[k, j]; j--) { x = v[k, j]; v[k, j] = v[k, j - 1]; v[k, j - 1] = x } }
		END { for (k in n) { m = c[k]; sort(f, k, m); sort(t, k, m); h = int((m + 1) / 2)
			if (m) printf "%-8s %3d times   all run: median %7.2f worst %7.2f   trains: median %7.2f worst %7.2f", k, n[k], f[k, h], f[k, m], t[k, h], t[k, m]
			else printf "%-8s %3d times", k, n[k]
			printf "%s\n", ends[k] ? "   ended " ends[k] " times" : "" } }' "$1" | sort
}

bench() {
	local i kind victim='' number=0 at
	rm -f "$(home)/checkpoint"
	echo "== $1"
	: >"$RESULTS/$1"
	begin_training "$1"
	for ((i = 0; i < faults; i++)); do
		kind=${kinds[i % ${#kinds[@]}]}
		next_victim || { echo "no host has ranks" >&2 && exit 1; }
		at=$EPOCHREALTIME
		do_fault "$kind" "$victim"
		if goes_on; then
			times "$kind" "$victim" >>"$RESULTS/$1"
			undo_fault "$kind" "$victim"
			if [[ $1 == torchrun ]]; then mend_torchrun "$victim"; elif [[ $kind != rank ]]; then repaired "$victim"; fi
			sleep "${PAUSE:-12}" # it is a spare host then
		else
			printf '%-8s %-6s %8s\n' "$kind" "$victim" ends >>"$RESULTS/$1"
			if [[ ${FAULTS_LOG-} ]]; then cat "$OUT" >>"$FAULTS_LOG"; fi
			undo_fault "$kind" "$victim"
			end_training
			begin_training "$1"
		fi
		tail -n 1 "$RESULTS/$1"
	done
	end_training
	summary "$RESULTS/$1"
}

for launcher in ${LAUNCHERS:-hvdrun torchrun}; do bench "$launcher"; done
