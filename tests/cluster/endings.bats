#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Each ending of a launch by each kind of start: the status, what the message names, the time it takes, and that
# nothing is left. The lines are a table: STARTER ENDING STATUS SECONDS TEXT…, which endings.bash explains. What is
# special of one kind of start has its place in other files.

load launch
load sshd
load lsf
load endings

# Slurm itself is slow to notice a lost host: what is tested here is what the launch does by itself.
setup_file() {
    suite_up --nodes 2 --slurm-conf SlurmdTimeout=120
    standins_up hvdlogin hvdn1 hvdn2
    if sshd_can; then sshd_prepare hvdn1 hvdn2; fi
    as_user alice bash -c '(umask 077; head -c 32 /dev/urandom | od -An -v -tx1 | tr -d " \n" >key)'
}
# A cell that ends well has left nothing.
teardown() {
    local host
    if [[ ${BATS_TEST_COMPLETED-} ]]; then return 0; fi
    for host in hvdlogin hvdn1 hvdn2; do as_root "$host" pkill -KILL -u alice || true; done
    cluster_mend
    daemons_again
}

# What is said by several kinds of start. (tests/run takes the last brace of a line for the beginning of the test.)
CODE="exit code 7" SIGNAL="killed by signal 9 (SIGKILL)"
FIRST="error: rank 2 on hvdn2 failed first:" FIRST_HERE="error: rank 2 on localhost failed first:"
OTHERS="; ending the other ranks"
INTERRUPTED="hvdrun: interrupted: ending the ranks"
AGENT="error: hvdn2: the node agent (hvd-agent, pid "
RANKS="was killed by signal 9 (SIGKILL); ranks 2, 3 on hvdn2 have not called init_process_group and cannot rendezvous any \
longer; ending the launch"
LOST="error: hvdn2: the connection to its node agent was lost; ending the "
MUTE="error: hvdn2: the connection to its node agent was lost: its node agent has not answered for 8 seconds; ending the "
SILENT="error: hvdn2: the connection to its node agent was lost: the host does not answer; ending the job"

# -- A rank exits with a status. srun's own is the highest of all ranks'; the report has that of the rank.
@test "a rank exits with 7: srun --hvd" { ends srun exit 143 10 "hvdn2: task 2: Exited with exit code 7" "hvd: $FIRST $CODE" "the status of the launch is 7,"; }
@test "a rank exits with 7: hvdrun by srun" { ends step exit 7 10 "hvdrun: $FIRST $CODE" "$CODE$OTHERS"; }
@test "a rank exits with 7: hvdrun over ssh" { ends ssh exit 7 10 "hvdrun: $FIRST $CODE" "$CODE$OTHERS"; }
@test "a rank exits with 7: hvdrun on one machine" { ends fork exit 7 10 "hvdrun: $FIRST_HERE $CODE" "$CODE$OTHERS"; }
@test "a rank exits with 7: blaunch" { ends lsf exit 7 10 "hvdrun: $FIRST $CODE" "$CODE$OTHERS"; }
@test "a rank exits with 7: mpirun" { ends mpirun exit 7 10 "hvdrun: $FIRST $CODE" "$CODE$OTHERS"; }
@test "a rank exits with 7: agents that come by themselves" { ends join exit 7 10 "hvdrun: $FIRST $CODE" "$CODE$OTHERS"; }

# -- A rank is killed by a signal.
@test "a rank is killed: srun --hvd" { ends srun killed 143 10 "hvdn2: task 2: Killed" "hvd: $FIRST $SIGNAL" "the status of the launch is 137,"; }
@test "a rank is killed: hvdrun by srun" { ends step killed 137 10 "hvdrun: $FIRST $SIGNAL" "$SIGNAL$OTHERS"; }
@test "a rank is killed: hvdrun over ssh" { ends ssh killed 137 10 "hvdrun: $FIRST $SIGNAL" "$SIGNAL$OTHERS"; }
@test "a rank is killed: hvdrun on one machine" { ends fork killed 137 10 "hvdrun: $FIRST_HERE $SIGNAL" "$SIGNAL$OTHERS"; }
@test "a rank is killed: blaunch" { ends lsf killed 137 10 "hvdrun: $FIRST $SIGNAL" "$SIGNAL$OTHERS"; }
@test "a rank is killed: mpirun" { ends mpirun killed 137 10 "hvdrun: $FIRST $SIGNAL" "$SIGNAL$OTHERS"; }
@test "a rank is killed: agents that come by themselves" { ends join killed 137 10 "hvdrun: $FIRST $SIGNAL" "$SIGNAL$OTHERS"; }

# -- The launcher gets SIGKILL: it can say nothing.
@test "the launcher is killed: srun --hvd" { ends srun launcher 137 10; }
@test "the launcher is killed: hvdrun by srun" { ends step launcher 137 10; }
@test "the launcher is killed: hvdrun over ssh" { ends ssh launcher 137 10; }
@test "the launcher is killed: hvdrun on one machine" { ends fork launcher 137 10; }
@test "the launcher is killed: blaunch" { ends lsf launcher 137 10; }
@test "the launcher is killed: mpirun" { ends mpirun launcher 137 10; }
@test "the launcher is killed: agents that come by themselves" { ends join launcher 137 10; }

# -- Ctrl-C. srun wants two, and its tasks end by SIGINT or by SIGKILL.
@test "Ctrl-C twice: srun --hvd" { ends srun interrupt 130,137 15 "sending Ctrl-C"; }
@test "Ctrl-C twice: hvdrun by srun" { ends step interrupt 130,137 15 "sending Ctrl-C"; }
@test "Ctrl-C: hvdrun over ssh" { ends ssh interrupt 130 10 "$INTERRUPTED"; }
@test "Ctrl-C: hvdrun on one machine" { ends fork interrupt 130 10 "$INTERRUPTED"; }
@test "bkill sends SIGINT: blaunch" { ends lsf interrupt 130 10 "$INTERRUPTED"; }
@test "Ctrl-C: mpirun" { ends mpirun interrupt 130 10 "$INTERRUPTED"; }
@test "Ctrl-C: agents that come by themselves" { ends join interrupt 130 10 "$INTERRUPTED"; }

