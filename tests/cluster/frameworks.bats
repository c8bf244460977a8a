#!/usr/bin/env bats
# What PyTorch, JAX and other frameworks find in the environment of ranks. No framework is needed for it.
# shellcheck disable=SC2016

load launch
load sshd

setup_file() {
    suite_up --nodes 2
    sshd_prepare hvdn1 hvdn2
}
setup() {
    if sshd_can; then
        sshd_up hvdn1
        sshd_up hvdn2
    fi
}

# What shows the environment of a rank. A line of more than 1,024 bytes reaches srun in pieces, between those of others.
ENV=(env -u HVD_LAUNCH_VARIABLES)

# The values of a variable over all ranks, sorted, in one line; each rank has printed "NAME=VALUE".
values() { sed -n "s/^$1=//p" <<<"$output" | sort | xargs; }

is() {
    [[ $(values "$1") == "$2" ]] || { echo "$1: $(values "$1"), not $2, in: $output" && return 1; }
}

# same N NAME: N ranks have it, all with the same value.
same() {
    [[ $(values "$2" | tr ' ' '\n' | sort -u | wc -l) -eq 1 && $(values "$2" | wc -w) -eq $1 ]] ||
        { echo "$2: $(values "$2"), in: $output" && return 1; }
}

# Four ranks on two hosts, which the scheduler starts (srun, hvdrun) or node agents do (ssh).
ways() { echo srun hvdrun && if sshd_can; then echo ssh; fi; }
start() {
    case $1 in
    ssh) on_login hvdrun --hosts hvdn1:2,hvdn2:2 "${@:2}" ;;
    *) launch "$1" -N2 -n4 --ntasks-per-node=2 "${@:2}" ;;
    esac
}

@test "each rank knows its place and the store, whatever starts it" {
    for with in $(ways); do
        gives 0 start "$with" "${ENV[@]}"
        is RANK "0 1 2 3"
        is LOCAL_RANK "0 0 1 1"
        is NODE_RANK "0 0 1 1"
        is GROUP_RANK "0 0 1 1"
        is WORLD_SIZE "4 4 4 4"
        is LOCAL_WORLD_SIZE "2 2 2 2"
        same 4 TORCHELASTIC_USE_AGENT_STORE
        [[ $(values TORCHELASTIC_USE_AGENT_STORE) =~ ^(1|True)" " ]] # by the PyTorch of this machine
        is TORCHELASTIC_RESTART_COUNT "0 0 0 0"
        is TORCHELASTIC_RUN_ID ""
        is LOCAL_SIZE "2 2 2 2"
        is PET_RDZV_ENDPOINT ""
        is TF_CONFIG ""
        same 4 JAX_COORDINATOR_ADDRESS
        # All find the store at rank 0's host, and Horovod's rendezvous at their own.
        is MASTER_ADDR "$(cluster addr hvdn1 ib0) $(cluster addr hvdn1 ib0) $(cluster addr hvdn1 ib0) $(cluster addr hvdn1 ib0)"
        same 4 MASTER_PORT
        is HOROVOD_GLOO_RENDEZVOUS_ADDR "127.0.0.1 127.0.0.1 127.0.0.1 127.0.0.1"
    done
    nobody_left
}

@test "torchrun, one on each host, gets its options" {
    for with in srun hvdrun; do
        gives 0 launch "$with" -N2 -n2 "${ENV[@]}"
        is PET_RDZV_BACKEND "c10d c10d"
        is PET_NNODES "2 2"
        is PET_NPROC_PER_NODE ""
        same 2 PET_RDZV_ENDPOINT
        same 2 PET_RDZV_ID
        [[ $(values PET_RDZV_ENDPOINT) == "$(values MASTER_ADDR | cut -d' ' -f1):$(values MASTER_PORT | cut -d' ' -f1) "* ]]
        [[ $(values PET_LOCAL_ADDR | tr ' ' '\n' | sort -u | wc -l) -eq 2 ]]
    done
    nobody_left
}

@test "the user's MASTER_ADDR and MASTER_PORT stay, and no flag sends ranks elsewhere" {
    for with in srun hvdrun; do
        MASTER_ADDR=hvdn1 MASTER_PORT=29511 RANK=9 gives 0 launch "$with" --hvd-verbose -N2 -n2 "${ENV[@]}"
        is MASTER_ADDR "hvdn1 hvdn1"
        is MASTER_PORT "29511 29511"
        is TORCHELASTIC_USE_AGENT_STORE ""
        is RANK "0 1"
        [[ $(grep -c "MASTER_ADDR=hvdn1 MASTER_PORT=29511 are set by the user" <<<"$output") -eq 1 ]]
        has_not warning:
        # Of a launch around this one, so not the user's.
        MASTER_ADDR=hvdn1 MASTER_PORT=29511 TORCHELASTIC_USE_AGENT_STORE=True gives 0 launch "$with" -N2 -n2 "${ENV[@]}"
        is MASTER_ADDR "$(cluster addr hvdn1 ib0) $(cluster addr hvdn1 ib0)"
        has_not MASTER_ADDR=hvdn1 MASTER_PORT=29511
        MASTER_ADDR=192.0.2.1 MASTER_PORT=29511 gives 0 launch "$with" -N2 -n2 "${ENV[@]}"
        [[ $(grep -c "warning: MASTER_ADDR=192.0.2.1 in the environment" <<<"$output") -eq 1 ]]
    done
    nobody_left
}

