#!/usr/bin/env bats
# Which network does a launch choose, does it carry the job, and what is the
# user told when there is none?  Every fault is a real one: interfaces that are
# missing, down, renamed, filtered or silent in the hosts' own namespaces.  The
# hosts have no Slurm; plugin.bats and jobs.bats have launches by srun.

# shellcheck disable=SC2030,SC2031,SC2154  # set by functions of the helpers

load helpers
load launch

setup_file() {
    export HVD_STORE=rank0 # MASTER_ADDR is the address of rank 0's host in the network that was chosen
    hosts_up --ssh --nodes 4
    # A second cluster has a network of IPv6 alone, and nodes that do not know each other's names.
    export OTHER="$HVD_CLUSTER_NAME-6"
    cluster up --name "$OTHER" --no-slurm --ssh --nodes 2 --ip6-net --no-dns
}

teardown_file() {
    cluster down --name "$OTHER"
    cluster_down
}

teardown() {
    own_names_back
    cluster_mend
}

# The command of the ranks: each prints what it was given, then all of them meet over it.
# shellcheck disable=SC2016
TELL='echo "R $HOROVOD_RANK $(hostname) $HOROVOD_GLOO_IFACE $NCCL_SOCKET_IFNAME $MASTER_ADDR"
exec hvd-selftest --quick'

# launch_telling CMD…: from the login host, with TELL as the command of the ranks; sets $output, $status, and $took in
# milliseconds.
launch_telling() {
    local began
    began=$(date +%s%3N)
    run on_login "$@" bash -c "$TELL"
    took=$(($(date +%s%3N) - began))
    echo "$output"
    echo "status $status after $took ms"
}

# on_all [OPTION OF hvdrun…]: that on all four hosts.
ALL=hvdn1,hvdn2,hvdn3,hvdn4
on_all() { launch_telling hvdrun --hosts "$ALL" "$@"; }

# given HOST: prints what the ranks there were given.
given() { awk -v h="$1" '$1 == "R" && $3 == h { print $4, $5, $6 }' <<<"$output" | sort -u; }

