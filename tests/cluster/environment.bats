#!/usr/bin/env bats
# What is in the environment of ranks, and what must not be there.

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
teardown() { cluster_mend --clean; }

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
}

@test "--export=NONE keeps the variables of the launch" {
    for with in srun hvdrun; do
        MINE=1 gives 0 launch "$with" --export=NONE -N2 -n2 /usr/bin/env
        has_all
        has_not MINE=
        # There is no PATH in this environment.
        selftest 4 2 launch "$with" --export=NONE -N2 -n4 --ntasks-per-node=2 "$B/bin/hvd-selftest" --quick
    done
}

@test "--export with a list keeps the variables of the launch" {
    for with in srun hvdrun; do
        ONE=1 TWO=2 THREE=3 gives 0 launch "$with" --export=ONE,TWO,FOUR=4 -N2 -n2 /usr/bin/env
        has_all
        has ONE=1 TWO=2 FOUR=4
        has_not THREE=
    done
}

# What a rank sees of PyTorch's store.
STORE='echo "rank $RANK: ${MASTER_ADDR-none} ${MASTER_PORT-none} ${TORCHELASTIC_USE_AGENT_STORE-none}"'

# stored N WHAT: N ranks see that store.
stored() {
    local rank
    for ((rank = 0; rank < $1; rank++)); do has "rank $rank: $2"; done
}

@test "MASTER_ADDR and MASTER_PORT of a job script are left to it" {
    script job.sh <<END
#!/bin/bash
export MASTER_ADDR=\$(scontrol show hostnames "\$SLURM_JOB_NODELIST" | head -n 1) MASTER_PORT=29512
srun --hvd -N2 -n4 --ntasks-per-node=2 bash -c '$STORE' || exit 1
hvdrun -np 4 --slots-per-host=2 bash -c '$STORE' || exit 1
unset MASTER_ADDR MASTER_PORT
srun --hvd -N2 -n2 bash -c '[[ \$MASTER_ADDR == 1*.* && \$MASTER_PORT != 29512 ]] && echo own' || exit 1
END
    submit -N2 --ntasks-per-node=2 job.sh
    exits 0
    stored 4 "hvdn1 29512 none"
    [[ $(grep -c "hvdn1 29512 none" <<<"$output") -eq 8 && $(grep -c '^own$' <<<"$output") -eq 2 ]]
    has_not "hvd: warning" "hvdrun: warning"
    for with in srun hvdrun; do
        MASTER_ADDR=hvdn1 MASTER_PORT=29512 gives 0 launch "$with" --hvd-verbose -N2 -n2 bash -c "$STORE"
        stored 2 "hvdn1 29512 none"
        [[ $(grep -c "MASTER_ADDR=hvdn1 MASTER_PORT=29512 are set by the user" <<<"$output") -eq 1 ]]
        # What cannot work gets one warning.
        MASTER_ADDR=hvdn2 MASTER_PORT=29512 gives 0 launch "$with" -N2 -n2 bash -c "$STORE"
        stored 2 "hvdn2 29512 none"
        [[ $(grep -c "MASTER_ADDR=hvdn2 in the environment is not an address of rank 0's host" <<<"$output") -eq 1 ]]
        MASTER_PORT=29512 gives 0 launch "$with" -N2 -n2 bash -c "$STORE"
        stored 2 "none 29512 none"
        [[ $(grep -c "MASTER_PORT is set and MASTER_ADDR is not" <<<"$output") -eq 1 ]]
        # Those of a launch around this one are not the user's.
        MASTER_ADDR=hvdn2 MASTER_PORT=29512 TORCHELASTIC_USE_AGENT_STORE=True gives 0 launch "$with" -N2 -n2 bash -c "$STORE"
        stored 2 "$(cluster addr hvdn1 ib0)"
        has_not hvdn2 warning
    done
}

@test "threads that user or site have chosen are left as they are" {
    for with in srun hvdrun; do
        OMP_NUM_THREADS=5 gives 0 launch "$with" -N1 -n2 bash -c 'echo "threads $OMP_NUM_THREADS"'
        [[ $(grep -c "threads 5" <<<"$output") -eq 2 ]]
    done
    # A site's TaskProlog knows no more of the store than of ranks.
    printf '#!/bin/sh\necho export OMP_NUM_THREADS=3\necho export MASTER_ADDR=prolog\n' >"$SITE/task-prolog"
    gives 0 launch srun -N1 -n2 bash -c 'echo "threads $OMP_NUM_THREADS, $MASTER_ADDR"'
    [[ $(grep -c "threads 3, [0-9.]*$" <<<"$output") -eq 2 ]]
    printf '#!/bin/sh\nexit 0\n' >"$SITE/task-prolog"
    gives 0 launch srun -N1 -n2 bash -c 'echo "threads $OMP_NUM_THREADS"'
    [[ $(grep -cE "threads [1-9]" <<<"$output") -eq 2 ]]
}

