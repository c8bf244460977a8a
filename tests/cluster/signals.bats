#!/usr/bin/env bats
# scancel, Ctrl-C and signals to the launcher: before, during and after the start.

load launch

setup_file() { suite_up --nodes 2; }

ALL=(-N2 -n4 --ntasks-per-node=2)
TTY=$BATS_TEST_DIRNAME/on_tty

command_of() { if [[ $1 == srun ]]; then echo "srun --hvd"; else echo hvdrun; fi; }

# typed STEPS… -- srun|hvdrun ARG…: on a terminal, in the background.
typed() {
    local steps=()
    while [[ $1 != -- ]]; do
        steps+=("$1")
        shift
    done
    # shellcheck disable=SC2046
    begin timeout 60 "$TTY" "${steps[@]}" -- "$HVD_CLUSTER_CMD" exec -- $(command_of "$2") "${@:3}"
}

# occupy: bob has all nodes, so that what alice starts has to queue.
occupy() {
    as_user bob sbatch --quiet --exclusive -N2 --output=/dev/null --chdir=/tmp --wrap 'sleep 60'
    wait_for 10 runs_as_bob
}

runs_as_bob() { as_root hvdn1 pgrep -u bob sleep >/dev/null; }
vacate() { as_user bob scancel --user=bob; }
queued() { [[ $(on_host hvdctl squeue -h -u alice -t PD) ]]; }

# srun sends SIGINT, and SIGKILL to the step when it aborts; a task may end by the one or the other, and the higher
# status is srun's.
interrupted() { exits_one_of 130 137; }

# limit_reached JOB: its time is over now, and not after a minute, which is the shortest limit that there is.
limit_reached() { as_root hvdctl scontrol update "JobId=$1" EndTime=now+1; }

@test "scancel in mid-run ends the launch" {
    for with in srun hvdrun; do
        begin launch "$with" "${ALL[@]}" bash -c 'echo ready; sleep 50'
        says_times 10 4 ready
        sleep 0.3
        on_login scancel --user=alice
        ended 10 143
        has CANCELLED
        has_not "failed first"
        assert_no_leftovers
    done
}

@test "scancel during the start ends the launch" {
    for with in srun hvdrun; do
        fault node-freeze hvdn2
        begin launch "$with" "${ALL[@]}" bash -c 'echo ready; sleep 50'
        wait_for 10 runs_on hvdn1 hvd-agent
        on_login scancel --user=alice
        fault node-thaw hvdn2
        ended 15
        [ "$status" -ne 0 ]
        has_not ready "was killed?"
        assert_no_leftovers 10
    done
}

@test "scancel while the job is queued ends the launch" {
    for with in srun hvdrun; do
        occupy
        begin launch "$with" "${ALL[@]}" echo begun
        wait_for 10 queued
        on_login scancel --user=alice
        ended 10
        [ "$status" -ne 0 ]
        has_not begun
        vacate
        assert_no_leftovers 10
    done
}

@test "the start's deadline does not count time in the queue" {
    for with in srun hvdrun; do
        occupy
        begin launch "$with" --hvd-start-timeout=1 "${ALL[@]}" hvd-selftest --quick
        wait_for 10 queued
        sleep 2.5
        vacate
        ended 30
        selftest_ok 4 2
    done
    assert_no_leftovers
}

@test "one Ctrl-C shows the tasks, two end the job" {
    # A rank that has not begun when srun is at its end is killed.
    local all=$'ready\r\nready\r\nready\r\nready'
    for with in srun hvdrun; do
        typed --wait "$all" --sleep 0.3 --type ^C --wait "tasks 0-3: running" --sleep 1.3 --type ^C \
            --wait "one more within" --type ^C -- "$with" "${ALL[@]}" bash -c 'echo ready; sleep 50'
        ended 15
        interrupted
        [[ $(grep -c "one more within 1 sec to abort" <<<"$output") -eq 2 ]]
        has "tasks 0-3: running" "sending Ctrl-C"
        has_not "failed first"
        assert_no_leftovers
    done
}

@test "Ctrl-C is no failure of a rank, also where Python shows it as an exception or a shell makes a status of it" {
    local with rank
    script sleeps.py <<<$'import time\nprint("ready", flush=True)\ntime.sleep(50)'
    for rank in "python3 sleeps.py" "sh -c 'echo ready; sleep 50; exit \$?'"; do
        for with in srun hvdrun; do
            eval "typed --wait ready --wait ready --sleep 0.3 --type ^C --wait 'one more within' --type ^C -- $with -N2 -n2 $rank"
            ended 15
            interrupted
            has_not "failed first" "failed:" "srun ended"
            if [[ $with == hvdrun ]]; then has "hvdrun: interrupted: srun ends the ranks"; fi
        done
    done
    # One Ctrl-C ends nothing, and a rank that fails later does so by itself.
    typed --wait ready --sleep 0.3 --type ^C -- hvdrun -N2 -n2 sh -c 'echo ready; sleep 3; exit 7'
    ended 15 7
    has "failed first: exit code 7"
    assert_no_leftovers
}

