#!/usr/bin/env bats
# hvdrun in an LSF job: jsrun, blaunch and lsrun are stand-ins, which run the ranks for real on the test hosts.

load launch
load lsf

ALL="hvdn1 hvdn2 hvdn3"

setup_file() {
    hosts_up --auth munge --nodes 3
    # shellcheck disable=SC2086 # a list
    standins_up hvdlogin $ALL
}
setup() { with blaunch; }
teardown() {
    local host
    cluster_mend
    for host in hvdlogin $ALL; do standin_daemon "$host"; done
    forget_calls
}

# with NAME…: prepares a job of six slots on three hosts, with these launchers. A job of jsrun has a launch node.
with() {
    JOB_HOSTS="hvdn1 2 hvdn2 2 hvdn3 2"
    if [[ $1 == jsrun ]]; then JOB_HOSTS="hvdlogin 1 $JOB_HOSTS"; fi
    installed "$@"
}
EACH="jsrun blaunch lsrun"

sixth() { in_job hvdrun "$@"; }
ranks_say() { sort -n <<<"$output"; }

@test "the self-test passes through each launcher, and every rank is where it belongs" {
    for each in $EACH; do
        with "$each"
        selftest 6 3 sixth hvd-selftest --quick
        gives 0 sixth bash -c 'echo "$HOROVOD_RANK $HOROVOD_LOCAL_RANK $HOROVOD_CROSS_RANK $HOROVOD_HOSTNAME $(hostname)"'
        ranks_said "0 0 0 hvdn1 hvdn1" "1 1 0 hvdn1 hvdn1" "2 0 1 hvdn2 hvdn2" "3 1 1 hvdn2 hvdn2" "4 0 2 hvdn3 hvdn3" \
            "5 1 2 hvdn3 hvdn3"
        [[ $(called "$each") -ge 2 ]]
        nothing_left
    done
}

@test "fewer ranks take the first slots, other hosts are refused, and PATH decides on the launcher" {
    for each in $EACH; do
        with "$each"
        gives 0 sixth -np 3 bash -c 'echo "$HOROVOD_RANK $(hostname) $HOROVOD_SIZE"'
        ranks_said "0 hvdn1 3" "1 hvdn1 3" "2 hvdn2 3"
        gives 0 sixth --hosts hvdn3:1,hvdn2:2 bash -c 'echo "$HOROVOD_RANK $(hostname)"'
        ranks_said "0 hvdn3" "1 hvdn2" "2 hvdn2"
        gives 2 sixth --hosts hvdn4:1 true
        has "host hvdn4 is not in this allocation"
    done
    with jsrun blaunch lsrun
    run sixth --dry-run true
    has "# backend: jsrun"
    with blaunch lsrun
    run sixth --dry-run true
    has "# backend: blaunch"
    run sixth --launcher=lsrun --dry-run true
    has "# backend: lsrun"
    gives 2 sixth --launcher=jsrun true
    has "jsrun is not in PATH"
    with
    gives 2 sixth true
    has "none of LSF's launchers (jsrun, blaunch, lsrun) is in PATH" "profile.lsf" "--launcher=ssh"
    JOB_HOSTS="hvdn1 2"
    selftest 2 1 sixth hvd-selftest --quick
}

@test "a Python function runs in every rank, and its results come back, through each launcher" {
    python3 -c 'import cloudpickle' 2>/dev/null || skip "the Python module cloudpickle is not installed"
    for each in $EACH; do
        with "$each"
        gives 0 in_job env PYTHONPATH="$(cd "$BATS_TEST_DIRNAME/../../python" && pwd)" PYTHONDONTWRITEBYTECODE=1 python3 -c \
            'import hvdrun, os; print(hvdrun.run(lambda: os.uname()[1], num_proc="all"))'
        has "['hvdn1', 'hvdn1', 'hvdn2', 'hvdn2', 'hvdn3', 'hvdn3']"
        nothing_left
    done
}

