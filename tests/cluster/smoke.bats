#!/usr/bin/env bats
# The test cluster itself: is it what other tests take it for?

load helpers
load production

setup_file() { cluster_up --nodes 4 --srun-port-range 20000-20999; }
teardown_file() { cluster_down; }
teardown() { cluster_mend; }

cluster_base() { echo "${HVD_CLUSTER_DIR:-${TMPDIR:-/tmp}/hvd-cluster-${USER:-$(id -un)}}"; }

cgroups_of() {
    find /sys/fs/cgroup -maxdepth 2 -name "hvd-cluster-$(cksum <<<"$(cluster_base)/$1" | cut -d ' ' -f 1)"
}

# What a cluster could leave on the machine.  Names only: counters and clocks
# change by themselves, and other clusters may come and go meanwhile.
machine() {
    ip netns list
    ip -o link show | awk -F': ' '{ print $2 }'
    awk '{ print $5 }' /proc/self/mountinfo
    getent passwd
    ls -d /run/*
    ls -d "$(cluster_base)/$1" 2>/dev/null
    cgroups_of "$1"
    # Processes that know the cluster's folder, or live in a namespace below it.
    pgrep -af "/$1(/|\$|[[:space:]])" | grep -v pgrep || true
}

# Not the interfaces' numbers, which are new each time.
addresses() { on_host "$1" ip -br addr | sed 's/@[^ ]*//; s/  */ /g' | grep -E '^(eth0|ib0)'; }

same() {
    [[ $1 == "$2" ]] || { diff <(echo "$1") <(echo "$2") && false; }
}

# connects FROM TO PORT IFACE: does a connection come about?
connects() {
    local address pid status=0
    address=$(cluster addr "$2" "$4")
    on_host "$2" python3 -c "
import socket, sys
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('$address', $3)); s.listen(); s.settimeout(5); s.accept()" 3>&- &
    pid=$!
    wait_for 5 listens "$2" "$3"
    on_host "$1" timeout 1 bash -c ": </dev/tcp/$address/$3" || status=$?
    kill "$pid" 2>/dev/null || true
    wait "$pid" || true
    echo "connection $1 -> $2 over $4: $status"
    return "$status"
}

listens() { on_host "$1" ss --no-header -tln "sport = :$2" | grep -q .; }

node_is() { on_host hvdctl sinfo -hN -n "$1" -o %T | grep -q "^$2"; }

