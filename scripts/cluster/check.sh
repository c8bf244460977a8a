# shellcheck shell=bash
# Waiting, status, and what a job left behind.  Sourced by hvd-cluster.

# wait_until SECONDS CMD…: runs CMD again and again until it succeeds, for at most SECONDS (at most one decimal).
wait_until() {
    local end tenths=${1/./}
    [[ $1 == *.* ]] || tenths+=0
    end=$((${EPOCHREALTIME/[.,]/} + 10#$tenths * 100000))
    shift
    until "$@" >/dev/null 2>&1; do
        ((${EPOCHREALTIME/[.,]/} < end)) || return 1
        sleep 0.05
    done
}

not() { ! "$@"; }

# scontrol and sinfo run as root on the controller, and are ended after some seconds.
slurm() {
    on "$CTL" timeout 10 env -i PATH="$SYSTEM_PATH" LC_ALL=C "$@" </dev/null
}

# Prints a line "node state" for each node, with scontrol's name of the state
# ("idle", "mixed+completing", "down*") or with "unregistered": a controller that
# has just started calls a node idle before it has heard from it, and gives the
# node no jobs.
node_states() {
    local nodes
    nodes=$(slurm scontrol show nodes --oneliner) || return 1
    awk '{
        name = state = ""
        for (i = 1; i <= NF; i++) {
            if ($i ~ /^NodeName=/) name = substr($i, 10)
            if ($i ~ /^State=/) state = tolower(substr($i, 7))
            if ($i == "SlurmdStartTime=None" && state !~ /down/) state = "unregistered"
        }
        print name, state
    }' <<<"$nodes"
}

all_idle() {
    local states
    states=$(node_states) || return 1
    [[ $(wc -l <<<"$states") -ge $NODES ]] && ! grep -qv ' idle$' <<<"$states"
}

wait_idle() { wait_until "$1" all_idle; }

cmd_wait() {
    [[ $SLURM ]] || return 0
    wait_idle "${1:-30}" || fail "not idle: $(node_states | xargs)"
}

cmd_status() {
    local host daemon note
    echo "cluster $NAME in $STATE"
    for host in "${HOSTS[@]}"; do
        note=
        if ! init_pid "$host" >/dev/null; then
            echo "$host: down"
            continue
        fi
        for daemon in $(daemons_of "$host"); do
            if daemon_pids "$host" "$daemon" >/dev/null; then note+=" $daemon"; else note+=" ($daemon dead)"; fi
        done
        echo "$host: up,$note"
    done
    if [[ -s $STATE/faults ]]; then sed 's/^/fault: /' "$STATE/faults"; fi
    [[ ! $SLURM ]] || node_states || echo "slurmctld does not answer"
}

# The signal is sent again, for what was forked meanwhile.
cmd_kill_users() {
    local host
    for host in "${HOSTS[@]}"; do
        on "$host" sh -c 'for i in 1 2 3 4 5; do pkill -KILL -u 20001,20002 || break; done' 2>/dev/null &
    done
    wait
}

# What a host has besides its daemons, in one look. A listening socket without a process belongs to the kernel, or to a
# process that has ended.
left_on() {
    # shellcheck disable=SC2016 # the host's shell
    on "$1" sh -c '
        echo $$
        ps -e -o pid=,user=,args=
        echo --
        ss --no-header --tcp --listening --numeric --processes
        echo --
        find /dev/shm -mindepth 1' |
        awk -v host="$1" '
            NR == 1 { self = $1; next }
            $0 == "--" { part++; next }
            part == 0 && ($1 == 1 || $1 == self || $3 ~ /^(ps|sleep|\[.*\])$/ && $2 == "root") { next }
            part == 0 && $3 ~ /(^|\/)(munged|sackd|slurmd|slurmctld|slurmctld:|standin-sshd)$/ && $2 == "root" { next }
            part == 0 { print host ": process " $0 }
            part == 1 && $NF !~ /"(slurmd|slurmctld|munged|sackd|standin-sshd)"/ { print host ": listening " $4 " " $NF }
            part == 2 { print host ": file " $0 }' ||
        # 125 is what on says of a host that is down.
        [[ $? != 125 ]] || echo "$1: down"
}

left_jobs() { slurm squeue --noheader --format='job %i of %u is %T' || true; }

left_nodes() { node_states | awk '$2 != "idle" { print "node " $1 " is " $2 }' || echo "slurmctld does not answer"; }

left() {
    local host
    for host in "${HOSTS[@]}"; do left_on "$host"; done
    [[ $SLURM ]] || return 0
    left_jobs
    left_nodes
}

# While something is left there is no need to look for more: each look costs some processes.
nothing_left() {
    local host
    [[ ! $SLURM ]] || [[ ! $(left_nodes) && ! $(left_jobs) ]] || return 1
    for host in "${HOSTS[@]}"; do
        [[ ! $(left_on "$host") ]] || return 1
    done
}

cmd_leftovers() {
    local found
    if [[ ${1-} == --wait ]] && wait_until "${2-5}" nothing_left; then return 0; fi
    found=$(left)
    [[ $found ]] || return 0
    echo "$found"
    return 1
}
