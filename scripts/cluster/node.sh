# shellcheck shell=bash
# Hosts of a cluster: boot, power off, daemons, running commands on them.
# Sourced by hvd-cluster.

# Process ids are used again, so a process is known by its id and its start time, which this puts into started.
proc_start() {
    local stat
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    stat=${stat##*) }
    # shellcheck disable=SC2086
    set -- $stat
    [[ $1 != [ZX] ]] || return 1
    started=${20}
}

# init_pid HOST: prints the process id of the host's first process, if that lives.
init_pid() {
    local pid start started
    { read -r pid start <"$STATE/hosts/$1/pid"; } 2>/dev/null || return 1
    proc_start "$pid" && [[ $started == "$start" ]] || return 1
    echo "$pid"
}

need_host() {
    [[ -d $STATE/hosts/$1 && $1 != switch ]] ||
        die "no host '$1' in cluster '$NAME' (there are: ${HOSTS[*]})"
}

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
    pid=$(timeout 10 unshare --net --uts --pid -- \
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

boot_host() {
    local host=$1 switch pid
    switch=$(init_pid switch) || fail "the switch is gone; use down and up"
    mkdir -p "$STATE/hosts/$host"
    echo "$host" >"$STATE/hosts/$host/hostname"
    cgroup_host "$host"
    pid=$(cgroup_enter "$host" && HVD_CGROUP=$CGROUP HVD_CONFIGLESS=$CONFIGLESS \
        timeout 10 nsenter --target "$switch" --pid -- \
        taskset -c "${NS_CPU:-$CPU_LIST}" unshare --net --mount --uts --ipc --pid --cgroup -- \
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
    wait_until 10 gone "$1" || fail "$1 does not die (process $pid)"
}

gone() { ! init_pid "$1" >/dev/null; }

# on HOST CMD…: runs CMD as root in all namespaces of the host.
on() {
    local pid
    pid=$(init_pid "$1") || return 125
    nsenter --target "$pid" --mount --uts --ipc --net --pid --cgroup --root --wd -- "${@:2}"
}

# daemon_running HOST NAME: looks for a process of that name in the host's own /proc.
daemon_pids() {
    on "$1" pgrep -x -u root "$2"
}

# With auth/slurm, sackd makes credentials on the login host, where no other daemon of Slurm runs.
daemons_of() {
    local own=''
    if [[ $AUTH == munge ]]; then own=munged; fi
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
    sackd)
        detached "$host" env -i PATH="$SYSTEM_PATH" "$(slurm_daemon "$daemon")" >>"$log" 2>&1 ||
            fail "sackd does not start on $host" "$host.sackd"
        ;;
    slurmctld | slurmd)
        if [[ $CONFIGLESS && $daemon == slurmd ]]; then args=(--conf-server "$(conf_server)"); fi
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
    wait_until 5 not daemon_pids "$1" "$2" || fail "$2 on $1 does not die"
}

# --- exec -----------------------------------------------------------------

user_home() {
    if [[ $1 == root ]]; then echo /root; else echo "$STATE/home/$1"; fi
}

# forward SIGNAL: passes a signal on to the command, since nsenter, whose child the
# command is, does not.  The short wait is for a signal that comes early: a
# background job of the shell ignores signals when it starts, and would lose it.
forward() {
    local number child mask tries
    number=$(kill -l "$1")
    interrupted=1
    for ((tries = 0; tries < 100; tries++)); do
        # The file has no newline at its end, so read fails even when it reads.
        child=
        { read -r child _ <"/proc/$exec_pid/task/$exec_pid/children"; } 2>/dev/null || true
        if [[ $child ]]; then
            mask=$(awk '$1 == "SigIgn:" { print $2 }' "/proc/$child/status" 2>/dev/null) || true
            if ((tries > 20)) || ! ((0x${mask:-0} >> (number - 1) & 1)); then
                kill -s "$1" "$child" 2>/dev/null || true
                return 0
            fi
        elif ! kill -0 "$exec_pid" 2>/dev/null; then
            return 0
        fi
        sleep 0.01
    done
}

# uid_of USER: sets uid and gid to the user's.
uid_of() {
    local name
    while IFS=: read -r name _ uid gid _; do
        [[ $name != "$1" ]] || return 0
    done <"$STATE/etc/passwd"
    return 1
}

# run_as HOST USER DIR CMD…: does what exec does; sets rc.
run_as() {
    local host=$1 user=$2 dir=$3 pid home uid gid sig again
    shift 3
    pid=$(init_pid "$host") || die "host $host is down"
    home=$(user_home "$user")
    uid_of "$user" || die "no user '$user' on the hosts"
    local ids=() outer=() own=() env=(
        PATH="${HVD_PATH:+$HVD_PATH:}$SYSTEM_PATH" HOME="$home" USER="$user"
        LOGNAME="$user" SHELL=/bin/bash HVD_CLUSTER="$NAME")
    # Without files of Slurm a site's DNS names the controller; there is no such DNS here.
    if [[ $CONFIGLESS ]]; then env+=(SLURM_CONF_SERVER="$(conf_server)"); fi
    if ((uid != 0)); then ids=(--reuid "$uid" --regid "$gid" --init-groups); fi
    # With a terminal the command stays in the foreground group, so that the keyboard
    # reaches it.  Without a terminal it gets a session of its own, so that a signal
    # to the caller's group reaches it once, through forward.
    if [[ -t 0 ]]; then
        trap : INT QUIT
    else
        outer=(setsid) own=(setsid)
        trap 'forward INT || :' INT
        trap 'forward QUIT || :' QUIT
    fi
    for sig in HUP TERM USR1 USR2; do
        # shellcheck disable=SC2064
        trap "forward $sig || :" "$sig"
    done
    # The command must not go on when the caller is killed, even by SIGKILL: nsenter
    # and the command both ask the kernel to be killed with their parent.
    # nsenter must outlive an interrupt from the terminal, or the command is killed with it.
    {
        trap '' INT QUIT
        cgroup_enter "$host"
        exec "${outer[@]}" setpriv --pdeathsig KILL \
            nsenter --target "$pid" --mount --uts --ipc --net --pid --cgroup --root --wd -- \
            env --default-signal=INT,QUIT -u XDG_RUNTIME_DIR -u MAIL -u OLDPWD \
            -u SUDO_USER -u SUDO_UID -u SUDO_GID -u SUDO_COMMAND "${env[@]}" \
            "${own[@]}" setpriv --pdeathsig KILL "${ids[@]}" \
            env --chdir="${dir:-$home}" "$@"
    } <&0 &
    exec_pid=$!
    rc=127
    while :; do
        interrupted=0 again=0
        # bash reports on stderr that a signal ended a job; the command has not printed that.
        { wait "$exec_pid" || again=$?; } 2>/dev/null
        # 127 also means "no such child": the status was collected before.
        if ((again != 127)) || ((rc == 127)); then rc=$again; fi
        if ((!interrupted)) && ! { ((again > 128)) && kill -0 "$exec_pid" 2>/dev/null; }; then
            break
        fi
    done
    trap - INT QUIT HUP TERM USR1 USR2
}
