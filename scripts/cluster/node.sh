# shellcheck shell=bash
# Hosts of a cluster: boot, power off, daemons.  Sourced by hvd-cluster.

save_pid() {
    local started
    proc_start "$2" || return 1
    echo "$2 $started" >"$STATE/hosts/$1/pid.new"
    mv "$STATE/hosts/$1/pid.new" "$STATE/hosts/$1/pid"
}

# The process namespaces of all hosts are below that of the switch, so all hosts
# end with the switch.
boot_switch() {
    local pid
    mkdir -p "$STATE/hosts/switch"
    pid=$(timeout $((10 * ${HVD_TEST_PATIENCE:-1})) unshare --net --uts --pid -- \
        bash "$LIB/host-init.sh" switch "$STATE" switch '' '')
    [[ $pid ]] && save_pid switch "$pid" || fail "the switch did not start" switch.init
    net_switch "$pid"
}

# ns_cpu: prints the CPU on which new mount namespaces get the lowest numbers.
# Slurm mounts the namespace of a job's private /tmp in that of the host, and the
# kernel allows that only for a namespace with a higher number.  Since Linux 6.18
# each CPU has a range of numbers of its own, so that a later namespace may have a
# lower number; the host's namespace is made on this CPU.
ns_cpu() {
    local cpu
    # shellcheck disable=SC2016
    for cpu in $(awk '$1 == "processor" { print $3 }' /proc/cpuinfo | head -n 64); do
        taskset -c "$cpu" unshare --mount python3 -c '
import fcntl, struct, sys
number = bytearray(8)
with open("/proc/self/ns/mnt") as ns:
    fcntl.ioctl(ns, 0x8008b705, number)  # NS_GET_MNTNS_ID
print(struct.unpack("Q", number)[0], sys.argv[1])' "$cpu" 2>/dev/null || true
    done | sort -n | awk 'NR == 1 { print $2 }'
}

# own_clock HOST: options of unshare(1), if the kernel has them. The monotonic clock of a real host begins when the host
# is started, so no two hosts have the same.
own_clock() {
    local by
    by=$(($(cksum <<<"$1" | cut -d' ' -f1) % 1000000 + 1000))
    if unshare --time --monotonic "$by" --fork true 2>/dev/null; then echo "--time --monotonic $by"; fi
}

boot_host() {
    local host=$1 switch pid NO_CONF=1 clock
    if [[ $SLURM ]]; then NO_CONF=''; fi
    switch=$(init_pid switch) || fail "the switch is gone; use down and up"
    mkdir -p "$STATE/hosts/$host"
    echo "$host" >"$STATE/hosts/$host/hostname"
    cgroup_host "$host"
    read -ra clock < <(own_clock "$host") || true
    pid=$(cgroup_enter "$host" && HVD_CGROUP=$CGROUP HVD_CONFIGLESS=${CONFIGLESS:-$NO_CONF} \
        timeout $((10 * ${HVD_TEST_PATIENCE:-1})) nsenter --target "$switch" --pid -- \
        taskset -c "${NS_CPU:-$CPU_LIST}" unshare --net --mount --uts --ipc --pid --cgroup "${clock[@]}" -- \
        taskset -c "$CPU_LIST" bash "$LIB/host-init.sh" host "$STATE" "$host" "$ROOT" "$SLURM_CONFDIR" \
        "${BINDS[@]}") || true
    [[ $pid ]] && save_pid "$host" "$pid" || fail "$host did not start" "$host.init"
    net_host "$host"
    daemons_start "$host"
}

# power_off HOST: kills every process of the host at once; its network goes as well.
power_off() {
    local pid
    pid=$(init_pid "$1") || return 0
    kill -KILL "$pid" 2>/dev/null || true
    wait_until 10 gone "$1" || fail "$1 does not end (process $pid)"
}

gone() { ! init_pid "$1" >/dev/null; }

# daemon_running HOST NAME: looks for a process of that name in the host's own /proc.
daemon_pids() {
    on "$1" pgrep -x -u root "$2"
}

# With auth/slurm, sackd makes credentials on the login host, where no other daemon of Slurm runs.
daemons_of() {
    local own=''
    if [[ $AUTH == munge ]]; then own=munged; fi
    if [[ $SSH && $1 == hvdn* ]]; then own+=" standin-sshd"; fi
    if [[ ! $SLURM ]]; then
        echo "$own"
        return 0
    fi
    case $1 in
    "$LOGIN") echo "${own:-sackd}" ;;
    "$CTL") echo "$own" slurmctld ;;
    *) echo "$own" slurmd ;;
    esac
}

daemons_start() {
    local daemon
    for daemon in $(daemons_of "$1"); do
        daemon_start "$1" "$daemon"
    done
}

# A daemon must not keep a descriptor of this script: neither the lock, nor a pipe
# whose end the caller waits for.
detached() (
    local fd
    for fd in /proc/self/fd/*; do
        fd=${fd##*/}
        if ((fd > 2 && fd != 255)); then eval "exec $fd>&-"; fi
    done
    cgroup_enter "$1"
    on "$@" </dev/null
)

daemon_start() {
    local host=$1 daemon=$2 log=$STATE/log/$1.$2.log args=()
    if daemon_pids "$host" "$daemon" >/dev/null; then return 0; fi
    case $daemon in
    munged)
        detached "$host" env -i PATH="$SYSTEM_PATH" "$MUNGED" --num-threads 2 \
            --key-file /etc/munge/munge.key --seed-file /run/munge/seed \
            --pid-file /run/munge/munged.pid --log-file "$log" --force \
            >>"$log.start" 2>&1 ||
            fail "munged does not start on $host" "$host.munged.log.start" "$host.munged"
        ;;
    standin-sshd) detached "$host" "$STATE/bin/$daemon" >>"$log" 2>&1 || fail "the stand-in for sshd does not start on $host" "$log" ;;
    sackd)
        detached "$host" env -i PATH="$SYSTEM_PATH" "$(slurm_daemon "$daemon")" >>"$log" 2>&1 ||
            fail "sackd does not start on $host" "$host.sackd"
        ;;
    slurmctld | slurmd)
        if [[ $CONFIGLESS && $daemon == slurmd ]]; then args=(--conf-server "$CONF_SERVER"); fi
        detached "$host" env -i PATH="$SYSTEM_PATH" ${CGROUP_PRELOAD:+"LD_PRELOAD=$CGROUP_PRELOAD"} \
            "$(slurm_daemon "$daemon")" "${args[@]}" -L "$log" >>"$log.start" 2>&1 ||
            fail "$daemon does not start on $host" "$host.$daemon.log.start" "$host.$daemon"
        ;;
    esac
}

daemon_kill() {
    local pid
    for pid in $(daemon_pids "$1" "$2" || true); do
        on "$1" kill -KILL "$pid" || true
    done
    wait_until 5 not daemon_pids "$1" "$2" || fail "$2 on $1 does not end"
}