@test "words, environment, directory and input arrive exactly" {
    local each value=$'two\nlines, \'single\' "double" $(x) `y` \\ \t!* end' big
    big=$(head -c 100000 /dev/zero | tr '\0' x)
    as_root hvdlogin mkdir -p "$(home)/a dir 'q'"
    script look.py <<'END'
import os, sys
if os.environ["HOROVOD_RANK"] == "3":
    print(repr(os.environ["HVD_T_VALUE"]))
    print(os.getcwd())
    print(len(os.environ["HVD_T_BIG"]), sorted(n for n in os.environ if n in ("CUDA_VISIBLE_DEVICES", "SLURM_HVD_BOOT")))
    print(sys.argv[1:], sys.stdin.read() == "")
END
    for each in $EACH; do
        with "$each"
        gives 0 in_job env HVD_T_VALUE="$value" HVD_T_BIG="$big" bash -c "cd 'a dir '\\''q'\\'; exec hvdrun python3 ../look.py \"\$@\"" \
            bash "a b" '*' '$HOME' "it's" ''
        [[ $output == "$(python3 -c 'import sys; print(repr(sys.argv[1]))' "$value")
$(home)/a dir 'q'
100000 []
['a b', '*', '\$HOME', \"it's\", ''] True" ]] || { echo "$each: $output" && return 1; }
    done
    # Input goes to rank 0. The command lines and environments of lsrun and blaunch have no secret.
    for each in blaunch lsrun; do
        with "$each"
        output=$(HVD_PATH=$B/bin:$JOB_PATH cluster exec --host hvdn1 -- env LSB_JOBID=1 LSB_HOSTS="hvdn2 hvdn3" \
            LSF_SERVERDIR="$STANDINS/server" STANDIN_DIR="$STANDIN_DIR" hvdrun bash -c 'wc -l | sed "s/^/$HOROVOD_RANK /"' < <(seq 50000))
        ranks_said "0 50000" "1 0"
        [[ $(called "$each" "SLURM_HVD_BOOT") -eq 0 ]]
    done
    nothing_left
}

@test "lsrun's helper leaves its stdin unread until it is woken up: every start succeeds" {
    with lsrun
    for _ in {1..5}; do
        gives 0 sixth --start-timeout 10 bash -c 'cat; echo "$HOROVOD_RANK of $HOROVOD_SIZE"'
        [[ $(ranks_say) == "$(printf '%d of 6\n' {0..5})" ]] || { echo "$output" && return 1; }
    done
    # Input for rank 0, which follows the launch's data on stdin, arrives as well.
    output=$(HVD_PATH=$B/bin:$JOB_PATH cluster exec --host hvdn1 -- env LSB_JOBID=1 LSB_HOSTS="hvdn2 hvdn3" \
        LSF_SERVERDIR="$STANDINS/server" STANDIN_DIR="$STANDIN_DIR" hvdrun bash -c '(($HOROVOD_RANK)) || wc -l' < <(seq 50000))
    [[ $output == 50000 ]] || { echo "$output" && return 1; }
    nothing_left
}

@test "nice value and limit of locked memory are the job's on all hosts" {
    for each in blaunch lsrun; do
        with "$each"
        gives 0 in_job nice -n 4 bash -c 'ulimit -S -l 40; exec hvdrun bash -c "echo \$HOROVOD_RANK \$(nice) \$(ulimit -l)"'
        [[ $(ranks_say) == "$(printf "%d $(($(nice) + 4)) 40\n" {0..5})" ]] || { echo "$each: $output" && return 1; }
    done
    nothing_left
}

@test "a directory that another host lacks is named" {
    # Each host has a /dev/shm of its own.
    as_root hvdn1 install -d -o alice /dev/shm/here
    for each in blaunch lsrun; do
        with "$each"
        gives 1 in_job bash -c 'cd /dev/shm/here && exec hvdrun echo unlikely'
        has "hvdrun: error: hvdn" ": cannot change to the directory /dev/shm/here: No such file or directory" \
            "a directory that exists under the same path on all hosts"
        has_not unlikely "installed" "ended before"
    done
    as_root hvdn1 rmdir /dev/shm/here
    nothing_left
}

@test "the last output of ranks arrives on stdout and stderr, with and without an end of line" {
    local each options stderr
    for each in blaunch lsrun; do
        with "$each"
        for options in --launcher=auto --label; do
            run --separate-stderr sixth "$options" bash -c 'echo "out $HOROVOD_RANK"; echo "err $HOROVOD_RANK" >&2
                printf " rest %d," "$HOROVOD_RANK"; printf " end %d," "$HOROVOD_RANK" >&2'
            exits 0
            [[ $(grep -oP "out \d" <<<"$output" | sort | xargs) == "$(echo out\ {0..5})" &&
                $(grep -oP "rest \d" <<<"$output" | sort | xargs) == "$(echo rest\ {0..5})" &&
                $(grep -oP "err \d" <<<"$stderr" | sort | xargs) == "$(echo err\ {0..5})" &&
                $(grep -oP "end \d" <<<"$stderr" | sort | xargs) == "$(echo end\ {0..5})" ]] ||
                { echo "$each $options: $output; $stderr" && return 1; }
        done
    done
    nothing_left
}

@test "exit codes: a rank that fails ends the others, though a launcher loses statuses" {
    export STANDIN_STATUS=lost
    for each in $EACH; do
        with "$each"
        begin_job hvdrun bash -c '[ $HOROVOD_RANK = 3 ] && exit 7; setsid sleep 48 & sleep 50'
        ended 30 7
        has "rank 3 on hvdn2 failed first: exit code 7"
        has_not "ended before"
        gives 137 sixth bash -c '[ $HOROVOD_RANK = 1 ] && kill -9 $$; sleep 50'
        has "rank 1 on hvdn1 failed first: killed by signal 9"
        begin_job hvdrun no-such-command
        ended 20 127
        gives 3 sixth --keep-going bash -c 'exit $((HOROVOD_RANK == 2 ? 3 : 0))'
        nothing_left
    done
}

@test "bkill: INT, TERM and KILL end everything on all hosts" {
    local each signal status_of page
    for each in $EACH; do
        with "$each"
        for signal in INT TERM KILL; do
            page=()
            [[ $each$signal != jsrunTERM ]] || page=("${HANG_PAGE[@]}")
            begin_job hvdrun "${page[@]}" bash -c 'echo ready; setsid sleep 47 & trap "" INT; sleep 50; sleep 50'
            says_times 20 6 ready
            [[ ! ${page[*]} ]] || hang_page 6
            job_signal "$signal"
            ended 20
            case $signal in INT) status_of=130 ;; TERM) status_of=143 ;; KILL) status_of=137 ;; esac
            exits "$status_of"
            has_not "failed first"
            [[ ! ${page[*]} ]] || end_page
            nothing_left 15
        done
    done
}

