#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# soak_faults.sh [--only KIND] [--victim VICTIM] [--how KILL|STOP|WAKE] [N [SEED]] - N launches (60) on a cluster of
# its own, each with a fault at a random moment: a process is killed, or stopped for ever (STOP) or a while (WAKE), or a
# host is frozen or lost, or its links are cut.
#
# The jobs are of all kinds in turn, half of them by ssh, self-registering agents and mpirun; their ranks meet and work
# for some seconds, by real PyTorch and Horovod where `make peers` has installed them; under mpirun they only sleep. What a fault is and what must be said of it is in the table of
# victims below. Each launch must end within 30 seconds of the fault, or go on and do all of its work; its report must
# name the victim, and blame nobody else; the status is 0 when all work was done, and only then; no process and no file
# is left, no node is drained; and the next launch works. Some faults keep plain srun waiting for ever, too: waits() says
# which and why. They are counted apart, and the launch must end when the fault is undone, or by scancel.
#
# Launch I has the seed SEED+I, which is printed: soak_faults.sh 1 SEED repeats it. KIND "plain" is srun without --hvd,
# to see what it does. Environment: B, the build folder (build). SOAK_LOG: a file for what each launch has printed.
# Exit status: 0, or 1 when one launch was not as it must be.
set -u
shopt -s extglob

usage() {
    echo "usage: soak_faults.sh [--only KIND] [--victim VICTIM] [--how KILL|STOP|WAKE] [N [SEED]]" >&2
    exit 2
}
only='' only_victim='' only_how=''
while [[ ${1-} == --* ]]; do
    case $1 in
    --only) only=${2-} ;;
    --victim) only_victim=${2-} ;;
    --how) only_how=${2-} ;;
    *) usage ;;
    esac
    shift 2 || usage
done
n=${1:-60} seed=${2:-$((SRANDOM % 1000000))}
[[ $n$seed =~ ^[0-9]{1,12}$ && $n != 0 ]] || usage
# shellcheck source=tests/cluster/soak.bash
source "$(dirname "${BASH_SOURCE[0]}")/soak.bash"

# LIMIT: seconds from the fault until a launch that fails must have ended. WORK: how much longer one that goes on may
# take, with HVD_TEST_PATIENCE. PROVE: how long one that waits as plain srun does is looked at before the fault is undone.
LIMIT=30 WORK=$((30 * ${HVD_TEST_PATIENCE:-1})) PROVE=12
# Horovod's Gloo waits 30 s for a peer that is lost, and hvdrun 60 s for ranks that have not met each other.
GLOO=60
# For so long a job that may begin again waits for hosts when it has too few.
ELASTIC_TIMEOUT=10

# victim ; where it runs ; kinds of jobs that have it ; its "USER NAME ARGUMENTS" ; what a launch that fails of it says
victims() {
    cat <<'END'
rank     ; host  ; srun hvdrun ssh join mpi restart shrink elastic plain ; ^alice (hvd-selftest|python[0-9.]*|sleep) ; rank RANK on HOST failed
agent    ; host  ; ssh join restart shrink elastic ; ^alice hvd-agent .* (--ranks=|--behind) ; agent|ssh
monitor  ; host  ; join mpi               ; ^alice hvd-monitor ; agent|shim|mpirun|hvd-monitor
shim     ; host  ; hvdrun mpi             ; ^alice hvd-shim ; shim|mpirun
signals  ; host  ; hvdrun restart shrink elastic ; ^alice hvd-signals ; agent|hvd-signals
beside   ; host  ; srun hvdrun mpi        ; ^alice hvd-agent ; agent
watchdog ; host  ; srun hvdrun mpi        ; ^alice hvd-watchdog ; watchdog
driver   ; login ; srun                   ; ^alice hvd-driver ; driver
hvdrun   ; login ; hvdrun ssh join mpi restart shrink elastic ; ^alice hvdrun ;
ssh      ; login ; ssh                    ; ^alice ssh ; ssh
mpirun   ; login ; mpi                    ; ^alice (mpirun|orterun|prterun) ; mpirun
srun     ; login ; srun hvdrun restart shrink elastic plain ; ^alice srun ; srun
stepd    ; host  ; srun hvdrun restart shrink elastic plain ; ^root slurmstepd ; slurmstepd|step daemon|srun ended|Slurm|does not answer|connection
slurmd   ; host  ; srun hvdrun restart shrink elastic plain ; ^root slurmd ; slurmd|Slurm|[Nn]ode|does not answer
munged   ; host  ; srun hvdrun restart shrink elastic plain ; ^[^ ]+ munged ; munge|does not answer|Slurm has given up
frozen   ; host  ; srun hvdrun ssh join mpi restart shrink elastic plain ; fault node-freeze ; answer|no word|lost|[Nn]ode|gone
cut      ; host  ; srun hvdrun ssh join mpi restart shrink elastic plain ; fault silence ; answer|no word|lost|[Nn]ode|gone
lost     ; host  ; srun hvdrun ssh join mpi restart shrink elastic plain ; fault node-lost ; answer|no word|lost|[Nn]ode|gone
dead     ; host  ; srun hvdrun ssh join mpi restart shrink elastic plain ; fault node-kill ; answer|no word|lost|[Nn]ode|gone|ended
END
}

