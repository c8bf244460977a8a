#!/usr/bin/env bats
# shellcheck disable=SC2016 # for the shells of the ranks
# Ranks that an MPI starts: real Open MPI and MPICH, inside a Slurm job and on one machine. IBM Spectrum MPI and Intel
# MPI cannot be installed here: stand-ins for them take only what the manuals have.

load launch
load sshd

TTY=$BATS_TEST_DIRNAME/on_tty

# All hosts share one /tmp, in which the files of Slurm's PMIx plugins on several hosts would collide.
setup_file() {
    suite_up --nodes 4 --slurm-conf TmpFS=/run
    local program
    program=$(home)/ring
    cat >"$program.c" <<'END'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
	char host[MPI_MAX_PROCESSOR_NAME];
	int rank, size, sum, len;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Get_processor_name(host, &len);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	printf("rank %d of %d on %s: sum %d\n", rank, size, host, sum);
	fflush(stdout);
	if (argc > 1 && strcmp(argv[1], "abort") == 0 && rank == 1)
		MPI_Abort(MPI_COMM_WORLD, 9);
	MPI_Finalize();
	return 0;
}
END
    if command -v mpicc.openmpi >/dev/null; then mpicc.openmpi -o "$program.openmpi" "$program.c"; fi
    if command -v mpicc.mpich >/dev/null; then mpicc.mpich -o "$program.mpich" "$program.c"; fi
}
teardown() {
    local host
    for host in hvdlogin hvdn1 hvdn2 hvdn3 hvdn4; do as_root "$host" pkill -KILL -u alice || true; done
    cluster_mend
}

open_mpi() { [[ -x $(home)/ring.openmpi ]] || skip "Open MPI is not installed: scripts/install-deps --test"; }
mpich() { [[ -x $(home)/ring.mpich ]] || skip "MPICH is not installed: scripts/install-deps --test"; }

# in_job HOSTS TASKS CMD…: runs CMD inside an allocation of the first hosts, on the login host.
in_job() { on_login salloc --quiet -w "hvdn[1-$1]" -n"$2" "${@:3}"; }
# ompi CMD…: runs CMD with Debian's Open MPI, whichever MPI the name mpirun means.
ompi() { HVD_MPIRUN=mpirun.openmpi "$@"; }

# rings N: all N ranks have exchanged their values.
rings() {
    local i
    for ((i = 0; i < $1; i++)); do has "rank $i of $1 on "; done
    [[ $(grep -c "sum $(($1 * ($1 - 1) / 2))" <<<"$output") -eq $1 ]]
}

# stubborn: a script whose rank ignores SIGTERM, and has processes in its group and in sessions of their own.
stubborn() {
    script stubborn.sh <<'END'
#!/bin/bash
trap '' TERM
setsid sleep 1001 &
sleep 1002 &
echo ready
sleep 1003
END
}

@test "Open MPI starts ranks on four hosts of a job" {
    open_mpi
    gives 0 ompi in_job 4 8 hvdrun --mpi ./ring.openmpi
    rings 8
    has "rank 0 of 8 on hvdn1" "rank 7 of 8 on hvdn4" '[1,7]<stdout>:'
    assert_no_leftovers
}

@test "Open MPI in a batch job hands the ranks their environment" {
    open_mpi
    script mpi.sh <<'END'
#!/bin/bash
export HVD_MPIRUN=mpirun.openmpi NCCL_DEBUG=mine
hvdrun --mpi --cycle-time-ms 3 bash -c 'env >env.$OMPI_COMM_WORLD_RANK; exec ./ring.openmpi'
END
    submit -N2 --ntasks-per-node=2 mpi.sh
    exits 0
    rings 4
    output=$(<"$(home)/env.3")
    has HOROVOD_CONTROLLER=mpi HOROVOD_CYCLE_TIME=3 HOROVOD_GLOO_IFACE=ib0 NCCL_SOCKET_IFNAME==ib0,eth0 \
        OMPI_MCA_btl_tcp_if_include=ib0,eth0 NCCL_DEBUG=mine PYTHONUNBUFFERED=1 \
        OMPI_COMM_WORLD_LOCAL_RANK=1 RANK=3 LOCAL_RANK=1 WORLD_SIZE=4 NODE_RANK=1 TORCHELASTIC_USE_AGENT_STORE= \
        JAX_COORDINATOR_ADDRESS=
    # Slurm's variables tell of the node agent that mpirun started, and Lightning must not believe them.
    has TORCHELASTIC_RUN_ID=
    has_not SLURM_HVD_BOOT= HOROVOD_RANK= HOROVOD_CPU_OPERATIONS= HOROVOD_GLOO_RENDEZVOUS
}