@test "bkill during the start ends everything on all hosts" {
    for each in jsrun lsrun; do
        with "$each"
        fault node-freeze hvdn3
        begin_job hvdrun echo unlikely
        if [[ $each == jsrun ]]; then wait_for 15 called jsrun topology; else wait_for 15 runs_on hvdn2 hvd-agent; fi
        job_signal INT
        ended 25 130
        has_not unlikely
        fault clear
        nothing_left 20
    done
}

# every_rank SECONDS WORD: within that time each of the six ranks has printed WORD.
every_rank() { wait_for "$1" all_said "$2" || { cat "$OUT" && return 1; }; }
all_said() { [[ $(grep -oP "^$1 \K\d" "$OUT" | sort -u | xargs) == "0 1 2 3 4 5" ]]; }

@test "signals for every process of the job's first host: the ranks decide, and have their five seconds" {
    for each in $EACH; do
        with "$each"
        begin_job hvdrun bash -c 'trap "" INT; trap "echo saved \$HOROVOD_RANK" USR1; trap "echo limit \$HOROVOD_RANK" USR2
            trap "sleep 2; echo over \$HOROVOD_RANK; exit 0" TERM; echo ready; while :; do sleep 0.1; done'
        says_times 20 6 ready
        every_process USR1
        every_rank 10 saved
        every_process USR2
        every_rank 10 limit
        # bkill in a job that has run for a while: launcher and node agents get the signal at the same time.
        every_process INT
        ended 20 130
        every_rank 0 over
        has_not "failed first" "ended before"
        nothing_left
    done
}

counts() { [[ $(wc -l <"$OUT") -gt $1 ]]; }