# Does plain srun wait for ever after this fault as well? Prints why.
waits() {
    case $how$victim in
    STOP@(rank|shim)) echo "srun waits for a stopped task" ;;
    STOP@(srun|hvdrun|ssh|mpirun)) echo "the launcher itself is stopped" ;;
    STOPdriver) echo "ranks that have not met wait for the store of a stopped driver, part of the launcher" ;;
    STOPstepd) echo "srun waits for the tasks of a stopped slurmstepd" ;;
    KILLstepd) [[ $kind != @(srun|plain) ]] || echo "srun waits for the tasks of a killed slurmstepd" ;;
    @(STOP|KILL)munged) [[ $kind != @(srun|plain) ]] || echo "slurmstepd waits for munged to tell of its tasks' ends" ;;
    esac
    case $kind$victim in
    plain@(frozen|cut|lost|dead)) echo "srun waits for the tasks of a host that does not answer" ;;
    esac
}

# ---- the jobs ----

peers=$here/../peers
"$peers/install.sh" --torch --check >/dev/null 2>&1 && TORCH=$("$peers/install.sh" --torch --where)/venv/bin/python
"$peers/install.sh" --check >/dev/null 2>&1 && HOROVOD=$("$peers/install.sh" --where)/venv/bin/python
export OMP_NUM_THREADS=1

# Half of them by ssh, by agents that come by themselves, and by mpirun, which is in the job.
MPIRUN=$(command -v mpirun.openmpi) || MPIRUN=$(command -v mpirun) || MPIRUN=''
mpi=mpi other=elastic
[[ $MPIRUN ]] || mpi=ssh
[[ ${HOROVOD-} ]] || other=shrink
KINDS=(srun ssh hvdrun join restart "$mpi" shrink join "$other" ssh srun "$mpi")
printf 'seed %d; kinds of jobs: %s; PyTorch: %s\n' "$seed" "${KINDS[*]}" "${TORCH-none}"

# What the ranks run, two on each host, or one where that is PyTorch; and the last line when all work was done.
choose_program() {
    per_host=2 name=selftest
    case $kind in
    plain) program=(sleep 6) name=sleep last='' ;;
    elastic) program=("${HOROVOD-}" "$peers/elastic.py" work/log --epochs 4 --pause 0.1 --say) name=horovod per_host=1 last="^loss " ;;
    mpi) program=(sleep 6) name=sleep last='' ;; # the self-test has Gloo, and no MPI
    srun | hvdrun | ssh | join) program=("$B/bin/hvd-selftest" --quick --sleep 5) last="8 ranks on 4 hosts: OK" ;;
    *) program=(./restart_worker.py work --until 50) name=counting last="^counted to 50" ;;
    esac
    if [[ ${TORCH-} && $kind != @(plain|elastic|mpi) && $((RANDOM % 3)) == 0 ]]; then
        program=("$TORCH" "$here/../../scripts/examples/elastic-torch.py" --epochs 50 --pause 0.1 --checkpoint work/checkpoint)
        name=torch per_host=1 last="^epoch 49 "
    fi
}

