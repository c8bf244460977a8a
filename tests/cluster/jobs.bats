#!/usr/bin/env bats
# Steps within batch jobs, allocations, arrays and each other.
# shellcheck disable=SC2030,SC2031 # what run and submit set

load launch

setup_file() { suite_up --nodes 4; }
teardown() { cluster_mend --clean; }

SIZE='echo "rank $HOROVOD_RANK of <$HOROVOD_SIZE>"'

count() { grep -cF -e "$1" <<<"$output" || true; }

counts() {
    local found
    found=$(count "$2")
    [[ $found -eq $1 ]] || { echo "$found times '$2', not $1: $output" && return 1; }
}

@test "several launches in a batch job work one after the other" {
    script several.sh <<'END'
#!/bin/bash
for i in 1 2 3; do
    srun --hvd hvd-selftest --quick | tail -n 1
    hvdrun --selftest -- --quick | tail -n 1
done
END
    submit -N4 --ntasks-per-node=2 several.sh
    exits 0
    counts 6 "hvd-selftest: 8 ranks on 4 hosts: OK"
}

@test "several launches in a batch job work side by side" {
    script beside.sh <<'END'
#!/bin/bash
for nodes in hvdn[1-2] hvdn[3-4]; do
    srun --hvd -w $nodes -N2 -n2 -c1 --exact hvd-selftest --quick --sleep 1 &
    hvdrun -w $nodes -N2 -n2 -c1 --exact hvd-selftest --quick --sleep 1 &
done
wait
END
    submit -N4 --ntasks-per-node=2 beside.sh
    exits 0
    counts 4 "hvd-selftest: 2 ranks on 2 hosts: OK"
}

@test "launches work side by side on the same cores" {
    script over.sh <<'END'
#!/bin/bash
for i in 1 2 3; do
    srun --hvd --overlap hvd-selftest --quick --sleep 1 &
    hvdrun --overlap --selftest -- --quick --sleep 1 &
done
wait
END
    submit -N2 --ntasks-per-node=2 over.sh
    counts 6 "hvd-selftest: 4 ranks on 2 hosts: OK"
}

@test "launches work within salloc" {
    for with in "srun --hvd" hvdrun; do
        # shellcheck disable=SC2086
        selftest 4 2 on_login salloc --quiet -N2 --ntasks-per-node=2 $with hvd-selftest --quick
    done
    selftest 4 2 on_login salloc --quiet --hvd -N2 --ntasks-per-node=2 srun hvd-selftest --quick
}

@test "the driver, and with it the rendezvous, is where the launch is" {
    script where.sh <<'END'
#!/bin/bash
rm -f looked
srun --hvd "$@" bash -c 'until [[ -e looked ]]; do sleep 0.1; done; exec hvd-selftest --quick' &
until pgrep -u "$USER" -x hvd-driver >/dev/null; do sleep 0.1; done
echo "$(pgrep -c -u "$USER" -x hvd-driver) driver on $(hostname)"
touch looked
wait $!
END
    for with in srun hvdrun; do
        selftest 8 4 launch "$with" -N4 --ntasks-per-node=2 hvd-selftest --quick
    done
    submit -N2 --ntasks-per-node=1 where.sh
    has "1 driver on hvdn1"
    selftest_ok 2 2
    # A step of which the batch host is no part.
    submit -N3 --ntasks-per-node=1 where.sh -r1 -N2 -n2
    has "1 driver on hvdn1"
    selftest_ok 2 2
}

@test "ranks are on the fast network, inside an allocation and outside; where none connects all hosts the launch fails" {
    local with net='echo "R $HOROVOD_GLOO_IFACE $NCCL_SOCKET_IFNAME $MASTER_ADDR"'
    export HVD_STORE=rank0
    script net.sh <<END
#!/bin/bash
srun --hvd bash -c '$net'
hvdrun bash -c '$net'
END
    submit -N4 --ntasks-per-node=1 net.sh
    exits 0
    counts 8 "R ib0 =ib0,eth0 $(cluster addr hvdn1 ib0)"
    fault block hvdn2 ib0
    for with in srun hvdrun; do
        run launch $with -N4 bash -c "$net"
        exits 0
        counts 4 "R eth0 =eth0 $(cluster addr hvdn1 eth0)"
        run launch $with -N4 --hvd-nics=ib0 bash -c "$net"
        exits 1
        has "no network interface connects all 4 hosts" "ib0:"
        counts 0 "R ib0"
    done
    assert_no_leftovers
}

@test "launches work in job arrays" {
    script array.sh <<'END'
#!/bin/bash
srun --hvd hvd-selftest --quick >array.$SLURM_ARRAY_TASK_ID 2>&1
hvdrun --selftest -- --quick >>array.$SLURM_ARRAY_TASK_ID 2>&1
END
    on_login sbatch --quiet --array=1-4 -N2 --ntasks-per-node=2 --output=/dev/null array.sh
    wait_for 40 bash -c "[[ \$(cat '$(home)'/array.* 2>/dev/null | grep -c '4 ranks on 2 hosts: OK') -eq 8 ]]"
}

