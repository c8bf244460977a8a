# shellcheck shell=bash
# Networks of a cluster.  Sourced by hvd-cluster.
#
#   eth0     10.77.0.0/24  fd77::/64   1 Gbit/s; Slurm itself runs over it
#   ib0      10.78.0.0/24  fd78::/64   100 Gbit/s; compute nodes only
#   eth6     -             fd79::/64   with --ip6-net
#   docker0  172.17.0.1/16             the same on every node, leading nowhere
#
# Every cluster has its own switch, so the addresses are the same in all.

declare -gA NET4=([eth0]=10.77.0 [ib0]=10.78.0)
declare -gA NET6=([eth0]=fd77: [ib0]=fd78: [eth6]=fd79:)
# Without Slurm, the ports that the kernel chooses on the login host.
LOGIN_PORTS=20000-20999
declare -gA SPEED=([eth0]=1000 [ib0]=100000 [eth6]=1000)

# host_index HOST: the last byte of the host's addresses.
host_index() {
    case $1 in
    "$CTL") echo 1 ;;
    "$LOGIN") echo 2 ;;
    *) echo $((10 + ${1#hvdn})) ;;
    esac
}

# addr HOST IFACE 4|6
addr() {
    local index
    index=$(host_index "$1")
    if [[ $3 == 4 ]]; then
        [[ ${NET4[$2]-} ]] || return 1
        echo "${NET4[$2]}.$index"
    else
        [[ ${NET6[$2]-} ]] || return 1
        printf '%s:%x\n' "${NET6[$2]}" "$index"
    fi
}

# The interfaces that a host is wired with, besides lo and docker0.
wires() {
    case $1 in
    "$CTL") echo eth0 ;;
    "$LOGIN") echo "eth0${LOGIN_IB:+ ib0}${IP6_NET:+ eth6}" ;;
    *) echo "eth0 ib0${IP6_NET:+ eth6}" ;;
    esac
}

net_switch() {
    local pid=$1 iface
    for iface in eth0 ib0 eth6; do
        echo "link add name br-$iface type bridge forward_delay 0 mcast_snooping 0"
        echo "link set dev br-$iface addrgenmode none up"
    done | nsenter --target "$pid" --net ip -batch - ||
        fail "cannot build the bridges"
}

# in_net HOST CMD…: runs CMD in the host's network namespace, with the caller's files.
in_net() {
    local pid
    pid=$(init_pid "$1") || return 125
    nsenter --target "$pid" --net -- "${@:2}"
}

# Wires a host that has no links.  MAC addresses are fixed, so that neighbours' ARP
# entries stay right when a host or an interface comes back.
net_host() {
    local host=$1 pid switch iface index
    pid=$(init_pid "$host") && switch=$(init_pid switch) || fail "$host is down"
    index=$(host_index "$host")
    for iface in $(wires "$host"); do
        nsenter --target "$switch" --net ip link del dev "$host.$iface" 2>/dev/null || true
    done
    for iface in $(wires "$host"); do
        printf 'link add name %s.%s type veth peer name %s address %s netns %s\n' \
            "$host" "$iface" "$iface" "$(mac "$iface" "$index")" "$pid"
        echo "link set dev $host.$iface master br-$iface addrgenmode none up"
    done | nsenter --target "$switch" --net ip -batch - || fail "cannot wire $host"
    # Duplicate address detection keeps IPv6 addresses unusable for a second.
    # shellcheck disable=SC2016
    in_net "$host" bash -c 'cd /proc/sys/net/ipv6/conf
        for dir in all default; do echo 0 >$dir/accept_dad; echo 0 >$dir/accept_ra; done
        # The ping of Debian 13 needs this, which systemd sets elsewhere.
        echo 0 2147483647 >/proc/sys/net/ipv4/ping_group_range'
    if [[ ! $SLURM && $host == "$LOGIN" ]]; then
        in_net "$host" bash -c 'echo "$1" >/proc/sys/net/ipv4/ip_local_port_range' - "${LOGIN_PORTS/-/ }"
    fi
    {
        echo "link set dev lo up"
        for iface in $(wires "$host"); do net_addresses "$host" "$iface"; done
    } | in_net "$host" ip -batch - || fail "cannot give $host its addresses"
    for iface in $(wires "$host"); do net_speed "$host" "$iface"; done
    # The kernel announces a new carrier up to a second later.
    wait_until 3 links_up "$host" || fail "the links of $host stay down"
    if [[ $host == hvdn* ]]; then net_docker "$host"; fi
}

links_up() {
    local iface links
    links=$(in_net "$1" ip -br link show) || return 1
    for iface in $(wires "$1"); do
        [[ $'\n'$links =~ $'\n'$iface@[^\ ]*\ +UP\  ]] || return 1
    done
}

mac() {
    printf '02:77:%02x:00:00:%02x\n' "$((16#${NET6[$1]:2:2}))" "$2"
}

# net_addresses HOST IFACE [DEVICE]: prints lines for ip -batch that bring an
# interface up with its addresses; DEVICE is its name by now if it has another one.
net_addresses() {
    local addr4 dev=${3:-$2}
    if addr4=$(addr "$1" "$2" 4); then
        echo "addr replace $addr4/24 broadcast + dev $dev"
    fi
    echo "addr replace $(addr "$1" "$2" 6)/64 dev $dev nodad"
    echo "link set dev $dev up"
}

# A veth link claims 10 Gbit/s whatever it is told, so the file of its speed is
# covered by another one.
net_speed() {
    local pid
    pid=$(init_pid "$1")
    mkdir -p "$STATE/speed"
    echo "${SPEED[$2]}" >"$STATE/speed/$2"
    nsenter --target "$pid" --mount --net -- \
        mount --bind "$STATE/speed/$2" "$ROOT/sys/class/net/$2/speed" || fail "speed of $2 on $1"
}

# docker0 is a bridge with one port, as while a container runs: without a port it
# would have no carrier, and be easy to tell from a real network.
net_docker() {
    in_net "$1" bash -c '
        ip link add name docker0 type bridge &&
        { ip link add name veth7c01a2e type dummy 2>/dev/null ||
          ip link add name veth7c01a2e type ifb 2>/dev/null; } &&
        ip link set dev veth7c01a2e master docker0 up &&
        ip addr add 172.17.0.1/16 broadcast 172.17.255.255 dev docker0 &&
        ip link set dev docker0 up' || fail "cannot make docker0 on $1"
}

# Takes all links away from a host and wires it anew.
net_reset() {
    local link
    in_net "$1" nft flush ruleset
    # ip prints NAME@PEER
    for link in $(in_net "$1" ip -o link show | awk -F'[ :@]+' '$2 != "lo" { print $2 }'); do
        in_net "$1" ip link del dev "$link" 2>/dev/null || true
    done
    net_host "$1"
}