@test "bstop and bresume reach the ranks on all hosts" {
    local each now
    for each in $EACH; do
        with "$each"
        begin_job hvdrun bash -c 'trap "exit 0" TERM; while :; do echo tick $HOROVOD_RANK; sleep 0.2; done'
        says 20 "tick 5"
        gives 0 in_job hvdrun --status 4711
        has "hosts: 3 here" "ranks: 6 running"
        job_signal TSTP
        wait_for 10 stopped_on hvdn1 hvdn2 hvdn3
        job_signal STOP
        now=$(wc -l <"$OUT")
        sleep 1
        [[ $(wc -l <"$OUT") -le $((now + 6)) ]]
        job_signal CONT
        wait_for 10 counts $((now + 30))
        job_signal TERM
        ended 20
        nothing_left
    done
}
# stopped_on HOST…: succeeds when all ranks there are stopped.
stopped_on() {
    local host
    for host in "$@"; do
        [[ $(as_root "$host" bash -c 'ps -C bash -o stat=,args= | grep "tick .HOROVOD" | grep -v hvdrun | cut -c1 | sort | uniq -c | tr -d " "') == 2T ]] ||
            return 1
    done
}

@test "a host that is lost is named, and the job ends" {
    for each in jsrun lsrun; do
        with "$each"
        begin_job hvdrun bash -c 'echo ready; sleep 100'
        says_times 20 6 ready
        fault node-kill hvdn3
        ended 45 1
        case $each in
        jsrun) has "hvdrun: error: hvdn3: the connection to its node agent was lost" "(bhosts hvdn3)" ;;
        lsrun) has "hvdrun: error: hvdn3: its lsrun ended before its ranks did: exit code 0" "(bhosts hvdn3, " ;;
        esac
        has_not "sinfo" "failed first" "error: hvdn1" "error: hvdn2"
        fault clear
        # shellcheck disable=SC2086
        for host in $ALL; do standin_daemon "$host"; done
        nothing_left 15
    done
}

@test "a launcher that fails or is killed ends the job, and its host is named" {
    export STANDIN_FAIL=hvdn3
    with blaunch
    gives 1 sixth --start-timeout 20 echo unlikely
    has "hvdn3: its blaunch ended before its ranks did: exit code 255" "blaunch hvdn3 hostname" "cannot connect"
    has_not unlikely
    with lsrun
    gives 1 sixth --start-timeout 20 echo unlikely
    has "hvdn3: its lsrun ended before its ranks did: exit code 0" "lsrun -m hvdn3 -- hostname" "unknown host"
    unset STANDIN_FAIL
    for each in blaunch lsrun; do
        with "$each"
        begin_job hvdrun bash -c 'echo ready; sleep 50'
        says_times 20 6 ready
        as_root hvdn1 pkill -KILL -u alice -f "$each .*hvdn2"
        ended 20 1
        has "hvdrun: error: hvdn2: its $each ended before its ranks did: killed by signal 9 (SIGKILL)"
        has_not "failed first" "error: hvdn1" "error: hvdn3"
        nothing_left
    done
}

@test "hvdrun or jsrun killed, and jsrun's tasks go on: they end all the same" {
    local who
    with jsrun
    export STANDIN_JSRUN=orphans
    for who in hvdrun jsrun; do
        begin_job hvdrun bash -c 'echo ready; setsid sleep 47 & sleep 50'
        says_times 20 6 ready
        if [[ $who == jsrun ]]; then
            as_root hvdlogin pkill -KILL -u alice -f standins/.*/jsrun
        else
            as_root hvdlogin pkill -KILL -u alice -x hvdrun
        fi
        ended 20
        if [[ $who == jsrun ]]; then
            exits 1
            has "jsrun ended before its ranks did: killed by signal 9"
        else
            exits 137
        fi
        nothing_left 15
    done
}

@test "hvdrun killed: with blaunch and lsrun no process is left anywhere" {
    # The ranks take their time to end. If anything killed the node agents meanwhile, processes in sessions of their own
    # would be left.
    for each in blaunch lsrun; do
        with "$each"
        begin_job hvdrun --kill-wait 5 bash -c 'trap "" TERM; echo ready; setsid sleep 47 & sleep 50'
        says_times 20 6 ready
        as_root hvdn1 pkill -KILL -u alice -x hvdrun
        ended 20 137
        nothing_left 15
    done
}

