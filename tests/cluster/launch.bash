# shellcheck shell=bash
# Launching jobs and looking at how they end, for bats files; loads helpers.  The
# same job can be started in two ways:
#
#   for with in srun hvdrun; do run launch "$with" -N2 -n2 true; exits 0; done

# shellcheck source=helpers.bash
. "${BASH_SOURCE[0]%/*}/helpers.bash"

# Benchmarks use this file without bats.
if [[ ${BATS_VERSION-} ]]; then bats_require_minimum_version 1.5.0; fi

# Of files that have none of their own.
teardown_file() { cluster_down; }
# shellcheck disable=SC2119
teardown() { cluster_mend; }

# launch srun|hvdrun ARG…: on the login host, as alice.
launch() {
    case $1 in
    srun) on_login srun --hvd "${@:2}" ;;
    hvdrun) on_login hvdrun "${@:2}" ;;
    esac
}

# built: in setup_file, for tests without a cluster. HVDRUN is the launcher built in $B, and SRC the sources.
built() {
    SRC=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    B=$(cd "$SRC" && cd "${B:-build}" && pwd) || return 1
    [[ -x $B/bin/hvdrun ]] || { echo "there is no hvdrun in $B: make all" >&2 && return 1; }
    export SRC B HVDRUN=$B/bin/hvdrun
}

# begin CMD…: starts CMD in the background, with its output in $OUT and its process id in $PID.
begin() {
    OUT=$BATS_TEST_TMPDIR/out
    : >"$OUT" # at once: what the last one has said is not to be taken for this one's
    "$@" >"$OUT" 2>&1 3>&- &
    PID=$!
}

running() { kill -0 "$1" 2>/dev/null; }
stopped() { ! running "$1"; }
said() { grep -qF -e "$1" "$OUT"; }
not_said() { ! said "$1"; }

# says SECONDS TEXT: succeeds when what begin started prints TEXT within the time.
says() {
    wait_for "$1" said "$2" || { cat "$OUT" && return 1; }
}

# says_times SECONDS N TEXT: succeeds when N lines of its output have TEXT within the time.
says_times() {
    wait_for "$1" said_times "$2" "$3" || { cat "$OUT" && return 1; }
}
said_times() { [[ $(grep -cF -e "$2" "$OUT") -ge $1 ]]; }

# ended SECONDS [STATUS]: succeeds when what begin started ends within the time, and with this
# status; sets $status and $output as run does.
ended() {
    local late=0
    within "$1" stopped "$PID" || late=1
    # On a cluster $PID is a shell that waits for a command on the login host: killing the command ends both.
    if ((late)); then
        if [[ ${HVD_CLUSTER_NAME-} ]]; then as_root hvdlogin pkill -KILL -u alice; else kill -KILL "$PID"; fi || true
    fi
    status=0
    wait "$PID" || status=$?
    output=$(<"$OUT")
    if ((late)); then echo "$output" && return 1; fi
    if [[ ${2-} ]]; then exits "$2"; fi
}

# exits STATUS, has TEXT…, has_not TEXT…: fail, and show $status or $output, unless these are so.
exits() {
    [[ $status -eq $1 ]] || { echo "status $status, not $1: $output" && return 1; }
}

# gives STATUS CMD…: as run, and CMD ends with this status.
gives() {
    run "${@:2}"
    exits "$1"
}

# exits_one_of STATUS…: where the status depends on which task srun sees end last.
exits_one_of() {
    local one
    for one in "$@"; do
        if [[ $status -eq $one ]]; then return 0; fi
    done
    echo "status $status, none of $*: $output" && return 1
}

has() {
    local text
    for text in "$@"; do
        [[ $output == *"$text"* ]] || { echo "no '$text' in: $output" && return 1; }
    done
}

has_not() {
    local text
    for text in "$@"; do
        [[ $output != *"$text"* ]] || { echo "'$text' in: $output" && return 1; }
    done
}

# ranks_said LINE…: $output is these lines, each of which begins with the number of its rank.
ranks_said() { [[ $(sort -n <<<"$output") == "$(printf '%s\n' "$@")" ]] || { echo "$output" && return 1; }; }

# signalled_once srun|hvdrun: each of four ranks gets each signal that scancel sends once.
TRAPS='trap "echo USR1" USR1; trap "echo TERM; exit 3" TERM; echo ready; for i in {1..100}; do sleep 0.2; done'
signalled_once() {
    local text
    begin launch "$1" -N2 -n4 --ntasks-per-node=2 bash -c "$TRAPS"
    says_times 10 4 ready
    # shellcheck disable=SC2016 # the shell on the login host
    on_login sh -c 'job=$(squeue -h -o %A); scancel --signal=USR1 "$job" && sleep 0.5 && scancel --signal=TERM "$job.0"'
    ended 20
    exits 3
    for text in USR1 TERM; do
        [[ $(grep -cx "$text" <<<"$output") -eq 4 ]] || { echo "not 4 times $text: $output" && return 1; }
    done
}

# traced LINE…: ~/trace.json is a valid trace, and has these events among others, in this order (lib/trace.py).
traced() {
    local at=0 line
    "$BATS_TEST_DIRNAME/lib/trace.py" "$(home)/trace.json" >"$BATS_TEST_TMPDIR/trace"
    for line; do
        at=$(awk -v at="$at" -v line="$line" 'NR > at && index($0, line) == 1 { print NR; exit }' "$BATS_TEST_TMPDIR/trace")
        [[ $at ]] || { echo "not, or not in this order: $line" && cat "$BATS_TEST_TMPDIR/trace" && return 1; }
    done
}

