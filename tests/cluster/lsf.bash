# shellcheck shell=bash
# An LSF job on the test cluster, with stand-ins for LSF's launchers; for bats files that have loaded helpers and
# launch. The environment is that of a real job; LSF itself is not there. See tests/standins.

STANDINS=$(cd "$(dirname "${BASH_SOURCE[0]}")/../standins" && pwd)

# standins_up HOST…: makes $STANDIN_DIR, and what the stand-ins need on each host.
standins_up() {
    local host
    STANDIN_DIR=$(cluster path)/standins
    export STANDIN_DIR
    mkdir -p "$STANDIN_DIR"
    chmod 1777 "$STANDIN_DIR"
    for host in "$@"; do standin_daemon "$host"; done
}

# standin_daemon HOST: starts the stand-ins' daemon there, unless it runs.
standin_daemon() {
    if as_root "$1" pgrep -f "standins/resd $STANDIN_DIR/$1.sock" >/dev/null; then return 0; fi
    as_root "$1" rm -f "$STANDIN_DIR/$1.sock"
    as_root "$1" "$STANDINS/resd" "$STANDIN_DIR/$1.sock" 3>&-
}

# installed NAME…: only these stand-ins are in the PATH of in_job.
installed() {
    local name
    mkdir -p "$(cluster path)/standins"
    JOB_PATH=$(mktemp -d "$(cluster path)/standins/bin-XXXXXX")
    chmod 755 "$JOB_PATH"
    for name in "$@"; do ln -s "$STANDINS/$name" "$JOB_PATH/$name"; done
}

# in_job CMD…: runs CMD as the script of a job on $JOB_HOSTS ("hvdn1 2 hvdn2 2"): on the job's first host, in a session
# and a group of its own, and without input.
in_job() {
    local first=${JOB_HOSTS%% *}
    HVD_PATH=$B/bin:$JOB_PATH cluster exec --host "$first" -- "$STANDINS/job" env LSB_JOBID=4711 LSB_JOBINDEX=0 \
        LSB_JOBNAME=t LSB_QUEUE=normal LSB_MCPU_HOSTS="$JOB_HOSTS " LSB_SUB_HOST=hvdlogin LS_SUBCWD="$(home)" \
        LSFUSER=alice LSF_SERVERDIR="$STANDINS/server" STANDIN_DIR="$STANDIN_DIR" "$@" </dev/null
}

# begin_job CMD…: the same in the background, as begin does, with an output file of its own.
begin_job() {
    : >"$BATS_TEST_TMPDIR/out"
    begin in_job "$@"
}

# job_signal SIGNAL…: signals the job's process group, as bkill and bstop do.
job_signal() {
    local host=${JOB_HOSTS%% *} signal leader
    leader=$(as_root "$host" pgrep -u alice -o -x hvdrun)
    # The shell's own kill is used: the program kill takes a small group for a signal's number.
    for signal in "$@"; do
        as_root "$host" bash -c 'kill -s "$1" -- "-$(ps -o pgid= -p "$2" | tr -d " ")"' bash "$signal" "$leader"
    done
}

# every_process SIGNAL: signals all processes of the job on its first host at once, launchers, node agents and ranks
# among them, as LSF does when it has had the time to find them.
every_process() {
    # shellcheck disable=SC2016 # for the shell there
    as_root "${JOB_HOSTS%% *}" bash -c 'kill -s "$1" $(pgrep -u alice | grep -vxF "$(pgrep -u alice -f standins/job)")' \
        bash "$1" 2>/dev/null || true # a short-lived one may have ended meanwhile
}

# called NAME [TEXT]: how often a launcher was called, with TEXT in its argv or environment, as JSON has it.
called() { grep -cF -e "${2-}" "$STANDIN_DIR/calls.$1" 2>/dev/null; }
forget_calls() { as_root hvdlogin rm -f "$STANDIN_DIR"/calls.*; }

# job_left_behind: prints what hosts run besides daemons, those of the stand-ins among them, and files of a launch.
job_left_behind() {
    cluster leftovers | grep -vE 'process +[0-9]+ root +.*standins/resd '
    find /tmp -maxdepth 1 -name 'hvdrun-*' -newer "$STANDIN_DIR" -printf 'file %p\n'
}
job_clean() { [[ ! $(job_left_behind) ]]; }
nothing_left() {
    wait_for "${1:-10}" job_clean || { job_left_behind && return 1; }
}
