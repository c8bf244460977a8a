#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2034 # what run sets; what loss_as_alone reads
# shellcheck disable=SC2016 # $PID is for the shell that runs the command
# Real Horovod in an LSF job, through stand-ins of each of its launchers.

load ../cluster/launch
load ../cluster/lsf
load peers
load elastic

setup_file() {
    peers
    if [[ $PEERS_WHY ]]; then return 0; fi
    timeout 60 "$PY" "$HERE/train.py" --alone >"$BATS_FILE_TMPDIR/alone"
    built
    mkdir "$BATS_FILE_TMPDIR/elastic"
    reference "$BATS_FILE_TMPDIR/elastic"
    suite --nodes 3
    if [[ ! $CLUSTER_WHY ]]; then standins_up hvdlogin hvdn1 hvdn2 hvdn3; fi
}
setup() { needs_cluster; }

# with NAME: prepares a job of six slots on three hosts, with that launcher. A job of jsrun has a launch node.
with() {
    JOB_HOSTS="hvdn1 2 hvdn2 2 hvdn3 2"
    if [[ $1 == jsrun ]]; then JOB_HOSTS="hvdlogin 1 $JOB_HOSTS"; fi
    installed "$@"
}

# as_alone: the losses in $output are those of one process, up to rounding.
as_alone() {
    paste "$BATS_FILE_TMPDIR/alone" <(grep '^epoch' <<<"$output") | awk '
        { print }
        $2 != $6 || $8 == "" { bad = 1 }
        { off = $4 > $8 ? $4 - $8 : $8 - $4; if (off > 1e-9 * $4) bad = 1 }
        END { if (bad || NR != 5) exit 1 }'
}

@test "a training through jsrun, blaunch and lsrun goes as it goes in one process" {
    for each in jsrun blaunch lsrun; do
        with "$each"
        gives 0 in_job hvdrun -np 4 "$PY" "$HERE/train.py"
        as_alone
    done
    nothing_left
}

@test "horovodrun's users need no -np, and a failing rank is named" {
    for each in jsrun blaunch lsrun; do
        with "$each"
        gives 5 in_job bash -c "exec -a horovodrun hvdrun --hosts hvdn2:1,hvdn3:1 $PY -c '
import os, horovod.torch as hvd
hvd.init()
print(\"rank\", hvd.rank(), hvd.size(), hvd.local_rank(), os.uname().nodename, flush=True)
assert hvd.allgather_object(hvd.rank()) == [0, 1]
os._exit(5 if hvd.rank() == 1 else 0)'"
        has "[0]<stdout>:rank 0 2 0 hvdn2" "[1]<stdout>:rank 1 2 0 hvdn3" "rank 1 on hvdn3 failed first: exit code 5"
    done
    nothing_left
}

@test "an elastic training on the job's hosts: a rank is killed, and another starts in its place" {
    for each in blaunch lsrun; do
        with "$each"
        LOG=$(home)/log.$each
        gives 0 in_job hvdrun --min-np 2 -np 4 --hosts hvdn1:2,hvdn2:2 "$PY" "$HERE/elastic.py" "log.$each" \
            --at '1:3:3:kill -9 $PID'
        has "rank 3 on hvdn2 failed: killed by signal 9 (SIGKILL)" "generation 2: "
        loss_as_alone "$BATS_FILE_TMPDIR/elastic"
    done
    nothing_left
}