launch() {
    local np=$((4 * per_host)) by=()
    local alloc=(salloc -Q --no-kill -N4 --ntasks-per-node="$per_host" hvdrun -np "$np" --elastic-timeout="$ELASTIC_TIMEOUT")
    local fixed=(-N4 -n"$np" --ntasks-per-node="$per_host")
    case $kind in
    plain) by=(srun "${fixed[@]}") ;;
    srun) by=(srun --hvd --hvd-start-timeout=15 "${fixed[@]}") ;;
    hvdrun) by=(hvdrun --hvd-start-timeout=15 "${fixed[@]}") ;;
    ssh) by=(hvdrun --start-timeout=15 --hosts "$(printf "hvdn%d:$per_host," {1..4} | sed 's/,$//')") ;;
    join)
        by=(hvdrun --launcher=join --start-timeout=15 -np "$np" --key-file key --join-file at)
        rm -f "$home/at"
        agents &
        ;;
    mpi) by=(env HVD_MPIRUN="$MPIRUN" salloc -Q --no-kill -N4 --ntasks-per-node="$per_host" hvdrun --mpi --start-timeout=15 -np "$np") ;;
    restart) by=("${alloc[@]}" --max-restarts=3) ;;
    shrink) by=("${alloc[@]}" --min-np="$per_host" --max-restarts=3) ;;
    elastic) by=("${alloc[@]}" --min-np="$per_host") ;;
    esac
    # Behind a shell: what enters a host stops with the program that it has started, and nobody would wake it.
    timeout --kill-after=5 200 "$cluster" exec -- bash -c 'rm -rf work; mkdir work; "$@"; exit "$?"' launch "${by[@]}" "${program[@]}"
}

# agents: those of a job that waits for them, when it says where; they end with the job.
agents() {
    local i
    for ((i = 0; i < 100; i++)); do
        if [[ -s $home/at ]]; then break; fi
        sleep 0.1
    done
    for i in 1 2 3 4; do
        timeout --kill-after=5 200 "$cluster" exec --host "hvdn$i" -- "$B/libexec/hvd/hvd-agent" connect "$(<"$home/at")" \
            --key-file key --slots="$per_host" --index="$i" >/dev/null 2>&1 &
    done
}

# ---- faults ----

