#!/usr/bin/env bats
# What is in the environment of ranks, and what must not be there.

load helpers
load launch

setup_file() {
    SITE=$(mktemp -d "${TMPDIR:-/tmp}/hvd-site.XXXXXX")
    export SITE
    chmod 755 "$SITE"
    printf '#!/bin/sh\nexit 0\n' >"$SITE/task-prolog"
    chmod 755 "$SITE/task-prolog"
    suite_up --nodes 2 --slurm-conf TaskProlog="$SITE/task-prolog"
}
teardown_file() {
    cluster_down
    rm -rf "$SITE"
}
teardown() { cluster_mend; }

VARIABLES=(HOROVOD_RANK HOROVOD_SIZE HOROVOD_LOCAL_RANK HOROVOD_LOCAL_SIZE HOROVOD_CROSS_RANK HOROVOD_CROSS_SIZE
    HOROVOD_HOSTNAME HOROVOD_GLOO_RENDEZVOUS_ADDR HOROVOD_GLOO_RENDEZVOUS_PORT HOROVOD_GLOO_IFACE
    HOROVOD_CONTROLLER HOROVOD_CPU_OPERATIONS NCCL_SOCKET_IFNAME)

has_all() {
    local name
    for name in "${VARIABLES[@]}"; do has "$name="; done
}

@test "ranks have all variables that Horovod reads, and the user's own" {
    for with in srun hvdrun; do
        MINE='a b=c' run launch "$with" -N2 -n2 env
        exits 0
        has_all
        has "MINE=a b=c" HOROVOD_CONTROLLER=gloo HOROVOD_SIZE=2 HOROVOD_GLOO_IFACE=ib0 PYTHONUNBUFFERED=1
    done
    assert_no_leftovers
}

@test "--export=NONE keeps the variables of the launch" {
    for with in srun hvdrun; do
        MINE=1 run launch "$with" --export=NONE -N2 -n2 /usr/bin/env
        exits 0
        has_all
        has_not MINE=
        # There is no PATH in this environment.
        run launch "$with" --export=NONE -N2 -n4 --ntasks-per-node=2 "$B/bin/hvd-selftest" --quick
        selftest_ok 4 2
    done
    assert_no_leftovers
}

@test "--export with a list keeps the variables of the launch" {
    for with in srun hvdrun; do
        ONE=1 TWO=2 THREE=3 run launch "$with" --export=ONE,TWO,FOUR=4 -N2 -n2 /usr/bin/env
        exits 0
        has_all
        has ONE=1 TWO=2 FOUR=4
        has_not THREE=
    done
    assert_no_leftovers
}

@test "a large environment reaches the ranks" {
    local big
    big=$(head -c 90000 /dev/zero | tr '\0' x)
    for with in srun hvdrun; do
        BIG_ONE=$big BIG_TWO=$big run launch "$with" -N2 -n4 --ntasks-per-node=2 bash -c 'echo ${#BIG_ONE} ${#BIG_TWO}'
        exits 0
        [[ $(grep -c '^90000 90000$' <<<"$output") -eq 4 ]]
    done
    assert_no_leftovers
}


@test "no secret is in the environment or on a command line" {
    for with in srun hvdrun; do
        begin launch "$with" -N2 -n2 bash -c 'echo ready; env; sleep 3'
        says 20 ready
        run on_host hvdlogin ps -u alice -ww -o args=
        has "$with"
        # Keys are 64 hex digits; the session's name has 32.
        [[ ! $output =~ [0-9a-f]{64} ]]
        ended 20
        exits 0
        [[ ! $output =~ [0-9a-f]{64} ]]
    done
    assert_no_leftovers
}

@test "a rank that a site's TaskProlog exports does not replace that of the launch" {
    cat >"$SITE/task-prolog" <<'END'
#!/bin/sh
echo export HOROVOD_RANK=7
echo export HOROVOD_SIZE=9
echo export HOROVOD_GLOO_RENDEZVOUS_PORT=1
echo export SITE=here
echo print prolog of rank $HOROVOD_RANK
END
    for with in srun hvdrun; do
        run launch "$with" -N2 -n2 bash -c 'echo "rank $HOROVOD_RANK of $HOROVOD_SIZE, $SITE, <$(env | grep -c TASK_PROLOG)>"'
        exits 0
        has "rank 0 of 2, here, <0>" "rank 1 of 2, here, <0>"
        run launch "$with" -N2 -n4 --ntasks-per-node=2 hvd-selftest --quick
        selftest_ok 4 2
    done
    # A TaskProlog that fails has the same effect as in plain srun.
    echo exit 3 >>"$SITE/task-prolog"
    run launch srun -N2 -n2 bash -c 'echo "rank $HOROVOD_RANK, $SITE"'
    [[ $(grep -c "rank [01], here" <<<"$output") -eq $(on_login srun -N2 -n2 bash -c 'echo $SITE' | grep -c here) ]]
    sed -i '$d' "$SITE/task-prolog"
    # Without --hvd the variables of the TaskProlog reach the tasks as ever.
    run on_login srun -N2 -n2 bash -c 'echo "rank $HOROVOD_RANK, $SITE"'
    [[ $(grep -c "rank 7, here" <<<"$output") -eq 2 ]]
    assert_no_leftovers
}
