# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # what begin and ended set, and what in_job reads
# How launches end, for a bats file that has loaded helpers, launch, sshd and lsf: each kind of start, each ending, and
# what has to be so afterwards. All starts have four ranks, two on hvdn1 and two on hvdn2; those on one machine have four
# on hvdlogin.

TTY=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/on_tty

# What the ranks run. Rank 0 says when all are there: by files, as some launchers put something in front of each line.
# Rank 2 ends as $1 says when there is the file $2. Where not Slurm but the launch ends what ranks have started, each has a
# child, and a grandchild in a session of its own.
# shellcheck disable=SC2016 # for the ranks' shell
RANK='if [[ $3 == family ]]; then setsid bash -c "sleep 50 & sleep 51" & fi
: >"$2.$RANK"
if ((RANK == 0)); then
    until [[ -e $2.1 && -e $2.2 && -e $2.3 ]]; do sleep 0.1; done
    echo "all ranks run"
elif ((RANK == 2)); then
    until [[ -e $2 ]]; do sleep 0.1; done
    case $1 in exit) exit 7 ;; killed) kill -KILL $$ ;; esac
fi
sleep 52'

# ranks HOW family|alone: sets $CMD.
ranks() { CMD=(bash -c "$RANK" bash "$1" "$(home)/go" "$2"); }
# When an agent is killed on a host that hvdrun has reached by another program, nobody there knows of other sessions.
ranks_there() { if [[ $1 == agent ]]; then ranks "$1" alone; else ranks "$1" family; fi; }