choose() {
    local rows
    RANDOM=$1
    : "$RANDOM" "$RANDOM" "$RANDOM"
    kind=${only:-${KINDS[$1 % ${#KINDS[@]}]}}
    choose_program
    mapfile -t rows < <(victims | awk -F ' *; *' -v OFS=';' -v victim="$only_victim" -v kind="$kind" \
        '(!victim || $1 == victim) && index(" " $3 " ", " " kind " ") { $1 = $1; print }')
    ((${#rows[@]})) || { echo "a job of the kind $kind has no such victim" >&2 && exit 2; }
    IFS=';' read -r victim host _ find cause <<<"${rows[RANDOM % ${#rows[@]}]}"
    [[ $host != login ]] || host=hvdlogin
    [[ $host != host ]] || host=hvdn$((RANDOM % 4 + 1))
    case $((RANDOM % 4)) in 0) how=STOP ;; 1) how=WAKE ;; *) how=KILL ;; esac
    how=${only_how:-$how}
    [[ $find != fault* ]] || how=KILL
    woken=$((RANDOM % 12 + 1))
    # Some in the start, which takes a fraction of a second, or some where PyTorch is imported.
    delay=$((RANDOM % (per_host == 1 ? 9 : 5))).$((RANDOM % 10))
    pick=$RANDOM
}

# strike: prints the pid of the victim and its rank, if it is there now or soon.
strike() {
    local i
    if [[ $find == fault* ]]; then
        # shellcheck disable=SC2086
        timeout 60 "$cluster" $find "$host" && echo "$host -"
        return
    fi
    for ((i = 0; i < 20; i++)); do
        # shellcheck disable=SC2016
        on "$host" root bash -c 'pids=($(ps -e -o pid=,user=,comm=,args= | sed "s/^ *//; s/  */ /g" |
                awk -v find="$2" "{ pid = \$1; sub(/^[0-9]+ /, \"\") } \$0 ~ find { print pid }"))
            ((${#pids[@]})) || exit 1
            pid=${pids[$3 % ${#pids[@]}]} rank=$(tr "\0" "\n" </proc/$pid/environ | sed -nE "s/^(HOROVOD_)?RANK=//p" | head -1)
            kill -"$1" "$pid" && echo "$pid ${rank:--}"' strike "${how/WAKE/STOP}" "$find" "$pick" && return
        running || return
        sleep 0.1
    done
}

wake() { on "$host" root kill -CONT "${struck%% *}" 2>/dev/null; }

# undo: what the fault has broken goes on or is there again.
undo() {
    [[ $struck ]] || return 0
    if [[ $find == fault* ]]; then
        timeout 100 "$cluster" fault clear
    elif [[ $how == STOP ]]; then
        wake
    elif [[ $how == KILL && $victim == @(munged|slurmd|stepd) ]]; then
        timeout 100 "$cluster" fault clear
    fi
}

# ---- what must be so ----

running() { kill -0 "$pid" 2>/dev/null; }
gone_within() {
    local end=$((SECONDS + $1))
    while running; do
        ((SECONDS < end)) || return 1
        sleep 0.1
    done
}

complain() {
    wrong+=("$1")
    echo "$kind $victim $how: $1" >>"$work/violations"
}
done_all() { [[ ! $last ]] || grep -qE -- "$last" "$out"; }

# blames: does the report of a failure name the victim, and nobody else? Of a launcher that was killed nobody can tell.
blames() {
    local rank=${struck##* } first own="on $host"
    [[ $how$victim != KILL@(hvdrun|srun) ]] || [[ $kind$victim == hvdrunsrun ]] || return 0
    [[ $victim != rank ]] || own="rank $rank $own"
    first=$(grep -oE 'rank [0-9]+ on [^ ]+ failed first|first: rank [0-9]+ on [^ ]+' "$out" | head -1)
    [[ ! $first || $first == *"$own"@(| *) ]] || { complain "blames '$first'" && return; }
    # mpirun starts nothing before its daemons are on all hosts, and may itself not know which is missing.
    [[ $kind == mpi && $(<"$out") == *"no registration from any host"* ]] ||
        [[ $host == hvdlogin || $(<"$out") == *"$host"* ]] || { complain "does not name the host" && return; }
    cause=${cause//RANK/$rank} cause=${cause//HOST/$host}
    grep -qE -- "$cause" "$out" || complain "does not say '$cause'"
}

# may_fail_late: rank 0 has done all work. May the launch fail all the same? Not for a process or a host that it can do
# without.
may_fail_late() {
    case $kind$victim in
    @(srun|hvdrun|ssh|join|mpi)* | *rank) return 0 ;;
    restart@(frozen|cut|lost|dead|slurmd)) return 0 ;; # nobody knows how the ranks there have ended, and -np needs the host
    *agent) [[ $how == STOP ]] ;; # nor here
    *munged) grep -q "may be missing" "$out" ;;
    *) return 1 ;;
    esac
}

check_end() {
    local limit=$LIMIT
    [[ $kind != @(restart|shrink|elastic) ]] || limit=$((LIMIT + ELASTIC_TIMEOUT))
    [[ $kind != elastic ]] || limit=$((limit + GLOO))
    if ((status == 0)); then
        # salloc ends with 0 when its command is killed by SIGKILL.
        done_all || [[ $how$victim == KILLhvdrun && $kind == @(restart|shrink|elastic) ]] || complain "status 0, and not all work was done"
    elif [[ $note ]] || ((${#wrong[@]})); then
        return # we have ended it
    elif [[ $kind != plain ]]; then
        ((took <= limit)) || complain "failed, and not within $limit s"
        if done_all && ! may_fail_late; then complain "status $status after all work was done"; fi
        [[ ! $struck ]] || blames
        [[ $struck ]] || complain "status $status without a fault"
    fi
}

check_after() {
    local drained
    drained=$(on hvdctl root scontrol --oneliner show nodes | grep -oE 'NodeName=[^ ]+|State=[^ ]*DRAIN[^ ]*' | grep -B1 DRAIN | xargs)
    [[ ! $drained ]] || complain "drained: $drained"
    undo >/dev/null 2>&1
    if ! timeout 90 "$cluster" leftovers --wait 25 >"$work/left"; then
        # A step daemon that was cut off tries for a while to reach its srun: that is Slurm's own.
        [[ $find == fault* && $(grep -v "^$host: .*slurmstepd" "$work/left") == '' ]] || complain "something is left"
        cat "$work/left" >>"$out"
        on hvdctl root scancel --user=alice
        for host in hvdlogin hvdn{1..4}; do on "$host" root pkill -KILL -u alice; done
        timeout 100 "$cluster" fault clear
        timeout 60 "$cluster" wait 40
    fi
    local next=(hvdrun)
    [[ $kind != srun ]] || next=(srun --hvd)
    if ! on hvdlogin alice "${next[@]}" -N4 -n8 --ntasks-per-node=2 hvd-selftest --quick >"$work/next" 2>&1; then
        complain "the next launch failed"
        cat "$work/next" >>"$out"
    fi
}

# wait_out: until the launch has ended, by itself or by us.
wait_out() {
    local why='' most=$((LIMIT + WORK))
    [[ $kind != elastic ]] || most=$((most + GLOO))
    if [[ $struck && $how != WAKE ]]; then why=$(waits); fi
    if [[ $why ]]; then most=$PROVE; fi
    if gone_within "$most"; then return; fi
    if [[ $why ]]; then
        as_plain=$((as_plain + 1)) note=", as plain srun: $why"
        undo >/dev/null 2>&1
        [[ $how == STOP ]] || on hvdctl root scancel --user=alice
        if gone_within $LIMIT; then return; fi
        on hvdlogin root pkill -TERM -o -u alice -x srun # as Ctrl-C: plain srun does not end by scancel without its slurmstepd
        if gone_within $LIMIT; then return; fi
        complain "has not ended when the fault was undone"
    else
        complain "neither ended nor went on in $most s"
    fi
    on hvdlogin root ps -u alice -o pid,stat,args | cut -c1-150 >>"$out"
    on hvdlogin root pkill -KILL -u alice
    on hvdctl root scancel --user=alice
}

one() {
    out=$work/out wrong=() note='' status=0 struck=''
    choose "$1"
    : >"$out"
    launch >>"$out" 2>&1 &
    pid=$!
    sleep "$delay"
    struck=$(strike)
    began=$EPOCHREALTIME
    if [[ $struck && $how == WAKE ]]; then
        gone_within "$woken" || true
        wake
    fi
    wait_out
    wait "$pid" || status=$?
    took=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%d", b - a + 0.5 }')
    check_end
    check_after
    tell "$1"
}

tell() {
    local line
    if [[ ! $struck ]]; then untouched=$((untouched + 1)); elif ((status)); then failed=$((failed + 1)); else well=$((well + 1)); fi
    line=$(printf 'seed %d: %-7s %-8s %s %-8s on %-8s after %s s: %s, status %d, %d s later%s' "$1" "$kind" \
        "$name" "$how" "$victim" "$host" "$delay" \
        "$([[ $struck ]] && echo hit || echo "no such process")" "$status" "$took" "$note")
    echo "$line"
    if ((${#wrong[@]})); then
        bad=$((bad + 1))
        printf '    WRONG: %s\n' "${wrong[@]}"
        grep -vE '^(epoch|size|worker|hvd-selftest: +[0-9]) ' "$out" | sed 's/^/    | /' | tail -n 60
    fi
    if [[ ${SOAK_LOG-} ]]; then { echo "== $line" && cat "$out"; } >>"$SOAK_LOG"; fi
}

by_kind() {
    [[ -s $work/violations ]] || return 0
    echo "by kind of job and victim:"
    sort "$work/violations" | uniq -c | sort -rn
}

soak_up --nodes 4 --ssh --slurm-conf SlurmdTimeout=8
home=$("$cluster" path)/home/alice
mkdir -p "$home/lib"
cp "$here/restart_worker.py" "$home/"
cp "$here/lib/tcpstore_client.py" "$home/lib/"
on hvdlogin alice bash -c '(umask 077; head -c 32 /dev/urandom | od -An -v -tx1 | tr -d " \n" >key)'
bad=0 as_plain=0 well=0 failed=0 untouched=0
for ((i = 0; i < n; i++)); do one $((seed + i)); done
by_kind
echo "$n launches: $well went well, $failed failed, $untouched had no such process; as plain srun $as_plain waited;"
echo "$bad were not as they must be"
((bad == 0))