@test "Ctrl-C is no failure of a rank, also where srun sees two of them and hvdrun one" {
    # Two signals that come at once are one to a process that did not run in between. hvdrun passes its one on; srun gets
    # another one, within the second that it allows. While a host is frozen srun does not end, and hvdrun learns of the end
    # of a rank first. (It would not of ranks that SIGINT kills together with their shims.)
    local pids
    begin launch hvdrun -N2 -n2 sh -c 'trap "exit 130" INT; echo ready; sleep 50'
    says_times 10 2 ready
    pids=$(on_login bash -c 'pgrep -x -o hvdrun && pgrep -x -o srun')
    fault node-freeze hvdn2
    # shellcheck disable=SC2016,SC2086 # what that shell reads; two words
    as_root hvdlogin timeout 10 bash -c \
        'kill -INT "$1" && until grep -q "one more within" "$0"; do sleep 0.01; done && kill -INT "$2"' "$OUT" $pids
    says 10 "sending Ctrl-C"
    says 10 "hvdrun: interrupted: srun ends the ranks"
    fault node-thaw hvdn2
    ended 20
    exits_one_of 130 137 143 # a shell may also see the SIGTERM that comes in between
    has_not "failed first" "failed:" "srun ended"
    assert_no_leftovers
}

@test "Ctrl-C twice during the start ends the launch" {
    for with in srun hvdrun; do
        fault node-freeze hvdn2
        typed --sleep 1.2 --type ^C --wait "one more within" --type ^C -- "$with" "${ALL[@]}" bash -c 'echo ready; sleep 50'
        says 10 "sending Ctrl-C"
        fault node-thaw hvdn2
        ended 15
        [ "$status" -ne 0 ]
        has_not ready
        assert_no_leftovers 10
    done
}

@test "Ctrl-C while the job is queued ends the launch" {
    for with in srun hvdrun; do
        occupy
        typed --wait queued --sleep 0.3 --type ^C -- "$with" "${ALL[@]}" echo begun
        ended 10
        [ "$status" -ne 0 ]
        has_not begun
        vacate
        assert_no_leftovers 10
    done
}

@test "--quit-on-interrupt and -X work as with srun" {
    for with in srun hvdrun; do
        typed --wait ready --sleep 0.3 --type ^C -- "$with" --quit-on-interrupt "${ALL[@]}" \
            bash -c 'echo ready; sleep 50'
        ended 10
        interrupted
    done
    assert_no_leftovers
}

@test "SIGINT, SIGTERM and SIGHUP to the launcher end the ranks" {
    for with in srun hvdrun; do
        begin launch "$with" "${ALL[@]}" bash -c 'echo ready; sleep 50'
        says_times 10 4 ready
        sleep 0.3
        # One SIGINT has srun report, and the ranks go on; three within a second end them.
        on_host hvdlogin pkill -INT -o -x "$with"
        says 5 "tasks 0-3: running"
        sleep 1.5
        runs_on hvdn1 'sleep 50' && runs_on hvdn2 'sleep 50'
        # All by one shell: a shell on a host takes a while to begin.
        on_host hvdlogin bash -c "for i in 1 2 3; do pkill -INT -o -x $with || true; sleep 0.2; done"
        ended 15
        interrupted
        has "sending Ctrl-C"
        assert_no_leftovers
        for signal in TERM HUP; do
            begin launch "$with" "${ALL[@]}" bash -c 'echo ready; sleep 50'
            says_times 10 4 ready
            sleep 0.3
            on_host hvdlogin pkill "-$signal" -o -x "$with"
            ended 15
            exits_one_of 137 143
            has "forcing job termination"
            has_not "failed first" "failed:" "srun ended"
            [[ $with == srun ]] || has ": srun ends the ranks"
            assert_no_leftovers
        done
    done
}

@test "other signals reach the ranks" {
    for with in srun hvdrun; do
        begin launch "$with" "${ALL[@]}" bash -c 'trap "echo got it; exit 0" USR1; echo ready; for i in {1..30}; do sleep 0.2; done'
        says_times 10 4 ready
        sleep 0.3
        on_host hvdlogin pkill -USR1 -o -x "$with"
        ended 15
        [[ $(grep -c "got it" <<<"$output") -eq 4 ]] || { echo "$with $status: $output" && return 1; }
        assert_no_leftovers
    done
}

@test "a signal of scancel's comes to each rank once" {
    for with in srun hvdrun; do
        signalled_once "$with"
        assert_no_leftovers
    done
}

@test "a time limit ends the ranks" {
    local with how job n=0 said=() pids=()
    # Slurm sends SIGTERM twice, some milliseconds apart.
    local -A how_of=([saves]='trap "trap : TERM; echo saving; exit 0" TERM; ' [dies]='')
    # Side by side: Slurm looks for such jobs every half minute.
    for how in saves dies; do
        for with in srun hvdrun; do
            said[n]=$BATS_TEST_TMPDIR/$with-$how
            launch "$with" -t 1 "${ALL[@]}" bash -c "${how_of[$how]}"'echo ready; for i in {1..400}; do sleep 0.2; done' \
                >"${said[n]}" 2>&1 3>&- &
            pids[n++]=$!
        done
    done
    for OUT in "${said[@]}"; do says_times 10 4 ready; done
    for job in $(on_host hvdctl squeue -h -u alice -o %i); do limit_reached "$job"; done
    n=0
    for how in saves dies; do
        for with in srun hvdrun; do
            # shellcheck disable=SC2034 # of ended
            PID=${pids[n]} OUT=${said[n++]}
            wait_for 60 stopped "$PID"
            ended 1
            has "DUE TO TIME LIMIT"
            has_not "failed first"
            if [[ $how == dies ]]; then
                exits 143
            else
                # All ranks are told, and get KillWait to save what they have.
                exits 0
                [[ $(grep -c saving <<<"$output") -eq 4 ]] || { echo "$with: $output" && false; }
            fi
        done
    done
    assert_no_leftovers
}
