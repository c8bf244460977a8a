#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# shellcheck disable=SC2016,SC2086 # for the shell that runs the command; lists of words
# Processes of the launch itself are killed while ranks run: node agents, their watchdogs, rank
# shims, the driver. The job ends where ranks need them, and the report says which process of which host was the first.

load helpers
load launch
load store_ranks

# Slurm itself is slow to notice a lost host: what is tested here is what the launch does by itself.
setup_file() { suite_up --nodes 4 --slurm-conf SlurmdTimeout=120; }
teardown_file() { cluster_down; }
setup() { fresh_work; }
teardown() {
    cluster_mend
    assert_no_leftovers
}

FOUR=(-N2 -n4 --ntasks-per-node=2 -w 'hvdn[1-2]')

# kill_one HOST PATTERN|-x NAME: SIGKILL for one process of alice's.
kill_one() { as_root "$1" pkill -KILL -u alice "${@:2}"; }
connected() { as_root "$1" ss -Htnp state established | grep -q hvd-agent; }

@test "a node agent is killed when the ranks have met: it is named as what failed first" {
    begin_ranks 4 launch srun "${FOUR[@]}" $RANK
    kill_one hvdn2 -x hvd-agent
    ended 20
    ((status != 0))
    has "rank 2: its store is lost" "hvd: error: hvd-agent on hvdn2 failed first: killed by signal 9 (SIGKILL)" \
        "it connected the ranks there to the rendezvous, pid "
    rm -rf "${WORK:?}"/*
    begin_ranks 4 launch hvdrun "${FOUR[@]}" $RANK
    kill_one hvdn2 -x hvd-agent
    ended 20
    exits 3
    has "hvdrun: error: hvd-agent on hvdn2 failed first: killed by signal 9 (SIGKILL)" "the first rank to fail was rank "
}

@test "a node agent is killed and the ranks need nothing of it: they go on, and a failure of one elsewhere is still found" {
    rm -f "$(home)/go"
    begin launch srun --hvd-frameworks=horovod "${FOUR[@]}" bash -c 'echo ready
        until [[ -e go ]]; do sleep 0.1; done
        (($HOROVOD_RANK != 0)) || { echo "ValueError: bad batch" >&2; exit 4; }; sleep 30'
    says_times 10 4 ready
    wait_for 6 connected hvdn2
    kill_one hvdn2 -x hvd-agent
    says 5 "warning: hvdn2: the node agent (hvd-agent, pid "
    said "was killed by signal 9 (SIGKILL); the ranks have initialized and go on; ranks on this host fail when they use the store again"
    on_login touch go
    ended 15
    exits_one_of 4 143
    has "rank 0 on hvdn1 failed first: exit code 4" "ValueError: bad batch" "hvdn2: the node agent (hvd-agent, pid "
}

# Only the rank's shim knows of it.
@test "a node agent is killed and a rank beside it fails later: hvdrun names the rank" {
    rm -f "$(home)/go"
    begin launch hvdrun --hvd-frameworks=horovod "${FOUR[@]}" bash -c 'echo ready
        until [[ -e go ]]; do sleep 0.1; done
        (($HOROVOD_RANK != 2)) || exit 4; sleep 30'
    says_times 10 4 ready
    wait_for 6 connected hvdn2
    kill_one hvdn2 -x hvd-agent
    says 5 "warning: hvdn2: the node agent (hvd-agent, pid "
    on_login touch go
    ended 15
    exits 4
    has "rank 2 on hvdn2 failed: exit code 4; ending the other ranks" "the first rank to fail was rank 2 on hvdn2"
    assert_no_leftovers
}

@test "a watchdog is killed: what it watched goes on, and ends with the ranks" {
    rm -f "$(home)/go"
    begin launch srun "${FOUR[@]}" bash -c 'echo ready
        until [[ -e go ]]; do sleep 0.1; done; echo "still heard" >&2; (($RANK != 3)) || exit 4; sleep 30'
    says_times 10 4 ready
    wait_for 6 connected hvdn2
    kill_one hvdn2 -x hvd-watchdog
    on_login touch go
    ended 15
    exits_one_of 4 143
    [[ $(grep -c "still heard" <<<"$output") -ge 4 ]] || { echo "$output" && false; }
    has "rank 3 on hvdn2 failed first: exit code 4"
    has_not "SIGKILL"
    rm -rf "${WORK:?}"/*
    begin_ranks 4 launch srun "${FOUR[@]}" $RANK
    kill_one hvdn2 -x hvd-watchdog
    ends_well 20
    [[ $(grep -c 'intact' <<<"$output") -eq 4 ]] || { echo "$output" && false; }
}

@test "relays that are stopped before the ranks have met are sent on, and the ranks meet" {
    begin launch srun "${FOUR[@]}" \
        bash -c "echo ready; until [ -e work/go ]; do sleep 0.1; done; exec $RANK"
    says_times 10 4 ready
    as_root hvdn2 pkill -STOP -u alice -x hvd-agent
    as_root hvdn1 pkill -STOP -u alice -x hvd-agent
    on_login touch work/go
    within 25 met 4
    ends_well 20
}

@test "a rank shim is killed: the report says so" {
    begin launch hvdrun "${FOUR[@]}" bash -c 'echo ready; exec sleep 50'
    says_times 10 4 ready
    as_root hvdn2 pkill -KILL -u alice -n -x hvd-shim
    ended 15
    exits 143
    has "hvdrun: error: the rank shim (hvd-shim) of rank " " on hvdn2 failed first: it ended without a message" "hvdn2: task " ": Killed"
    has_not "srun ended:"
}

@test "hvd-agent plan is killed during the start of srun --hvd: that is said" {
    fault node-freeze hvdn2
    begin launch srun "${FOUR[@]}" bash -c 'echo ready; sleep 50'
    wait_for 10 runs_on hvdn1 'hvd-agent plan'
    kill_one hvdn1 -f 'hvd-agent plan'
    says 10 "hvd: error: hvdn1: hvd-agent, which was to get the launch plan, was killed by signal 9 (SIGKILL)"
    fault node-thaw hvdn2
    ended 20
    ((status != 0))
    has_not ready
}

@test "hvd-driver is killed while ranks run: srun says so, and its status stays the ranks'" {
    local status_wanted
    for status_wanted in 0 7; do
        rm -f "$(home)/go"
        begin launch srun -K0 "${FOUR[@]}" bash -c 'echo ready; until [[ -e go ]]; do sleep 0.1; done; exit '$status_wanted
        says_times 10 4 ready
        on_host hvdlogin pkill -KILL -x hvd-driver
        on_login touch go
        ended 15
        exits "$status_wanted"
        [[ $(grep -c "hvd: warning: hvd-driver ended before the step (killed by signal 9 (SIGKILL)): since then failed ranks" <<<"$output") -eq 1 ]] ||
            { echo "$output" && false; }
    done
    run launch srun "${FOUR[@]}" true
    exits 0
    has_not warning
}

@test "hvd-driver is killed before the ranks have met: the rendezvous ends with it, and ranks fail at once" {
    begin launch srun "${FOUR[@]}" bash -c "echo ready; until [[ -e work/go ]]; do sleep 0.1; done; exec $RANK"
    says_times 10 4 ready
    on_host hvdlogin pkill -KILL -x hvd-driver
    on_login touch work/go
    ended 20
    exits_one_of 3 143
    has ": its store is lost" "hvd-driver ended before the step (killed by signal 9 (SIGKILL))" \
        "and there was no rendezvous"
}

@test "a host is lost under srun --hvd: the launch ends the step and says why, or leaves it to Slurm" {
    begin launch srun "${FOUR[@]}" bash -c 'echo ready; sleep 300'
    says_times 10 4 ready
    wait_for 6 connected hvdn2
    fault node-lost hvdn2
    ended 45
    ((status != 0))
    has "hvd: error: hvdn2: the connection to its node agent was lost: the host does not answer; ending the step" "sinfo -N -n hvdn2"
    has_not "were ended by" "failed first"
    fault clear
    cluster_mend
    on_login sh -c 'echo "lost-host: slurm" >conf'
    begin launch srun --hvd-config=conf "${FOUR[@]}" bash -c 'echo ready; sleep 300'
    says_times 10 4 ready
    wait_for 6 connected hvdn2
    fault node-lost hvdn2
    says 30 "hvd: error: hvdn2: the connection to its node agent was lost: the host does not answer; leaving the step to Slurm (lost-host: slurm)"
    not_said "ending the step"
    running "$PID"
    as_root hvdlogin pkill -KILL -u alice # srun waits for ever
}

@test "a host freezes under srun --hvd, and Slurm gives it up: the launch ends the step" {
    begin launch srun "${FOUR[@]}" bash -c 'echo ready; sleep 300'
    says_times 10 4 ready
    wait_for 6 connected hvdn2
    fault node-freeze hvdn2
    as_root hvdctl scontrol update nodename=hvdn2 state=down reason=test
    ended 45
    ((status != 0))
    # srun of 24.11 ends by itself then, and names the host.
    if slurm_before 24.11; then
        has "hvd: error: hvdn2: the connection to its node agent was lost: Slurm has given up the node; ending the step"
    else
        has "srun: error: Node failure on hvdn2"
    fi
}

@test "Slurm takes a node down whose agent still answers, and ends the job: srun --hvd and hvdrun say so" {
    local with
    for with in srun hvdrun; do
        begin launch $with "${FOUR[@]}" bash -c 'echo ready; sleep 300'
        says_times 10 4 ready
        as_root hvdctl scontrol update nodename=hvdn2 state=down reason=test
        ended 45
        exits 143
        has "has lost a node"
        cluster_mend
    done
}

# srun waits for its tasks for ever, and nobody else would end them.
@test "a step daemon is killed under srun --hvd: its host is named, the ranks there and the step end" {
    begin launch srun "${FOUR[@]}" bash -c 'echo ready; sleep 300'
    says_times 10 4 ready
    wait_for 6 connected hvdn2
    as_root hvdn2 pkill -KILL -x slurmstepd
    ended 25
    ((status != 0))
    has "hvd: error: hvdn2: slurmstepd ended before the ranks that it had started; ending the job"
    wait_for 10 gone hvdn2 'sleep 300'
}

# The script outlives SIGTERM: when a script's shell has ended, slurmstepd kills with SIGKILL all that the batch step
# has left, srun and hvd-driver among it, and nobody can say anything any more. Which rank was first is known only if
# an agent has reported it before the agents, too, were gone.
@test "a batch job with srun --hvd is cancelled: the report says so, and nothing is said of hvd-driver" {
    script cancelled.sh <<'END'
#!/bin/bash
trap : TERM
srun --hvd bash -c 'echo ready; exec sleep 50'
echo "srun: $?"
END
    rm -f "$(home)/job.out"
    JOB=$(on_login sbatch --parsable --output=job.out -N2 --ntasks-per-node=2 cancelled.sh)
    wait_for 20 grep -q ready "$(home)/job.out"
    on_login scancel "$JOB"
    wait_for 20 job_over "$JOB"
    wait_for 10 grep -q "the ranks were ended by" "$(home)/job.out" || { cat "$(home)/job.out" && return 1; }
    output=$(<"$(home)/job.out")
    has "hvd: the ranks were ended by SIGTERM, since job $JOB was cancelled (scancel)"
    has_not "hvd-driver ended"
}

# The ranks of hvdn2 stop their node agent first. Beside that runs a launch some of whose hosts end well soon: nothing is
# said of them.
@test "a host whose node agent is stopped is lost under srun --hvd: the launch ends the step all the same" {
    local well before='[[ $(hostname) != hvdn2 ]] || pkill -STOP -x hvd-agent; echo ready; sleep'
    launch srun -N2 -n4 --ntasks-per-node=2 -w 'hvdn[3-4]' bash -c '(($RANK < 2)) || exit 0; sleep 25; echo done' \
        >"$BATS_TEST_TMPDIR/well" 2>&1 3>&- &
    well=$!
    begin launch srun "${FOUR[@]}" bash -c "$before 6; ((\$RANK != 0)) || exit 3; sleep 300"
    says_times 5 4 ready
    fault node-lost hvdn2
    ended 60
    ((status != 0))
    has "hvd: error: hvdn2: the connection to its node agent was lost: the host does not answer; ending the step"
    wait "$well"
    [[ $(sort -u "$BATS_TEST_TMPDIR/well") == "done" ]] || { cat "$BATS_TEST_TMPDIR/well" && return 1; }
}

@test "a host dies and all other ranks end at once: hvdrun does not wait for srun, which still does" {
    begin launch hvdrun "${FOUR[@]}" bash -c 'echo ready
        [[ $(hostname) != hvdn2 ]] || sleep 300
        until [ -e work/stop ]; do sleep 0.1; done
        exit 5'
    says_times 10 4 ready
    fault node-kill hvdn2
    stop
    ended 40
    ((status != 0))
    has "hvdrun: warning: hvdn2: the connection to its node agent was lost, and srun still waits; ending it" \
        "hvdn2 failed first: the host was lost"
}

# asked N: Slurm was asked N times about nodes that are down.
asked() { [[ $(wc -l <"$(home)/asked") -ge $1 ]]; }

@test "a host freezes while its ranks end, and srun goes on: the launch ends soon after Slurm has given the host up" {
    on_login mkdir -p bin
    script bin/sinfo <<'END'
#!/bin/sh
echo asked >>~/asked
exec /usr/bin/sinfo "$@"
END
    rm -f "$(home)/asked" "$(home)/go"
    : >"$(home)/asked" && chmod 666 "$(home)/asked"
    begin on_login bash -c 'PATH=$HOME/bin:$PATH exec hvdrun "$@"' - "${FOUR[@]}" \
        bash -c 'echo ready; until [ -e go ]; do sleep 0.1; done'
    says_times 10 4 ready
    wait_for 6 connected hvdn2
    as_root hvdn2 pkill -STOP -x slurmstepd
    on_login touch go
    says 20 "all ranks ended 10 s ago"
    fault node-freeze hvdn2
    wait_for 60 asked 4
    as_root hvdctl scontrol update nodename=hvdn2 state=down reason=test
    ended 20
    has "hvdrun: error: hvdn2: the connection to its node agent was lost: Slurm has given up the node"
}

@test "the report under srun --hvd ends with the status of the rank where srun's own is another" {
    begin launch srun "${FOUR[@]}" bash -c 'echo ready; sleep 1; (($RANK != 2)) || exit 3; sleep 50'
    ended 15
    exits 143
    [[ $(tail -n 1 <<<"$output") == "hvd: the status of the launch is 3, that of the rank that failed first; srun's own is the highest of all ranks', 143 here" ]] ||
        { echo "$output" && false; }
    begin launch srun "${FOUR[@]}" bash -c '(($RANK != 2)) || exit 3; trap "exit 0" TERM; sleep 50 & wait'
    ended 15
    exits 3
    has_not "the status of the launch"
}

@test "the end of --hvd-init-timeout says with which status, where srun's own is another" {
    begin launch srun --hvd-init-timeout=1 "${FOUR[@]}" bash -c "((\$RANK != 0)) || { $RANK & }; exec sleep 50"
    ended 30
    exits 143
    has "have not called init_process_group within 1 s"
    [[ $(tail -n 1 <<<"$output") == "hvd: the status of the launch is 1; srun's own is the highest of the ranks', which were ended" ]] ||
        { echo "$output" && false; }
}

@test "a trace that cannot be written is refused at the start" {
    run launch srun --hvd-trace=nowhere/trace.json "${FOUR[@]}" echo started
    exits 2
    has "hvd: error: --trace nowhere/trace.json cannot be written: No such file or directory"
    has_not started
    run launch hvdrun --trace=nowhere/trace.json "${FOUR[@]}" echo started
    exits 2
    has "hvdrun: error: --trace nowhere/trace.json cannot be written: No such file or directory"
    has_not started
    run launch srun --hvd-trace=work "${FOUR[@]}" echo started
    exits 2
    has "Is a directory"
    run launch srun --hvd-trace=work/trace.json "${FOUR[@]}" echo started
    exits 0
    on_login test -s work/trace.json
}

@test "ranks that the scheduler has killed: the report says what Slurm knows" {
    begin launch srun -N1 -n1 bash -c 'trap "" TERM; echo ready; while :; do sleep 0.2; done'
    says 10 ready
    on_login sh -c 'scancel "$(squeue -h -o %A)"'
    ended 20
    exits 137
    has "hvd: the ranks were ended by SIGKILL, since job " " was cancelled (scancel); first: rank 0 on hvdn1"
    has_not "who killed it"
    begin launch hvdrun -N1 -n2 --overcommit bash -c 'trap "" TERM; echo ready; while :; do sleep 0.2; done'
    says_times 10 2 ready
    on_login sh -c 'scancel "$(squeue -h -o %A)"'
    ended 20
    exits 137
    has "hvdrun: error: srun ended: exit code 137"
    has_not "failed first" "who killed it"
    # Of a step that was cancelled the controller knows nothing afterwards, and what slurmstepd says of it may get lost.
    begin launch srun -N1 -n1 bash -c 'echo ready; exec sleep 50'
    says 10 ready
    on_login sh -c 'scancel "$(squeue -h -o %A).0"'
    ended 20
    exits 137
    has "who killed it: the scheduler, if a line above says CANCELLED"
}
