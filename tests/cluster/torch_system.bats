#!/usr/bin/env bats
# shellcheck disable=SC2154 # what run sets
# The distribution's own PyTorch, which is 1.13 in Debian 12, 2.6 in Debian 13 and newer in sid. tests/matrix runs it on
# these; what a present PyTorch can do is in tests/peers/torch_cluster.bats.

load launch

PROGRAM=$BATS_TEST_DIRNAME/../peers/torch_cluster.py

setup_file() {
    export TORCH
    # Without importing it, which takes seconds.
    TORCH=$(/usr/bin/python3 -c 'from importlib.metadata import version; print(version("torch"))' 2>/dev/null) || TORCH=
    [[ ! $TORCH ]] || suite_up --nodes 2
}
teardown_file() { [[ ! $TORCH ]] || cluster_down; }
setup() { [[ $TORCH ]] || skip "PyTorch is not installed for /usr/bin/python3"; }
teardown() { [[ ! $TORCH ]] || cluster_mend; }

# older MAJOR MINOR: PyTorch is older than that.
older() {
    local major minor
    IFS=.+ read -r major minor _ <<<"$TORCH"
    ((major < $1 || (major == $1 && minor < $2)))
}

met() {
    exits 0
    [[ $(grep -cE "^rank [0-9] of 2 on hvdn[12]: $1 ok" <<<"$output") -eq 2 ]] || { echo "$output" && return 1; }
}

@test "ranks of this PyTorch meet at the launch's store, or are told what serves one before 2.2" {
    run on_login srun --hvd -N2 -n2 env OMP_NUM_THREADS=1 /usr/bin/python3 "$PROGRAM" collectives again
    if older 2 2; then
        [[ $status -ne 0 ]]
        has "uses PyTorch older than 2.2, which cannot use this store; start the job with --store=rank0" \
            "its PyTorch is older than 2.2, which cannot use the launch's store: --store=rank0 (srun --hvd: --hvd-store=rank0)"
        has_not "did a host or the network fail"
    elif [[ $output == *"without libuv support"* ]]; then
        # So are Debian's, from 2.4 on: such a PyTorch is no client of another process's store, not torchrun's either.
        [[ $status -ne 0 ]]
    else
        met collectives
        met again
    fi
    assert_no_leftovers
}

@test "with --store=rank0 ranks of this PyTorch meet at rank 0's own store" {
    export USE_LIBUV=0 # for a PyTorch that was built without libuv
    run on_login srun --hvd --hvd-store=rank0 -N2 -n2 env OMP_NUM_THREADS=1 /usr/bin/python3 "$PROGRAM" collectives
    met collectives
    run on_login hvdrun --store=rank0 -N2 -n2 env OMP_NUM_THREADS=1 /usr/bin/python3 "$PROGRAM" collectives
    met collectives
    assert_no_leftovers
}
