#!/usr/bin/env bats
# The layout of ranks agrees with Slurm's variables.

load helpers
load launch

setup_file() { suite_up --nodes 4; }
teardown_file() { cluster_down; }
teardown() { cluster_mend; }

# shellcheck disable=SC2016
SAY='echo "$SLURM_PROCID $SLURM_NODEID $SLURMD_NODENAME $HOROVOD_RANK $HOROVOD_SIZE $HOROVOD_LOCAL_RANK \
$HOROVOD_LOCAL_SIZE $HOROVOD_CROSS_RANK $HOROVOD_CROSS_SIZE $HOROVOD_HOSTNAME"'

# Ranks are Slurm's task numbers; all the rest follows from which node a task is on.
layout_right() {
    python3 -c '
import sys
ranks = {int(l[0]): l for l in map(str.split, sys.stdin)}
want = int(sys.argv[1])
assert sorted(ranks) == list(range(want)), sorted(ranks)
nodes = {}
for r in sorted(ranks):
    nodes.setdefault(int(ranks[r][1]), []).append(r)
for r, (_, node, name, *said) in ranks.items():
    mates = nodes[int(node)]
    local = mates.index(r)
    column = [n for n in sorted(nodes, key=lambda n: nodes[n][0]) if len(nodes[n]) > local]
    expect = [r, want, local, len(mates), column.index(int(node)), len(column), name]
    assert said == [str(e) for e in expect], (said, expect)
shape = ",".join(str(len(nodes[n])) for n in sorted(nodes))
assert not sys.argv[2] or shape == sys.argv[2], shape
' "$1" "${2-}" <<<"$output" || { echo "$output" && return 1; }
}

# laid_out RANKS SHAPE ARG…: starts the ranks by srun --hvd and by hvdrun, and checks their layout.
laid_out() {
    local with
    for with in srun hvdrun; do
        run launch "$with" "${@:3}" bash -c "$SAY"
        exits 0
        layout_right "$1" "$2"
    done
}

@test "equal numbers of ranks on every host" {
    laid_out 8 2,2,2,2 -N4 --ntasks-per-node=2
    assert_no_leftovers
}

@test "three ranks on one host, one on the other" {
    laid_out 4 3,1 -n4 -m arbitrary -w hvdn1,hvdn1,hvdn1,hvdn2
    laid_out 4 1,3 -n4 -m arbitrary -w hvdn2,hvdn3,hvdn3,hvdn3
    for with in srun hvdrun; do
        run launch "$with" -n4 -m arbitrary -w hvdn1,hvdn1,hvdn1,hvdn2 hvd-selftest --quick
        selftest_ok 4 2
    done
    assert_no_leftovers
}

@test "block, cyclic and plane distributions" {
    # The distributions differ only in an allocation with room.
    for with in "srun --hvd" hvdrun; do
        for how in block cyclic plane=2; do
            # shellcheck disable=SC2086
            run on_login salloc --quiet -N3 --exclusive $with -N3 -n8 -m $how bash -c "$SAY"
            exits 0
            layout_right 8 3,3,2 || layout_right 8 4,2,2
            case $how in
            block) grep -q '^1 0 hvdn1 ' <<<"$output" ;;
            cyclic) grep -q '^1 1 hvdn2 ' <<<"$output" && grep -q '^3 0 hvdn1 ' <<<"$output" ;;
            plane=2) grep -q '^2 1 hvdn2 ' <<<"$output" && grep -q '^6 0 hvdn1 ' <<<"$output" ;;
            esac
        done
        # shellcheck disable=SC2086
        run on_login salloc --quiet -N3 --exclusive $with -N3 -n8 -m cyclic hvd-selftest --quick
        selftest_ok 8 3
    done
    assert_no_leftovers
}

@test "an arbitrary distribution, with a host that comes back" {
    laid_out 5 '' -n5 -m arbitrary -w hvdn3,hvdn1,hvdn3,hvdn2,hvdn1
    grep -q '^0 2 hvdn3 0 5 0 2 0 3 ' <<<"$output"
    for with in srun hvdrun; do
        run launch "$with" -n5 -m arbitrary -w hvdn3,hvdn1,hvdn3,hvdn2,hvdn1 hvd-selftest --quick
        selftest_ok 5 3
    done
    assert_no_leftovers
}

@test "one rank, and several ranks on one host" {
    laid_out 1 1 -N1 -n1
    laid_out 4 4 -N1 -n4
    for with in srun hvdrun; do
        run launch "$with" -N1 -n4 hvd-selftest --quick
        selftest_ok 4 1
        has " lo "
    done
    assert_no_leftovers
}

@test "a step on some of the job's nodes" {
    # shellcheck disable=SC2016
    script step.sh <<END
#!/bin/bash
srun --hvd -N2 -n4 --ntasks-per-node=2 -w hvdn3,hvdn4 bash -c '$SAY'
END
    submit -N4 --ntasks-per-node=2 step.sh
    exits 0
    layout_right 4 2,2
    [[ $output == *hvdn3*hvdn4* || $output == *hvdn4*hvdn3* ]]
    sed -i 's/srun --hvd/hvdrun/' "$(home)/step.sh"
    submit -N4 --ntasks-per-node=2 step.sh
    exits 0
    layout_right 4 2,2
    has_not hvdn1 hvdn2
    assert_no_leftovers
}