# selftest_ok RANKS HOSTS: $output is that of a self-test that passed.
selftest_ok() {
    local s=s
    if (($2 == 1)); then s=; fi
    exits 0 && has "hvd-selftest: $1 ranks on $2 host$s: OK"
}

# selftest RANKS HOSTS CMD…: CMD is a self-test of that size, and passes.
selftest() {
    run "${@:3}"
    selftest_ok "$1" "$2"
}

home() { echo "$(cluster path)/home/alice"; }

# Options of a launch that goes on after the report of its hang, of which ~/report.html has a page.
# shellcheck disable=SC2034
HANG_PAGE=(--hang-timeout=1 --report=report.html --events=events)
# hang_page RANKS: the page comes, with the stacks of so many ranks.
hang_page() {
    wait_for 20 grep -qs '"hang-action"' "$(home)/report.html"
    grep -q "\"stack-group\",{.*\"count\":$1[,}]" "$(home)/report.html"
}
# end_page: the launch has ended, and its page is that of its events.
end_page() {
    grep -q '"launch-ended"' "$(home)/report.html"
    on_login hvdrun --report-of events --report=again.html
    cmp "$(home)/report.html" "$(home)/again.html"
    on_login rm events report.html again.html
}

# slurm_before RELEASE: is the cluster's Slurm older than this, as 24.11?
slurm_before() {
    local own
    own=$(cluster exec -- srun --version) # "slurm-wlm 22.05.8"
    [[ $own =~ \ ([0-9]+\.[0-9]+) ]] || { echo "no release: $own" && return 2; }
    [[ ${BASH_REMATCH[1]} != "$1" && $(printf '%s\n' "${BASH_REMATCH[1]}" "$1" | sort -V | head -n 1) != "$1" ]]
}

# step_daemon_killed NODES: slurmstepd of hvdn2 is killed under hvdrun, which says so and ends.
step_daemon_killed() {
    local ranks=$((2 * $1))
    begin launch hvdrun -N"$1" -n"$ranks" --ntasks-per-node=2 bash -c 'echo ready; sleep 50'
    says_times 10 "$ranks" ready
    as_root hvdn2 pkill -KILL -x slurmstepd
    ended 20 1
    has "hvdn2: slurmstepd ended before the ranks that it had started; ending the job"
    has_not "failed first"
    assert_no_leftovers 10
}

# fresh_work: an empty folder ~/work of alice's, whose path is $WORK.
fresh_work() {
    WORK=$(home)/work
    as_root hvdlogin rm -rf "$WORK"
    on_login mkdir work
}

# script NAME <TEXT: writes a job script into alice's home.
script() {
    cat >"$(home)/$1"
    chmod 755 "$(home)/$1"
}

# discover_script: alice's ./discover finds the hosts that hosts has named last. hosts HOST[:SLOTS]…: at once, never a part.
discover_script() { printf '#!/bin/sh\ncat ~/hosts\n' | script discover; }
hosts() {
    printf '%s\n' "$@" >"$(home)/hosts.new"
    chmod 666 "$(home)/hosts.new"
    mv "$(home)/hosts.new" "$(home)/hosts"
}

# gone HOST PATTERN: succeeds when alice runs no such command there.
gone() { ! runs_on "$@"; }

# stop: ranks that look for ~/work/stop end well; ends_well SECONDS: and so does the launch, within the time.
stop() { on_login touch work/stop; }
ends_well() { stop && ended "$1" && exits 0; }

# submit ARG…: submits a job by sbatch and waits for its end; $status is the job's, $output what it
# printed.  (sbatch --wait looks every two seconds only.)
submit() {
    rm -f "$(home)/job.out"
    JOB=$(on_login sbatch --parsable --output=job.out --open-mode=append "$@")
    wait_for "$HVD_TEST_DEADLINE" job_over "$JOB" || { cat "$(home)/job.out" && return 1; }
    status=$(job_field "$JOB" ExitCode)
    status=${status%:*}
    output=$(<"$(home)/job.out")
}

job_field() { on_host hvdctl scontrol --oneliner show job "$1" | grep -oP "(?<= $2=)[^ ]*" | head -n 1; }
job_over() { [[ $(job_field "$1" JobState) != @(PENDING|CONFIGURING|RUNNING|COMPLETING) ]]; }

# runs_on HOST PATTERN: succeeds when alice runs such a command there.
runs_on() { as_root "$1" pgrep -u alice -f -- "$2" >/dev/null; }

# hung_fs HOST DIRECTORY: that directory of alice's hangs on the host from now on, as if its server had gone
# (lib/hung_fs.py); hung_fs_end HOST: it no longer does.
hung_fs() {
    local dir
    mkdir -p "$(home)/$2"
    dir=$(as_root "$1" sh -c 'echo ~alice')/$2
    as_root "$1" sh -c 'setsid python3 "$0" "$1" >/dev/null 2>&1 </dev/null &' "$HUNG_FS" "$dir"
    wait_for 10 as_root "$1" grep -q " $dir fuse" /proc/mounts
}
hung_fs_end() {
    as_root "$1" pkill -TERM -f lib/hung_fs.py
    wait_for 10 gone_from "$1" lib/hung_fs.py
}
gone_from() { ! as_root "$1" pgrep -f "$2" >/dev/null; }
HUNG_FS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/lib/hung_fs.py
