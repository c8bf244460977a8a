#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2030,SC2031,SC2154 # what run sets, for functions that look at it
# hvdrun -np N with real Horovod, on this machine and without a scheduler.

load ../cluster/launch
load peers

setup_file() {
    peers
    built
}
setup() { needs_peers; }

@test "four ranks use all contexts" {
    gives 0 on_this "$HVDRUN" -np 4 "$PY" "$HERE/contexts.py" "$BATS_TEST_TMPDIR"
    local rank
    for rank in 0 1 2 3; do
        has "rank $rank of 4 on $(hostname): local $rank/4 cross 0/1"$'\n'
    done
    info "$(grep -F 'hvd.init()' <<<"$output")"
    all_gone 2 "$BATS_TEST_TMPDIR"
}

# Two names of one machine are two hosts, as in Horovod's own tests.
@test "four ranks on localhost and 127.0.0.1 have the places that horovodrun gives them" {
    cat >"$BATS_TEST_TMPDIR/place.py" <<'END'
import torch
import horovod.torch as hvd
hvd.init()
mine = (hvd.rank(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size())
total = hvd.allreduce(torch.tensor([1 << hvd.rank()]), op=hvd.Sum).item()
places = hvd.allgather_object(mine)
if hvd.rank() == 0: print("places", places, total)
END
    gives 0 on_this bash -c 'exec -a horovodrun "$@"' - "$HVDRUN" -np 4 -H localhost:2,127.0.0.1:2 "$PY" "$BATS_TEST_TMPDIR/place.py"
    has "places [(0, 0, 2, 0, 2), (1, 1, 2, 0, 2), (2, 0, 2, 1, 2), (3, 1, 2, 1, 2)] 15"
    all_gone 2 "$BATS_TEST_TMPDIR"
}

@test "one rank alone uses all contexts" {
    gives 0 on_this "$HVDRUN" -np 1 "$PY" "$HERE/contexts.py" "$BATS_TEST_TMPDIR"
    has "rank 0 of 1 on $(hostname): local 0/1 cross 0/1"
    all_gone 2 "$BATS_TEST_TMPDIR"
}

# fails HOW STATUS TEXT [SECONDS]: rank 2 of four fails; hvdrun ends with STATUS and prints TEXT, soon, and no
# process is left.
fails() {
    local mark=$BATS_TEST_TMPDIR/$1
    run on_this "$HVDRUN" -np 4 "$PY" "$HERE/fail.py" "$1" 2 "$mark"
    rank_2_failed localhost "$2" "$3" "$EPOCHREALTIME" "${4-4}"
    all_gone 0 "$mark"
}

@test "a rank that raises an exception ends the job soon, with 1" {
    fails raise 1 "exit code 1" 30 # Python first ends Horovod
    has "RuntimeError: out of data"
}

@test "a rank that is killed ends the job soon, with 137" {
    fails kill 137 "killed by signal 9 (SIGKILL)"
}

# The messages of both launchers name the rank and how it ended.
@test "horovodrun names the same rank and the same exit code" {
    local said=("Horovod detected that one or more processes exited with non-zero status, thus causing the job to be \
terminated. The first process to do so was:"$'\n'"Process name: 2"$'\n'"Exit code: 7")
    run on_this "$HORUN" -np 4 "$PY" "$HERE/fail.py" exit 2 "$BATS_TEST_TMPDIR"
    [ "$status" -ne 0 ]
    has "${said[@]}"
    gives 7 on_this bash -c 'exec -a horovodrun "$@"' - "$HVDRUN" -np 4 "$PY" "$HERE/fail.py" exit 2 "$BATS_TEST_TMPDIR"
    has "error: rank 2 on localhost failed first: exit code 7" "[2]<stdout>:fails at" "${said[@]}"
    all_gone 2 "$BATS_TEST_TMPDIR"
}
