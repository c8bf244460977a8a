# shellcheck shell=bash
# Everything that depends on the Slurm installation: where its programs are
# and what its configuration looks like.  Sourced by hvd-cluster.

SLURMCTLD_PORT=6817
SLURMD_PORT=6818
SYSTEM_PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# Sets MUNGED, SLURM_CONFDIR, SYSTEM_PATH, and CONF_SERVER, the controller that hosts without files of Slurm ask.
slurm_paths() {
    # shellcheck disable=SC2034 # node.sh starts it
    MUNGED=munged
    SLURM_CONFDIR=/etc/slurm
    # shellcheck disable=SC2034 # exec.sh and node.sh tell of it
    CONF_SERVER=$(addr "$CTL" eth0 4):$SLURMCTLD_PORT
    if [[ $SLURM_PREFIX ]]; then
        SYSTEM_PATH=$SLURM_PREFIX/sbin:$SLURM_PREFIX/bin:$SYSTEM_PATH
        SLURM_CONFDIR=$SLURM_PREFIX/etc
    fi
}

slurm_daemon() {
    local path
    # With --root a program is known by its name, and is found inside of the root.
    if [[ $ROOT ]]; then
        echo "$1"
    elif path=$(PATH=$SYSTEM_PATH command -v "$1"); then
        echo "$path"
    else
        return 1
    fi
}

# Fails when a program is missing, and prints which.
slurm_check() {
    local tool tools=() missing=()
    slurm_paths
    for tool in cc ip nft nsenter unshare setpriv setsid flock pgrep awk; do
        command -v "$tool" >/dev/null || missing+=("$tool")
    done
    case $AUTH in munge) tools=(munged) ;; slurm) tools=(sackd) ;; esac
    if [[ $SLURM ]]; then tools+=(slurmctld slurmd srun sinfo scontrol); fi
    if [[ ! $ROOT ]]; then
        for tool in "${tools[@]}"; do
            PATH=$SYSTEM_PATH command -v "$tool" >/dev/null || missing+=("$tool")
        done
    fi
    if ((${#missing[@]})); then die "not installed: ${missing[*]}"; fi
    [[ $SLURM ]] || return 0
    [[ -d $ROOT$SLURM_CONFDIR ]] || die "no folder $ROOT$SLURM_CONFDIR to mount the configuration on"
}

# Settings KEY=VALUE: a later one replaces an earlier one of the same key, in its line.
conf_set() {
    local key=${1%%=*} value=${1#*=}
    [[ $1 == *=* ]] || die "not Key=Value: $1"
    if [[ ! ${CONF[$key]+x} ]]; then CONF_ORDER+=("$key"); fi
    CONF[$key]=$value
}

slurm_write_conf() {
    local dir=$STATE/etc/slurm line key host gres=''
    declare -A CONF=()
    local CONF_ORDER=() lines=()
    mkdir -p "$dir"
    while read -r line; do
        if [[ $line && $line != '#'* ]]; then conf_set "$line"; fi
    done <<EOF
ClusterName=hvd
SlurmctldHost=$CTL($(addr "$CTL" eth0 4))
SlurmUser=root
SlurmdUser=root
AuthType=auth/$AUTH
CredType=cred/$AUTH
StateSaveLocation=$STATE/slurmctld
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldPort=$SLURMCTLD_PORT
SlurmdPort=$SLURMD_PORT
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
# The limits of time are short, so that a test notices a lost node soon.
SlurmdTimeout=10
SlurmctldTimeout=10
MessageTimeout=5
TCPTimeout=2
KillWait=5
UnkillableStepTimeout=30
BatchStartTimeout=10
InactiveLimit=0
CompleteWait=0
MinJobAge=300
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
SlurmctldDebug=info
SlurmdDebug=info
${SRUN_PORTS:+SrunPortRange=$SRUN_PORTS}
${GPUS:+GresTypes=gpu}
EOF
    if [[ $CGROUP ]]; then
        conf_set ProctrackType=proctrack/cgroup
        conf_set TaskPlugin=task/cgroup,task/affinity
    fi
    if [[ $CONFIGLESS ]]; then conf_set SlurmctldParameters=enable_configless; fi
    for line in "${SLURM_CONF_EXTRA[@]}"; do
        # Lines with these keys may be repeated, and add to each other.
        case $line in
        NodeName=* | PartitionName=* | NodeSet=* | DownNodes=*) lines+=("$line") ;;
        *) conf_set "$line" ;;
        esac
    done
    if [[ $GPUS ]]; then gres=" Gres=gpu:$GPUS"; fi
    {
        for key in "${CONF_ORDER[@]}"; do echo "$key=${CONF[$key]}"; done
        # Addresses and not names, since Slurm must work where names do not resolve.
        for host in "${COMPUTE[@]}"; do
            echo "NodeName=$host NodeAddr=$(addr "$host" eth0 4) CPUs=$CPUS" \
                "Sockets=1 CoresPerSocket=$CPUS ThreadsPerCore=1" \
                "RealMemory=4000 State=UNKNOWN$gres"
        done
        echo "PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP" \
            "PriorityTier=10 PreemptMode=OFF"
        echo "PartitionName=preempt Nodes=ALL MaxTime=INFINITE State=UP" \
            "PriorityTier=1 PreemptMode=CANCEL GraceTime=5"
        ((${#lines[@]} == 0)) || printf '%s\n' "${lines[@]}"
    } >"$dir/slurm.conf"
    slurm_write_gres "$dir"
    if [[ $AUTH == slurm ]]; then (umask 077 && head -c 1024 /dev/urandom >"$dir/slurm.key"); fi
    printf '%s\n' "${PLUGINS[@]}" >"$dir/plugstack.conf"
    slurm_write_cgroup "$dir"
    for line in "${CONF_FILES[@]}"; do printf '%s\n' "${line#*=}" >"$dir/${line%%=*}"; done
}

slurm_write_cgroup() {
    case $CGROUP in
    v1)
        printf '%s\n' CgroupPlugin=cgroup/v1 ConstrainCores=yes ConstrainDevices=yes \
            ConstrainRAMSpace=yes
        ;;
    # Neither controllers of control groups nor systemd are required.
    v2) printf '%s\n' CgroupPlugin=cgroup/v2 IgnoreSystemd=yes ConstrainDevices=yes ;;
    *) ;; # by itself Slurm takes the one that is there
    esac >"$1/cgroup.conf"
}

slurm_write_gres() {
    local i
    [[ $GPUS ]] || return 0
    mkdir -p "$STATE/gpu"
    # Slurm numbers GPUs, and sets CUDA_VISIBLE_DEVICES, only when their files are
    # devices. These have numbers for experiments (240 and above): with control groups
    # jobs without a GPU lose what has the number of one, which /dev/null must not have.
    for ((i = 0; i < GPUS; i++)); do
        mknod -m 666 "$STATE/gpu/gpu$i" c 240 "$i" || fail "cannot make device nodes in $STATE"
    done
    echo "NodeName=hvdn[1-$NODES] Name=gpu File=$STATE/gpu/gpu[0-$((GPUS - 1))]" >"$1/gres.conf"
}

