#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2086,SC2154 # what other shells evaluate, lists of words, what run sets
# Ranks meet at the TCPStore of their launch, whatever starts them and whatever is around them. They are light ones,
# lib/tcpstore_client.py, which take from their environment what torch.distributed's env:// takes from it; with PyTorch
# itself the same is in tests/peers/torch_cluster.bats.

load launch
load lsf
load sshd

RANK="python3 $BATS_TEST_DIRNAME/lib/tcpstore_client.py"

# Room for an array of jobs on the same nodes.
setup_file() { suite_up --nodes 4 --cpus 16; }
teardown() {
    as_root hvdlogin pkill -KILL -u alice || true
    cluster_mend
}

# met RANKS [VALUE]: $output says of each rank that it has met all others, and nobody else: everyone adds VALUE and the
# rank to the sum.
met() {
    local n=$1 sum found rank
    sum=$((n * ${2-0} + n * (n - 1) / 2))
    found=$(grep -oE 'rank [0-9]+ of [0-9]+: sum [0-9]+' <<<"$output" | sort)
    [[ $found == "$(for ((rank = 0; rank < n; rank++)); do echo "rank $rank of $n: sum $sum"; done | sort)" ]] ||
        { echo "not $n ranks with the sum $sum: $output" && return 1; }
}

@test "eight ranks on four nodes meet under srun --hvd and hvdrun, by default and where it is asked for" {
    for with in srun hvdrun; do
        gives 0 launch $with -N4 -n8 --ntasks-per-node=2 $RANK
        met 8
    done
    gives 0 on_login hvdrun -N2 -n4 --frameworks=torch --store=agent $RANK
    met 4
    HVD_STORE=agent gives 0 on_login srun --hvd -N2 -n3 --hvd-frameworks=torch $RANK
    met 3
    assert_no_leftovers
}

# further LAUNCH…: the ranks of a job of two hosts meet at one address and port of rank 0's host, and at another port there.
further() {
    gives 0 on_login "$@" bash -c 'echo "at $MASTER_ADDR:$MASTER_PORT"; exec '"$RANK --further"
    met 4
    [[ $(grep -cE "^at $(cluster addr hvdn1 ib0):" <<<"$output") -eq 4 ]] || { echo "$output" && return 1; }
    [[ $(grep -E '^at ' <<<"$output" | sort -u | wc -l) -eq 1 ]] || { echo "$output" && return 1; }
    has "rank 1: at MASTER_ADDR is the server of rank 0" "rank 2: at MASTER_ADDR is the server of rank 0" \
        "rank 3: at MASTER_ADDR is the server of rank 0"
}

@test "MASTER_ADDR is rank 0's host, and MASTER_PORT is one for all, whether the nodes are shared or not" {
    local with
    for with in "srun --hvd -N2 -n4" "srun --hvd --exclusive -N2 -n4" "hvdrun -N2 -n4" "salloc -Q -N2 -n4 hvdrun"; do
        further $with
    done
    assert_no_leftovers
}

@test "four ranks of hvdrun on one machine meet" {
    gives 0 on_login hvdrun -np 4 $RANK
    met 4
    assert_no_leftovers
}

@test "ranks meet over ssh" {
    if ! sshd_can; then skip "OpenSSH is not installed"; fi
    sshd_prepare hvdn1 hvdn2
    further hvdrun --hosts hvdn1:2,hvdn2:2
    sshd_down hvdn1
    sshd_down hvdn2
    assert_no_leftovers
}

@test "ranks meet in an LSF job through jsrun, blaunch and lsrun" {
    standins_up hvdlogin hvdn1 hvdn2 hvdn3
    for each in jsrun blaunch lsrun; do
        JOB_HOSTS="hvdn1 2 hvdn2 2 hvdn3 2"
        if [[ $each == jsrun ]]; then JOB_HOSTS="hvdlogin 1 $JOB_HOSTS"; fi
        installed "$each"
        gives 0 in_job hvdrun $RANK
        met 6
    done
    nothing_left
    for each in hvdlogin hvdn1 hvdn2 hvdn3; do as_root "$each" pkill -KILL -f standins/resd; done
}

@test "processes that meet, leave and meet again find nothing of before" {
    # The store ends with the last rank of rank 0's host: those stay until the other host's rank has its sum.
    gives 0 on_login srun --hvd -N2 -n4 $RANK --rounds 20 --value 5 --hold 1
    [[ $(grep -c 'of 4: sum 26 ' <<<"$output") -eq 80 ]] || { echo "$output" && return 1; }
    assert_no_leftovers
}

