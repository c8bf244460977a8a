#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# Training by real PyTorch whose ranks are all started anew, from its checkpoint, when one fails or hosts change:
# scripts/examples/elastic-torch.py.

load ../cluster/launch
load peers

EPOCHS=120

setup_file() {
    peers --torch
    built
    if [[ $PEERS_WHY ]]; then return 0; fi
    export TRAIN=$BATS_TEST_DIRNAME/../../scripts/examples/elastic-torch.py
    suite --nodes 3
    # An undisturbed training, by the ranks of one machine.
    on_this "$HVDRUN" --launcher=fork -np 2 "$PY" "$TRAIN" --epochs $EPOCHS \
        --checkpoint "$BATS_FILE_TMPDIR/checkpoint" >"$BATS_FILE_TMPDIR/alone" 2>"$BATS_FILE_TMPDIR/said" ||
        { cat "$BATS_FILE_TMPDIR/said" >&2 && return 1; }
}
setup() { needs_peers; }

# epochs FILE: "epoch N loss L" for each epoch. One that was not in the checkpoint yet is there twice, and must be the
# same both times.
epochs() { grep -o '^epoch [0-9]* loss [^ ]*' "$1" | sort -u | sort -s -k2n,2; }

# at_epoch N TEXT: the training has come to epoch N by ranks as TEXT says.
at_epoch() { awk -v n="$1" -v text="$2" '/^epoch/ && $2 >= n && index($0, text) { ok = 1 } END { exit !ok }' "$OUT"; }

# trains FURTHER TEXT: soon it has done so many more epochs by ranks as TEXT says.
trains() {
    local last
    last=$(awk '/^epoch/ { n = $2 } END { print n + 0 }' "$OUT")
    wait_for 90 at_epoch $((last + $1)) "$2" || { cat "$OUT" && return 1; }
}

@test "a rank is killed: the training goes on from its checkpoint, to the same numbers" {
    begin "$HVDRUN" --launcher=fork -np 2 --max-restarts 1 "$PY" "$TRAIN" --epochs $EPOCHS --pause 0.05 \
        --checkpoint "$BATS_TEST_TMPDIR/checkpoint"
    trains 5 "ranks 2 restarts 0"
    pkill -KILL -n -f -- "--checkpoint $BATS_TEST_TMPDIR/checkpoint"
    ended 120 0
    has "restarts 1" "killed by signal 9" "restarting all ranks, restart 1 of 1"
    diff <(epochs "$OUT") <(epochs "$BATS_FILE_TMPDIR/alone")
}

# One job, for PyTorch takes seconds to be imported.
@test "a rank is killed, a node is added, a node is lost: the training goes on from its checkpoint" {
    needs_cluster
    discover_script
    hosts hvdn1:1 hvdn2:1
    begin on_login env OMP_NUM_THREADS=1 salloc -Q -N3 --no-kill hvdrun --host-discovery-script ./discover -np 2 \
        --min-np 2 --max-np 3 --max-restarts 2 "$PY" "$TRAIN" --epochs $EPOCHS --pause 0.25
    trains 5 "ranks 2 restarts 0"
    as_root hvdn2 pkill -KILL -u alice -f "^$PY"
    trains 5 "ranks 2 restarts 1"
    hosts hvdn1:1 hvdn2:1 hvdn3:1
    trains 5 "ranks 3 restarts 1"
    fault node-kill hvdn1
    trains 5 "ranks 2 restarts 2"
    ended 180 0
    has "generation 2: 2 ranks on 2 hosts" "generation 3: 3 ranks on 3 hosts (hvdn3 added)" \
        "generation 4: 2 ranks on 2 hosts (hvdn1 removed)"
    has_not "generation 5" "error: hvd" "TCPStore server has shut down"
    # All epochs are there, with the loss of an undisturbed training but for what sums in another order differ in.
    epochs "$OUT" | awk '!seen[$2]++ { print $2, $4 }' |
        paste -d' ' - <(epochs "$BATS_FILE_TMPDIR/alone" | awk '{ print $2, $4 }') | awk -v n=$EPOCHS '
            { off = $2 > $4 ? $2 - $4 : $4 - $2; if ($1 != $3 || !(off <= 1e-12 * $2)) { print; bad = 1 } }
            END { exit bad || NR != n }'
}
