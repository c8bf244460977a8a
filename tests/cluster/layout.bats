#!/usr/bin/env bats
# The layout of ranks agrees with Slurm's variables; and hosts of a step that are left out of it (--spares).

# shellcheck disable=SC2030,SC2031 # what run sets

load helpers
load launch
load preflight

setup_file() { suite_up --nodes 5; }
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

@test "srun --hvd and hvdrun's srun: a bad host's tasks end with 0, and the ranks are numbered anew" {
    site_program
    HVD_PREFLIGHT_HOOK=$(home)/hook
    export HVD_PREFLIGHT_HOOK
    bad hvdn2
    run on_login srun -N5 -n10 --ntasks-per-node=2 --hvd --hvd-preflight=full --hvd-spares=1 bash -c "$RANKS"
    exits 0
    has "hvdn2 left out: the site's program reports: no licence on hvdn2"
    eight_without hvdn2
    run on_login hvdrun --preflight=quick --spares=1 -N5 -n10 --ntasks-per-node=2 bash -c "$RANKS"
    exits 0
    has "hvdn2 left out: the site's program reports: no licence on hvdn2"
    eight_without hvdn2
    run on_login salloc -Q -N5 --ntasks-per-node=2 hvdrun --preflight=quick --spares=1 -np 8 bash -c "$RANKS"
    exits 0
    has "hvdn2 left out"
    eight_without hvdn2
    bad hvdn2 hvdn4
    # --hvd-spares implies --hvd-preflight=quick.
    run on_login srun -N5 -n10 --ntasks-per-node=2 --hvd --hvd-spares=1 bash -c "$RANKS"
    exits 1
    has "2 hosts are not fit for the job, but it has 1 spare" "no licence on hvdn2" "no licence on hvdn4"
}

# refused CMD…: with status 2, and no rank was started.
refused() {
    run on_login "$@" sh -c 'echo "started on $(hostname)"'
    exits 2
    has_not "started on"
}

@test "ranks that the hosts without the spares do not hold are refused, whoever starts them" {
    refused srun -N2 -n4 --hvd --hvd-spares=1
    has "without 1 spare host there are " " slots, but the job has 4 ranks" "srun's -n counts the tasks of spare hosts as well"
    refused hvdrun -N2 -n4 --preflight=full --spares=1
    has "without 1 spare host there are " " slots, but the job has 4 ranks" "srun's -n counts the tasks of spare hosts as well"
    refused hvdrun -N5 -np 8 --ntasks-per-node=2 --spares=1
    has "without 1 spare host there are 7 slots, but the job has 8 ranks"
    refused srun -N2 --hvd --hvd-spares=2
    has "of the step's 2 nodes 2 cannot be spare" "-N3 or more"
    refused salloc -Q -N2 -n4 srun -n4 --hvd --hvd-spares=1
    has "without 1 spare host there are " " slots, but the job has 4 ranks"
    refused salloc -Q -N2 --ntasks-per-node=2 hvdrun -np 4 --spares=1
    has "the job has 2 hosts, but needs 2 and 1 spare"
    # The number of the job's tasks counts the spares, and so does one that says no more than --ntasks-per-node.
    run on_login salloc -Q -N2 -n4 srun --hvd --hvd-spares=1 true
    exits 0
    run on_login srun -N2 -n4 --ntasks-per-node=2 --hvd --hvd-spares=1 bash -c "$RANKS"
    exits 0
    has "0 2 0 0 1 0 " "1 2 1 0 1 1 " " is a spare host, and is not needed"
    has_not "left out"
    run on_login hvdrun -N2 -n4 --ntasks-per-node=2 --spares=1 bash -c "$RANKS"
    exits 0
    has "0 2 0 0 1 0 " "1 2 1 0 1 1 "
}

# Slurm cannot start tasks there either, and srun ends the step for it when its own time limit has passed.
@test "srun --hvd: a host whose munged has stopped is left out and named" {
    fault munged-stop hvdn4
    run on_login srun -N5 -n10 --ntasks-per-node=2 --hvd --hvd-spares=1 --hvd-start-timeout=20 bash -c "$RANKS"
    has "hvdn4 left out: its node agent did not register in time"
    eight_without hvdn4
}
