#!/usr/bin/env bats
# shellcheck disable=SC2154 # what run sets
# shellcheck disable=SC2016 # for the shell that runs the command
# The process that stays on a host as long as its ranks, the node agent with the host's relay of the rendezvous: it is
# not seen by the ranks, costs next to nothing, and is gone with the last of them, however the launch ends.

load launch

# The kernel tells the node agent of each TCP socket of its host that ends, and slurmctld's questions to slurmd, which come
# three times in SlurmdTimeout, wake it so: there should be few of them.
setup_file() { suite_up --nodes 3 --slurm-conf SlurmdTimeout=120; }
teardown() {
    cluster_mend
    assert_no_leftovers
}

RELAY='^hvd-[aw]'
FOUR=(-N2 -n4 --ntasks-per-node=2)

relays() { as_root hvdn2 pgrep -c -u alice "$RELAY"; }
both() { [[ $(relays) == 2 ]]; }
none() { [[ $(relays) == 0 ]]; }
driverless() { ! has_driver_port; }
deaf() { ! as_root hvdn2 ss -Hltnp | grep -q hvd-agent; }

# What the ranks' host does, as root there: waits for the end of alice's ranks, and prints how many milliseconds later
# the relay is gone. Looking takes some of them.
AFTER='while pgrep -u alice -x sleep >/dev/null; do :; done
from=$(date +%s%3N)
while pgrep -u alice "^hvd-[aw]" >/dev/null; do :; done
echo $(($(date +%s%3N) - from))'

# lasting srun|hvdrun SECONDS [OPTION…]: begins a launch whose second rank of each host lasts longer than the first.
lasting() {
    begin launch "$1" "${@:3}" "${FOUR[@]}" bash -c '
        exec 5<>/dev/tcp/$HOROVOD_GLOO_RENDEZVOUS_ADDR/$HOROVOD_GLOO_RENDEZVOUS_PORT
        printf "PUT /scope/key_$HOROVOD_RANK HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nvalue" >&5
        read -r answer <&5
        [[ $answer == "HTTP/1.1 200"* ]] || echo "error: <$answer>"
        exec 5>&-
        read -r children </proc/$$/task/$$/children
        echo "children <$children> $(sed -n s/^0:://p /proc/self/cgroup)"
        (($HOROVOD_LOCAL_RANK == 0)) || sleep '"$2"
    says_times 10 4 "children <>"
    wait_for 5 both
}

# sleeps MOST [OPTION…]: the agent of a launch with these options wakes up so often at most in two seconds; and the rest.
sleeps() {
    local with woke
    for with in srun hvdrun; do
        lasting "$with" 6 "${@:2}"
        sleep 1
        gives 0 as_root hvdn2 bash -c '
            memory=0
            group() { sed "s,/task_[0-9]*$,," "/proc/$1/cgroup"; }
            switches() { awk "/ctxt_sw/ { n += \$2 } END { print n }" /proc/$1/status; }
            pids=($(pgrep -u alice "^hvd-[aw]"))
            rank=$(pgrep -u alice -n -x sleep)
            for pid in "${pids[@]}"; do
                [[ $(ps -o sid= "$pid") != "$(ps -o sid= "$rank")" ]] || echo "session of the rank"
                [[ $(group "$pid") == "$(group "$rank")" ]] || echo "not in the control group of the step"
                ls -l /proc/$pid/fd | grep -E " [012] -> " | grep -v /dev/null
                [[ $(readlink /proc/$pid/cwd) == / ]] || echo "keeps a folder"
                ((memory += $(awk "/^Private/ { kb += \$2 } END { print kb }" /proc/$pid/smaps_rollup)))
                before[pid]=$(switches "$pid")
            done
            sleep 2
            for pid in "${pids[@]}"; do
                echo "$(</proc/$pid/comm) woke up $(($(switches "$pid") - before[pid])) times"
            done
            ((memory > 0 && memory < 4096)) || echo "$memory KiB are its own"'
        woke=$(sed -nE 's/^hvd-agent woke up ([0-9]+) times$/\1/p' <<<"$output")
        [[ $woke && $woke -le $1 && $(sort <<<"$output") == "hvd-agent woke up $woke times"$'\nhvd-watchdog woke up 0 times' ]] ||
            { echo "$output" && false; }
        ended 10 0
    done
}

@test "the relay ends with its host's last rank, within 100 ms, and the launch with it" {
    local with late
    for with in srun hvdrun; do
        # An idle machine needs one try.
        for _ in 1 2 3 4; do
            lasting "$with" 1.5
            late=$(as_root hvdn2 bash -c "$AFTER")
            ended 10 0
            has_not warning error
            if ((late < 100)); then break; fi
        done
        ((late < 100)) || { echo "$with: gone $late ms after the last rank, four times" && false; }
        none
    done
}

