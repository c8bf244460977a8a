#!/usr/bin/env bash
# First process of a host (or of the switch) of a test cluster; see hvd-cluster.
#
#   host-init.sh KIND STATE HOST ROOT CONFDIR [BIND…]
#
# Called right after unshare: the first child forked here becomes process 1 of
# the new process namespace.  It sets the mounts up, prints its process id as
# the caller sees it, and then does nothing but collect orphans for ever.  The
# namespaces live exactly as long as it does, so killing it is "power off".
set -euo pipefail

if [[ $1 != --init ]]; then
    # A fork is needed, not an exec: unshare --pid concerns children only.
    # shellcheck disable=SC2093
    setsid bash "$0" --init "$@" </dev/null &
    exit 0
fi
shift
kind=$1 state=$2 host=$3 root=$4 confdir=$5
shift 5
exec 2>>"$state/log/$host.init.log"
tree=$(cd "$(dirname "$0")/../.." && pwd)

# A daemon that keeps a descriptor of the caller, such as a pipe of a test runner,
# would keep the caller from ever seeing the end of that pipe.
for fd in /proc/self/fd/*; do
    fd=${fd##*/}
    if ((fd > 2 && fd != 255)); then eval "exec $fd>&-"; fi
done
# This is still the caller's /proc, which has our process id as the caller sees it.
read -r outer_pid _ </proc/self/stat
cd /
umask 022
echo "$host" >/proc/sys/kernel/hostname

bind() {
    if [[ -e $1 && -e $2 ]]; then mount --bind "$1" "$2"; fi
}

# within_reach DIR: lets users of the hosts reach this folder.  A folder on the way
# that is closed to them, such as a home, is covered by one that has nothing but
# the way to DIR in it.
within_reach() {
    local part closed='' hold=/run/within-reach
    local IFS=/
    for part in ${1#/}; do
        closed+=/$part
        if (($(stat -c '0%a' "$closed") % 2 == 0)); then break; fi
    done
    if [[ $closed == "$1" ]]; then return 0; fi
    mkdir "$hold"
    mount --rbind "$1" "$hold"
    mount -t tmpfs -o mode=755,size=1m tmpfs "$closed"
    mkdir -p "$1"
    mount --move "$hold" "$1"
    rmdir "$hold"
}

# Control groups: the machine's, or with --cgroup the host's own part of them (cgroup.sh).
mount_cgroups() {
    local kind
    case ${HVD_CGROUP-} in
    v1)
        mount -t tmpfs -o mode=755,size=1m tmpfs "$1"
        for kind in freezer memory cpuset devices cpuacct cpu; do
            mkdir "$1/$kind"
            mount -t cgroup -o "$kind" cgroup "$1/$kind" 2>/dev/null ||
                mount -t cgroup -o cpu,cpuacct cgroup "$1/$kind"
        done
        ;;
    v2)
        # systemd would have made this.
        mount -t cgroup2 cgroup2 "$1"
        mkdir -p "$1/system.slice"
        ;;
    *)
        if mountpoint -q /sys/fs/cgroup; then mount --rbind /sys/fs/cgroup "$1"; fi
        ;;
    esac
}

mount_host() {
    local sys=$state/hosts/$host/sys file dir
    mount --make-rprivate /
    if [[ $root ]]; then
        mount --bind "$root" "$root"
        mount --rbind /dev "$root/dev"
        for dir in /tmp "$state" "$@"; do
            mkdir -p "$root$dir"
            mount --rbind "$dir" "$root$dir"
        done
    fi
    # sysfs shows the interfaces of the network namespace it was mounted from,
    # but a fresh one has no cgroups below it, which slurmd wants to see.
    mkdir -p "$sys"
    mount -t sysfs -o nosuid,nodev,noexec sysfs "$sys"
    mount_cgroups "$sys/fs/cgroup"
    mount --move "$sys" "$root/sys"
    mount -t tmpfs -o mode=755,size=512m tmpfs "$root/run"
    mount -t tmpfs -o mode=1777,size=2g tmpfs "$root/dev/shm"
    mkdir -p "$root/run/lock" "$root/run/slurmd" "$root/run/slurm" "$root/run/slurmctld"
    if [[ -d $state/etc/munge ]]; then mkdir -p "$root/run/munge"; fi
    if [[ ! $root ]]; then within_reach "$tree"; fi
    for file in hosts passwd group nsswitch.conf resolv.conf; do
        bind "$state/etc/$file" "$root/etc/$file"
    done
    for file in hostname hosts; do bind "$state/hosts/$host/$file" "$root/etc/$file"; done
    mkdir -p "$state/etc/empty"
    if [[ ${HVD_CONFIGLESS-} && $host != hvdctl ]]; then
        bind "$state/etc/empty" "$root$confdir"
    else
        bind "$state/etc/slurm" "$root$confdir"
    fi
    bind "$state/etc/munge" "$root/etc/munge"
    mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
}

if [[ $kind == host ]]; then mount_host "$@"; fi

# Of the fields of stat before the start time only the name, the second one, may hold spaces.
loop='trap "" HUP INT QUIT TERM USR1 USR2 PIPE; exec >/dev/null 2>&1
while :; do sleep 3600 & wait; done'
echo "$outer_pid"
exec >/dev/null
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
if [[ $root ]]; then
    exec chroot "$root" /bin/bash -c "$loop" hvd-init "$host" "$state"
fi
exec bash -c "$loop" hvd-init "$host" "$state"
