#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# shellcheck disable=SC2016 # what shells of the ranks evaluate
# Horovod that is built with Open MPI and Gloo (install.sh --mpi): its workers use the one that was asked for, and a
# training goes as in one process.

load ../cluster/launch
load peers

setup_file() {
    export HVD_MPIRUN=mpirun.openmpi
    peers --mpi
    if [[ $PEERS_WHY ]]; then return 0; fi
    timeout $((60 * HVD_TEST_PATIENCE)) "$PY" "$HERE/train.py" --alone >"$BATS_FILE_TMPDIR/alone"
    suite --nodes 4 --slurm-conf TmpFS=/run
}
setup() { needs_peers; }

# as_alone: the losses in $output, without mpirun's tags, are those of one process, up to rounding.
as_alone() {
    paste "$BATS_FILE_TMPDIR/alone" <(sed -nE 's/^(\[1,0\]<stdout>: ?)?(epoch.*)/\2/p' <<<"$output") | awk '
        { print }
        $2 != $6 || $8 == "" { bad = 1 }
        { off = $4 > $8 ? $4 - $8 : $8 - $4; if (off > 1e-9 * $4) bad = 1 }
        END { if (bad || NR != 5) exit 1 }'
}

@test "a training by mpirun on one machine goes as in one process" {
    gives 0 on_this "$HVDRUN" --mpi -np 2 --mpi-args=--oversubscribe "$PY" "$HERE/train.py"
    as_alone
}

@test "the controller is the one that was asked for" {
    local which='import horovod.torch as hvd; hvd.init(); print("mpi %d of %d" % (hvd.mpi_enabled(), hvd.size()))'
    gives 0 on_this "$HVDRUN" --mpi -np 2 --mpi-args=--oversubscribe "$PY" -c "$which"
    has "mpi 1 of 2"
    gives 0 on_this "$HVDRUN" -np 2 "$PY" -c "$which"
    has "mpi 0 of 2"
    gives 0 on_this "$HVDRUN" --launcher=mpirun -np 2 --mpi-args=--oversubscribe "$PY" -c "$which"
    has "mpi 0 of 2"
}

@test "a training on the cluster goes as in one process, by mpirun and by srun" {
    needs_cluster
    gives 0 on_login salloc --quiet -N4 -n4 hvdrun --mpi "$PY" "$HERE/train.py"
    as_alone
    if on_login srun --mpi=list 2>&1 | grep -q pmix; then
        export HOROVOD_CONTROLLER=mpi
        run on_login srun --hvd --mpi=pmix -N4 -n4 "$PY" "$HERE/train.py"
        unset HOROVOD_CONTROLLER
        exits 0
        as_alone
    fi
    assert_no_leftovers
}

@test "a worker of MPI that fails ends the job" {
    needs_cluster
    gives 7 on_login salloc --quiet -N2 -n2 hvdrun --mpi "$PY" "$HERE/fail.py" exit 1 mark
    has "failed first: exit code 7"
    assert_no_leftovers
}