# -- The node agent of some ranks gets SIGKILL.
@test "a node agent is killed: srun --hvd" { ends srun agent 143 15 "hvd: $AGENT" "$RANKS"; }
@test "a node agent is killed: hvdrun by srun" { ends step agent 1 15 "hvdrun: $AGENT" "$RANKS"; }
@test "a node agent is killed: hvdrun over ssh" { ends ssh agent 1 10 "hvdrun: error: hvdn2: "; }
@test "a node agent is killed: hvdrun on one machine" { ends fork agent 1 10 "hvdrun: error: localhost: its node agent ended before its ranks did: $SIGNAL"; }
@test "a node agent is killed: blaunch" { ends lsf agent 1 10 "hvdrun: error: hvdn2: "; }
@test "a node agent is killed: mpirun" { ends mpirun agent 1 15 "hvdrun: $AGENT" "$RANKS"; }
@test "a node agent is killed: agents that come by themselves" { ends join agent 1 10 "hvdrun: error: hvdn2: the connection to its agent has ended"; }

# -- A host dies, and others hear that its connections end. On one machine there is no other host.
@test "a host is gone: srun --hvd" { ends srun host bad 30 "hvd: $LOST"step; }
@test "a host is gone: hvdrun by srun" { ends step host 1 20 "hvdrun: $LOST"job; }
@test "a host is gone: hvdrun over ssh" { ends ssh host 1 20 "hvdrun: error: hvdn2: "; }
@test "a host is gone: blaunch" { ends lsf host 1 20 "hvdrun: error: hvdn2: its blaunch ended before its ranks did: exit code 255" "(bhosts hvdn2, "; }
@test "a host is gone: mpirun" { ends mpirun host bad 20 "hvdn2"; }
@test "a host is gone: agents that come by themselves" { ends join host 1 20 "hvdrun: error: hvdn2: the connection to its agent has ended"; }

# -- Its links are cut first, and nobody hears anything. The stand-in for LSF needs no links, and mpirun leaves an ssh of
# -- its own behind then. deaths.bats and lifetime.bats have the starts by srun.
@test "a host's links are cut: hvdrun over ssh" { ends ssh link 1 12 "hvdrun: $SILENT"; }
@test "a host's links are cut: agents that come by themselves" { ends join link 1 12 "hvdrun: $SILENT"; }

# -- The node agent of some ranks is stopped, or all processes of a host; its kernel goes on. Where others start the
# -- ranks, a watchdog continues an agent that is stopped alone (deaths.bats).
@test "a node agent is stopped: hvdrun over ssh" { ends ssh stopped 1 14 "hvdrun: $MUTE"job; }
@test "a node agent is stopped: hvdrun on one machine" { ends fork stopped 1 14 "hvdrun: ${MUTE/hvdn2/localhost}"job; }
@test "a node agent is stopped: agents that come by themselves" { ends join stopped 1 14 "hvdrun: $MUTE"job; }
@test "a host is frozen: srun --hvd" { ends srun frozen bad 24 "hvd: $MUTE"step; }
@test "a host is frozen: hvdrun by srun" { ends step frozen 1 24 "hvdrun: $MUTE"job; }
@test "a host is frozen: hvdrun over ssh" { ends ssh frozen 1 14 "hvdrun: $MUTE"job; }
@test "a host is frozen: mpirun" { ends mpirun frozen 1 24 "hvdrun: $MUTE"job; }
@test "a host is frozen: agents that come by themselves" { ends join frozen 1 14 "hvdrun: $MUTE"job; }

# -- What a launch writes, and how it looks at its hosts first, do not depend on what starts it, nor on whether ranks start again.
@test "--events, --trace and --preflight=full do the same by each kind of start, also where all ranks start again" {
    local case starter again hosts
    export HVD_EVENTS=events HVD_TRACE=trace.json HVD_PREFLIGHT=full
    for case in {srun,step,ssh,fork,lsf,mpirun,join}- {ssh,fork,lsf,join}-again; do
        starter=${case%-*} again=${case#*-} hosts="2 hosts"
        if [[ $starter == fork ]]; then hosts="one host"; fi
        rm -f "$(home)"/{at,events,trace.json}
        if [[ $again ]]; then export HVD_MAX_RESTARTS=1; else unset HVD_MAX_RESTARTS; fi
        RANK='[[ '${again:+x}' != x || $RANK-${TORCHELASTIC_RESTART_COUNT-} != 1-0 ]]' "start_$starter" exit
        ended 30 0
        # Agents that come by themselves come one by one.
        if [[ $case != join-again ]]; then has "preflight: all checks passed on $hosts"; fi
        "$BATS_TEST_DIRNAME/lib/events.py" "$(home)/events" launch-began "host-here host=$(victim_of "$starter" | sed s/hvdlogin/localhost/)" \
            "generation-began generation=1 ranks=4" ${again:+"generation-failed rank=1" "restart restarts=1" "generation-began generation=2 ranks=4"} \
            "rank-ended status=0" "launch-ended status=0"
        traced "launch - start" "launch 1 ranks run" ${again:+"launch 1 ranks end, or wait for the next generation: rank 1 on" "launch 2 ranks run"}
    done
    rm -f "$(home)"/{at,events,trace.json}
    nothing_is_left 10
}
