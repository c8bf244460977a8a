#!/usr/bin/env bats
# Ranks, nodes and helpers fail: the launch ends soon, a message names the cause, and
# nothing is left.

load launch

setup_file() { suite_up --nodes 4; }
teardown() {
    as_root hvdn2 chmod 755 /run/munge || true
    cluster_mend
}

FOUR=(-N2 -n4 --ntasks-per-node=2 -w 'hvdn[1-2]')

@test "a rank that sends itself SIGTERM has failed as well" {
    begin launch hvdrun "${FOUR[@]}" bash -c '[ $HOROVOD_RANK = 1 ] && kill -TERM $$; sleep 50'
    ended 10 143
    has "rank 1 on hvdn1 failed first: killed by signal 15 (SIGTERM)"
    assert_no_leftovers
}

@test "all ranks fail at once: one is named, and the status is one of theirs" {
    begin launch hvdrun -N4 --ntasks-per-node=4 bash -c 'exit $((10 + HOROVOD_RANK))'
    ended 10
    ((status >= 10 && status < 26))
    [[ $(grep -c "failed first" <<<"$output") -eq 1 ]]
    has "rank $((status - 10)) on hvdn$(((status - 10) / 4 + 1)) failed first: exit code $status"
    assert_no_leftovers
}

@test "ranks that hang after another failed, or ignore SIGTERM, are ended" {
    for with in srun hvdrun; do
        begin launch "$with" "${FOUR[@]}" hvd-selftest --quick --fail-rank 1:KILL --hang-rank 3 --sleep 60
        ended 10
        if [[ $with == srun ]]; then exits 143; else exits 137; fi
        has "hvdn1: task 1: Killed"
    done
    has "rank 1 on hvdn1 failed first: killed by signal 9 (SIGKILL)"
    for with in srun hvdrun; do
        # KillWait is five seconds here.
        begin launch "$with" "${FOUR[@]}" bash -c 'trap "" TERM; [ $HOROVOD_RANK = 0 ] && exit 5; sleep 50'
        ended 15
        if [[ $with == srun ]]; then exits 137; fi
        has "hvdn1: task 0: Exited with exit code 5"
        assert_no_leftovers
    done
    exits 5
}

@test "-K0 and --keep-going let the others go on" {
    local job='[ $HOROVOD_RANK = 2 ] && exit 3; sleep 1.5; echo went on'
    for how in "srun -K0" "hvdrun -K0" "hvdrun --keep-going"; do
        # shellcheck disable=SC2086
        gives 3 launch $how "${FOUR[@]}" bash -c "$job"
        [[ $(grep -c "went on" <<<"$output") -eq 3 ]]
    done
    has "rank 2 on hvdn2 failed: exit code 3; the others go on"
    assert_no_leftovers
}

@test "a command that does not exist, or cannot be run, is named" {
    for command in nosuchcommand /nowhere/train; do
        run launch srun "${FOUR[@]}" "$command"
        exits 2 # that of exec, ENOENT, as Slurm has it
        has "$command: No such file or directory"
        begin launch hvdrun "${FOUR[@]}" "$command"
        ended 10 127
        has "cannot run $command: No such file or directory" "exit code 127"
        [[ $output =~ hvdn[12] ]]
    done
    begin launch hvdrun "${FOUR[@]}" /etc/passwd
    ended 10 127
    has "cannot run /etc/passwd: Permission denied" "/etc/passwd is not executable"
    # One line for each host, whatever its number of ranks.
    begin launch hvdrun -N2 --ntasks-per-node=4 nosuchcommand
    ended 10 127
    [ "$(grep -c "hvd-agent: error: hvdn[12]: cannot run" <<<"$output")" -le 2 ]
    has "nosuchcommand was not found in PATH" "7 in the same way"
    assert_no_leftovers
}

@test "a script in the place of a program: what is wrong with the file, and what to write" {
    script job.py <<<'print(1)'
    chmod 644 "$(home)/job.py"
    printf '#!/no/such/python\n' | script dead
    gives 127 on_login hvdrun --launcher=fork -np 2 job.py
    [ "${lines[0]}" = "hvdrun: error: cannot run job.py: No such file or directory" ]
    [[ ${lines[1]} == "hvdrun: job.py is a file in this folder, not a program in PATH: write python"*" job.py" ]]
    [ "${#lines[@]}" -eq 2 ]
    gives 127 on_login hvdrun --launcher=fork -np 2 --max-restarts 1 ./dead
    has "(#!) names /no/such/python, which does not exist here"
    gives 2 on_login hvdrun -N2 ""
    has "the command is an empty word"
    begin launch hvdrun "${FOUR[@]}" job.py
    ended 10 127
    has "job.py is a file in this folder" "failed first: exit code 127: the program could not be started"
    has_not "on every host"
    # slurmstepd runs it.
    begin launch srun "${FOUR[@]}" ./job.py
    ended 10 13
    has "failed first: exit code 13: the program could not be started" "job.py is not executable: write python"
    begin launch srun "${FOUR[@]}" nosuchcommand
    ended 10 2
    has "failed first: exit code 2: the program could not be started" "cannot run nosuchcommand: No such file or directory; "
    assert_no_leftovers
}

