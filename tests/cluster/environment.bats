#!/usr/bin/env bats
# What ranks get into their environment, and what not.

load helpers
load launch

setup_file() { suite_up --nodes 2; }
teardown_file() { cluster_down; }
teardown() { cluster_mend; }

VARIABLES=(HOROVOD_RANK HOROVOD_SIZE HOROVOD_LOCAL_RANK HOROVOD_LOCAL_SIZE HOROVOD_CROSS_RANK HOROVOD_CROSS_SIZE
    HOROVOD_HOSTNAME HOROVOD_GLOO_RENDEZVOUS_ADDR HOROVOD_GLOO_RENDEZVOUS_PORT HOROVOD_GLOO_IFACE
    HOROVOD_CONTROLLER HOROVOD_CPU_OPERATIONS NCCL_SOCKET_IFNAME)

has_all() {
    local name
    for name in "${VARIABLES[@]}"; do has "$name="; done
}

@test "all that Horovod reads is there, and the user's own" {
    for with in srun hvdrun; do
        MINE='a b=c' run launch "$with" -N2 -n2 env
        exits 0
        has_all
        has "MINE=a b=c" HOROVOD_CONTROLLER=gloo HOROVOD_SIZE=2 HOROVOD_GLOO_IFACE=ib0 PYTHONUNBUFFERED=1
    done
    assert_no_leftovers
}

@test "--export=NONE" {
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

@test "--export with a list" {
    for with in srun hvdrun; do
        ONE=1 TWO=2 THREE=3 run launch "$with" --export=ONE,TWO,FOUR=4 -N2 -n2 /usr/bin/env
        exits 0
        has_all
        has ONE=1 TWO=2 FOUR=4
        has_not THREE=
    done
    assert_no_leftovers
}

@test "a large environment" {
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