@test "ps says what each process of a launch is for" {
    local with agent shown
    for with in srun hvdrun; do
        lasting "$with" 2
        shown=$(as_root hvdn2 ps -u alice -o comm=,args= | sed -E 's/^([^ ]+) +/\1 /')
        agent=$(as_root hvdn2 pgrep -u alice -x hvd-agent)
        [ "$with" != srun ] || grep -qxF "hvd-agent hvd-agent: agent of hvdn2 (srun --hvd)" <<<"$shown" || { echo "$shown" && false; }
        [ "$with" != hvdrun ] || {
            grep -qxF "hvd-agent hvd-agent: agent of hvdn2 (hvdrun, srun)" <<<"$shown" &&
                grep -q "^hvd-shim .*/hvd-agent shim .*-- bash -c" <<<"$shown" &&
                grep -q "^hvd-signals .*/hvd-agent shim .*-- bash -c" <<<"$shown"
        } || { echo "$shown" && false; }
        grep -qxF "hvd-watchdog hvd-watchdog: guards hvd-agent $agent" <<<"$shown" || { echo "$shown" && false; }
        ended 10 0
    done
}

@test "the relay has a session of its own and none of the task's descriptors, is small, and sleeps" {
    # The driver asks each agent every two seconds whether it is there.
    sleeps 2 --hvd-sample=0
}

@test "an agent that samples its ranks is as small, and wakes up for its timers only" {
    # Besides the driver's questions: connections are looked at every second, which is three times at most in two seconds
    # and what the test itself takes, and /proc every five.
    sleeps $((2 + 3 + 1))
}

@test "the relay, or what watches it, stopped: neither outlives the ranks" {
    local with which
    for with in srun hvdrun; do
        for which in hvd-agent hvd-watchdog; do
            lasting "$with" 3
            as_root hvdn2 pkill -STOP -u alice -x "$which"
            ended 10 0
            within 2 none
        done
    done
}

@test "signals for all processes of a step do not end the relay" {
    on_login rm -f go
    begin launch srun "${FOUR[@]}" bash -c '
        trap "echo got it" USR1
        echo ready
        for ((i = 0; i < 300; i++)); do
            if [[ -e go ]]; then break; fi
            sleep 0.1
        done'
    says_times 10 4 ready
    wait_for 5 both
    as_root hvdn2 pkill -TERM -u alice "$RELAY"
    on_login scancel --signal=USR1 --user=alice
    says_times 10 4 "got it"
    both
    on_login touch go
    ended 15 0
}

@test "a launch that is cancelled, or whose srun, driver or step daemon is killed, leaves no relay" {
    for how in scancel srun hvd-driver slurmstepd; do
        # A rank that waits for a key of another is told of.
        begin launch srun "${FOUR[@]}" bash -c '
            exec 5<>/dev/tcp/$HOROVOD_GLOO_RENDEZVOUS_ADDR/$HOROVOD_GLOO_RENDEZVOUS_PORT
            printf "GET /global/rank_9 HTTP/1.1\r\nHost: x\r\n\r\n" >&5
            echo ready; exec sleep 50'
        says_times 10 4 ready
        wait_for 5 both
        case $how in
        scancel) on_login scancel --user=alice ;;
        srun) on_host hvdlogin pkill -KILL -o -x srun ;;
        hvd-driver) on_host hvdlogin pkill -KILL -x hvd-driver ;;
        slurmstepd) as_root hvdn2 pkill -KILL -x slurmstepd ;;
        esac
        # scancel sends SIGTERM first, which ends these ranks. Without a driver they go on, as does what passes on what
        # they write, but there is no rendezvous any longer.
        if [[ $how == hvd-driver ]]; then
            wait_for 5 driverless
            wait_for 5 deaf
            both
        else
            within 3 none || { echo "after the end of $how" && false; }
        fi
        on_login scancel --user=alice
        ended 15
        assert_no_leftovers 15
    done
}

