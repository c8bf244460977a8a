#!/usr/bin/env bats
# Launchers, rank shims and nodes die without a word. Nothing may outlive them.

load launch

setup_file() { suite_up --nodes 4 --slurm-conf SlurmdTimeout=5; }

FOUR=(-N2 -n4 --ntasks-per-node=2 -w 'hvdn[1-2]')

@test "hvdrun killed in mid-run: nothing is left in a batch job that goes on" {
    script killed.sh <<'END'
#!/bin/bash
hvdrun bash -c 'echo ready; sleep 50' &
sleep 1.5
kill -KILL $!
for i in {1..80}; do
    left=$(pgrep -cu alice 'srun|hvd-shim|hvd-agent|sleep')
    if ((left == 0)); then break; fi
    env sleep 0.1
done
echo "left $left"
END
    sed -i 's/env sleep 0.1/read -rt 0.1 <> <(:)/' "$(home)/killed.sh"
    submit -N2 --ntasks-per-node=2 killed.sh
    has ready "left 0"
    assert_no_leftovers
}

@test "hvdrun's srun killed in mid-run: the signal is named" {
    begin launch hvdrun "${FOUR[@]}" bash -c 'echo ready; sleep 50'
    says_times 10 4 ready
    sleep 0.3
    on_host hvdlogin pkill -KILL -o -x srun
    ended 10 137
    has "srun ended: killed by signal 9 (SIGKILL)"
    assert_no_leftovers 15
}

@test "hvdrun's srun ends in mid-run with a status and without a word: the status is named" {
    mkdir -p "$(home)/bin"
    script bin/srun <<'END'
#!/bin/bash
PATH=${PATH#*:} srun "$@" &
until [[ -e ~/go ]]; do sleep 0.1; done
kill -KILL $!
exit 3
END
    rm -f "$(home)/go"
    begin on_login bash -c 'PATH=$HOME/bin:$PATH exec hvdrun "$@"' hvdrun "${FOUR[@]}" bash -c 'echo ready; sleep 50'
    says_times 10 4 ready
    touch "$(home)/go"
    ended 10 3
    has "srun ended: exit code 3"
    assert_no_leftovers 15
}

@test "srun or hvdrun killed during the start: nothing is left" {
    for with in srun hvdrun; do
        fault node-freeze hvdn2
        begin launch "$with" "${FOUR[@]}" bash -c 'echo ready; sleep 50'
        wait_for 10 runs_on hvdn1 hvd-agent
        on_host hvdlogin pkill -KILL -o -x "$with"
        fault node-thaw hvdn2
        assert_no_leftovers 20
        ended 10
        has_not ready
    done
}

@test "srun is ended by somebody during the start: hvdrun says so" {
    fault node-freeze hvdn2
    begin launch hvdrun "${FOUR[@]}" bash -c 'echo ready; sleep 50'
    wait_for 10 runs_on hvdn1 hvd-agent
    on_host hvdlogin pkill -TERM -o -x srun
    fault node-thaw hvdn2
    ended 20
    ((status != 0))
    [[ $output == *"srun ended before the start was complete: "* || $output == *"and the node agents of all other hosts have ended"* ]] ||
        { echo "$output" && return 1; }
    has_not ready
    assert_no_leftovers 15
}

@test "a step daemon killed: hvdrun says so and ends, the ranks go with it" {
    # Plain srun, and so srun --hvd, waits for ever for the ranks that the daemon had started.
    step_daemon_killed 4
    selftest 8 4 launch hvdrun -N4 -n8 --ntasks-per-node=2 hvd-selftest --quick
}

@test "munged killed: hvdrun ends when all ranks have, and names the host" {
    begin launch hvdrun -N4 -n8 --ntasks-per-node=2 bash -c 'echo ready; sleep $((1 + HOROVOD_LOCAL_RANK * 11))'
    says_times 10 8 ready
    as_root hvdn2 pkill -KILL -x munged
    # Ranks go on, though local ranks 0 have ended: no message may say that srun is overdue.
    sleep 2
    runs_on hvdn2 "hvd-agent shim -- bash"
    ended 40 1
    has "all ranks ended 10 s ago, but srun cannot learn that those on hvdn2 did, because munged does not run there; ending it"
    fault munged-start hvdn2
    assert_no_leftovers 20
}

@test "munged stopped: the same" {
    begin launch hvdrun -N2 -n4 --ntasks-per-node=2 -w 'hvdn[1-2]' bash -c 'echo ready; sleep 2'
    says_times 10 4 ready
    as_root hvdn2 pkill -STOP -x munged
    ended 40
    as_root hvdn2 pkill -CONT -x munged
    exits 1
    has "srun cannot learn that those on hvdn2 did, because munged does not run there; ending it"
    assert_no_leftovers 20
}

@test "a step daemon that is stopped when all ranks have ended: hvdrun says so, and waits" {
    begin launch hvdrun -N2 -n4 --ntasks-per-node=2 -w 'hvdn[1-2]' bash -c 'echo ready; sleep 1'
    says_times 10 4 ready
    as_root hvdn2 pkill -STOP -x slurmstepd
    says 30 "all ranks ended 10 s ago, but srun is still running"
    sleep 3
    running "$PID"
    as_root hvdn2 pkill -CONT -x slurmstepd
    ended 15 0
    assert_no_leftovers
}

@test "munged killed: one SIGINT ends hvdrun when all ranks have ended" {
    begin launch hvdrun -N4 -n8 --ntasks-per-node=2 bash -c 'echo ready; sleep 1'
    says_times 10 8 ready
    as_root hvdn2 pkill -KILL -x munged
    wait_for 10 gone hvdn2 'hvd-agent shim -- bash'
    sleep 1
    on_host hvdlogin pkill -INT -o -x hvdrun
    ended 8 130
    has "interrupted; all ranks have ended: ending srun"
    fault munged-start hvdn2
    assert_no_leftovers 20
}

@test "a node cut off in mid-run: hvdrun ends within 10 seconds" {
    begin launch hvdrun -N4 -n8 --ntasks-per-node=2 bash -c 'echo ready; sleep 300'
    says_times 10 8 ready
    fault node-lost hvdn3
    ended 10 1
    has "hvdn3: the connection to its node agent was lost: the host does not answer; ending the job"
    fault clear
    assert_no_leftovers 20
}

@test "a frozen node: hvdrun ends soon after Slurm has given it up" {
    begin launch hvdrun -N4 -n8 --ntasks-per-node=2 bash -c 'echo ready; sleep 300'
    says_times 10 8 ready
    fault node-freeze hvdn3
    # SlurmdTimeout is five seconds here.
    says 40 "Node failure on hvdn3"
    ended 20 1
    has "hvdn3: the connection to its node agent was lost: Slurm has given up the node; ending the job"
    fault clear
    assert_no_leftovers 20
}
