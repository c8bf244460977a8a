# shellcheck shell=bash
# Room in the kernel's tables of neighbours (ARP, and NDP for IPv6).  Sourced by
# hvd-cluster.
#
# All network namespaces of the machine share these tables, which have 1024
# entries by default.  Two dozen nodes that all speak to each other overflow them,
# and packets vanish.  A cluster that needs more entries raises the limit.  A folder
# of the machine keeps the old limit, and the need of each cluster that is up; when
# the last of these clusters has gone the old limit is put back.

: "${NEIGH_DIR:=/run/hvd-cluster-neighbours}"
: "${NEIGH_SYSCTL:=/proc/sys/net}"
NEIGH_SPARE=1024

neigh_file() { echo "$NEIGH_SYSCTL/$1/neigh/default/gc_thresh$2"; }

# neigh_need HOSTS NETWORKS: how many entries there are when every host knows every other one.
neigh_need() { echo $(($1 * ($1 - 1) * $2)); }

# neigh_write FAMILY SOFT HARD: sets both limits, the hard one first where it grows.
neigh_write() {
    local old
    old=$(<"$(neigh_file "$1" 3)")
    if (($3 < old)); then
        echo "$2" >"$(neigh_file "$1" 2)" && echo "$3" >"$(neigh_file "$1" 3)"
    else
        echo "$3" >"$(neigh_file "$1" 3)" && echo "$2" >"$(neigh_file "$1" 2)"
    fi
}

# Makes the limits fit the clusters that are up.
neigh_apply() {
    local file sum=0 family soft hard rc=0
    for file in "$NEIGH_DIR"/need.*; do
        [[ -e $file ]] || continue
        # A zombie has no program: its cluster has gone.
        if readlink "/proc/${file##*.}/exe" >/dev/null 2>&1; then
            sum=$((sum + $(<"$file")))
        else
            rm -f "$file"
        fi
    done
    for family in ipv4 ipv6; do
        [[ -e $NEIGH_DIR/was.$family ]] || continue
        read -r soft hard <"$NEIGH_DIR/was.$family"
        if ((sum > 0 && sum + NEIGH_SPARE > hard)); then hard=$((sum + NEIGH_SPARE)) soft=$hard; fi
        neigh_write "$family" "$soft" "$hard" || rc=1
    done
    if ((sum == 0)); then rm -rf "$NEIGH_DIR"; fi
    return $rc
}

# neigh_reserve PID HOSTS NETWORKS: makes room for the cluster that lives as long as
# the process PID.  Prints a message where that is not possible; this is no error.
neigh_reserve() {
    local need have family lock
    need=$(neigh_need "$2" "$3")
    have=$(cat "$(neigh_file ipv4 3)" 2>/dev/null) || have=unknown
    if [[ $have != unknown ]] && ((need < have)); then return 0; fi
    if [[ $have != unknown ]] && mkdir -p "$NEIGH_DIR" 2>/dev/null; then
        exec {lock}>"$NEIGH_DIR/lock"
        flock --timeout 10 "$lock" || true
        for family in ipv4 ipv6; do
            [[ -e $(neigh_file "$family" 3) && ! -e $NEIGH_DIR/was.$family ]] || continue
            echo "$(<"$(neigh_file "$family" 2)") $(<"$(neigh_file "$family" 3)")" >"$NEIGH_DIR/was.$family"
        done
        echo "$need" >"$NEIGH_DIR/need.$1"
        family=0
        neigh_apply 2>/dev/null || family=1
        exec {lock}>&-
        ((family)) || return 0
    fi
    echo "hvd-cluster: warning: $2 hosts need $need entries in the kernel's ARP table, and it holds $have" \
        "(net.ipv4.neigh.default.gc_thresh3), which cannot be changed here: hosts may not reach each other" >&2
}

# neigh_release: called when a cluster has gone.
neigh_release() {
    local lock
    [[ -e $NEIGH_DIR/lock ]] || return 0
    exec {lock}<"$NEIGH_DIR/lock"
    flock --timeout 10 "$lock" || true
    neigh_apply 2>/dev/null || true
    exec {lock}<&-
}