@test "a job runs on all nodes, as the user, from a host outside the allocation" {
    # Without --ntasks-per-node Slurm fills the first node before the others.
    run on_login srun -N4 --ntasks-per-node=2 bash -c 'echo "$(hostname) $(id -un)"'
    [ "$status" -eq 0 ]
    echo "$output"
    [ "$(sort <<<"$output" | uniq -c | awk '{ print $1, $2, $3 }')" = "2 hvdn1 alice
2 hvdn2 alice
2 hvdn3 alice
2 hvdn4 alice" ]
    run on_login hostname
    [ "$output" = hvdlogin ]
    run on_host hvdctl sinfo -hN -o %N
    [[ $output != *hvdlogin* ]]
    run as_user bob srun -N1 id -un
    [ "$output" = bob ]
    assert_no_leftovers
}

# (timeout -s INT passes SIGINT on, also where it is ignored, as in a run of tests in the background.)
interrupt_when_ready() { wait_for 30 on_login test -e ready && kill -INT "$(<"$BATS_TEST_TMPDIR/pid")"; }

@test "exec passes status, input, environment and signals" {
    run on_login bash -c 'exit 7'
    [ "$status" -eq 7 ]
    run on_login bash -c 'kill -KILL $$'
    [ "$status" -eq 137 ]
    [ "$(echo hello | on_login cat)" = hello ]
    [ "$(SOME_VALUE=x on_login bash -c 'echo "$SOME_VALUE $USER $LOGNAME ${HOME##*/} $(umask)"')" = "x alice alice alice 0022" ]
    [ "$(HVD_PATH=/nowhere on_login bash -c 'echo "${PATH%%:*}"')" = /nowhere ]
    interrupt_when_ready 3>&- &
    run bash -c 'echo $$ >"$0"; exec timeout --preserve-status -s INT 60 "$@"' "$BATS_TEST_TMPDIR/pid" "$HVD_CLUSTER_CMD" exec -- \
        bash -c 'trap "echo got it; exit 3" INT; touch ready; sleep 20 >/dev/null 2>&1 & wait'
    [ "$status" -eq 3 ]
    [ "$output" = "got it" ]
    on_login pkill -u alice sleep || true
    # Even a caller that is killed outright takes the command with it.
    run timeout -s KILL 1 "$HVD_CLUSTER_CMD" exec -- sleep 33
    [ "$status" -eq 137 ]
    assert_no_leftovers
}

@test "leftovers are found" {
    on_host hvdn2 bash -c 'sleep 60 >/dev/null 2>&1 & echo >/dev/shm/some-file' 3>&-
    run cluster leftovers
    [ "$status" -eq 1 ]
    [[ $output == *"hvdn2: process"*"sleep 60"* ]]
    [[ $output == *"hvdn2: file /dev/shm/some-file"* ]]
    on_host hvdn2 bash -c 'pkill sleep; rm /dev/shm/some-file'
    assert_no_leftovers
}

@test "networks are as described" {
    run on_host hvdn1 cat /sys/class/net/eth0/speed /sys/class/net/ib0/speed
    [ "$output" = "1000
100000" ]
    [ "$(on_host hvdn1 ip -br -4 addr show docker0)" = "$(on_host hvdn2 ip -br -4 addr show docker0)" ]
    run on_login ls /sys/class/net
    [[ $output != *ib0* ]]
    connects hvdn1 hvdn2 5001 ib0
    on_host hvdn1 ping -6 -q -c1 -W2 "$(cluster addr hvdn4 ib0 6)"
}

@test "interface faults work and are undone" {
    before=$(addresses hvdn1)
    fault iface-down hvdn1 ib0
    fault iface-del hvdn2 ib0
    fault iface-rename hvdn3 ib0 ib7
    fault iface-add4 hvdn4 ib0 10.99.0.1/24
    fault iface-add6 hvdn4 ib0 fd99::1/64
    [[ $(on_host hvdn1 cat /sys/class/net/ib0/operstate) == down ]]
    run on_host hvdn2 test -e /sys/class/net/ib0
    [ "$status" -ne 0 ]
    [ "$(on_host hvdn3 cat /sys/class/net/ib7/speed)" = 100000 ]
    [[ $(on_host hvdn4 ip -br addr show ib0) == *10.99.0.1/24*fd99::1/64* ]]
    fault clear
    same "$before" "$(addresses hvdn1)"
    [ "$(on_host hvdn2 cat /sys/class/net/ib0/speed)" = 100000 ]
    on_host hvdn3 test -e /sys/class/net/ib0
    [[ $(on_host hvdn4 ip -br addr show ib0) != *99* ]]
    fault no-ipv4 ib0
    [[ $(on_host hvdn2 ip -br -4 addr show ib0) != *10.78* ]]
    fault clear
    connects hvdn1 hvdn2 5002 ib0
    on_login srun -N4 -n8 true
}

@test "one-way and block cut connections silently, but not Slurm's" {
    fault one-way hvdn1 hvdn2 ib0
    run connects hvdn1 hvdn2 5003 ib0
    # timeout's own status: no answer, not a refusal
    [ "$status" -eq 124 ]
    connects hvdn2 hvdn1 5004 ib0
    fault one-way hvdn1 hvdlogin
    run connects hvdn1 hvdlogin 5005 eth0
    [ "$status" -eq 124 ]
    connects hvdlogin hvdn1 5006 eth0
    on_login srun -N4 -n8 true
    fault clear
    connects hvdn1 hvdlogin 5005 eth0
    fault block hvdn3 eth0
    run connects hvdn3 hvdn4 5007 eth0
    [ "$status" -eq 124 ]
    run connects hvdn4 hvdn3 5008 eth0
    [ "$status" -eq 124 ]
    on_login srun -N4 -n8 true
}

@test "munged and slurmd stop and come back" {
    fault munged-stop hvdn2
    run on_host hvdn2 munge -n
    [ "$status" -ne 0 ]
    on_host hvdn1 munge -n
    fault munged-start hvdn2
    on_host hvdn2 munge -n
    fault slurmd-kill hvdn3
    run on_host hvdn3 pgrep -x slurmd
    [ "$status" -ne 0 ]
    fault clear
    on_host hvdn3 pgrep -x slurmd
    on_login srun -N4 -n8 true
}

@test "a lost node is noticed, and comes back" {
    fault node-lost hvdn4
    run on_host hvdn4 true
    [ "$status" -ne 0 ]
    wait_for 40 node_is hvdn4 down
    on_login srun -N3 true
    cluster restart-node hvdn4
    on_login srun -N4 -n8 true
}

@test "a killed node takes its steps with it" {
    # srun itself waits on for tasks of a node that came back without them.
    on_login timeout --signal=KILL 4 srun -N2 -n2 -w 'hvdn[1-2]' sleep 50 3>&- &
    wait_for 5 on_host hvdn1 pgrep -u alice sleep
    fault node-kill hvdn1
    fault clear
    run on_host hvdn1 pgrep -u alice sleep
    [ "$status" -ne 0 ]
    on_host hvdctl scancel --user=alice
    wait || true
    cluster wait 20
    on_login srun -N4 -n8 true
    assert_no_leftovers
}

@test "a frozen or silent node answers again" {
    fault node-freeze hvdn1
    run on_login timeout 2 munge -n
    [ "$status" -eq 0 ]
    [[ $(on_host hvdn1 ps -C slurmd -o stat=) == T* ]]
    fault node-thaw hvdn1
    [[ $(on_host hvdn1 ps -C slurmd -o stat=) == S* ]]
    fault silence hvdn2
    run on_host hvdn1 ping -q -c1 -W1 "$(cluster addr hvdn2 ib0)"
    [ "$status" -ne 0 ]
    fault clear
    on_host hvdn1 ping -q -c1 -W1 "$(cluster addr hvdn2 ib0)"
    on_login srun -N4 -n8 true
}

@test "the controller comes back" {
    fault node-kill hvdctl
    fault clear
    on_login srun -N4 -n8 true
}

@test "two clusters side by side, with options; down leaves nothing" {
    other="$HVD_CLUSTER_NAME-b"
    before=$(machine "$other")
    cluster up --name "$other" --nodes 2 --gpus 2 --no-dns --ip6-net --login-ib \
        --slurm-conf KillWait=3
    run cluster up --name "$other"
    [ "$status" -eq 2 ]
    cluster list | grep -qxF "$other"
    run cluster exec --name "$other" -- srun -N2 --gpus-per-node=2 bash -c 'echo "$CUDA_VISIBLE_DEVICES"'
    [ "$output" = "0,1
0,1" ]
    run cluster exec --name "$other" --host hvdn1 -- getent hosts hvdn2
    [ "$status" -ne 0 ]
    cluster exec --name "$other" -- scontrol show config | grep -q 'KillWait *= 3 '
    run cluster exec --name "$other" --host hvdn1 -- ip -br addr show eth6
    [[ $output == *fd79::b/64* && $output != *10.* ]]
    on_login srun -N4 -n8 true
    cluster exec --name "$other" -- srun -N2 bash -c 'sleep 50 & sleep 50' 3>&- &
    sleep 0.3
    cluster fault --name "$other" node-freeze hvdn2
    cluster down --name "$other"
    wait || true
    same "$before" "$(machine "$other")"
    on_login srun -N4 -n8 true
}

@test "up leaves nothing when it fails, and says why" {
    other="$HVD_CLUSTER_NAME-c"
    before=$(machine "$other")
    run cluster up --name "$other" --nodes 2 --slurm-conf SelectType=select/nonsense
    [ "$status" -eq 1 ]
    [[ $output == *nonsense* ]]
    same "$before" "$(machine "$other")"
    # Killed outright in the middle: down still finds everything.
    timeout -s KILL 0.25 "$HVD_CLUSTER_CMD" up --name "$other" 3>&- || true
    cluster down --name "$other"
    same "$before" "$(machine "$other")"
}

@test "down works when the first process of everything is gone" {
    other="$HVD_CLUSTER_NAME-d"
    before=$(machine "$other")
    cluster up --name "$other" --nodes 1
    read -r pid _ <"$(cluster path --name "$other")/hosts/switch/pid"
    kill -KILL "$pid"
    cluster down --name "$other"
    cluster down --name "$other"
    same "$before" "$(machine "$other")"
}

@test "control groups: a cluster's own, which go with it" {
    local version
    other="$HVD_CLUSTER_NAME-g"
    for version in v1 v2; do
        cgroups "$version"
        [[ ! $WHY_NOT ]] || skip "$WHY_NOT"
        cluster up --name "$other" --nodes 1 "${CGROUPS[@]}"
        cluster exec --name "$other" -- srun -N1 grep -E '(freezer|0:):.*/step_' /proc/self/cgroup
        [[ $(cgroups_of "$other") ]]
        cluster down --name "$other"
        [[ ! $(cgroups_of "$other") ]]
    done
}
