# shellcheck shell=bash
# How a cluster comes to be and how it ends.  Sourced by hvd-cluster.

set_hosts() {
    local i
    COMPUTE=()
    for ((i = 1; i <= NODES; i++)); do COMPUTE+=("hvdn$i"); done
    HOSTS=(${SLURM:+"$CTL"} "$LOGIN" "${COMPUTE[@]}")
}

save_settings() {
    declare -p SLURM SSH WRAP NODES CPUS GPUS LOGIN_IB IP6_NET NO_DNS SRUN_PORTS SLURM_PREFIX ROOT \
        CGROUP CGROUP_TOPS CGROUP_PRELOAD CONFIGLESS CPU_LIST NS_CPU AUTH \
        BINDS COMPUTE HOSTS MUNGED SLURM_CONFDIR SYSTEM_PATH CONF_SERVER | sed 's/^declare /declare -g /' >"$STATE/settings"
}

number() {
    { [[ $2 =~ ^[0-9]{1,4}$ ]] && ((10#$2 >= $3 && 10#$2 <= $4)); } ||
        die "$1 must be a number from $3 to $4, not '$2'"
}

parse_up() {
    local kind file
    SLURM=1 SSH='' WRAP=${HVD_CLUSTER_WRAP-} NODES=4 CPUS=8 GPUS='' LOGIN_IB='' IP6_NET='' NO_DNS='' SRUN_PORTS=''
    SLURM_PREFIX='' ROOT='' BINDS=() PLUGINS=() SLURM_CONF_EXTRA=()
    AUTH='' CGROUP=${HVD_CLUSTER_CGROUP-} CONFIGLESS='' CONF_FILES=()
    [[ ! $WRAP || $WRAP == /* ]] || die "HVD_CLUSTER_WRAP must be an absolute path, not '$WRAP'"
    [[ $CGROUP == ?(v[12]) ]] || die "HVD_CLUSTER_CGROUP must be v1 or v2, not '$CGROUP'"
    while (($#)); do
        case $1 in
        --login-ib) LOGIN_IB=1 ;;
        --ip6-net) IP6_NET=1 ;;
        --no-dns) NO_DNS=1 ;;
        --configless) CONFIGLESS=1 ;;
        --no-slurm) SLURM='' ;;
        --ssh) SSH=1 ;;
        --nodes | --cpus | --gpus | --srun-port-range | --plugin | --plugin-optional | \
            --slurm-conf | --slurm-prefix | --root | --bind | \
            --cgroup | --conf-file | --auth | --wrap)
            (($# > 1)) || die "$1 needs a value"
            case $1 in
            --auth)
                [[ $2 == munge || $2 == slurm ]] || die "$1 must be munge or slurm, not '$2'"
                AUTH=$2
                ;;
            --nodes) number "$1" "$2" 1 200 && NODES=$2 ;;
            --cpus) number "$1" "$2" 1 1024 && CPUS=$2 ;;
            --gpus) number "$1" "$2" 1 64 && GPUS=$2 ;;
            --srun-port-range)
                [[ $2 =~ ^[0-9]+-[0-9]+$ ]] || die "$1 must be A-B, not '$2'"
                SRUN_PORTS=$2
                ;;
            --plugin | --plugin-optional)
                kind=required
                if [[ $1 == *-optional ]]; then kind=optional; fi
                # A file of the machine, which is shown in the root as well, or one that only the root has (--root before
                # --plugin).
                file=$(readlink -e "${2%%:*}") || file=${2%%:*}
                [[ -f $file || -f $ROOT$file ]] || die "no plugin $file"
                PLUGINS+=("$kind $file $(plugin_args "$2")")
                ;;
            --slurm-conf) SLURM_CONF_EXTRA+=("$2") ;;
            --conf-file)
                [[ $2 =~ ^[a-z_]+\.(conf|yaml)= ]] || die "$1 must be NAME=TEXT, not '$2'"
                CONF_FILES+=("$2")
                ;;
            --cgroup)
                [[ $2 == v[12] ]] || die "$1 must be v1 or v2, not '$2'"
                CGROUP=$2
                ;;
            --slurm-prefix) SLURM_PREFIX=$2 ;;
            --wrap) WRAP=$(readlink -e "$2") || die "no program '$2'" ;;
            --root) ROOT=$(readlink -e "$2") || die "no folder '$2'" ;;
            --bind) BINDS+=("$(readlink -e "$2")") || die "no folder '$2'" ;;
            esac
            shift
            ;;
        *) die "up does not know '$1' (see --help)" ;;
        esac
        shift
    done
    if [[ $ROOT == / ]]; then ROOT=''; fi
    if [[ ! $SLURM ]]; then
        [[ ! $SRUN_PORTS$CONFIGLESS$GPUS$SLURM_PREFIX$ROOT${PLUGINS[*]}${SLURM_CONF_EXTRA[*]}${CONF_FILES[*]} && $AUTH != slurm ]] ||
            die "--no-slurm goes with --nodes, --login-ib, --ip6-net, --no-dns, --ssh, --auth munge, --cgroup and --wrap only"
        SRUN_PORTS=$LOGIN_PORTS
    else
        AUTH=${AUTH:-munge}
    fi
    [[ $AUTH == munge || ! $CONFIGLESS ]] || die "--configless needs --auth munge"
    set_hosts
}

plugin_args() {
    if [[ $1 == *:* ]]; then echo "${1#*:}"; fi
}

# Makes the files of /etc that the hosts see.
write_etc() {
    local etc=$STATE/etc file
    mkdir -p "$etc" "$STATE/log" ${SLURM:+"$STATE/slurmctld"}
    # Without munge the hosts have neither a key nor a folder of munged.
    if [[ $AUTH == munge ]]; then
        install -d -m 700 "$etc/munge"
        (umask 077 && head -c 128 /dev/urandom >"$etc/munge/munge.key")
    fi
    for file in passwd group; do
        awk -F: '$1 != "alice" && $1 != "bob" && $3 != 20001 && $3 != 20002' \
            "$ROOT/etc/$file" >"$etc/$file"
    done
    add_user alice 20001
    add_user bob 20002
    printf '%s\n' 'passwd: files' 'group: files' 'shadow: files' 'hosts: files' \
        'networks: files' 'protocols: files' 'services: files' >"$etc/nsswitch.conf"
    echo '# no name servers here' >"$etc/resolv.conf"
    hosts_file "${HOSTS[@]}" >"$etc/hosts"
    if [[ $NO_DNS ]]; then
        # The first host still knows these hosts. The controller: since 24.11 it tries for 7 s to
        # find the host of a srun whose job has ended, and does nothing else meanwhile. Without
        # Slurm it is the login host, from where users log in to the others.
        mkdir -p "$STATE/hosts/${HOSTS[0]}"
        mv "$etc/hosts" "$STATE/hosts/${HOSTS[0]}/hosts"
        hosts_file >"$etc/hosts"
    fi
}

# hosts_file HOST…: an /etc/hosts with these.
hosts_file() {
    local host
    echo '127.0.0.1 localhost'
    echo '::1 localhost ip6-localhost'
    for host in "$@"; do echo "$(addr "$host" eth0 4) $host"; done
}

# A user of the stand-in for ssh is known by a word that others cannot read.
write_ssh() {
    local user uid gid
    mkdir "$STATE/ssh"
    for user in alice bob; do
        uid_of "$user"
        (umask 077 && head -c 16 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >"$STATE/ssh/$user")
        chown "$uid:$gid" "$STATE/ssh/$user"
    done
}

add_user() {
    local home=$STATE/home/$1
    echo "$1:x:$2:$2:$1:$home:/bin/bash" >>"$STATE/etc/passwd"
    echo "$1:x:$2:" >>"$STATE/etc/group"
    mkdir -p "$STATE/home"
    install -d -m 700 -o "$2" -g "$2" "$home"
    setpriv --reuid "$2" --regid "$2" --clear-groups test -x "$home" ||
        fail "users cannot reach $home; choose another HVD_CLUSTER_DIR"
}

cmd_up() {
    parse_up "$@"
    need_root
    slurm_check
    local tries host job jobs=() failed='' compiling
    # Another cluster's down may just be removing the empty parent folder.
    for tries in 1 2 3; do
        mkdir -p "$(dirname "$BASE")"
        mkdir "$BASE" 2>/dev/null || true
        # The folder is made first and then looked at, so that nobody can make it in between.
        if check_base && mkdir "$STATE" 2>/dev/null; then break; fi
        [[ ! -d $STATE ]] || die "cluster '$NAME' exists; take it down first"
        ((tries < 3)) || die "cannot make $STATE"
    done
    trap 'up_failed $?' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    cgroup_prepare
    (trap - EXIT && compile_enter && compile_ssh) &
    compiling=$!
    CPU_LIST=$(taskset -pc $$ | sed 's/.*: //') NS_CPU=''
    if [[ ${SLURM_CONF_EXTRA[*]} == *@(job_container|namespace)/* ]]; then NS_CPU=$(ns_cpu); fi
    write_etc
    [[ ! $SLURM ]] || slurm_write_conf
    [[ ! $SSH ]] || write_ssh
    save_settings
    boot_switch
    neigh_reserve "$(init_pid switch)" "${#HOSTS[@]}" "$((2 + ${IP6_NET:-0}))"
    wait "$compiling" || exit 1
    [[ ! $SLURM ]] || boot_host "$CTL"
    for host in "$LOGIN" "${COMPUTE[@]}"; do
        (trap - EXIT && boot_host "$host") &
        jobs+=($!)
    done
    for job in "${jobs[@]}"; do wait "$job" || failed=1; done
    [[ ! $failed ]] || exit 1
    [[ ! $SLURM ]] || first_step
    trap - EXIT HUP INT TERM
}

# All nodes are idle, and a first step runs on them. While another cluster on this machine makes its cgroups, slurmd may fail
# to make one; then the nodes are "not ready".
first_step() {
    local tries
    for ((tries = 1; ; tries++)); do
        wait_idle 30 || fail "the nodes do not become idle: $(node_states | xargs)" \
            "$CTL.slurmctld" hvdn1.slurmd
        first_srun && break
        ((tries < 3)) && grep -q 'not ready' "$STATE/log/first-srun.log" ||
            fail "the first srun failed" first-srun "$CTL.slurmctld" hvdn1.slurmd
    done
    wait_idle 10 || fail "the nodes do not become idle after the first srun" "$CTL.slurmctld"
}

first_srun() {
    on "$LOGIN" timeout 30 setpriv --reuid 20001 --regid 20001 --init-groups \
        env -i PATH="$SYSTEM_PATH" HOME="$STATE/home/alice" \
        ${CONFIGLESS:+"SLURM_CONF_SERVER=$CONF_SERVER"} srun -N "$NODES" -D / true </dev/null >"$STATE/log/first-srun.log" 2>&1
}

up_failed() {
    trap - EXIT HUP INT TERM
    echo "hvd-cluster: up failed; removing its remains" >&2
    tear_down || true
    exit $(($1 == 0 ? 1 : $1))
}

# Kills the switch, and with it all hosts; then removes the folder.  The process is
# also looked for by name, in case its id was not written down yet.
tear_down() {
    local pid file
    if pid=$(init_pid switch); then kill -KILL "$pid" 2>/dev/null || true; fi
    while read -r file; do
        pid=${file#/proc/}
        pid=${pid%/cmdline}
        if [[ $pid != "$$" && $pid != "$BASHPID" ]] && grep -qzxE 'hvd-init|--init' "$file" 2>/dev/null; then
            kill -KILL "$pid" 2>/dev/null || true
        fi
    done < <(grep -lzxF -e "$STATE" /proc/[0-9]*/cmdline 2>/dev/null)
    wait_until 10 gone switch || fail "the switch does not end"
    neigh_release
    cgroup_tear_down
    rm -rf --one-file-system "$STATE"
    rmdir "$BASE" 2>/dev/null || true
}

cmd_down() {
    (($# == 0)) || die "down does not know '$1'"
    need_root
    check_base && [[ -d $STATE ]] || return 0
    tear_down
}
