# shellcheck shell=bash
# Running commands on hosts.  Sourced by hvd-cluster, which needs nothing else for that.

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

# Commands come to hosts by enter.c.
compile_enter() { cc -O1 -o "$STATE/enter" "$LIB/enter.c" || fail "cannot compile enter.c"; }

# compile_ssh: makes $STATE/bin/ssh, and the daemon standin-sshd beside it, where --ssh asks for them.
compile_ssh() {
    [[ $SSH ]] || return 0
    mkdir "$STATE/bin"
    cc -O1 -pthread -DTOKENS="\"$STATE/ssh\"" -o "$STATE/bin/ssh" "$LIB/ssh.c" || fail "cannot compile ssh.c"
    ln "$STATE/bin/ssh" "$STATE/bin/standin-sshd"
}

# on HOST CMD…: runs CMD as root on the host; 125 when it is down.
on() {
    local pid start
    { read -r pid start <"$STATE/hosts/$1/pid"; } 2>/dev/null || return 125
    "$STATE/enter" "$pid" "$start" ${WRAP:+"$WRAP"} "${@:2}"
}

# cgroup_enter HOST: puts this process into the host's control groups.
cgroup_enter() {
    local top
    for top in "${CGROUP_TOPS[@]}"; do
        echo "$BASHPID" >"$top/$1/cgroup.procs" || return 1
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

# run_as HOST USER DIR CMD…: becomes CMD, as exec has it.
run_as() {
    local host=$1 user=$2 dir=$3 pid start uid gid own=()
    shift 3
    { read -r pid start <"$STATE/hosts/$host/pid"; } 2>/dev/null || die "host $host is down"
    proc_start "$pid" && [[ $started == "$start" ]] || die "host $host is down"
    uid_of "$user" || die "no user '$user' on the hosts"
    # With a terminal the command stays in the foreground group, so that the keyboard
    # reaches it.  Without a terminal it gets a session of its own, so that a signal
    # to the caller's group reaches it once.
    [[ -t 0 ]] || own=(-s)
    unset XDG_RUNTIME_DIR MAIL OLDPWD SUDO_USER SUDO_UID SUDO_GID SUDO_COMMAND
    [[ ! $SSH ]] || SYSTEM_PATH=$STATE/bin:$SYSTEM_PATH
    export PATH="${HVD_PATH:+$HVD_PATH:}$SYSTEM_PATH" USER="$user" LOGNAME="$user" SHELL=/bin/bash HVD_CLUSTER="$NAME"
    export HOME=$STATE/home/$user
    [[ $user != root ]] || HOME=/root
    # Without files of Slurm a site's DNS names the controller; there is no such DNS here.
    if [[ $CONFIGLESS ]]; then export SLURM_CONF_SERVER=$CONF_SERVER; fi
    cgroup_enter "$host"
    exec "$STATE/enter" -c "${own[@]}" -u "$uid:$gid" -d "${dir:-$HOME}" "$pid" "$start" ${WRAP:+"$WRAP"} "$@"
}