@test "interfaces that the user has named for Open MPI stay" {
    open_mpi
    gives 0 ompi in_job 2 2 hvdrun --mpi --network-interfaces=eth0 bash -c 'env | grep -E "if_include|SOCKET_IFNAME"; exec ./ring.openmpi'
    output=${output//>: />:} # from release 5 on there is a blank behind Open MPI's tag
    has ">:OMPI_MCA_btl_tcp_if_include=eth0" ">:NCCL_SOCKET_IFNAME==eth0"
    # Debian's file for Open MPI 6 names lo, and Open MPI takes no networks to use and networks not to use at once.
    export OMPI_MCA_mca_base_param_files=none
    gives 0 ompi in_job 2 2 hvdrun --mpi --mpi-args='--mca btl_tcp_if_exclude docker0,lo' bash -c 'env | grep -E btl_tcp_if; exec ./ring.openmpi'
    rings 2
    has btl_tcp_if_exclude=docker0,lo
    has_not btl_tcp_if_include
}

@test "Open MPI takes more slots than the job has tasks, and keeps the job's order of hosts" {
    open_mpi
    gives 0 ompi in_job 2 2 hvdrun --mpi --hosts hvdn2:1,hvdn1:2 ./ring.openmpi
    rings 3
    has "rank 0 of 3 on hvdn1" "rank 1 of 3 on hvdn1" "rank 2 of 3 on hvdn2" "in the job's order"
    gives 1 ompi in_job 2 2 hvdrun --mpi --binding-args="--map-by node" -np 4 --slots-per-host=2 ./ring.openmpi
    has "ranks were not put on the hosts slot by slot"
    gives 2 ompi in_job 2 2 hvdrun --mpi --hosts hvdn3:1 ./ring.openmpi
    has "host hvdn3 is not in this allocation"
    gives 2 ompi in_job 2 2 hvdrun --mpi --ntasks-per-node=2 ./ring.openmpi
    has "--launcher=srun"
}

@test "mpirun starts ranks with the Gloo controller" {
    open_mpi
    gives 0 ompi in_job 4 8 hvdrun --launcher=mpirun hvd-selftest
    has "hvd-selftest: 8 ranks on 4 hosts: OK"
}

@test "a rank that fails, is killed or aborts ends the job with its status" {
    open_mpi
    gives 7 ompi in_job 2 4 hvdrun --mpi --json sh -c '[ $OMPI_COMM_WORLD_RANK = 3 ] && exit 7; sleep 1003'
    has "rank 3 on hvdn2 failed first: exit code 7" '"status":7'
    assert_no_leftovers
    gives 137 ompi in_job 2 4 hvdrun --mpi sh -c '[ $OMPI_COMM_WORLD_RANK = 1 ] && kill -KILL $$; sleep 1003'
    has "rank 1 on hvdn1 failed first: killed by signal 9"
    gives 9 ompi in_job 2 4 hvdrun --mpi ./ring.openmpi abort
    has "rank 1 on hvdn1 failed first: exit code 9"
    assert_no_leftovers
}

@test "ranks of mpirun meet at relays, hvdrun --stacks sees them, and the first error has its last lines" {
    local job
    open_mpi
    script raises.py <<'END'
import os, time
os.write(1, b"ready %s\n" % os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"].encode())
while not os.path.exists("go"):
    time.sleep(0.1)
if os.environ["OMPI_COMM_WORLD_RANK"] == "3":
    raise ValueError("bad batch")
time.sleep(50)
END
    on_login rm -f go
    begin ompi in_job 2 4 hvdrun --launcher=mpirun -v python3 raises.py
    says_times 20 4 "ready 127.0.0.1"
    said "relay on rank 0's host: 2 relays"
    job=$(on_login squeue -h -u alice -t R -o %A)
    gives 0 on_login hvdrun --stacks "$job"
    has "4 ranks of job $job"
    on_login touch go
    ended 20 1
    has "rank 3 on hvdn2 failed first: exit code 1" "ValueError: bad batch" "| ValueError: bad batch"
}

@test "Ctrl-C and SIGTERM end all ranks" {
    open_mpi
    stubborn
    run ompi timeout 60 "$TTY" --wait ready --sleep 0.5 --type ^C -- "$HVD_CLUSTER_CMD" exec -- \
        salloc --quiet -N2 -n2 bash -c 'trap "" INT; hvdrun --mpi ./stubborn.sh; echo status $?'
    has "interrupted: ending the ranks" "status 130"
    has_not "failed first"
    assert_no_leftovers
    begin ompi in_job 2 2 bash -c 'hvdrun --mpi ./stubborn.sh; echo status $?'
    says_times 20 2 ready
    as_root hvdlogin pkill -TERM -x hvdrun
    ended 20
    has "Terminated: ending the ranks" "status 143"
    assert_no_leftovers
}

@test "hvdrun or mpirun killed: no rank is left, in a job and on one machine" {
    local what
    open_mpi
    stubborn
    for what in hvdrun 'mpirun.*|prterun'; do # Open MPI's mpirun becomes prterun, from release 5 on
        begin ompi in_job 2 2 hvdrun --mpi ./stubborn.sh
        says_times 20 2 ready
        as_root hvdlogin pkill -KILL -u alice -x "$what"
        ended 20
        assert_no_leftovers 15
        begin ompi on_login hvdrun --mpi -np 2 --mpi-args=--oversubscribe ./stubborn.sh
        says_times 20 2 ready
        as_root hvdlogin pkill -KILL -u alice -x "$what"
        ended 20 137
        if [[ $what == mpirun* ]]; then has "mpirun.openmpi ended: killed by signal 9"; fi
        assert_no_leftovers 15
    done
}

@test "a monitor that somebody has stopped does not keep mpirun waiting for ever" {
    open_mpi
    rm -f "$(home)/go"
    begin ompi in_job 2 4 hvdrun --mpi sh -c 'echo ready; until [ -e go ]; do sleep 0.1; done'
    says_times 20 4 ready
    as_root hvdn2 pkill -STOP -u alice -x hvd-monitor
    on_login touch go
    ended 20 0
    assert_no_leftovers
}

@test "Open MPI starts ranks on one machine without Slurm" {
    open_mpi
    gives 0 ompi on_login hvdrun --mpi -np 3 --mpi-args=--oversubscribe --output-filename=tree ./ring.openmpi
    rings 3
    output=$(cat "$(home)"/tree/{1/,}rank.2/stdout 2>/dev/null || true) # written by mpirun, from release 5 on by the rank shim
    has "rank 2 of 3"
    # Nobody else can read the launch's key.
    begin ompi on_login hvdrun --mpi -np 1 sh -c 'echo ready; sleep 5'
    says 20 ready
    run as_user bob sh -c 'for fd in /proc/$(pgrep -x -o hvdrun)/fd/*; do cat "$fd"; done; ls /proc/$(pgrep -x -o hvdrun)/fd/'
    has "Permission denied"
    ended 30 0
    assert_no_leftovers
}

# Programs of MPICH run on one host here: between hosts of the cluster a program now and then does not end, also when
# plain srun --mpi=pmi2 or mpirun starts it.
@test "MPICH starts ranks in a job and on one machine" {
    mpich
    export HVD_MPIRUN=mpirun.mpich
    gives 0 on_login hvdrun --mpi -np 3 --output-filename=hydra ./ring.mpich
    rings 3
    output=$(cat "$(home)/hydra"/rank.2/stdout)
    has "rank 2 of 3"
    gives 0 on_login salloc --quiet -N4 --ntasks-per-node=2 hvdrun --mpi sh -c 'echo rank $PMI_RANK of $PMI_SIZE on $(hostname), $HOROVOD_CONTROLLER'
    has "[0] rank 0 of 8 on hvdn1, mpi" "[7] rank 7 of 8 on hvdn4, mpi"
    gives 7 in_job 2 4 hvdrun --mpi sh -c '[ $PMI_RANK = 3 ] && exit 7; sleep 1003'
    has "rank 3 on hvdn2 failed first: exit code 7"
    gives 2 in_job 2 4 hvdrun --mpi --hosts hvdn1:1,hvdn2:2 ./ring.mpich
    has "the same number of slots on every host"
    assert_no_leftovers
}

@test "srun --hvd starts workers of Open MPI by PMIx" {
    open_mpi
    on_login srun --mpi=list 2>&1 | grep -q pmix || skip "this Slurm has no PMIx plugin"
    export HOROVOD_CONTROLLER=mpi
    gives 0 on_login srun --hvd --mpi=pmix -N4 -n8 sh -c 'echo told $HOROVOD_CONTROLLER $HOROVOD_RANK $OMPI_MCA_btl_tcp_if_include; exec ./ring.openmpi'
    rings 8
    has "told mpi ib0,eth0"
    export OMPI_MCA_btl_tcp_if_exclude=lo,docker0
    gives 0 on_login srun --hvd --mpi=pmix -N2 -n2 sh -c 'env | grep btl_tcp; exec ./ring.openmpi'
    rings 2
    has_not btl_tcp_if_include
    unset HOROVOD_CONTROLLER OMPI_MCA_btl_tcp_if_exclude
    echo "controller: mpi" >"$(home)/mpi.yaml"
    gives 0 on_login srun --hvd --hvd-config=mpi.yaml --mpi=pmix -N2 -n2 sh -c 'echo told $HOROVOD_CONTROLLER; exec ./ring.openmpi'
    rings 2
    has "told mpi"
    gives 0 on_login hvdrun --launcher=srun --controller=mpi --mpi=pmix -N2 -n4 ./ring.openmpi
    rings 4
}

@test "srun --hvd starts workers of MPICH by PMI-2" {
    mpich
    export HVD_CONTROLLER=mpi
    gives 0 on_login srun --hvd --mpi=pmi2 -N1 -n4 ./ring.mpich
    rings 4
    has_not warning
    run on_login srun --hvd --mpi=none -N2 -n2 ./ring.mpich
    has "this process has no MPI rank" --mpi=pmi2
}

@test "stand-ins for Intel MPI and IBM Spectrum MPI get arguments that they take" {
    local which
    for which in intel spectrum; do
        ln -sf "$BATS_TEST_DIRNAME/lib/mpirun.py" "$(home)/$which.mpirun"
        HVD_MPIRUN=./$which.mpirun run on_login hvdrun --mpi -np 3 --tcp --ssh-port 2222 --fusion-threshold-mb 1 \
            sh -c 'echo "rank ${PMI_RANK-}${OMPI_COMM_WORLD_RANK-} $HOROVOD_CONTROLLER $HOROVOD_FUSION_THRESHOLD $HOME"'
        exits 0
        has "rank 0 mpi 1048576 $(home)" "rank 2 mpi 1048576 $(home)"
        HVD_MPIRUN=./$which.mpirun gives 7 on_login hvdrun --mpi -np 2 sh -c '[ ${PMI_RANK-}${OMPI_COMM_WORLD_RANK-} = 1 ] && exit 7; sleep 1003'
        has "rank 1 on localhost failed first: exit code 7"
        HVD_MPIRUN=./$which.mpirun gives 99 on_login hvdrun --mpi -np 2 --mpi-args=-wrong true
    done
    assert_no_leftovers
}

# This test is the last one: its sshd ends with the cluster.
@test "mpirun starts ranks on listed hosts outside a job by ssh" {
    open_mpi
    if ! sshd_can; then skip "OpenSSH is not installed"; fi
    sshd_prepare hvdn1 hvdn2
    gives 0 ompi on_login hvdrun --mpi --ssh-port 22 --hosts hvdn1:2,hvdn2:1 ./ring.openmpi
    rings 3
    has "rank 1 of 3 on hvdn1" "rank 2 of 3 on hvdn2"
    gives 7 ompi on_login hvdrun --mpi --hosts hvdn2:1,hvdn1:1 sh -c '[ $OMPI_COMM_WORLD_RANK = 1 ] && exit 7; sleep 1003'
    has "rank 1 on hvdn1 failed first: exit code 7"
    stubborn
    begin ompi on_login hvdrun --mpi --hosts hvdn1:1,hvdn2:1 ./stubborn.sh
    says_times 20 2 ready
    as_root hvdlogin pkill -KILL -u alice -x hvdrun
    ended 20 137
    wait_for 15 only_sshd || { sshd_left_behind && return 1; }
    run ompi on_login hvdrun --mpi --hosts hvdn1:1,hvdn3:1 true
    [ "$status" -ne 0 ]
    sshd_down hvdn1
    sshd_down hvdn2
}
only_sshd() { [[ ! $(sshd_left_behind) ]]; }