# by_terminal CMD…: on the login host; on a terminal where KEYS, steps of on_tty, says what is typed there.
KEYS=()
by_terminal() {
    if ((${#KEYS[@]})); then
        timeout 60 "$TTY" "${KEYS[@]}" -- "$HVD_CLUSTER_CMD" exec -- "$@"
    else
        on_login "$@"
    fi
}

FOUR=(-N2 -n4 --ntasks-per-node=2 -w 'hvdn[1-2]')

# start_STARTER HOW: begins a launch whose rank 2 ends so.
start_srun() {
    ranks "$1" alone
    begin by_terminal srun --hvd "${FOUR[@]}" "${CMD[@]}"
}

start_step() {
    ranks "$1" alone
    begin by_terminal hvdrun "${FOUR[@]}" "${CMD[@]}"
}

start_ssh() {
    needs_ssh
    ranks_there "$1"
    begin by_terminal hvdrun --hosts hvdn1:2,hvdn2:2 "${CMD[@]}"
}

start_fork() {
    ranks "$1" family
    begin by_terminal hvdrun --launcher=fork -np 4 "${CMD[@]}"
}

start_lsf() {
    ranks_there "$1"
    installed blaunch
    JOB_HOSTS="hvdn1 2 hvdn2 2"
    begin_job hvdrun "${CMD[@]}"
}

start_mpirun() {
    needs_ssh
    command -v mpirun.openmpi >/dev/null || skip "Open MPI is not installed: scripts/install-deps --test"
    ranks "$1" alone
    HVD_MPIRUN=mpirun.openmpi begin by_terminal hvdrun --launcher=mpirun --hosts hvdn1:2,hvdn2:2 "${CMD[@]}"
}

start_join() {
    local host
    ranks "$1" family
    begin by_terminal hvdrun --launcher=join -np 4 --key-file key --join-file at "${CMD[@]}"
    wait_for 10 test -s "$(home)/at"
    for host in hvdn1 hvdn2; do
        cluster exec --host "$host" -- "$B/libexec/hvd/hvd-agent" connect "$(<"$(home)/at")" --key-file key --slots=2 \
            --index="${host#hvdn}" >/dev/null 2>&1 3>&- &
    done
}

needs_ssh() { sshd_can || skip "OpenSSH is not installed"; }

# The hosts of the launcher, and of the ranks whose agent or host is to go.
launcher_of() { if [[ $1 == lsf ]]; then echo hvdn1; else echo hvdlogin; fi; }
victim_of() { if [[ $1 == fork ]]; then echo hvdlogin; else echo hvdn2; fi; }

# do_ENDING STARTER: brings that about when all ranks run.
do_exit() { : >"$(home)/go"; }
do_killed() { : >"$(home)/go"; }
do_launcher() {
    local name=hvdrun
    if [[ $1 == srun ]]; then name=srun; fi
    as_root "$(launcher_of "$1")" pkill -KILL -u alice -o -x "$name"
}
do_agent() {
    local host
    host=$(victim_of "$1")
    if [[ $1 == join ]]; then
        as_root "$host" pkill -KILL -u alice -f -- --behind
    else
        wait_for 5 runs_as "$host" hvd-agent
        as_root "$host" pkill -KILL -u alice -x hvd-agent
    fi
}
runs_as() { as_root "$1" pgrep -u alice -x "$2" >/dev/null; }
do_stopped() {
    local victim
    victim=$(victim_of "$1")
    wait_for 5 runs_as "$victim" hvd-agent
    as_root "$victim" pkill -STOP -u alice -x hvd-agent
}
do_frozen() { fault node-freeze hvdn2; }
do_host() { fault node-kill hvdn2; }
do_link() { fault node-lost hvdn2; }
# On a terminal Ctrl-C has been typed already. In a job of LSF it is bkill that sends the signal.
do_interrupt() { if [[ $1 == lsf ]]; then job_signal INT; fi; }

# keys_of STARTER: sets KEYS for an interrupt. srun wants two of them within a second.
keys_of() {
    KEYS=(--wait "all ranks run" --sleep 0.3 --type ^C)
    case $1 in
    srun | step) KEYS+=(--wait "one more within" --type ^C) ;;
    lsf) KEYS=() ;;
    esac
}

# ends STARTER ENDING STATUS[,STATUS…] SECONDS TEXT…: a launch that is started so and ends so has one of these statuses
# within that time, and prints each TEXT. Nothing of it is left. STATUS "bad" is any but 0.
ends() {
    local starter=$1 ending=$2 statuses=$3 seconds=$4 before
    shift 4
    # Who has less time for the start waits no longer for an answer later.
    if [[ $ending == @(stopped|frozen) ]]; then export HVD_START_TIMEOUT=8; else unset HVD_START_TIMEOUT; fi
    rm -f "$(home)"/{go*,at}
    before=$(ls -A "$(home)")
    KEYS=()
    if [[ $ending == interrupt ]]; then keys_of "$starter"; fi
    "start_$starter" "$ending"
    says 20 "all ranks run"
    "do_$ending" "$starter"
    ended "$seconds"
    # shellcheck disable=SC2086 # words
    if [[ $statuses == bad ]]; then ((status != 0)); else exits_one_of ${statuses//,/ }; fi
    has "$@"
    # What else ends a launch has ended the ranks: none of them has failed. But Open MPI kills the others when it loses a
    # host, which hvdrun may hear of first.
    if [[ $ending != @(exit|killed) && $starter-$ending != mpirun-host ]]; then has_not "failed first"; fi
    # The report is of the agent or the host, and not of ranks or the other host.
    if [[ $ending == @(agent|host|link|stopped|frozen) ]]; then has_not "were ended by" "hvd: error: hvdn1" "hvdrun: error: hvdn1"; fi
    if [[ $ending == stopped ]]; then as_root "$(victim_of "$starter")" pkill -CONT -u alice -x hvd-agent || true; fi
    if [[ $ending == frozen ]]; then fault node-thaw hvdn2; fi
    if [[ $ending == @(host|link) ]]; then
        wait_for 10 gone hvdn1 .
        daemons_again
    fi
    rm -f "$(home)"/go*
    # Nobody is there to remove the file that says where to join.
    if [[ $starter == join && $ending == launcher ]]; then rm "$(home)/at"; fi
    [[ $(ls -A "$(home)") == "$before" ]] || { ls -lA "$(home)" && return 1; }
    # Slurm tries again for some time to reach a node that was frozen.
    if [[ $ending == frozen ]]; then nothing_is_left 40; else nothing_is_left 10; fi
}

# daemons_again: lost hosts are up, with the daemons that others than Slurm need there.
daemons_again() {
    local host
    if [[ -s $(cluster path)/faults ]]; then fault clear; fi
    for host in hvdn1 hvdn2; do
        standin_daemon "$host"
        ! sshd_can || sshd_up "$host"
    done
}

# what_is_left: what hosts run besides daemons, and files of a launch.
what_is_left() {
    cluster leftovers |
        grep -vE 'process +[0-9]+ root +(sshd: /usr/sbin/sshd -f|.*standins/resd )|listening 0.0.0.0:22 .*"sshd"'
    find /tmp -maxdepth 1 -name 'hvdrun-*' -newer "$STANDIN_DIR" -printf 'file %p\n'
}
is_clean() { [[ ! $(what_is_left) ]]; }
nothing_is_left() {
    wait_for "$1" is_clean || { what_is_left && return 1; }
}