@test "which store, and which frameworks" {
    for with in srun hvdrun; do
        gives 0 launch "$with" --hvd-store=rank0 -N2 -n2 "${ENV[@]}"
        same 2 MASTER_ADDR
        same 2 MASTER_PORT
        is TORCHELASTIC_USE_AGENT_STORE ""
        [[ $(values JAX_COORDINATOR_ADDRESS) != *":$(values MASTER_PORT | cut -d' ' -f1)"* ]]
        gives 0 launch "$with" --hvd-store=off -N2 -n2 "${ENV[@]}"
        is MASTER_ADDR ""
        is RANK "0 1"
        gives 0 launch "$with" --hvd-frameworks=torch -N2 -n2 "${ENV[@]}"
        is RANK "0 1"
        is HOROVOD_RANK ""
        is JAX_COORDINATOR_ADDRESS ""
        gives 0 launch "$with" --hvd-frameworks=tensorflow -N2 -n2 bash -c 'echo "$TF_CONFIG"'
        [[ $(grep -cE '^[{]"cluster": [{]"worker": \["10[.0-9]*:[0-9]+", "10[.0-9]*:[0-9]+"\][}], .*"index": [01][}][}]$' <<<"$output") -eq 2 ]]
        gives 0 launch "$with" --hvd-frameworks=none -N2 -n2 "${ENV[@]}"
        is RANK ""
        is MASTER_ADDR ""
        is GLOO_SOCKET_IFNAME "ib0 ib0"
    done
    # Who starts the ranks knows their numbers.
    output=$(on_login hvdrun --hvd-frameworks=none -np 3 --output-filename "$(home)/out" true && ls "$(home)/out")
    [[ $(xargs <<<"$output") == "rank.0 rank.1 rank.2" ]]
    nobody_left
}

# Rank 0 says whether it can listen at the ports that are reserved for JAX and for PyTorch's store, with and without what
# their servers set, again and again.
PORT_USER='
import os, socket, time
def listens(host, port, option):
    with socket.socket() as s:
        if option:
            s.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            s.bind((host, int(port)))
            s.listen()
            return True
        except OSError:
            return False
def says(name, host, port, option, other):
    print(name, *(listens(host, port, o) for o in (0, other, option, option)), flush=True)
if os.environ["RANK"] == "0":
    says("jax", *os.environ["JAX_COORDINATOR_ADDRESS"].rsplit(":", 1), socket.SO_REUSEPORT, socket.SO_REUSEADDR)
    says("store", os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], socket.SO_REUSEADDR, socket.SO_REUSEPORT)
    time.sleep(2)'

@test "ports are reserved for rank 0 while the ranks run" {
    for with in $(ways); do
        gives 0 start "$with" --hvd-store=rank0 python3 -c "$PORT_USER"
        has "jax False False True True" "store False False True True"
    done
    # Two steps side by side.
    run on_login bash -c 'for i in 1 2; do
        srun --hvd --overlap -N2 -n2 bash -c "echo JAX_COORDINATOR_ADDRESS=\$JAX_COORDINATOR_ADDRESS; sleep 2" & done; wait'
    [[ $(values JAX_COORDINATOR_ADDRESS | tr ' ' '\n' | sort | uniq -c | awk '{ print $1 }' | xargs) == "2 2" ]]
    nobody_left
}

@test "OMP_NUM_THREADS follows from the binding" {
    for with in srun hvdrun; do
        # What a rank may use alone, by its mask, or its part of what it shares.
        gives 0 launch "$with" -N1 -n2 -c1 --cpu-bind=cores bash -c 'echo "OMP_NUM_THREADS=$OMP_NUM_THREADS of $(nproc)"'
        is OMP_NUM_THREADS "1 of 1 1 of 1"
        OMP_NUM_THREADS=5 run launch "$with" -N1 -n2 "${ENV[@]}"
        is OMP_NUM_THREADS "5 5"
        run launch "$with" -N2 -n2 "${ENV[@]}"
        is OMP_NUM_THREADS ""
    done
    nobody_left
}

@test "ranks that see one GPU each: a warning, and JAX takes that one" {
    for with in srun hvdrun; do
        CUDA_VISIBLE_DEVICES=3 gives 0 launch "$with" -N2 -n4 --ntasks-per-node=2 "${ENV[@]}"
        is JAX_LOCAL_DEVICE_IDS "0 0 0 0"
        [[ $(grep -c "warning: each rank of this host sees one GPU" <<<"$output") -eq 1 ]]
        CUDA_VISIBLE_DEVICES=0,1 run launch "$with" -N2 -n4 --ntasks-per-node=2 "${ENV[@]}"
        is JAX_LOCAL_DEVICE_IDS ""
        has_not warning:
    done
    if sshd_can; then
        run start ssh "${ENV[@]}"
        is JAX_LOCAL_DEVICE_IDS "0 0 1 1"
    fi
    nobody_left
}
