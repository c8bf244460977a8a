#!/usr/bin/env bats
bats_require_minimum_version 1.5.0
# hvdrun waits for agents that something else starts: --launcher=join.  No scheduler and no ssh is used.

load helpers
load launch

setup_file() {
    hosts_up --nodes 3
    cp "$BATS_TEST_DIRNAME/elastic_worker.py" "$(home)/"
}
teardown_file() { cluster_down; }
setup() {
    AGENT=$B/libexec/hvd/hvd-agent
    AGENTS=()
}
teardown() {
    cluster_mend
    rm -f "$(home)"/{key,at,stop}
}

# joins ARG…: begin hvdrun with these, and wait until it says where agents are to come.
joins() {
    rm -f "$(home)/at"
    begin on_login hvdrun --launcher=join --key-file key --join-file at "$@"
    wait_for 10 test -s "$(home)/at"
}

# agent HOST ARG…: an agent there, in the background; its output is in $BATS_TEST_TMPDIR/agent.N, and its process, that of
# `cluster exec`, in AGENTS[N].
agent() {
    local host=$1 n=${#AGENTS[@]}
    shift
    cluster exec --host "$host" -- "$AGENT" connect "$(<"$(home)/at")" --key-file key "$@" >"$BATS_TEST_TMPDIR/agent.$n" 2>&1 3>&- &
    AGENTS[n]=$!
}

# agent_ends N STATUS [TEXT]: that agent ends with this status, and has said this.
agent_ends() {
    local rc=0
    wait_for 10 stopped "${AGENTS[$1]}" || { echo "agent $1 goes on" && return 1; }
    wait "${AGENTS[$1]}" || rc=$?
    [[ $rc -eq $2 && $(<"$BATS_TEST_TMPDIR/agent.$1") == *"${3-}"* ]] ||
        { echo "agent $1: status $rc, not $2: $(<"$BATS_TEST_TMPDIR/agent.$1")" && return 1; }
}

nobody() {
    local host
    for host in hvdlogin hvdn1 hvdn2 hvdn3; do
        ! as_root "$host" pgrep -u alice >/dev/null || return 1
    done
}
nobody_left() {
    wait_for "${1:-3}" nobody || { cluster leftovers && return 1; }
    assert_no_leftovers
}

@test "agents with slots enough are the hosts, in the order of their indices, and the self-test passes" {
    joins -np 5 hvd-selftest --quick
    [ "$(stat -c %a "$(home)/key") $(stat -c %a "$(home)/at")" = "600 600" ]
    agent hvdn1 --slots=2 --index=1
    agent hvdn2 --slots=2 --index=0
    agent hvdn3 --slots=2
    ended 30
    selftest_ok 5 3
    for i in 0 1 2; do agent_ends $i 0; done
    [ ! -e "$(home)/at" ]
    joins -np 5 bash -c 'echo "$HOROVOD_RANK $HOROVOD_LOCAL_RANK $(hostname)"'
    agent hvdn1 --slots=2 --index=1
    agent hvdn2 --slots=2 --index=0
    agent hvdn3 --slots=2
    ended 20
    [[ $(sed '/agents join with/d' <<<"$output" | sort -n) == "0 0 hvdn2
1 1 hvdn2
2 0 hvdn1
3 1 hvdn1
4 0 hvdn3" ]] || { echo "$output" && return 1; }
    nobody_left
}

@test "ranks have the agent's environment and directory and the plan's variables; rank 0 has the input" {
    as_root hvdlogin install -d -o alice "$(home)/there"
    rm -f "$(home)/at"
    as_user alice bash -c 'printf "one\ntwo\n" >input'
    export MINE=hvdrun
    begin on_login bash -c 'exec hvdrun --launcher=join -np 2 --key-file key --join-file at "$@" <input' x env OTHER=hvdrun \
        bash -c 'echo "$RANK/$WORLD_SIZE $MINE $OTHER $PWD $(wc -l) it'"'"'s $1" >&2' x $'a b\n\xff'
    wait_for 10 test -s "$(home)/at"
    MINE=agent OTHER=agent cluster exec --cwd "$(home)/there" --host hvdn1 -- "$AGENT" connect "$(<"$(home)/at")" --key-file ../key --index=0 3>&- &
    # As users have typed it for older releases.
    MINE=agent OTHER=agent cluster exec --host hvdn2 -- "${AGENT%agent}task" --key-file key --join="$(<"$(home)/at")" --index=1 3>&- &
    ended 20
    exits 0
    has "0/2 agent hvdrun $(home)/there 2 it's a b"$'\n\xff' "1/2 agent hvdrun $(home) 0 it's a b"
    nobody_left
}

@test "too few agents: the error says who has come and how many are missing" {
    joins -np 4 --start-timeout 2 true
    agent hvdn1 --slots=2 --index=0
    agent hvdn1 --name=other
    ended 10
    exits 1
    has "agents with 3 of 4 slots have joined within 2 s: hvdn1 (2), other (1); 1 missing" "--start-timeout"
    agent_ends 0 1 "its job could not start"
    agent_ends 1 1 "its job could not start"
    [ ! -e "$(home)/at" ]
    nobody_left
}

@test "agents that are not needed are told so, and end with status 0" {
    joins -np 2 sleep 3
    agent hvdn1
    agent hvdn1 --slots=2
    wait_for 10 as_root hvdn1 pgrep -u alice -x sleep
    agent hvdn3
    agent_ends 2 0 "the launch has enough agents"
    ended 20
    exits 0
    agent_ends 0 0
    agent_ends 1 0
    nobody_left
}

@test "a wrong key, launch, index, name or number of slots, and a stranger, are refused with the reason" {
    as_user alice bash -c '(umask 077; head -c 64 /dev/zero | tr "\0" 1 >other; head -c 64 /dev/zero | tr "\0" 0 >key)'
    joins -np 2 --start-timeout 30 true
    local at
    at=$(<"$(home)/at")
    run -1 on_host hvdn1 "$AGENT" connect "$at" --key-file other
    has "does not hold this launch's key" "with this key"
    run -1 on_host hvdn1 "$AGENT" connect "${at%/*}/00000000000000000000000000000000" --key-file key
    has "belongs to another launch"
    run -1 on_host hvdn1 "$AGENT" connect "$at" --key-file key --slots=1000000000
    has "1000000000 slots are not possible"
    run -1 on_host hvdn1 "$AGENT" connect "$at" --key-file key --name=-o
    has "'-o' is neither a host name nor an address"
    run -2 on_host hvdn1 "$AGENT" connect hvdlogin --key-file key
    has "'hvdlogin' is not an address of a launch"
    run -2 on_host hvdn1 "$AGENT" connect "$at"
    has "hvd-agent connect needs the key"
    run -1 as_root hvdn1 "$AGENT" connect "$at" --key-file "$(home)/key"
    has "is open to others"
    run -2 on_host hvdn1 bash -c 'echo nokey | "$0" connect "$1" --key-file=-' "$AGENT" "$at"
    has "not a key of 64 hex digits"
    agent hvdn1 --index=3
    wait_for 5 on_host hvdlogin bash -c "ss -Htn state established '( sport = :$(sed -E 's/.*:([0-9]+)\/.*/\1/' <<<"$at") )' | grep -q ."
    run -1 on_host hvdn2 "$AGENT" connect "$at" --key-file key --index=3
    has "another agent already has index 3: hvdn1"
    # What scans ports, says nothing, or nothing sensible.
    as_root hvdn2 timeout 20 bash -c 'for i in {1..40}; do { echo "GET / HTTP/1.0"; echo; } >"/dev/tcp/$1/$2"; : >"/dev/tcp/$1/$2"; done' \
        x "${at%%[,:]*}" "$(sed -E 's/.*:([0-9]+)\/.*/\1/' <<<"$at")" || true
    agent hvdn2
    ended 20
    exits 0
    has "refused a connection from " ": the peer does not hold this launch's key"
    run -1 on_host hvdn1 "$AGENT" connect "$at" --key-file key
    has "Connection refused" "does hvdrun still wait at this address"
    nobody_left
}

@test "agents that have the key and break the rules do not disturb the others" {
    as_user alice bash -c '(umask 077; head -c 64 /dev/zero | tr "\0" 0 >key)'
    joins -np 3 --start-timeout 40 bash -c 'echo "rank $RANK"'
    local at how
    at=$(<"$(home)/at")
    for how in register garbage; do
        run -0 peer alice hvdn3 guest "$at" "$(home)/key" "$how"
        [ "$output" = closed ]
    done
    for how in huge escape; do
        run -0 peer alice hvdn3 guest "$at" "$(home)/key" "$how"
        [ "$output" = failed ]
    done
    run -0 peer alice hvdn3 guest "$at" "$(home)/key" writes
    [ "$output" = closed ]
    run -0 peer alice hvdn3 guest "$at" "$(home)/key" twice
    [ "$output" = closed ]
    run -0 peer alice hvdn3 guest "$at" "$(home)/key" mute # makes no offer
    [ "$output" = closed ]
    # It waits as others do, and then leaves: its slot does not count any longer.
    run -0 peer alice hvdn3 guest "$at" "$(home)/key" silent --seconds 1
    [ "$output" = nothing ]
    agent hvdn1
    agent hvdn2 --slots=2
    ended 20
    exits 0
    has "rank 0" "rank 1" "rank 2" "an agent was refused" "\\x1b[31m"
    has_not $'\nhvdrun: all is well'
    agent_ends 0 0
    agent_ends 1 0
    # What one does that is needed makes its own host fail.
    joins -np 2 --start-timeout 20 true
    peer alice hvdn3 guest "$(<"$(home)/at")" "$(home)/key" talks 3>&- &
    agent hvdn1
    ended 20
    exits 1
    has "guest: the connection to its agent has ended"
    nobody_left 10
}

@test "whichever of them is killed, all others end and nothing is left" {
    local victim page
    for victim in monitor parent hvdrun; do
        page=()
        [[ $victim != monitor ]] || page=("${HANG_PAGE[@]}")
        joins -np 2 "${page[@]}" sleep 1000
        if [[ $victim == parent ]]; then
            # The agent reads the key from its stdin, which ends with what has started the agent.
            cluster exec --host hvdn1 -- bash -c '{ cat key; exec sleep 999; } | "$0" connect "$(cat at)" --key-file=-' "$AGENT" >"$BATS_TEST_TMPDIR/agent.0" 2>&1 3>&- &
            AGENTS[0]=$!
        else
            agent hvdn1
        fi
        agent hvdn2
        wait_for 10 as_root hvdn1 pgrep -u alice -x -f 'sleep 1000'
        wait_for 10 as_root hvdn2 pgrep -u alice -x -f 'sleep 1000'
        [[ ! ${page[*]} ]] || hang_page 2
        case $victim in
        monitor) as_root hvdn1 pkill -KILL -x hvd-monitor ;; # it is the parent of the node agent
        parent) as_root hvdn1 pkill -KILL -f 'sleep 999' ;;
        hvdrun) as_root hvdlogin pkill -KILL -x hvdrun ;;
        esac
        ended 15
        [ "$status" -ne 0 ]
        if [[ $victim == hvdrun ]]; then
            agent_ends 0 1 "hvdn1: ending the ranks: the connection to the driver ended"
        else
            has hvdn1
        fi
        [[ $victim != parent ]] || has "hvdn1: the agent ends its ranks: its starter has ended"
        [[ $victim != monitor ]] || has "hvdn1: the agent ends its ranks: Terminated"
        [[ ! ${page[*]} ]] || end_page
        nobody_left 10
        AGENTS=()
    done
}