@test "munge out of reach on one node: host and munge are named" {
    # Slurm's own daemon is root and still reaches it.
    as_root hvdn2 chmod 700 /run/munge
    for with in srun hvdrun; do
        begin launch "$with" "${FOUR[@]}" true
        ended 10
        # The status is that of the ranks there, or of those that srun ends because of them.
        exits_one_of 1 143
        has "hvdn2: munge cannot make a credential" "is munged running on this host"
    done
    as_root hvdn2 chmod 755 /run/munge
    for with in srun hvdrun; do
        selftest 4 2 launch "$with" "${FOUR[@]}" hvd-selftest --quick
    done
    assert_no_leftovers
}

@test "a silent node: the error names it and what was awaited" {
    for with in srun hvdrun; do
        fault node-freeze hvdn2
        begin launch "$with" --hvd-start-timeout=2 "${FOUR[@]}" true
        says 8 "the start took longer than 2 seconds: no registration from hvdn2"
        fault node-thaw hvdn2
        ended 20
        if [[ $with == hvdrun ]]; then exits 1; else exits_one_of 1 143; fi
        has "is the host up" "start-timeout allows more time"
        assert_no_leftovers 15
    done
}

@test "the driver killed during the start ends the launch" {
    fault node-freeze hvdn2
    begin launch srun "${FOUR[@]}" bash -c 'echo ready; sleep 50'
    wait_for 10 runs_on hvdn1 hvd-agent
    on_host hvdlogin pkill -KILL -x hvd-driver
    says 10 "hvdn1: the connection to the driver ended"
    fault node-thaw hvdn2
    ended 15 1
    has "did srun or hvdrun end, or was it killed?"
    has_not ready
    assert_no_leftovers 10
}

@test "a signal for the ranks does not end the node agent" {
    for with in srun hvdrun; do
        begin launch "$with" "${FOUR[@]}" bash -c 'trap "echo got it" USR1; echo ready; for i in 1 2 3 4 5; do sleep 1; done'
        says_times 10 4 ready
        on_login scancel --signal=USR1 --user=alice
        as_root hvdn1 pkill -USR1 'hvd-(relay|watchdog)'
        says_times 10 4 "got it"
        as_root hvdn1 pgrep -x hvd-agent
        ended 20 0
        has_not "node agent" hvd-agent
        assert_no_leftovers
    done
}

@test "a node agent killed after the start: where nobody is to come to it ranks go on, and a message says so" {
    for with in srun hvdrun; do
        begin launch "$with" --hvd-frameworks=horovod "${FOUR[@]}" bash -c 'echo ready; sleep 8; echo done'
        says_times 10 4 ready
        as_root hvdn1 pkill -KILL -x hvd-agent
        ended 20 0
        has "warning: hvdn1: the node agent (hvd-agent, pid " "killed by signal 9 (SIGKILL)"
        [[ $(grep -c "done" <<<"$output") -eq 4 ]]
        assert_no_leftovers
    done
}

# The node agents end with their step. srun may take long to end it: here a node does not answer.
@test "after a rank has failed no message mentions the node agents" {
    rm -f "$(home)/go"
    begin launch hvdrun -N3 -n3 -w 'hvdn[1-3]' bash -c 'trap "" TERM; echo ready
        if [ $HOROVOD_RANK != 1 ]; then while :; do sleep 1; done; fi; until [ -e ~/go ]; do sleep 0.1; done; exit 3'
    says_times 10 3 ready
    wait_for 10 as_root hvdn1 pgrep -x hvd-agent
    fault node-freeze hvdn3
    : >"$(home)/go"
    says 10 "rank 1 on hvdn2 failed: exit code 3"
    wait_for 20 gone hvdn1 hvd-agent
    sleep 6
    fault clear
    ended 40
    has "rank 1 on hvdn2 failed first: exit code 3"
    has_not "node agent" hvd-agent
    rm -f "$(home)/go"
    assert_no_leftovers 15
}

@test "the clock of a host is set while ranks run: the first that failed is named all the same" {
    local host by first with
    # Rank 0 fails when it is told to end, and so behind rank 1.
    first='trap "exit 4" TERM; until [ -e go ]; do sleep 0.02; done; [ $HOROVOD_RANK = 1 ] && exit 3
        until [ -e never ]; do sleep 0.02; done'
    cc -shared -fPIC -o "$(home)/set_clock.so" "$BATS_TEST_DIRNAME/lib/set_clock.c"
    # That of the rank that fails later is set back, or that of the first one ahead.
    while read -r host by; do
        for with in srun hvdrun; do
            rm -f "$(home)/go"
            begin launch "$with" -N2 -n2 -w 'hvdn[1-2]' --export=ALL,LD_PRELOAD=./set_clock.so bash -c "$first"
            wait_for 10 as_root hvdn1 pgrep -f HOROVOD_RANK
            wait_for 10 as_root hvdn2 pgrep -f HOROVOD_RANK
            as_root "$host" sh -c "echo $by >/run/clock"
            touch "$(home)/go"
            ended 15
            as_root "$host" rm /run/clock
            has "rank 1 on hvdn2 failed first: exit code 3"
        done
    done <<<"hvdn1 -3600
hvdn2 3600"
    assert_no_leftovers
}