@test "two launches side by side in a job keep to themselves" {
    local all
    script two.sh <<END
#!/bin/bash
srun --hvd --overlap -N4 -n8 $RANK --value 1000 --hold 1 >one.out &
one=\$!
srun --hvd --overlap -N4 -n8 $RANK --value 2000 --hold 1 >two.out &
wait \$! && wait \$one && cat one.out && echo next && cat two.out
END
    submit -N4 --ntasks-per-node=2 two.sh
    exits 0
    all=$output
    output=${all%%next*}
    met 8 1000
    output=${all##*next}
    met 8 2000
    assert_no_leftovers
}

running_jobs() { [[ $(on_host hvdctl squeue -h -r -t R | wc -l) -eq $1 ]]; }
no_jobs() { [[ ! $(on_host hvdctl squeue -h) ]]; }

@test "twenty jobs of an array on the same nodes at once keep to themselves" {
    local task
    script array.sh <<END
#!/bin/bash
timeout --foreground 60 bash -c 'until [[ -e go ]]; do sleep 0.1; done' || exit
srun --hvd $RANK --value \${SLURM_ARRAY_TASK_ID}000 --hold 1 >array.\$SLURM_ARRAY_TASK_ID 2>&1
echo "status \$?" >>array.\$SLURM_ARRAY_TASK_ID
END
    on_login sbatch --quiet --array=1-20 -N2 --ntasks-per-node=1 --output=/dev/null array.sh
    wait_for 40 running_jobs 20
    on_login touch go
    wait_for 60 no_jobs
    for task in {1..20}; do
        output=$(<"$(home)/array.$task")
        has "status 0"
        has_not EADDRINUSE "Address already in use"
        met 2 "${task}000"
    done
    assert_no_leftovers
}

@test "listeners at the ports that other tools take do not matter" {
    local port
    script occupied.sh <<END
#!/bin/bash
# Fixed ports of PyTorch, torchrun, its examples, TensorFlow and Ray, and what Lightning, JAX and enroot make of a job's
# number.
ports="29500 29400 29401 23456 8888 6379 \$((15000 + SLURM_JOB_ID % 10000)) \$((SLURM_JOB_ID % 4096 + 61440))
    \$((SLURM_JOB_ID % 4536 + 61000))"
srun --overlap -N4 -n4 --ntasks-per-node=1 python3 -c '
import socket, sys, time
listeners = [socket.create_server(("", int(port))) for port in sys.argv[1:]]
open("listening." + socket.gethostname(), "w").close()
time.sleep(60)' \$ports &
timeout --foreground 60 bash -c 'until [[ \$(ls listening.* 2>/dev/null | wc -l) -eq 4 ]]; do sleep 0.1; done' || exit
echo "taken" \$ports
for store in agent rank0; do
    srun --hvd --overlap --hvd-store=\$store -N4 -n8 bash -c 'echo "port \$MASTER_PORT"'
done
srun --hvd --overlap -N4 -n8 $RANK
echo "status \$?"
scancel --signal=KILL \$SLURM_JOB_ID.0
wait
END
    submit -N4 --ntasks-per-node=2 occupied.sh
    has "status 0"
    met 8
    [[ $(grep -c '^port [1-9]' <<<"$output") -eq 16 ]] || { echo "$output" && return 1; }
    while read -r port; do
        [[ " $(sed -n 's/^taken //p' <<<"$output") " != *" $port "* ]]
    done < <(sed -n 's/^port //p' <<<"$output" | sort -u)
    assert_no_leftovers
}

# vlan HOST PARENT NAME ADDRESS: a VLAN beside its parent. Where the kernel has none it is a pair of links that leads
# nowhere, too.
vlan() {
    as_root "$1" ip link add link "$2" name "$3" type vlan id $((${3##*.} % 4094)) 2>/dev/null || {
        as_root "$1" ip link add name "$3" type veth peer name "v${3##*.}"
        as_root "$1" ip link set dev "v${3##*.}" up
    }
    as_root "$1" ip addr add "$4" dev "$3"
    as_root "$1" ip link set dev "$3" up
}

@test "VLANs beside their parents that lead nowhere are in no framework's variables" {
    for host in 1 2; do
        fault iface-add4 "hvdn$host" eth0 "10.99.0.$host/24" # so that "fault clear" wires the host anew
        vlan "hvdn$host" eth0 eth0.100 "10.100.0.1/24"
        vlan "hvdn$host" ib0 ib0.8001 "10.81.0.1/24"
    done
    run on_host hvdn1 ip -br -4 addr
    has eth0.100 ib0.8001
    gives 0 on_login srun --hvd --exclusive -w 'hvdn[1-2]' -N2 -n2 bash -c \
        'echo "nccl <$NCCL_SOCKET_IFNAME> gloo <$GLOO_SOCKET_IFNAME> addr $MASTER_ADDR"; exec '"$RANK"
    met 2
    # NCCL's names are prefixes, unless a '=' in front says that they are whole; Gloo takes one name as it is.
    [[ $(grep -c 'nccl <=ib0,eth0> gloo <ib0> addr 10.78' <<<"$output") -eq 2 ]] || { echo "$output" && return 1; }
    cluster fault clear
    assert_no_leftovers
}

@test "the store outlives rank 0, from outside of a job and in a batch job" {
    script lingers.sh <<END
#!/bin/bash
srun --hvd $RANK --linger 1.5
END
    for with in "srun --hvd" hvdrun sbatch; do
        if [[ $with == sbatch ]]; then
            submit -N2 --ntasks-per-node=2 lingers.sh
        else
            run on_login $with -N2 -n4 --ntasks-per-node=2 $RANK --linger 1.5
        fi
        exits 0
        met 4
        has "rank 1: the store was there" "rank 2: the store was there" "rank 3: the store was there"
    done
    assert_no_leftovers
}

@test "ranks that never call init are named when --init-timeout is over" {
    for with in "srun --hvd" hvdrun; do
        run on_login $with --hvd-init-timeout=2 -N4 -n8 --ntasks-per-node=2 bash -c \
            'case $RANK in 5 | 6 | 7) exec sleep 30 ;; esac; exec '"$RANK"
        [[ $status -ne 0 ]]
        has "ranks 6, 7 on hvdn4, and 1 of ranks 4, 5 on hvdn3 have not called init_process_group within 2 s"
    done
    assert_no_leftovers
}