# all_given TEXT [HOST…]: the ranks on these hosts, or on all, were given just TEXT.
all_given() {
    local want=$1 host
    shift
    (($#)) || set -- hvdn1 hvdn2 hvdn3 hvdn4
    for host; do
        [[ $(given "$host") == "$want" ]] || {
            echo "$host was given '$(given "$host")', not '$want'"
            return 1
        }
    done
}

# use_both, use_eth0: a self-test of all hosts has passed, over ib0 with eth0 as the second network, or over eth0 alone.
use_both() { selftest_ok 4 4 && all_given "ib0 =ib0,eth0 $(cluster addr hvdn1 ib0)"; }
use_eth0() { selftest_ok 4 4 && all_given "eth0 =eth0 $(cluster addr hvdn1 eth0)"; }

# none_connects HOSTS [TEXT…]: the launch has found no network of these hosts, and says so.
none_connects() { exits 1 && has "no network interface connects all $1 hosts" "${@:2}" && has_not "R 0"; }

# The bridge has a carrier only some seconds after it came up.
docker_is_up() {
    local host
    for host in hvdn{1..4}; do
        on_host "$host" ip -br link show docker0 | grep -qw LOWER_UP || return 1
    done
}

@test "the fastest network is chosen, and never an address that every host has" {
    wait_for 10 docker_is_up
    launch_telling hvdrun --hosts "${ALL//,/:2,}:2" --verbose
    selftest_ok 8 4
    all_given "ib0 =ib0,eth0 $(cluster addr hvdn1 ib0)"
    has "network 1: IPv4 over ib0 (veth, 100000 Mb/s"
    has "network 2: IPv4 over eth0"
    [[ $output =~ docker0:\ hvdn[1-4]\ -\>\ hvdn[1-4]\ \(172.17.0.1\):\ the\ asking\ host\ has\ the\ same\ address ]]
    # What is the same on all hosts is said once.
    has "on hvdn[1-4] not checked: lo (is the loopback interface)"
}

@test "equal addresses on all hosts are no network, though something answers at them" {
    # Each host has the address itself, so connecting to it succeeds everywhere.
    for host in hvdn{1..4}; do
        fault iface-add4 "$host" ib0 192.168.9.9/24
    done
    on_all
    use_both
    # Equal addresses are no network even when there is no other one.
    wait_for 10 docker_is_up
    on_all --nics=docker0
    none_connects 4 "the asking host has the same address"
}

@test "an interface that one host lacks is not used" {
    fault iface-del hvdn2 ib0
    on_all --verbose
    use_eth0
    [[ $output =~ ib0:.*\ not\ usable\ on\ hvdn2 ]]
    ((took < 20000))
    # A launch on the other hosts alone still uses the interface.
    launch_telling hvdrun --hosts hvdn1,hvdn3,hvdn4
    selftest_ok 3 3
    all_given "ib0 =ib0,eth0 $(cluster addr hvdn1 ib0)" hvdn1 hvdn3 hvdn4
}

@test "an interface that is down on one host is not used" {
    fault iface-down hvdn3 ib0
    on_all --verbose
    use_eth0
    has "not usable on hvdn3"
    [[ $output =~ on\ hvdn3\ not\ checked:[^$'\n']*ib0\ \(is\ down\) ]]
}

@test "an interface with another name on one host is used under that name" {
    fault iface-rename hvdn3 ib0 ib7
    on_all --verbose
    selftest_ok 4 4
    all_given "ib0 =ib0,eth0 $(cluster addr hvdn1 ib0)" hvdn1 hvdn2 hvdn4
    all_given "ib7 =ib7,eth0 $(cluster addr hvdn1 ib0)" hvdn3
    has "it is ib7 on hvdn3"
    # The first host, where the rendezvous runs, may also be the one with another name.
    fault iface-rename hvdn1 ib0 mlx0
    on_all
    selftest_ok 4 4
    all_given "mlx0 =mlx0,eth0 $(cluster addr hvdn1 ib0)" hvdn1
}

@test "an interface with a filter in one direction is not used" {
    local to
    fault one-way hvdn1 hvdn2 ib0
    on_all --verbose
    use_eth0
    has "ib0: hvdn1 -> hvdn2 ($(cluster addr hvdn2 ib0)): no answer"
    fault clear
    # Against the order of hosts, and to rank 0's host.
    for to in hvdn3 hvdn1; do
        fault one-way hvdn4 $to ib0
        on_all --verbose
        use_eth0
        has "ib0: hvdn4 -> $to ($(cluster addr $to ib0)): no answer"
        fault clear
    done
}

@test "a silent interface costs no more than the probe's patience; of named ones those that connect all hosts are used" {
    on_all
    local usual=$took
    fault block hvdn2 ib0
    on_all --verbose
    use_eth0
    [[ $output =~ ib0:.*hvdn2.*:\ no\ answer ]]
    # The probe takes two seconds; the rest is room for a busy machine, and less than the start's 30 seconds.
    ((took < usual + 15000))
    on_all --nics=ib0
    none_connects 4 "ib0:"
    on_all --nics=ib0,eth0
    use_eth0
}

@test "a network that loses packets of full size only is not used" {
    fault mtu-hole hvdn3 ib0 1400
    # Short packets get through, long ones do not.
    on_host hvdn1 timeout 5 bash -c "exec 3<>/dev/tcp/$(cluster addr hvdn3 ib0)/1" 2>&1 | grep -q refused
    as_root hvdn1 ping -q -c 1 -W 2 -s 1300 "$(cluster addr hvdn3 ib0)"
    run as_root hvdn1 ping -q -c 1 -W 2 -M 'do' -s 1450 "$(cluster addr hvdn3 ib0)"
    ((status != 0))
    on_all --verbose
    use_eth0
    [[ $output =~ ib0:\ hvdn[1-4]\ -\>\ hvdn[1-4]\ \([0-9.]+\):\ short\ packets\ get\ through,\ full-size\ ones\ do\ not ]]
    on_all --nics=ib0
    exits 1
    has "short packets get through, full-size ones do not (MTU)"
    assert_no_leftovers
}

@test "addresses that are translated on the way are no network" {
    # What hvdn2 sends leaves with another address than its sockets have.
    fault iface-add4 hvdn2 ib0 10.78.0.99/24
    fault iface-add6 hvdn2 ib0 fd78::99/64
    as_root hvdn2 nft -f - <<NFT
add table inet test_nat
add chain inet test_nat post { type nat hook postrouting priority 100; }
add rule inet test_nat post oifname ib0 ip saddr $(cluster addr hvdn2 ib0) snat ip to 10.78.0.99
add rule inet test_nat post oifname ib0 ip6 saddr $(cluster addr hvdn2 ib0 6) snat ip6 to fd78::99
add rule inet test_nat post oifname ib0 ip6 saddr fd78::99 snat ip6 to $(cluster addr hvdn2 ib0 6)
NFT
    on_all --verbose
    as_root hvdn2 nft delete table inet test_nat
    use_eth0
    [[ $output =~ ib0:\ hvdn2\ -\>\ hvdn[134]\ \([0-9.]+\):\ the\ address\ is\ translated\ on\ the\ way\ \(NAT\) ]]
}

@test "many interfaces that lead nowhere do not hinder a start" {
    local host i
    for host in hvdn{1..4}; do
        fault iface-add4 "$host" docker0 172.18.0.1/16
        for ((i = 1; i <= 12; i++)); do
            echo "link add lost$i type bridge"
            echo "link set lost$i up"
            echo "addr add 172.$((i + 19)).0.1/16 dev lost$i"
        done | as_root "$host" ip -batch -
    done
    on_all
    use_both
    for host in hvdn{1..4}; do
        for ((i = 1; i <= 12; i++)); do echo "link del lost$i"; done | as_root "$host" ip -batch -
    done
}

@test "without a common network every interface is named with its reason, soon" {
    fault block hvdn2 ib0
    fault block hvdn3 eth0
    wait_for 10 docker_is_up
    on_all
    none_connects 4
    [[ $output =~ ib0:\ hvdn[1-4]\ -\>\ hvdn[1-4]\ \([0-9.]+\):\ no\ answer ]]
    [[ $output =~ eth0:\ hvdn[1-4]\ -\>\ hvdn[1-4]\ \([0-9.]+\):\ no\ answer ]]
    [[ $output =~ docker0:\ hvdn[1-4]\ -\>\ hvdn[1-4]\ \([0-9.]+\): ]]
    has "lo (is the loopback interface)"
    has "fix the network, or leave out the host that differs"
    ((took < 20000))
    # Without the two hosts that differ a launch works.
    launch_telling hvdrun --hosts hvdn1,hvdn4
    selftest_ok 2 2
    assert_no_leftovers
}

@test "only interfaces that the user names are used" {
    local option
    for option in --nics=eth0 "--network-interfaces eth0" "--network-interface eth0"; do
        # shellcheck disable=SC2086
        on_all $option
        use_eth0
    done
    on_all --nics=eth0,ib0
    use_both
    fault iface-del hvdn2 ib0
    for option in "--nics ib0" "--network-interfaces eth0,ib0"; do
        # shellcheck disable=SC2086
        on_all $option
        exits 2
        has "hvdn2: there is no usable interface ib0 there" "pattern (ib*), subnet (10.1.0.0/16) or exclusion (^docker0)"
        has eth0
        ((took < 20000))
    done
    assert_no_leftovers
}

@test "interfaces can be named by pattern and subnet, and excluded" {
    local option
    for option in "--nics=ib*" --nics=10.78.0.0/24 --network-interfaces=^eth0,docker0 "--nics=*,^eth0"; do
        on_all "$option"
        selftest_ok 4 4
        all_given "ib0 =ib0 $(cluster addr hvdn1 ib0)"
    done
    # The same with another name of the interface on one host.
    fault iface-rename hvdn3 ib0 ib7
    for option in "--nics=ib?" --nics=10.78.0.0/24; do
        on_all "$option"
        selftest_ok 4 4
        all_given "ib7 =ib7 $(cluster addr hvdn1 ib0)" hvdn3
    done
    on_all "--nics=wl*,10.99.0.0/16"
    exits 2
    has "there is no usable interface that matches wl*,10.99.0.0/16 there, only"
    on_all --nics=10.78.0.5
    exits 2
    has '"10.78.0.5" names no network interfaces: that is the address of one host'
    assert_no_leftovers
}

@test "of more interfaces than are probed the fastest are taken, and named ones" {
    local host i
    for host in hvdn1 hvdn2; do
        fault iface-add4 "$host" docker0 172.18.0.1/16
        # Faster than eth0, all of them.
        for ((i = 1; i <= 80; i++)); do
            echo "link add lost$i type veth peer name tsol$i"
            echo "link set tsol$i up"
            echo "link set lost$i up"
            echo "addr add 10.$((100 + i)).0.1/16 dev lost$i"
        done | as_root "$host" ip -batch -
    done
    launch_telling hvdrun --verbose --hosts hvdn1,hvdn2
    local first=$output status_first=$status
    launch_telling hvdrun --nics=eth0,lost80 --hosts hvdn1,hvdn2
    for host in hvdn1 hvdn2; do
        for ((i = 1; i <= 80; i++)); do echo "link del lost$i"; done | as_root "$host" ip -batch -
    done
    selftest_ok 2 2
    all_given "eth0 =eth0 $(cluster addr hvdn1 eth0)" hvdn1 hvdn2
    output=$first status=$status_first
    selftest_ok 2 2
    all_given "ib0 =ib0 $(cluster addr hvdn1 ib0)" hvdn1 hvdn2
    has "slower than the first 64; name them to use them"
}

@test "ranks are on the fast network, also where the launching host is not, and so is the store" {
    run on_login ls /sys/class/net
    [[ $output != *ib0* ]]
    HVD_STORE=agent on_all
    selftest_ok 4 4
    all_given "ib0 =ib0,eth0 $(cluster addr hvdn1 ib0)"
}

@test "ranks of one host use loopback" {
    launch_telling hvdrun --hosts hvdn1:3
    selftest_ok 3 1
    all_given "lo =lo 127.0.0.1" hvdn1
    HVD_STORE=agent launch_telling hvdrun --hosts hvdn1:2
    selftest_ok 2 1
    all_given "lo =lo 127.0.0.1" hvdn1
}

# firewall HOST PORT VERDICT: filters connections that HOST opens to that port.
firewall() {
    as_root "$1" nft -f - <<NFT
add table inet test_firewall
add chain inet test_firewall out { type filter hook output priority 0; }
add rule inet test_firewall out tcp dport $2 $3
NFT
}

@test "the message about a firewall between a node and the driver names the node" {
    hold hvdn4 hvdrun --start-timeout=4 --hosts "$ALL" true
    firewall hvdn4 "$port" drop
    go_on
    as_root hvdn4 nft delete table inet test_firewall
    exits 1
    grep -q "the start took longer than 4 seconds: no registration from hvdn4\$" <<<"$output"
    has "does a firewall block port $port of hvdlogin"
    assert_no_leftovers
}

@test "a node whose connections a firewall refuses says so itself, at once" {
    hold hvdn4 hvdrun --hosts "$ALL" true
    firewall hvdn4 "$port" "reject with tcp reset"
    go_on
    as_root hvdn4 nft delete table inet test_firewall
    exits 1
    has "hvdn4: cannot reach the driver at port $port of any of its addresses"
    has "Connection refused"
    assert_no_leftovers
}

other() {
    local began
    began=$(date +%s%3N)
    run cluster exec --name "$OTHER" -- "$@" bash -c "$TELL"
    took=$(($(date +%s%3N) - began))
    echo "$output"
}

@test "hosts need not resolve each other's names" {
    run cluster exec --name "$OTHER" --host hvdn1 -- getent hosts hvdn2
    exits 2 # getent: no such name
    other hvdrun --hosts hvdn1:2,hvdn2:2
    selftest_ok 4 2
    all_given "ib0 =ib0,eth0 $(cluster addr --name "$OTHER" hvdn1 ib0)" hvdn1 hvdn2
}

# own_name HOST ADDRESS: from now on the host's own name leads there, as far as that host knows.
own_name() {
    { echo "$2 $1" && cat "$(cluster path)/etc/hosts"; } >"$BATS_TEST_TMPDIR/hosts-$1"
    as_root "$1" mount --bind "$BATS_TEST_TMPDIR/hosts-$1" /etc/hosts
}
own_names_back() {
    local host
    # The cluster has its own file there, below this one.
    for host in hvdn2 hvdn3; do
        if as_root "$host" grep -q "/hosts-$host /etc/hosts " /proc/self/mountinfo; then as_root "$host" umount /etc/hosts; fi
    done
}

# The first thing that a rank of Horovod's does in init().
PUT='import os, urllib.request as r
e = os.environ
r.urlopen(r.Request("http://%s:%s/global/rank_%s" % (e["HOROVOD_GLOO_RENDEZVOUS_ADDR"], e["HOROVOD_GLOO_RENDEZVOUS_PORT"],
    e["HOROVOD_RANK"]), b"x", method="PUT"))'

@test "hosts whose own names lead to an address that others do not reach are named, if Horovod runs there" {
    local why="the host's own name leads to 127.0.1.1 there, where other hosts do not reach it" how
    own_name hvdn2 127.0.1.1
    own_name hvdn3 127.0.1.1
    for how in --frameworks=auto --frameworks=horovod --max-restarts=0; do
        gives 0 on_login hvdrun --hosts "$ALL" "$how" python3 -c "$PUT"
        [[ $(grep -cF "hvdn[2-3]: $why" <<<"$output") -eq 1 ]] || { echo "$how: $output" && return 1; }
    done
    gives 0 on_login hvdrun --hosts "$ALL" true
    has_not "own name"
    own_names_back
    # An address of an interface that does not connect all hosts is no better; one of the network is good.
    own_name hvdn2 "$(cluster addr hvdn2 ib0)"
    gives 0 on_login hvdrun --hosts "$ALL" python3 -c "$PUT"
    has_not "own name"
    fault one-way hvdn1 hvdn2 ib0
    gives 0 on_login hvdrun --hosts "$ALL" python3 -c "$PUT"
    has "hvdn2: the host's own name leads to $(cluster addr hvdn2 ib0) there, where other hosts do not reach it"
    fault clear
    own_names_back
    assert_no_leftovers
}

# told [OPTION…]: as on_all, but the ranks do not meet: the network may be too bad for that.
# shellcheck disable=SC2016
told() {
    run on_login hvdrun --hosts "$ALL" "$@" bash -c 'echo "R $HOROVOD_RANK $(hostname) $HOROVOD_GLOO_IFACE $NCCL_SOCKET_IFNAME $MASTER_ADDR"'
    echo "$output"
}

# on_ib0 STATEMENT…: has nft apply STATEMENT to packets that leave a node by ib0, until any_on_ib0.
on_ib0() {
    local host
    for host in hvdn{1..4}; do
        printf '%s\n' "add table inet test_ib0" \
            "add chain inet test_ib0 out { type filter hook output priority 0; }" \
            "add rule inet test_ib0 out oifname ib0 $*" | as_root "$host" nft -f -
    done
}

any_on_ib0() {
    local host
    for host in hvdn{1..4}; do as_root "$host" nft delete table inet test_ib0; done
}

@test "IPv6 over an interface is no network for Horovod, which takes its IPv4 address" {
    on_ib0 meta nfproto ipv4 drop
    on_all --nics=ib0
    local only=$status said=$output
    # Where there is another network, that one is taken.
    told --verbose
    any_on_ib0
    ((status == 0))
    all_given "eth0 =eth0 $(cluster addr hvdn1 eth0)"
    [[ $output =~ ib0:\ hvdn[1-4]\ -\>\ hvdn[1-4]\ \(10.78[0-9.]+\):\ no\ answer\;\ IPv6\ alone\ connects ]]
    output=$said
    ((only == 1))
    has "no network interface connects all 4 hosts over IPv4, which Horovod needs"
    [[ $output =~ ib0:\ hvdn[1-4]\ -\>\ hvdn[1-4]\ \(10.78[0-9.]+\):\ no\ answer ]]
    assert_no_leftovers
}

@test "packets that get lost are sent again until IPv4 has been reached" {
    local i
    on_ib0 numgen random mod 100 '<' 20 drop
    for i in 1 2 3 4; do
        told --nics=ib0
        ((status == 0)) || break
        all_given "ib0 =ib0 $(cluster addr hvdn1 ib0)" || break
    done
    any_on_ib0
    ((status == 0 && i == 4))
    all_given "ib0 =ib0 $(cluster addr hvdn1 ib0)"
}

@test "an address that several hosts have is not the one that Gloo is to take" {
    local host
    # The kernel lists this address first; otherwise all is well with the interface.
    for host in hvdn{1..4}; do
        fault iface-add4 "$host" ib0 192.168.9.9/24
        as_root "$host" ip addr del "$(cluster addr "$host" ib0)/24" dev ib0
        as_root "$host" ip addr add "$(cluster addr "$host" ib0)/24" dev ib0
    done
    on_all --verbose
    use_eth0
    [[ $output =~ ib0:\ hvdn[1-4]\ -\>\ hvdn[1-4]\ \(192.168.9.9\):\ the\ asking\ host\ has\ the\ same\ address ]]
}

@test "what the user has set for NCCL stays, and a warning says when it cannot work" {
    local ib0
    ib0=$(cluster addr hvdn1 ib0)
    NCCL_SOCKET_IFNAME='=eth0' on_all --verbose
    selftest_ok 4 4
    all_given "ib0 =eth0 $ib0"
    has "NCCL_SOCKET_IFNAME==eth0 (from the environment) is left unchanged"
    [[ $output != *warning* ]]
    wait_for 10 docker_is_up
    NCCL_SOCKET_IFNAME=docker0 GLOO_SOCKET_IFNAME=nosuch0 on_all
    selftest_ok 4 4
    all_given "ib0 docker0 $ib0"
    has "warning: hvdn[1-4]: NCCL_SOCKET_IFNAME=docker0 (from the environment) selects docker0, which does not connect all hosts (ib0, eth0 does)"
    has "warning: hvdn[1-4]: GLOO_SOCKET_IFNAME=nosuch0 (from the environment) names nosuch0, which no interface with an address has there"
    # One good name does not help Gloo.
    GLOO_SOCKET_IFNAME=ib0,nosuch0 on_all
    has "warning: hvdn[1-4]: GLOO_SOCKET_IFNAME=ib0,nosuch0 (from the environment) names nosuch0, which no"
    run on_host hvdn1 env GLOO_SOCKET_IFNAME=nosuch0 hvdrun -np 2 --launcher=fork true
    has "GLOO_SOCKET_IFNAME=nosuch0 (from the environment) names nosuch0, which no interface with an address has there"
    # A variable would overrule a setting in a file of NCCL's own, so that none is set.
    on_login bash -c 'echo NCCL_SOCKET_IFNAME=^docker,lo >~/.nccl.conf'
    on_all --verbose
    on_login bash -c 'rm ~/.nccl.conf'
    selftest_ok 4 4
    all_given "ib0 $ib0 "
    has "/.nccl.conf) is left unchanged"
}

@test "on one machine named interfaces are used" {
    launch_telling hvdrun --hosts hvdn1:2 --nics=eth0
    selftest_ok 2 1
    all_given "eth0 =eth0 127.0.0.1" hvdn1
    launch_telling hvdrun --hosts hvdn1:2 "--nics=ib*,eth0"
    selftest_ok 2 1
    all_given "ib0 =ib0,eth0 127.0.0.1" hvdn1
    run on_host hvdn1 hvdrun -np 2 --launcher=fork --nics=eth0 bash -c "$TELL"
    echo "$output"
    selftest_ok 2 1
    all_given "eth0 =eth0 127.0.0.1" hvdn1
    launch_telling hvdrun --hosts hvdn1:2 --nics=lo
    selftest_ok 2 1
    all_given "lo =lo 127.0.0.1" hvdn1
    launch_telling hvdrun --hosts hvdn1:2 --nics=wlan0
    exits 2
    has "there is no usable interface wlan0 there, only"
    # Loopback does not connect several machines.
    launch_telling hvdrun --hosts hvdn1,hvdn2 --nics=lo
    none_connects 2
    assert_no_leftovers
}

@test "a network of IPv6 alone is used only when it is named by subnet" {
    cluster fault --name "$OTHER" no-ipv4 ib0
    # With IPv4 on another network that one is taken, though slower.
    other hvdrun --hosts hvdn1,hvdn2
    selftest_ok 2 2
    all_given "eth0 =eth0 $(cluster addr --name "$OTHER" hvdn1 eth0)" hvdn1 hvdn2
    [[ $output != *warning* ]]
    # No network is left when users' traffic on eth0 is dropped.
    cluster fault --name "$OTHER" block hvdn2 eth0
    other hvdrun --hosts hvdn1,hvdn2
    none_connects 2 "over IPv4, which Horovod needs"
    # eth6 has never had an IPv4 address.
    other hvdrun --nics=eth6 --hosts hvdn1,hvdn2
    none_connects 2 "over IPv4, which Horovod needs"
    # A user who names a subnet of IPv6 has a program that needs no IPv4.
    other hvdrun --nics=fd79::/64 --hosts hvdn1,hvdn2
    selftest_ok 2 2
    all_given "eth6 =eth6 $(cluster addr --name "$OTHER" hvdn1 eth6 6)" hvdn1 hvdn2
    has "warning: the named network is IPv6; Horovod's rendezvous client supports IPv4 only"
    cluster fault --name "$OTHER" clear
}
