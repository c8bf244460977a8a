# shellcheck shell=bash
# Control groups of a cluster's hosts, as Slurm wants them.  Sourced by hvd-cluster.
#
# All hosts share one kernel, hence one set of hierarchies.  With --cgroup each
# host has a folder of its own in each hierarchy, and a cgroup namespace and
# mounts that show this folder as the root.  These folders are the only thing of
# a cluster that has a name on the machine; down removes them.
#
#   v1  the controllers that the machine has mounted as version 1
#   v2  the unified hierarchy.  Where version 1 has taken the controllers, the
#       unified hierarchy has none, but still tracks processes and guards
#       devices.  Slurm's plugin refuses such a machine ("hybrid"), so
#       unified.c hides version 1 from it.

# The name of the cluster's folder in a hierarchy. It depends on the path of the cluster, since two clusters in different
# places may have the same name.
cgroup_name() { echo "hvd-cluster-$(cksum <<<"$STATE" | cut -d ' ' -f 1)"; }

# cgroup_mounts: where the machine has the hierarchies mounted, a line each.
cgroup_mounts() {
    local kind where kinds=(unified)
    if [[ $CGROUP == v1 ]]; then kinds=(freezer memory cpuset devices cpuacct cpu); fi
    for kind in "${kinds[@]}"; do
        where=$(awk -v want="$kind" '
            want == "unified" ? / - cgroup2 / : / - cgroup / && index("," $NF ",", "," want ",") {
                print $5
                exit
            }' /proc/self/mountinfo)
        [[ $where ]] || return 1
        echo "$where"
    done | sort -u
}

# cgroup_can v1|v2: succeeds when the machine has that version, else prints why not.
cgroup_can() {
    local CGROUP=$1 mounts where probe
    mounts=$(cgroup_mounts) || {
        echo "this machine has no cgroup $CGROUP mounted, or not all of its controllers"
        return 1
    }
    while read -r where; do
        probe=$where/hvd-cluster-probe-$$
        { mkdir "$probe" && rmdir "$probe"; } 2>/dev/null || {
            echo "folders cannot be made in $where"
            return 1
        }
    done <<<"$mounts"
    if [[ $CGROUP == v2 ]] && cgroup_hybrid && ! command -v cc >/dev/null; then
        echo "this machine has cgroup v1, too, and there is no C compiler to hide it from Slurm"
        return 1
    fi
}

cgroup_hybrid() {
    local first
    read -r first </proc/self/cgroup
    [[ $first != 0:* ]]
}

# Sets CGROUP_TOPS, the cluster's folder in each hierarchy, and CGROUP_PRELOAD.
cgroup_prepare() {
    local why where
    CGROUP_TOPS=() CGROUP_PRELOAD=''
    [[ $CGROUP ]] || return 0
    why=$(cgroup_can "$CGROUP") || die "--cgroup $CGROUP: $why"
    while read -r where; do
        CGROUP_TOPS+=("$where/$(cgroup_name)")
    done < <(cgroup_mounts)
    if [[ $CGROUP == v2 ]] && cgroup_hybrid; then
        CGROUP_PRELOAD=$STATE/unified.so
        cc -shared -fPIC -O1 -o "$CGROUP_PRELOAD" "$LIB/unified.c" || fail "cannot compile unified.c"
    fi
}

# A new folder of cpuset has no CPUs and no memory, and takes no process until it gets some.
cgroup_folder() {
    local name
    mkdir -p "$1"
    for name in cpuset.cpus cpuset.mems; do
        if [[ -e ${1%/*}/$name ]]; then cat "${1%/*}/$name" >"$1/$name"; fi
    done
}

# cgroup_host HOST: new folders for a host that is to be booted.
cgroup_host() {
    local top
    for top in "${CGROUP_TOPS[@]}"; do
        cgroup_remove "$top/$1"
        cgroup_folder "$top"
        cgroup_folder "$top/$1"
    done
}

cgroup_remove() {
    [[ -d $1 ]] || return 0
    # A killed process keeps the folder busy until it is reaped.
    wait_until 5 cgroup_rmdir "$1" || fail "cannot remove $1"
}

cgroup_rmdir() { find "$1" -depth -type d -exec rmdir {} + 2>/dev/null || [[ ! -d $1 ]]; }

# Finds the folders by the machine's mounts, since down must work when nothing else is known.
cgroup_tear_down() {
    local where
    while read -r where; do
        cgroup_remove "$where/$(cgroup_name)"
    done < <(awk '/ - cgroup2? / { print $5 }' /proc/self/mountinfo)
}