@test "jsrun: variables that contradict each other, and failures, are named" {
    with jsrun
    STANDIN_JSRUN=rank+1 gives 1 sixth --start-timeout 15 echo unlikely
    has "PMIX_RANK gives rank 0, but OMPI_COMM_WORLD_RANK gives rank 1"
    has_not unlikely
    STANDIN_JSRUN=backwards gives 1 sixth --start-timeout 4 echo unlikely
    has "hvd-agent: error: hvdn3: rank 0 is on hvdn3, not on hvdn1: ranks were not put on the hosts slot by slot" \
        "hvd-agent: error: hvdn1: rank 5 is on hvdn1, not on hvdn3: ranks were not put on the hosts slot by slot" \
        "must not change which rank goes to which host"
    has_not unlikely
    STANDIN_JSRUN=fail gives 1 sixth echo unlikely
    has "jsrun ended before its ranks did: exit code 210" "Remote JSM server" "--erf FILE --dry-run" "--key-file"
    STANDIN_JSRUN=no-pmix run sixth hvd-selftest --quick
    selftest_ok 6 3
    # More ranks than a host has CPUs.
    gives 2 sixth --slots-per-host 3 true
    has "hvdn1: " "2 cores with 1 hardware threads each, too few for 3 ranks" "--binding-args"
    gives 2 in_job env JSM_NAMESPACE_RANK=0 hvdrun true
    has "this is a task of jsrun already (JSM_NAMESPACE_RANK is 0)"
    nothing_left
}

@test "jsrun: the resource file is the same with --erf and in a launch" {
    with jsrun
    gives 0 sixth --erf by-hand --dry-run true
    has "jsrun --erf_input by-hand"
    [[ $(stat -c %a "$(home)/by-hand") == 600 ]]
    [[ $(sed -n '$p' "$(home)/by-hand") == "rank: 5: { hostname: hvdn3; cpu: {1} ; gpu: * ; mem: * }" ]]
    gives 0 in_job jsrun --erf_input by-hand bash -c 'echo "$JSM_NAMESPACE_RANK $(hostname) $STANDIN_CPUS"'
    ranks_said "0 hvdn1 0" "1 hvdn1 1" "2 hvdn2 0" "3 hvdn2 1" "4 hvdn3 0" "5 hvdn3 1"
    # LSF's own binding is kept, with the kernel's numbers of CPUs.
    printf 'hvdlogin 7\nhvdn1 0,1\nhvdn1 2\nhvdn2 4\nhvdn2 5\nhvdn3 1\nhvdn3 0\n' >"$(home)/affinity"
    gives 0 in_job env LSB_AFFINITY_HOSTFILE="$(home)/affinity" hvdrun bash -c 'echo "$HOROVOD_RANK $STANDIN_CPUS"'
    ranks_said "0 0,1" "1 2" "2 4" "3 5" "4 1" "5 0"
    gives 2 sixth --erf /nonexistent/erf true
    has "cannot write the resource file /nonexistent/erf"
    gives 2 sixth --erf erf --launcher=blaunch true
    has "--erf is for jsrun"
    nothing_left
}