@test "a large environment reaches the ranks" {
    local big
    big=$(head -c 90000 /dev/zero | tr '\0' x)
    for with in srun hvdrun; do
        BIG_ONE=$big BIG_TWO=$big gives 0 launch "$with" -N2 -n4 --ntasks-per-node=2 bash -c 'echo ${#BIG_ONE} ${#BIG_TWO}'
        [[ $(grep -c '^90000 90000$' <<<"$output") -eq 4 ]]
    done
}


@test "no secret is in the environment or on a command line" {
    for with in srun hvdrun; do
        begin launch "$with" -N2 -n2 bash -c 'echo ready; env; sleep 3'
        says 20 ready
        run on_host hvdlogin ps -u alice -ww -o args=
        has "$with"
        # Keys are 64 hex digits; the session's name has 32.
        [[ ! $output =~ [0-9a-f]{64} ]]
        ended 20 0
        [[ ! $output =~ [0-9a-f]{64} ]]
    done
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
        gives 0 launch "$with" -N2 -n2 bash -c 'echo "rank $HOROVOD_RANK of $HOROVOD_SIZE, $SITE, <$(env | grep -c TASK_PROLOG)>"'
        has "rank 0 of 2, here, <0>" "rank 1 of 2, here, <0>"
        selftest 4 2 launch "$with" -N2 -n4 --ntasks-per-node=2 hvd-selftest --quick
    done
    # A TaskProlog that fails has the same effect as in plain srun.
    echo exit 3 >>"$SITE/task-prolog"
    run launch srun -N2 -n2 bash -c 'echo "rank $HOROVOD_RANK, $SITE"'
    [[ $(grep -c "rank [01], here" <<<"$output") -eq $(on_login srun -N2 -n2 bash -c 'echo $SITE' | grep -c here) ]]
    sed -i '$d' "$SITE/task-prolog"
    # Without --hvd the variables of the TaskProlog reach the tasks as ever.
    run on_login srun -N2 -n2 bash -c 'echo "rank $HOROVOD_RANK, $SITE"'
    [[ $(grep -c "rank 7, here" <<<"$output") -eq 2 ]]
}

# Slurm runs the TaskProlog in the container, where there is no hvd-agent. The site's is in the image here.
@test "in a container of pyxis, listed after the plugin, the site's TaskProlog runs as ever" {
    local plugstack image
    [[ -e $B/tests/standins/pyxis.so ]] || skip "there is no stand-in for pyxis in $B: make test-tools"
    plugstack=$(cluster path)/etc/slurm/plugstack.conf
    image=$(home)/image
    mkdir -p "$image"/{etc,proc,sys,dev} "$image/$SITE"
    cp "$B/tests/standins/show" "$image/show"
    cp "$B/tests/standins/show" "$image/$SITE/task-prolog"
    : >"$image/etc/environment"
    chown -R 20001:20001 "$image"
    cp "$plugstack" "$BATS_TEST_TMPDIR/plugstack.conf"
    echo "required $B/tests/standins/pyxis.so" >>"$plugstack"
    run launch srun -N1 -n1 --container-image="$image" /show HOROVOD_RANK HOROVOD_SIZE
    cat "$BATS_TEST_TMPDIR/plugstack.conf" >"$plugstack"
    exits 0
    has "HOROVOD_RANK=0 HOROVOD_SIZE=1 uid=20001 host=no"
    has_not "hvd-agent" "No such file"
    assert_no_leftovers
}

@test "a job or launch that a rank starts has no variables of the rank's launch, but those that the rank has changed" {
    local names="RANK|WORLD_SIZE|MASTER_|PET_|JAX_|TF_CONFIG|TORCHELASTIC_|OMP_NUM|HOROVOD_|LOCAL_|HVD_LAUNCH"
    printf '#!/bin/sh\nexit 0\n' >"$SITE/task-prolog" # other tests have the site set some of these
    # A job of plain commands, submitted by rank 0 of two on one host.
    script next.sh <<END
#!/bin/bash
env | grep -E "^($names)" | sort
echo done
END
    script first.sh <<'END'
#!/bin/bash
[ -n "$HVD_LAUNCH_VARIABLES" ] && [ "$OMP_NUM_THREADS" ] || exit 3
if [ "$RANK" = 0 ]; then
    export MASTER_ADDR=mine TF_CONFIG=users
    sbatch --wait --parsable --output=next.out -N1 -n1 next.sh
fi
END
    gives 0 launch srun --hvd-frameworks=horovod,torch,torchrun,jax,tensorflow -N1 -n2 ./first.sh
    output=$(<"$(home)/next.out")
    [[ $output == $'MASTER_ADDR=mine\nTF_CONFIG=users\ndone' ]] || { echo "$output" && false; }
    # A launch in a launch: the inner ranks have only what the inner launch sets.
    for with in srun hvdrun; do
        gives 0 launch "$with" --hvd-frameworks=horovod,torch,torchrun,jax,tensorflow -N1 -n1 bash -c \
            '[ "$PET_NNODES$TF_CONFIG" ] && exec hvdrun --launcher=fork -np 1 --frameworks=torch bash -c "env | grep -E \"^('"$names"')\""'
        has RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 HVD_LAUNCH_VARIABLES=
        has_not PET_ JAX_ TF_CONFIG HOROVOD_
    done
    assert_no_leftovers
}
