# shellcheck shell=bash
# Breaking things on a live cluster, and mending them.  Sourced by hvd-cluster.
#
# "clear" does not undo faults one by one.  It looks at every host, boots and
# thaws it, starts its daemons, and wires it anew if a fault touched its network.
# So it also mends what no fault has recorded.

cmd_fault() {
    local kind=${1-} name
    (($#)) || die "fault needs a kind (see --help)"
    shift
    # Only one fault command at a time: two of them would undo each other's work.
    exec {lock}>"$STATE/lock"
    flock --timeout 60 "$lock" || fail "another fault command is still running"
    name=fault_${kind//-/_}
    [[ $kind =~ ^[a-z0-9-]+$ && $(type -t "$name") == function ]] ||
        die "no fault '$kind' (see --help)"
    "$name" "$@"
    if [[ $kind != clear ]]; then echo "$kind $*" >>"$STATE/faults"; fi
}

args() {
    local want=$1 max=$2 given=$3 text=$4
    ((given >= want && given <= max)) || die "usage: fault $text"
}

# Every fault of the network marks its host, so that clear wires it anew.
touch_net() {
    need_host "$1"
    init_pid "$1" >/dev/null || die "host $1 is down"
    : >"$STATE/hosts/$1/dirty"
}

need_iface() {
    in_net "$1" ip link show dev "$2" >/dev/null 2>&1 || die "no interface '$2' on $1"
}

fault_iface_down() {
    args 2 2 $# "iface-down HOST IFACE"
    touch_net "$1" && need_iface "$1" "$2"
    in_net "$1" ip link set dev "$2" down
}

fault_iface_del() {
    args 2 2 $# "iface-del HOST IFACE"
    touch_net "$1" && need_iface "$1" "$2"
    in_net "$1" ip link del dev "$2"
}

fault_iface_rename() {
    args 3 3 $# "iface-rename HOST IFACE NEW"
    touch_net "$1" && need_iface "$1" "$2"
    # Older kernels rename an interface only when it is down, which loses its IPv6 addresses.
    if ! in_net "$1" ip link set dev "$2" name "$3" 2>/dev/null; then
        in_net "$1" ip link set dev "$2" down
        in_net "$1" ip link set dev "$2" name "$3" || fail "cannot rename $2 to $3 on $1"
        in_net "$1" ip link set dev "$3" up
        if [[ ${NET6[$2]-} ]]; then net_addresses "$1" "$2" "$3" | in_net "$1" ip -batch -; fi
    fi
}

fault_iface_add4() {
    args 3 3 $# "iface-add4 HOST IFACE ADDR/LEN"
    touch_net "$1" && need_iface "$1" "$2"
    in_net "$1" ip -4 addr add "$3" broadcast + dev "$2"
}

fault_iface_add6() {
    args 3 3 $# "iface-add6 HOST IFACE ADDR/LEN"
    touch_net "$1" && need_iface "$1" "$2"
    in_net "$1" ip -6 addr add "$3" dev "$2" nodad
}

fault_no_ipv4() {
    local host
    args 1 1 $# "no-ipv4 IFACE"
    [[ $1 != eth0 ]] || die "Slurm itself needs IPv4 on eth0; use up --ip6-net and eth6"
    [[ $1 == docker0 || ${NET4[$1]-} ]] || die "no interface '$1' with IPv4"
    for host in "${HOSTS[@]}"; do
        if in_net "$host" ip link show dev "$1" >/dev/null 2>&1; then
            touch_net "$host"
            in_net "$host" ip -4 addr flush dev "$1"
        fi
    done
}

# nft_add HOST: makes the chains and runs the nft commands on stdin.
nft_add() {
    {
        echo "add table inet hvd_fault"
        echo "add chain inet hvd_fault out { type filter hook output priority 0; }"
        echo "add chain inet hvd_fault in { type filter hook input priority 0; }"
        cat
    } | in_net "$1" nft -f - || fail "nft on $1"
}

slurm_ports() {
    if [[ $SLURM ]]; then
        echo "{ $SLURMCTLD_PORT, $SLURMD_PORT${SRUN_PORTS:+, $SRUN_PORTS} }"
    else
        echo "{ 22, $SRUN_PORTS }"
    fi
}

fault_one_way() {
    local from to iface address rule ifaces
    args 2 3 $# "one-way FROM TO [IFACE]"
    from=$1 to=$2
    need_host "$to"
    touch_net "$from"
    ifaces=${3-$(wires "$to")}
    for iface in $ifaces; do
        # On Slurm's own network the traffic of its daemons (root) and of its ports passes.
        # A step's connections to srun belong to the user: only their ports tell them from
        # other connections, so without SrunPortRange they are dropped.
        rule='tcp flags & (syn | ack) == syn'
        if [[ $iface == eth0 ]]; then
            rule+=" tcp dport != $(slurm_ports) meta skuid != 0"
        fi
        if address=$(addr "$to" "$iface" 4); then
            echo "add rule inet hvd_fault out ip daddr $address $rule drop"
        fi
        address=$(addr "$to" "$iface" 6) || die "no interface '$iface' on $to"
        echo "add rule inet hvd_fault out ip6 daddr $address $rule drop"
    done | nft_add "$from"
}

fault_block() {
    local host=$1 iface=$2 ports chain
    args 2 2 $# "block HOST IFACE"
    touch_net "$host" && need_iface "$host" "$iface"
    ports=$(slurm_ports)
    {
        for chain in out in; do
            local rule="add rule inet hvd_fault $chain ${chain}_if"
            rule=${rule/out_if/oifname \"$iface\"}
            rule=${rule/in_if/iifname \"$iface\"}
            if [[ $iface == eth0 ]]; then
                echo "$rule icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept"
                echo "$rule tcp dport $ports accept"
                echo "$rule tcp sport $ports accept"
                if [[ $chain == out ]]; then
                    echo "$rule meta skuid 0 accept"
                else
                    # These are answers to connections of the daemons: what users send does not leave the host.
                    echo "$rule tcp flags & (syn | ack) != syn accept"
                fi
            fi
            echo "$rule drop"
        done
    } | nft_add "$host"
}

# The port of the switch drops packets that are longer, and tells nobody.  A host
# would pass large segments to the network card in one piece, which a veth link
# carries whole; so hosts are made to cut segments themselves.
fault_mtu_hole() {
    local host iface bytes switch
    args 3 3 $# "mtu-hole HOST IFACE BYTES"
    touch_net "$1" && need_iface "$1" "$2"
    iface=$2 bytes=$3
    switch=$(init_pid switch) || fail "the switch is gone"
    for host in "${HOSTS[@]}"; do
        if in_net "$host" ip link show dev "$iface" >/dev/null 2>&1; then
            touch_net "$host"
            in_net "$host" ip link set dev "$iface" gso_max_segs 1 || fail "$host cannot set gso_max_segs"
        fi
    done
    nsenter --target "$switch" --net ip link set dev "$1.$iface" mtu "$bytes" || fail "no packets of $bytes bytes"
}

fault_silence() {
    args 1 1 $# "silence HOST"
    touch_net "$1"
    nft_add "$1" <<'EOF'
add rule inet hvd_fault out oifname != "lo" drop
add rule inet hvd_fault in iifname != "lo" drop
EOF
}

fault_munged_stop() {
    args 1 1 $# "munged-stop HOST"
    need_host "$1"
    daemon_kill "$1" munged
}

fault_munged_start() {
    args 1 1 $# "munged-start HOST"
    need_host "$1"
    daemon_start "$1" munged
}

fault_slurmd_kill() {
    args 1 1 $# "slurmd-kill HOST"
    need_host "$1"
    daemon_kill "$1" slurmd
}

fault_sshd_kill() {
    args 1 1 $# "sshd-kill HOST"
    need_host "$1"
    daemon_kill "$1" standin-sshd
}

fault_node_kill() {
    args 1 1 $# "node-kill HOST"
    need_host "$1"
    power_off "$1"
}

fault_node_lost() {
    local iface switch
    args 1 1 $# "node-lost HOST"
    need_host "$1"
    switch=$(init_pid switch) || fail "the switch is gone"
    # The kernel closes every connection of a dying process; no peer hears that
    # when the links are cut first.
    for iface in $(wires "$1"); do
        nsenter --target "$switch" --net ip link set dev "$1.$iface" down 2>/dev/null || true
    done
    power_off "$1"
}

# kill -1 reaches every process of the host but its first one and the caller, in
# one call, so that no fork escapes.
fault_node_freeze() {
    args 1 1 $# "node-freeze HOST"
    need_host "$1"
    : >"$STATE/hosts/$1/frozen"
    on "$1" bash -c 'kill -STOP -1'
}

fault_node_thaw() {
    args 1 1 $# "node-thaw HOST"
    need_host "$1"
    rm -f "$STATE/hosts/$1/frozen"
    on "$1" bash -c 'kill -CONT -1'
}

fault_clear() {
    local host pid jobs=() failed=
    for host in "${HOSTS[@]}"; do
        (mend_host "$host") &
        jobs+=($!)
    done
    for pid in "${jobs[@]}"; do wait "$pid" || failed=1; done
    [[ ! $failed ]] || fail "some hosts are still broken"
    rm -f "$STATE/faults"
    [[ ! $SLURM ]] || mend_nodes
}

mend_host() {
    local host=$1 dir=$STATE/hosts/$1
    if ! init_pid "$host" >/dev/null; then
        boot_host "$host"
    else
        if [[ -e $dir/frozen ]]; then on "$host" bash -c 'kill -CONT -1'; fi
        if [[ -e $dir/dirty ]]; then net_reset "$host"; fi
        daemons_start "$host"
    fi
    rm -f "$dir/frozen" "$dir/dirty"
}

nodes_usable() {
    local states
    states=$(node_states) || return 1
    [[ $(wc -l <<<"$states") -ge $NODES ]] && ! grep -qvE ' (idle|allocated|mixed)$' <<<"$states"
}

unusable_nodes() { node_states | awk '$2 !~ /^(idle|allocated|mixed)(\+completing)?$/ { print $1 }'; }

# Nodes without a job that runs, of which Slurm still waits for the end of one.
completing_nodes() { node_states | awk '$2 == "idle+completing" { print $1 }'; }

# Brings back nodes that Slurm has given up.  A slurmd that is started anew
# registers at once, which is quicker than to wait until the controller asks; steps
# survive that.  That a job has ended there which did while the node was lost the
# controller asks only every minute; it need not ask a node that is down.
mend_nodes() {
    local node
    wait_until 15 node_states || fail "slurmctld does not answer" "$CTL.slurmctld"
    if wait_until 0.5 nodes_usable; then return 0; fi
    for node in $(unusable_nodes); do
        slurm scontrol update "nodename=$node" state=resume 2>/dev/null || true
        daemon_kill "$node" slurmd
        daemon_start "$node" slurmd
    done
    if wait_until 5 nodes_usable; then return 0; fi
    for node in $(completing_nodes); do
        slurm scontrol update "nodename=$node" state=down reason="a job ended while it was lost" || true
        slurm scontrol update "nodename=$node" state=resume || true
    done
    wait_until 20 nodes_usable ||
        fail "nodes do not return to service: $(node_states | xargs)" "$CTL.slurmctld"
}

cmd_restart_node() {
    (($# == 1)) || die "usage: restart-node HOST"
    need_host "$1"
    power_off "$1"
    boot_host "$1"
    rm -f "$STATE/hosts/$1/frozen" "$STATE/hosts/$1/dirty"
    [[ ! $SLURM ]] || mend_nodes
}