@test "jsrun gets arguments for binding and for MPI, and writes output to files" {
    with jsrun
    gives 0 sixth --dry-run --jsrun --tcp --mpi-args='-gpu "a b"' --binding-args '-n 6 -a 1 --bind "packed:2"' --output-filename out prog arg
    has "jsrun -n 6 -a 1 --bind packed:2 --smpiargs '-tcp -gpu \"a b\"' --stdio_stdout $(home)/out/stdout --stdio_stderr $(home)/out/stderr"
    has_not "--erf_input" "--output-dir"
    gives 0 sixth --jsrun --output-filename out bash -c 'echo "said $HOROVOD_CONTROLLER $JSM_NAMESPACE_RANK ${HOROVOD_RANK-none} ${NCCL_SOCKET_IFNAME:+nics}"; echo told >&2'
    [[ $(sort "$(home)/out/stdout") == "$(printf 'said mpi %d none nics\n' {0..5})" ]] || { head "$(home)"/out/* && return 1; }
    [[ $(grep -c told "$(home)/out/stderr") -eq 6 ]]
    gives 0 in_job bash -c 'exec -a horovodrun hvdrun --output-filename gloo bash -c "echo said; echo told >&2"'
    has "[0]<stdout>:said" "[5]<stderr>:told"
    [[ $(cat "$(home)"/gloo/rank.5/stdout) == *said* ]]
    nothing_left
}

@test "ranks are bound on each host as LSF has bound the tasks" {
    local each file
    file=$(home)/affinity
    printf '%s\n' "hvdn1 0" "hvdn2 0 0 1" "hvdn1 0-1" "hvdn2 0" "hvdn3 1" "hvdn3 0,1" >"$file"
    (($(nproc) >= 2)) || skip "this machine has one CPU"
    for each in blaunch lsrun; do
        with "$each"
        gives 0 in_job env LSB_AFFINITY_HOSTFILE="$file" hvdrun bash -c \
            'echo "$HOROVOD_RANK $(awk "/Cpus_allowed_list/ { print \$2 }" /proc/self/status)"'
        ranks_said "0 0" "1 0-1" "2 0" "3 0" "4 1" "5 0-1"
        nothing_left
    done
}

# CSM describes hosts of two sockets with 22 cores of four threads, one core of each socket isolated. The resource file
# must be the one of tests/unit/lsf/test_erf.c. The hosts that run the ranks are small, and are not asked.
@test "jsrun on a system with CSM uses CSM's cores, SMT mode and GPUs" {
    local csm mode
    csm=$(home)/csm
    as_root hvdlogin install -d -m 777 "$csm"
    with jsrun csm_allocation_query csm_node_attributes_query
    printf 'hvdn1 44 2 6\nhvdn2 44 2 2\n' >"$csm/nodes"
    for mode in 1 2 4; do
        printf '%s\n' "compute_nodes: hvdn1 hvdn2" "smt_mode: $mode" "isolated_cores: 1" >"$csm/allocation.77"
        gives 0 in_job env CSM_ALLOCATION_ID=77 HVD_STANDIN_CSM="$csm" STANDIN_CORES="42x$mode" hvdrun --erf erf \
            bash -c 'echo "$HOROVOD_RANK $(hostname) $STANDIN_CPUS"'
        [[ $(ranks_say | awk '{ print $1, $2, split($3, cpus, ","), cpus[1] }') == "0 hvdn1 $((7 * mode)) 0
1 hvdn1 $((7 * mode)) $((7 * mode))
2 hvdn1 $((7 * mode)) $((14 * mode))
3 hvdn1 $((7 * mode)) $((21 * mode))
4 hvdn1 $((7 * mode)) $((28 * mode))
5 hvdn1 $((7 * mode)) $((35 * mode))
6 hvdn2 $((21 * mode)) 0
7 hvdn2 $((21 * mode)) $((21 * mode))" ]] || { echo "$output" && return 1; }
        [[ $(sed -n 8p "$(home)/erf") == "rank: 5: { hostname: hvdn1; cpu: {$((35 * mode))-$((42 * mode - 1))} ; gpu: * ; mem: * }" ]]
    done
    # No task of jsrun has asked the nodes.
    [[ $(called jsrun topology) -eq 0 ]]
    nothing_left
}

@test "a job is requeued before its run limit, by brequeue" {
    installed blaunch brequeue bjobs
    rm -f "$STANDIN_DIR/requeued"
    echo "0:01 L" >"$STANDIN_DIR/time_left"
    run sixth --signal-ranks=USR1@60 --requeue-on=limit bash -c 'trap "exit 7" USR1; while :; do sleep 0.1; done'
    ((status == 7 || status == 128 + 10)) # the signal may come before the trap is there
    has "the job reaches its time limit in 60 s: sending SIGUSR1 to all ranks" "requeueing job 4711: its time limit"
    [ "$(<"$STANDIN_DIR/requeued")" = 4711 ]
    run in_job env LSB_JOBINDEX=3 hvdrun --requeue-on=ask bash -c 'exit 85'
    has "requeueing job 4711[3]: a rank asks for it"
    [ "$(tail -n 1 "$STANDIN_DIR/requeued")" = "4711[3]" ]
    echo "-" >"$STANDIN_DIR/time_left"
    gives 85 in_job env LSB_INTERACTIVE=Y hvdrun --signal-ranks=USR1@60 --requeue-on=ask bash -c 'sleep 1; exit 85'
    has "the job has no time limit" "brequeue refuses: Job <4711>: Interactive batch job cannot be requeued"
}