@test "no secret is on a command line or in an environment" {
    joins -np 1 sleep 1000
    agent hvdn1
    wait_for 10 as_root hvdn1 pgrep -u alice -x -f 'sleep 1000'
    local key host
    key=$(<"$(home)/key")
    for host in hvdlogin hvdn1; do
        # A process may end while it is looked at.
        run as_root "$host" bash -c 'cat /proc/[0-9]*/{environ,cmdline} 2>/dev/null | tr "\0" "\n"'
        [[ $output == *HVD_CLUSTER=* && $output == *--key-file* ]]
        [[ ${output,,} != *"${key,,}"* ]]
    done
    [ ${#key} -eq 64 ]
    on_host hvdlogin pkill -TERM -x hvdrun
    ended 10
    exits 143
    nobody_left
}

@test "an elastic job: agents that come and go are its hosts" {
    as_user alice bash -c 'rm -rf work && mkdir work && chmod 777 work'
    joins --min-np 2 --sample=1 -v ./elastic_worker.py work
    agent hvdn1
    says 10 "2 ranks are needed"
    agent hvdn2
    says_times 10 2 "size 2 rank"
    agent hvdn3 --slots=2
    says_times 20 4 "size 4 rank"
    as_root hvdn2 pkill -KILL -f -- --behind
    says 20 "hvdn2: the connection to its agent has ended"
    as_user alice touch work/again.2
    says_times 20 3 "size 3 rank"
    agent hvdn2
    says_times 20 8 "size 4 rank"
    # Processes have other numbers than those they were started with.
    wait_for 20 figures_of 4 || { echo "$output" && return 1; }
    as_user alice touch work/stop
    ended 30
    exits 0
    has "4 ranks on 3 hosts (hvdn3 added)" "hvdn2 removed" "hvdn2-2 added"
    agent_ends 0 0
    agent_ends 2 0
    agent_ends 3 0
    nobody_left
}

figures_of() {
    output=$(on_login hvdrun --json --status "pid:$(as_root hvdlogin pgrep -u alice -x hvdrun)") &&
        [[ $(jq '[.launches[0].ranks[] | select(.memory > 0)] | length' <<<"$output") == "$1" ]]
}

@test "PyTorch's kind of elastic job starts anew without the agent that was lost" {
    joins --min-np 2 --max-np 2 --max-restarts 2 -v bash -c 'echo "on $(hostname)"; timeout --foreground 120 sh -c "until [ -e stop ]; do sleep 0.2; done"'
    agent hvdn1
    agent hvdn2
    says_times 10 2 "on hvd"
    agent hvdn3
    says 10 "hvdn3 can be used"
    as_root hvdn2 pkill -KILL -f -- --behind
    says_times 15 4 "on hvd"
    gives 0 on_login hvdrun --status "pid:$(as_root hvdlogin pgrep -u alice -x hvdrun)" --rank=1
    has "generation: 2, for" "ranks: 1 running" "its last lines (" "on hvdn"
    as_user alice touch stop
    ended 15
    exits 0
    has "hvdn3 added, hvdn2 removed" "on hvdn3"
    agent_ends 0 0
    agent_ends 2 0
    nobody_left
}

@test "an elastic job whose agents come one by one says once that it waits for others" {
    joins -np 3 --max-restarts 2 true
    agent hvdn1
    says 10 "1 slot, but 3 ranks are needed: waiting for hosts"
    agent hvdn2
    agent hvdn3
    ended 20
    exits 0
    [[ $(grep -c "waiting for hosts" <<<"$output") -eq 1 ]] || { echo "$output" && return 1; }
    nobody_left
}

@test "--preflight=full measures the first agents of an elastic job together" {
    joins -np 3 --max-restarts 2 --preflight=full true
    agent hvdn1
    says 10 "1 of 3 slots have joined"
    agent hvdn2
    agent hvdn3
    ended 20
    exits 0
    grep -E "preflight: all checks passed on 3 hosts; slowest: hvdn" <<<"$output"
    nobody_left
}

@test "--preflight=full: the first agent of an elastic job waits for others, and not for ever" {
    joins -np 3 --max-restarts 2 --preflight=full --elastic-timeout=14 true
    agent hvdn1
    ended 30
    exits 1
    has "there were not enough slots for 14 seconds: 1, but 3 ranks are needed"
    nobody_left
}

@test "the example script starts its agents itself, and ends them" {
    run on_login bash "$BATS_TEST_DIRNAME/../../scripts/examples/join.sh" 3 bash -c 'echo "rank $RANK of $WORLD_SIZE"'
    exits 0
    has "rank 0 of 3" "rank 1 of 3" "rank 2 of 3"
    run on_login bash "$BATS_TEST_DIRNAME/../../scripts/examples/join.sh" 3 bash -c 'test $RANK != 1 || exit 3; exec sleep 1000'
    exits 3
    begin on_login bash "$BATS_TEST_DIRNAME/../../scripts/examples/join.sh" 2 sleep 1000
    wait_for 10 as_root hvdlogin pgrep -u alice -x -f 'sleep 1000'
    as_root hvdlogin pkill -KILL -x hvdrun
    ended 15
    nobody_left 10
}

@test "what cannot be is refused before anything is awaited" {
    run -2 on_login hvdrun --launcher=join -np 2 true
    has "needs a key" "--key-file"
    run -2 on_login hvdrun --launcher=join --key-file key true
    has "needs the number of ranks" "-np"
    run -2 on_login hvdrun --launcher=join --key-file key -np 2 --hosts a,b true
    has "it uses the hosts whose agents connect"
    run -2 on_login hvdrun --launcher=join --key-file key -np 2 --discover hosts true
    has "it uses the hosts whose agents connect"
    run -2 on_login hvdrun --launcher=join --key-file key -np 2 --spares=1 true
    has "--spares cannot be used with join in a job of fixed size" "--max-restarts"
    run -1 on_login hvdrun --launcher=join --key-file key -np 2 --join-file /nowhere/at true
    has "cannot write the join file /nowhere/at"
    run -0 on_login hvdrun --launcher=join --key-file key -np 2 --dry-run true
    has "# backend: join" "hvd-agent connect ADDRESS --key-file=key"
    nobody_left
}

@test "all output comes, in order, and a reader that stops holds up the ranks alone" {
    # Much more than may be on its way, and to two streams.
    local out="$BATS_TEST_TMPDIR/out" err="$BATS_TEST_TMPDIR/err" pid rank rc=0
    no_yes() { ! as_root hvdn1 pgrep -u alice -x yes; }
    rm -f "$(home)/at"
    cluster exec --host hvdlogin -- hvdrun --launcher=join -np 2 --key-file key --join-file at --label bash -c \
        'seq -f "%.0f of $RANK" 400000 & seq -f "%.0f by $RANK" 100000 >&2; wait' >"$out" 2>"$err" 3>&- &
    pid=$!
    wait_for 10 test -s "$(home)/at"
    agent hvdn1
    agent hvdn2
    wait "$pid"
    for rank in 0 1; do
        cmp <(grep -a " of $rank$" "$out") <(seq -f "$rank: %.0f of $rank" 400000)
        cmp <(grep -a " by $rank$" "$err") <(seq -f "$rank: %.0f by $rank" 100000)
    done
    # Nobody reads: rank 0 is held up; that rank 1 fails is told all the same, and ends rank 0.
    mkfifo "$BATS_TEST_TMPDIR/fifo"
    exec {reader}<>"$BATS_TEST_TMPDIR/fifo"
    rm -f "$(home)/at"
    cluster exec --host hvdlogin -- hvdrun --launcher=join -np 2 --key-file key --join-file at bash -c \
        '((RANK)) || exec yes; sleep 3; exit 7' >"$BATS_TEST_TMPDIR/fifo" 2>"$err" 3>&- {reader}>&- &
    pid=$!
    wait_for 10 test -s "$(home)/at"
    agent hvdn1 --index=0
    agent hvdn2 --index=1
    wait_for 10 grep -q "rank 1 on hvdn2 failed: exit code 7" "$err" || { cat "$err" && return 1; }
    wait_for 10 no_yes
    timeout 20 cat <&"$reader" >/dev/null &
    wait "$pid" || rc=$?
    [ "$rc" -eq 7 ]
    exec {reader}>&-
    nobody_left 10
}
