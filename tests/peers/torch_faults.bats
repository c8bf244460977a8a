#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2034 # what run sets; what faults.bash reads
# A training by real PyTorch with a spare host, in which one thing after the other fails: scripts/examples/elastic-torch.py.
#
# HOSTS (4): how many there are, with a rank on each but the spare one. FAULTS (5): how many faults, and EPOCHS of the training,
# which must last as long. FAULT_KINDS: their kinds, in turn (faults.bash). FAULT_TIMES: a file for a line of each: its kind
# and host, the seconds until the launcher has noticed, until all old ranks had gone, and until the next generation began.
# FAULT_OUT: a file for what hvdrun has said.

load ../cluster/helpers
load ../cluster/launch
load peers
load faults

# Each rank imports PyTorch once more after each fault, for seconds of a processor.
HOSTS=${HOSTS:-4}
FAULTS=${FAULTS:-5}
AGENT='[h]vd-agent host'
EPOCHS=${EPOCHS:-$((60 + 90 * FAULTS))}

setup_file() {
    peers --torch
    export HVD_TEST_DEADLINE=$((120 + EPOCHS)) # of the whole training
    built
    if [[ $PEERS_WHY ]]; then return 0; fi
    export TRAIN=$BATS_TEST_DIRNAME/../../scripts/examples/elastic-torch.py
    suite --nodes "$HOSTS" --slurm-conf SlurmdTimeout=300
    # An undisturbed training: how many ranks there are makes no difference.
    on_this "$HVDRUN" --launcher=fork -np 1 "$PY" "$TRAIN" --epochs "$EPOCHS" \
        --checkpoint "$BATS_FILE_TMPDIR/checkpoint" >"$BATS_FILE_TMPDIR/alone" 2>"$BATS_FILE_TMPDIR/said" ||
        { cat "$BATS_FILE_TMPDIR/said" >&2 && return 1; }
}
teardown_file() { if [[ ! $PEERS_WHY$CLUSTER_WHY ]]; then cluster_down; fi; }
setup() { needs_peers; }
teardown() {
    [[ ! ${FAULT_OUT-} ]] || cp "$BATS_TEST_TMPDIR/out" "$FAULT_OUT"
    mend
}

last_epoch() { awk '/^epoch/ { n = $2 } END { print n + 0 }' "$OUT"; }
beyond() { (($(last_epoch) >= $1)); }
goes_on() { wait_for 60 beyond $(($(last_epoch) + $1)) || { tail -n 30 "$OUT" && return 1; }; }
restarted() { grep -q "ranks $((HOSTS - 1)) restarts $1\$" <(grep '^epoch' "$OUT"); }
is_spare() { [[ $(grep -c "$1 is a spare host" "$OUT") -gt $2 ]]; }

@test "with a spare host a training goes on after one fault after the other, to the numbers of an undisturbed one" {
    needs_cluster
    local kinds i kind spares lines victim='' number=0 times=()
    read -ra kinds <<<"${FAULT_KINDS:-link stopped slurmd agent stepd rank rank}"
    begin on_login env OMP_NUM_THREADS=1 salloc -Q -N"$HOSTS" --ntasks-per-node=1 --no-kill hvdrun --max-restarts 1000 \
        --spares 1 --progress-file 'checkpoint*' --json "$PY" "$TRAIN" --epochs "$EPOCHS" --pause 0.1
    goes_on 5
    for ((i = 0; i < FAULTS; i++)); do
        kind=${kinds[i % ${#kinds[@]}]}
        next_victim
        spares=$(grep -c "$victim is a spare host" "$OUT") || true
        times+=("$kind $victim $(date +%s.%N)")
        do_fault "$kind" "$victim"
        wait_for 60 restarted $((i + 1)) || { echo "not after $kind on $victim" && tail -n 30 "$OUT" && return 1; }
        undo_fault "$kind" "$victim"
        goes_on 3
        # The next fault waits until there is a spare host again.
        if [[ $kind == rank || $i -eq $((FAULTS - 1)) ]]; then continue; fi
        repaired "$victim"
        wait_for 60 is_spare "$victim" "$spares" || { tail -n 40 "$OUT" && return 1; }
    done
    [[ ! ${FAULT_OUT-} ]] || printf '%s\n' "${times[@]}" >"$FAULT_OUT.faults"
    ended $((60 + EPOCHS / 2))
    exits 0
    # The line of an epoch may be lost with the host of rank 0 when the checkpoint was written.
    lines=$(grep -o '^epoch [0-9]*' "$OUT" | sort -u | wc -l)
    ((lines <= EPOCHS && lines >= EPOCHS - FAULTS)) || { echo "$lines epochs, not $EPOCHS" && return 1; }
    same_loss "$OUT" "$BATS_FILE_TMPDIR/alone"
    printf '%s\n' "${times[@]}" | python3 "$BATS_TEST_DIRNAME/fault_times.py" "$OUT" >"$BATS_TEST_TMPDIR/times"
    [[ ! ${FAULT_TIMES-} ]] || cp "$BATS_TEST_TMPDIR/times" "$FAULT_TIMES"
    [[ $(grep -c . "$BATS_TEST_TMPDIR/times") -eq $FAULTS ]] || { cat "$BATS_TEST_TMPDIR/times" && return 1; }
}