@test "sbatch --hvd holds for every srun of the script but one with --no-hvd, and changes nothing for hvdrun" {
    script inner.sh <<END
#!/bin/bash
echo == plain
srun bash -c '$SIZE'
echo == no-hvd
srun --no-hvd bash -c '$SIZE'
echo == hvdrun
hvdrun bash -c '$SIZE'
srun hvd-selftest --quick
hvdrun --selftest -- --quick
hvdrun bash -c 'echo ready; sleep 1.5' & sleep 1
pgrep -c -u alice hvd-driver
wait
END
    submit --hvd -N2 --ntasks-per-node=2 inner.sh
    exits 0
    echo "$output"
    # Four lines each from the first srun and hvdrun have a size; the four of --no-hvd have none.
    counts 8 "of <4>"
    counts 4 "of <>"
    counts 2 "4 ranks on 2 hosts: OK"
    # Under hvdrun the plugin starts no driver of its own.
    grep -qx 0 <<<"$output"
}

@test "a step that a rank starts is not part of the launch unless it says --hvd" {
    local inner='unset ${!HOROVOD_*}; srun --overlap -N1 -n1 -w $SLURMD_NODENAME'
    for with in srun hvdrun; do
        gives 0 launch "$with" -N2 -n2 bash -c "$inner bash -c 'echo \"inner <\$HOROVOD_SIZE>\"'"
        counts 2 "inner <>"
        gives 0 launch "$with" -N2 -n2 bash -c "$inner --hvd bash -c 'echo \"inner <\$HOROVOD_SIZE>\"'"
        counts 2 "inner <1>"
    done
}

@test "--jobid and --overlap start another step in a running job" {
    local JOB
    JOB=$(on_login sbatch --parsable -N2 --ntasks-per-node=2 --output=/dev/null --wrap 'sleep 30')
    wait_for 10 runs_on hvdn1 'sleep 30'
    for with in srun hvdrun; do
        selftest 4 2 launch "$with" --jobid="$JOB" --overlap -n4 hvd-selftest --quick
    done
    on_login scancel "$JOB"
}

# hvdrun then asks Slurm more than once in one process, also for the states of nodes.
@test "an allocation without a number of tasks has a rank for each node" {
    selftest 3 3 on_login salloc --quiet -N3 --exclusive hvdrun -N3 -n3 hvd-selftest --quick
    gives 0 on_login salloc --quiet -N3 --exclusive hvdrun bash -c "$SIZE"
    counts 3 "of <3>"
    gives 0 on_login salloc --quiet -N2 --exclusive --no-kill hvdrun --min-np 2 --max-np 2 bash -c "$SIZE"
    counts 2 "of <2>"
}

@test "fewer ranks than the allocation's tasks, and listed hosts of it, can be used" {
    gives 0 on_login salloc --quiet -N2 --ntasks-per-node=2 hvdrun -np 3 bash -c "$SIZE"
    counts 3 "of <3>"
    gives 0 on_login salloc --quiet -N3 -n6 hvdrun --hosts hvdn3:1,hvdn1:2 \
        bash -c 'echo "$SLURMD_NODENAME $HOROVOD_RANK/$HOROVOD_SIZE"'
    has "hvdn3 0/3" "hvdn1 1/3" "hvdn1 2/3"
    # A number of nodes that fits the list changes nothing.
    gives 0 on_login salloc --quiet -N3 -n6 hvdrun -N2 --hosts hvdn3:1,hvdn1:2 bash -c "$SIZE"
    counts 3 "of <3>"
    gives 2 on_login salloc --quiet -N3 -n6 hvdrun -N3 --hosts hvdn3:1,hvdn1:2 bash -c "$SIZE"
    has "--nodes (-N) does not match the "
    gives 0 on_login salloc --quiet -N2 --ntasks-per-node=2 hvdrun -np 3 --min-np 3 --max-np 3 bash -c "$SIZE"
    counts 3 "of <3>"
}