@test "a relay is killed: those below it connect to the rendezvous, and its own ranks are refused" {
    local host
    # The second host's is the parent of the third's.
    script ring.sh <<'END'
#!/bin/bash
ask() {
    exec 5<>"/dev/tcp/$HOROVOD_GLOO_RENDEZVOUS_ADDR/$HOROVOD_GLOO_RENDEZVOUS_PORT" || return
    printf '%s\r\n' "$1 HTTP/1.1" "Host: x" "Content-Length: ${#2}" "Connection: close" "" >&5
    printf %s "$2" >&5
    head -n 1 <&5
}
echo "ready $(ask "PUT /ring/first_$HOROVOD_RANK" value)"
timeout --foreground 60 bash -c 'until [[ -e go ]]; do sleep 0.1; done'
echo "$(hostname) PUT $(ask "PUT /ring/rank_$HOROVOD_RANK" value)"
echo "$(hostname) GET $(ask "GET /ring/rank_$((2 - HOROVOD_RANK))")"
timeout --foreground 60 bash -c 'until [[ -e enough ]]; do sleep 0.1; done'
END
    on_login rm -f go enough
    begin on_login env HVD_RELAY_FAN_OUT=1 srun --hvd --hvd-frameworks=horovod -N3 -n3 ./ring.sh
    says_times 10 3 "ready HTTP/1.1 200"
    wait_for 5 both
    as_root hvdn3 ss -Htnp state established | grep -q "10.78.0.12:.*hvd-agent"
    as_root hvdn2 pkill -KILL -u alice -x hvd-agent
    on_login touch go
    for host in hvdn1 hvdn3; do
        says 5 "$host PUT HTTP/1.1 200"
        says 5 "$host GET HTTP/1.1 200"
    done
    says 5 "Connection refused"
    [[ $(as_root hvdn2 pgrep -l -u alice "$RELAY") == *" hvd-watchdog" ]]
    on_login touch enough
    ended 10 0
}

@test "a node agent whose ranks need no rendezvous stays, too: connected to the driver, gone with the last rank" {
    begin launch srun --hvd-frameworks=none -N2 -n3 --overcommit bash -c 'echo ready; sleep 7'
    says_times 10 3 ready
    wait_for 5 both
    wait_for 6 connected
    ended 15 0
    within 1 none
}
connected() { as_root hvdn2 ss -Htnp state established | grep -q hvd-agent; }

@test "standard error comes through byte by byte, also when the node agent is killed, or nobody reads for a while" {
    # Every byte there is, in pieces of all sizes.
    script bytes.py <<'END'
import hashlib, os, time
text, sent = bytes(range(256)) * 1200, hashlib.md5()
for i in range(12):
    at = 0
    while at < len(text):
        n = os.write(2, text[at:at + 1 + 7919 * (i + at) % 9000])
        sent.update(text[at:at + n])
        at += n
    if i == 3:
        open("half", "w").close()
        while not os.path.exists("go"):
            time.sleep(0.02)
print(sent.hexdigest(), os.isatty(2))
END
    local how reader
    for how in whole killed slow; do
        on_login rm -f half go sum
        reader=md5sum
        if [[ $how == slow ]]; then reader='sleep 3; md5sum'; fi
        wait_for 5 none_completing
        begin on_login bash -c "srun --hvd -N1 -n1 python3 -S bytes.py 2> >($reader >sum)"
        if [[ $how == slow ]]; then on_login touch go; fi
        wait_for 10 on_login test -e half
        if [[ $how == killed ]]; then as_root hvdn1 pkill -KILL -u alice '^hvd-agent'; fi
        on_login touch go
        ended 30 0
        wait_for 5 on_login test -s sum
        [[ $output == "$(on_login cut -d " " -f 1 sum) False" ]] || { echo "$how: $output" && on_login cat sum && false; }
    done
}

@test "standard error is left alone where it is no pipe, and where nobody is to look" {
    # The agent is there before the rank; that it has the rank's pipe may be a moment later, for which no event tells.
    local looks='pipe=$(readlink /proc/self/fd/2) agent=$(pgrep -u alice "^hvd-agent")
        for n in {1..20}; do
            count=$(for fd in /proc/$agent/fd/*; do readlink "$fd"; done | grep -cF "$pipe")
            if ((count > 0)); then break; fi
            sleep 0.05
        done
        echo "$count"'
    run launch srun -N1 -n1 bash -c "$looks"
    [[ $output == 1* ]] || { echo "$output" && false; }
    run launch srun -N1 -n1 --hvd-stderr-lines=0 bash -c "$looks"
    [[ $output == 0* ]] || { echo "$output" && false; }
    gives 0 launch srun -N1 -n1 --error=err.%t bash -c 'echo to a file >&2; readlink /proc/self/fd/2; cat /proc/self/fd/2'
    [[ $output == *"/err.0"$'\nto a file' ]] || { echo "$output" && false; }
    run on_login script -qec 'srun --hvd --pty bash -c "[ -t 2 ] && echo a terminal"' /dev/null
    has "a terminal"
}