@test "launches without roles that span a heterogeneous job are refused clearly" {
    script het.sh <<'END'
#!/bin/bash
#SBATCH -N1 -n1
#SBATCH hetjob
#SBATCH -N1 -n1
srun --hvd true; echo "srun $?"
hvdrun true; echo "hvdrun $?"
srun --hvd --het-group=0,1 true; echo "groups $?"
srun -n1 true : --hvd --hvd-nics=lo -n1 bash -c 'exit 0'; echo "colon $?"
hvdrun --role=a true : --role=b true : --role=c true; echo "roles $?"
END
    submit het.sh
    has "srun 2" "hvdrun 2" "groups 2" "colon 2" "roles 2" "role c is to be in component 2 of the job, which has 2"
    counts 2 heterogeneous
    has "hvdrun --role=r0 --het-group=0 true : --role=r1 --het-group=1 true" \
        "hvdrun --role=r0 -n1 true : --role=r1 --hvd-nics=lo -n1 bash -c 'exit 0'"
    for with in "" "-n2" "--min-np 1"; do
        # shellcheck disable=SC2086
        gives 2 on_login salloc --quiet -N1 -n1 : -N1 -n1 hvdrun $with bash -c "$SIZE"
        has "heterogeneous job" "hvdrun --role=a COMMAND : --role=b COMMAND"
        counts 0 "of <"
    done
    gives 2 launch hvdrun -N1 -n1 true : -N1 -n1 true
    has heterogeneous "cannot be one Horovod job" "hvdrun --role=r0 -N1 -n1 true : --role=r1 -N1 -n1 true"
    gives 2 on_login salloc --quiet -N2 -n2 hvdrun --min-np 1 true : -n1 true
    has heterogeneous "cannot be one Horovod job"
    # Before the job is queued.
    gives 2 launch srun -N1 -n1 true : --hvd -N1 -n1 true
    has "several components" "hvdrun --role=r0 -N1 -n1 true : --role=r1 -N1 -n1 true"
    has_not "has been allocated"
    # --jobid from outside of the job, with the number of either component, and as squeue shows it.
    run on_login salloc --quiet -N1 -n1 : -N1 -n1 bash -c 'leader=$SLURM_JOB_ID_HET_GROUP_0
        other=$SLURM_JOB_ID_HET_GROUP_1
        unset ${!SLURM_@}
        for job in "$leader" "$other" "$leader+1"; do
            hvdrun --jobid="$job" -n1 echo started
            echo "status $?"
        done'
    counts 3 "is a heterogeneous job"
    counts 3 "status 2"
    has_not started
}

@test "the components of a heterogeneous job are roles, in their order or by --het-group, and one can be a step of srun --hvd" {
    local show='echo "$(hostname): $HVD_ROLE ${RANK-$HOROVOD_RANK} of ${WORLD_SIZE-$HOROVOD_SIZE}, a $HVD_ROLE_A_HOSTS"'
    script roles.sh <<END
#!/bin/bash
#SBATCH -w hvdn3 -N1 -n1
#SBATCH hetjob
#SBATCH -w hvdn[1-2] -N2 --ntasks-per-node=2
hvdrun --role=a bash -c '$show' : --role=b bash -c '$show'
hvdrun --role=a --het-group=1 bash -c '$show' : --role=b --het-group=0 bash -c '$show'
srun --hvd --het-group=1 -N2 -n4 hvd-selftest --quick
END
    submit roles.sh
    exits 0
    has "hvdn3: a 0 of 1, a hvdn3" "hvdn1: b 0 of 4, a hvdn3" "hvdn2: b 3 of 4, a hvdn3"
    has "hvdn1: a 0 of 4, a hvdn1,hvdn2" "hvdn2: a 3 of 4, a hvdn1,hvdn2" "hvdn3: b 0 of 1, a hvdn1,hvdn2"
    counts 10 ", a hvdn"
    has "hvd-selftest: 4 ranks on 2 hosts: OK"
    gives 0 on_login salloc --quiet -N1 -n1 : -N2 -n3 hvdrun --role=a bash -c "$show" : --role=b --replicas=2 -N1 bash -c "$show"
    has "hvdn1: a 0 of 1" "hvdn2: b 1 of 2" "hvdn3: b 0 of 1"
    counts 4 ", a hvdn1"
}

# Their environment has the variables of that step: its host, which the job does not have, and its number of tasks.
@test "jobs that are submitted from within another job's step have their own hosts and ranks" {
    script mine.sh <<'END'
#!/bin/bash
for more in "" --max-restarts=1; do hvdrun $more bash -c 'echo "$SLURMD_NODENAME: rank $RANK of $WORLD_SIZE"'; done
END
    script outer.sh <<'END'
#!/bin/bash
((SLURM_PROCID == 0)) || exit 0
sbatch --wait --output=none.out -N2 -w hvdn[2-3] mine.sh
sbatch --wait --output=tasks.out -N2 -n4 --ntasks-per-node=2 -w hvdn[1-2] mine.sh
salloc --quiet -N1 -n3 -w hvdn1 ./mine.sh >salloc.out
END
    gives 0 on_login srun -N1 -n5 -w hvdn1 ./outer.sh
    output=$(cat "$(home)"/none.out)
    for host in 2 3; do counts 2 "hvdn$host: rank $((host - 2)) of 2"; done
    output=$(cat "$(home)"/tasks.out)
    for host in 1 2; do for rank in 2 1; do counts 2 "hvdn$host: rank $((2 * host - rank)) of 4"; done; done
    output=$(cat "$(home)"/salloc.out)
    for rank in 0 1 2; do counts 2 "hvdn1: rank $rank of 3"; done
}

@test "below setsid in a step: hvdrun says what its srun waits for" {
    submit -N2 --wrap='srun -N1 bash -c "setsid sh -c \"(sleep 0.5; exec timeout 15 hvdrun -N2 -n2 true) >below.out 2>&1 </dev/null &\"; sleep 9"'
    run cat "$(home)/below.out"
    has "srun has waited for 5 s to start the ranks, since other steps of job $JOB have its CPUs" "$JOB.0 (bash on hvdn1)" "hvdrun --overlap"
    assert_no_leftovers 15
}
