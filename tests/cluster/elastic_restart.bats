#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2016 # what run sets; what a script on the cluster reads
# Elastic jobs of PyTorch's kind: all ranks are started anew after a failure or a change of hosts. The ranks are
# restart_worker.py.

load helpers
load launch
load restart_ranks

setup_file() {
    suite_up --nodes 4
    bring_worker
    discover_script
}
teardown_file() { cluster_down; }
setup() { fresh_work; }
teardown() {
    cluster_mend
    assert_no_leftovers
}

# works_as LINE…: soon the ranks of the last generation are these, in their order: "size S … restarts N".
last_generation() { tail -n "$1" "$WORK/log" 2>/dev/null | sed 's/ pid .*//' | sort -k4n; }
works_so() { [[ $(last_generation "$1") == "$2" ]]; }
works_as() {
    local want
    want=$(printf '%s\n' "$@")
    wait_for 30 works_so "$#" "$want" || { echo "not: $want" && cat "$WORK/log" "$OUT" && return 1; }
}
checkpoint() { cat "$WORK/checkpoint"; }
beyond() { [[ $(checkpoint) -gt $1 ]]; }

# descriptors: how many the agents of hvdn1 and hvdn2 and hvdrun have open. memory: the kB of these processes.
descriptors() {
    # shellcheck disable=SC2016 # for the other shell
    local count='for pid in $(pgrep -f "$0"); do ls /proc/$pid/fd | wc -l; done'
    as_root hvdn1 sh -c "$count" '[h]vd-agent host'
    as_root hvdn2 sh -c "$count" '[h]vd-agent host'
    as_root hvdlogin sh -c "$count" '^[^ ]*[h]vdrun --max-restarts'
}
# no_more BEFORE: soon none of them has more than there were. One that asks the controller has one more for a moment.
no_more() { paste <(echo "$1") <(descriptors) | awk '{ n++ } NF < 2 || $2 > $1 { bad = 1 } END { exit bad || n < 3 }'; }
has_no_more() { wait_for 5 no_more "$1" || { echo "$1, and then:" && descriptors && return 1; }; }
memory() {
    local size='for pid in $(pgrep -f "$0"); do sed -n "s/VmRSS:[^0-9]*\([0-9]*\).*/\1/p" /proc/$pid/status; done'
    as_root hvdn1 sh -c "$size" '[h]vd-agent host'
    as_root hvdn2 sh -c "$size" '[h]vd-agent host'
    as_root hvdlogin sh -c "$size" '^[^ ]*[h]vdrun --max-restarts'
}

@test "from the login host: salloc makes the job, whose size, end and status are those of hvdrun's options" {
    # shellcheck disable=SC2016
    gives 0 on_login hvdrun -N2 --ntasks-per-node=2 -p debug --max-restarts=1 sh -c 'echo "rank $RANK of $WORLD_SIZE on $SLURMD_NODENAME"'
    has "rank 0 of 4 on hvdn1" "rank 3 of 4 on hvdn2" "Granted job allocation"
    has_not "no-kill" "warning"
    gives 3 on_login env SLURM_PARTITION=debug hvdrun -N2 -np 4 --max-restarts=0 sh -c 'exit 3'
    gives 0 on_login hvdrun -N2 -np 4 --min-np 2 -Q --dry-run true
    [ "$output" = "salloc --no-kill --job-name=true --ntasks=4 -N2 -Q hvdrun -N2 -np 4 --min-np 2 -Q --dry-run true" ]
    gives 2 on_login hvdrun --jobid=1 --max-restarts=0 true
    begin on_login hvdrun -N2 -n2 --max-restarts=1 sh -c 'echo ready; exec sleep 60'
    says_times 10 2 ready
    on_login pkill -TERM -x salloc
    ended 20
    exits_one_of 1 143
}

@test "a rank is killed: all are started anew, go on from their checkpoint, and this is counted" {
    local before
    train 2 --max-restarts 2 --output-filename out
    works_as "size 4 rank 0 on hvdn1 local 0/2 restarts 0" "size 4 rank 1 on hvdn1 local 1/2 restarts 0" \
        "size 4 rank 2 on hvdn2 local 0/2 restarts 0" "size 4 rank 3 on hvdn2 local 1/2 restarts 0"
    wait_for 10 beyond 5
    before=$(descriptors)
    [[ $(wc -w <<<"$before") -ge 3 ]]
    kill_rank hvdn2 3
    # None has come to a checkpoint at this signal, so none need be waited for.
    within 5 works_so 4 "$(printf 'size 4 rank %s restarts 1\n' "0 on hvdn1 local 0/2" "1 on hvdn1 local 1/2" \
        "2 on hvdn2 local 0/2" "3 on hvdn2 local 1/2")"
    wait_for 10 beyond 10
    kill_rank hvdn1 0
    works_as "size 4 rank 0 on hvdn1 local 0/2 restarts 2" "size 4 rank 1 on hvdn1 local 1/2 restarts 2" \
        "size 4 rank 2 on hvdn2 local 0/2 restarts 2" "size 4 rank 3 on hvdn2 local 1/2 restarts 2"
    # None is left of the ranks that have ended.
    has_no_more "$before"
    ends_well 30
    has "generation 1: 4 ranks on 2 hosts" "rank 3 on hvdn2 failed: killed by signal 9" \
        "restarting all ranks, restart 1 of 2, when the others have ended" "generation 3: 4 ranks on 2 hosts"
    has_not "error" "Killed"
    [[ $(sed -E 's/.* on ([^ ]*) .* pid /\1 /' "$WORK/log" | sort -u | wc -l) -eq 12 ]]
}

# A generation of the history that --json shows takes less than 2 kB, and 1,000 are kept. 200 kB are what pools of malloc()
# and pages of libraries may come to.
@test "after many restarts (RESTARTS) agents and hvdrun have no more descriptors and no more memory" {
    local i before restarts=${RESTARTS:-8} was is
    export HVD_TEST_DEADLINE=$((60 + 20 * restarts))
    train 2 --max-restarts "$restarts" --max-idle-restarts 0
    for ((i = 0; i <= restarts; i++)); do
        wait_for 30 works_so 4 "$(printf 'size 4 rank %s restarts '"$i"'\n' "0 on hvdn1 local 0/2" "1 on hvdn1 local 1/2" \
            "2 on hvdn2 local 0/2" "3 on hvdn2 local 1/2")"
        # The first ones bring in what is needed for a restart.
        if ((i == 3)); then was=$(memory) before=$(descriptors); fi
        if ((i < restarts)); then kill_rank hvdn$((i / 2 % 2 + 1)) $((i / 2 % 2 * 2)); fi
    done
    is=$(memory)
    has_no_more "$before"
    printf '%s restarts: kB before and after:\n%s\n' "$restarts" "$(paste <(echo "$was") <(echo "$is"))" | tee "${RESTARTS_MEMORY:-/dev/null}"
    paste <(echo "$was") <(echo "$is") | awk -v most=$((200 + 2 * restarts)) '{ n++ } $2 > $1 + most { bad = 1 } END { exit bad || n < 3 }'
    ends_well 30
}

rank_names() { as_root "$1" pgrep -u alice -fc '^python3 ./restart_worker.py work$'; }

@test "--preload: ranks of all generations are forked on each host, and seen as ranks" {
    local job
    begin on_login salloc -Q -N2 --ntasks-per-node=2 --no-kill hvdrun --max-restarts 1 --hvd-verbose --preload=json,socket \
        python3 ./restart_worker.py work
    works_as "size 4 rank 0 on hvdn1 local 0/2 restarts 0" "size 4 rank 1 on hvdn1 local 1/2 restarts 0" \
        "size 4 rank 2 on hvdn2 local 0/2 restarts 0" "size 4 rank 3 on hvdn2 local 1/2 restarts 0"
    says_times 10 2 "has imported json,socket"
    as_root hvdn2 pgrep -u alice -x hvd-preload
    [[ $(rank_names hvdn2) -eq 2 ]]
    job=$(on_login squeue -h -u alice -o %A)
    run on_login hvdrun --stacks "$job"
    exits 0
    has "4 ranks"
    has_not "hvd-preload"
    kill_rank hvdn2 3
    works_as "size 4 rank 0 on hvdn1 local 0/2 restarts 1" "size 4 rank 1 on hvdn1 local 1/2 restarts 1" \
        "size 4 rank 2 on hvdn2 local 0/2 restarts 1" "size 4 rank 3 on hvdn2 local 1/2 restarts 1"
    ends_well 30
    has_not "without --preload" "error"
    [[ $(grep -c "has imported" <<<"$output") -eq 2 ]]
    run -2 on_login hvdrun -N2 --preload=json python3 ./restart_worker.py work
    has "--preload cannot be used here: srun starts the ranks" "with --max-restarts in a Slurm job"
}

@test "all ranks of an elastic job meet at the host of rank 0, also when that is another one" {
    local n first second
    first=$(cluster addr hvdn1 ib0)
    second=$(cluster addr hvdn2 ib0)
    as_user alice cp "$BATS_TEST_DIRNAME/lib/tcpstore_client.py" "$(home)/client.py"
    printf '#!/bin/sh\necho "restarts $TORCHELASTIC_RESTART_COUNT rank $RANK at $MASTER_ADDR"\npython3 client.py || exit 5
until [ -e work/stop ]; do sleep 0.1; done\n' | script meeting
    begin on_login salloc -Q -N3 --ntasks-per-node=1 --no-kill hvdrun -np 3 --max-restarts 1 --min-np 2 ./meeting
    for n in 0 1 2; do says 20 "rank $n of 3: sum 3"; done
    [[ $(grep -c "restarts 0 rank [012] at $first\$" "$OUT") -eq 3 ]] || { cat "$OUT" && false; }
    fault node-kill hvdn1
    for n in 0 1; do says 60 "rank $n of 2: sum 1"; done
    [[ $(grep -c "restarts 1 rank [01] at $second\$" "$OUT") -eq 2 ]] || { cat "$OUT" && false; }
    ends_well 40
}

@test "when all restarts are used up the first failure ends the job, with its status" {
    printf '#!/bin/sh\n[ $RANK != 1 ] || exit 7\nexec sleep 100\n' | script failing
    run on_login salloc -Q -N2 --ntasks-per-node=1 --no-kill hvdrun --max-restarts 2 ./failing
    exits 7
    has "generation 3: 2 ranks on 2 hosts" "error: hvdn2: rank 1 failed: exit code 7" "error: rank 1 on hvdn2 failed first: exit code 7" \
        "all ranks were restarted 2 times, as often as --max-restarts allows"
    run on_login salloc -Q -N2 --ntasks-per-node=1 --no-kill hvdrun --max-restarts 0 ./failing
    exits 7
    has "--max-restarts=0 restarts nothing after a failure"
    has_not "generation 2"
}

@test "a node is lost: the others go on with their checkpoint" {
    train 3 --min-np 4 --max-np 6 --max-restarts 1
    works_as "size 6 rank 0 on hvdn1 local 0/2 restarts 0" "size 6 rank 1 on hvdn1 local 1/2 restarts 0" \
        "size 6 rank 2 on hvdn2 local 0/2 restarts 0" "size 6 rank 3 on hvdn2 local 1/2 restarts 0" \
        "size 6 rank 4 on hvdn3 local 0/2 restarts 0" "size 6 rank 5 on hvdn3 local 1/2 restarts 0"
    wait_for 10 beyond 5
    fault node-kill hvdn1
    works_as "size 4 rank 0 on hvdn2 local 0/2 restarts 1" "size 4 rank 1 on hvdn2 local 1/2 restarts 1" \
        "size 4 rank 2 on hvdn3 local 0/2 restarts 1" "size 4 rank 3 on hvdn3 local 1/2 restarts 1"
    beyond 5
    ends_well 30
    has "generation 2: 4 ranks on 2 hosts (hvdn1 removed)"
}

@test "with a spare host: a lost host's ranks move there, and all ranks keep their numbers; one that comes back is the spare" {
    train 4 --max-restarts 3 --spares 1
    works_as "size 6 rank 0 on hvdn1 local 0/2 restarts 0" "size 6 rank 1 on hvdn1 local 1/2 restarts 0" \
        "size 6 rank 2 on hvdn2 local 0/2 restarts 0" "size 6 rank 3 on hvdn2 local 1/2 restarts 0" \
        "size 6 rank 4 on hvdn3 local 0/2 restarts 0" "size 6 rank 5 on hvdn3 local 1/2 restarts 0"
    says 5 "hvdn4 is a spare host"
    # Its agent is started again ten seconds later.
    as_root hvdn2 pkill -KILL -f 'hvd-agent host'
    works_as "size 6 rank 0 on hvdn1 local 0/2 restarts 1" "size 6 rank 1 on hvdn1 local 1/2 restarts 1" \
        "size 6 rank 2 on hvdn4 local 0/2 restarts 1" "size 6 rank 3 on hvdn4 local 1/2 restarts 1" \
        "size 6 rank 4 on hvdn3 local 0/2 restarts 1" "size 6 rank 5 on hvdn3 local 1/2 restarts 1"
    says 30 "hvdn2 is a spare host"
    fault node-kill hvdn3
    works_as "size 6 rank 0 on hvdn1 local 0/2 restarts 2" "size 6 rank 1 on hvdn1 local 1/2 restarts 2" \
        "size 6 rank 2 on hvdn4 local 0/2 restarts 2" "size 6 rank 3 on hvdn4 local 1/2 restarts 2" \
        "size 6 rank 4 on hvdn2 local 0/2 restarts 2" "size 6 rank 5 on hvdn2 local 1/2 restarts 2"
    ends_well 30
    has "generation 2: 6 ranks on 3 hosts (hvdn4 added, hvdn2 removed)" \
        "generation 3: 6 ranks on 3 hosts (hvdn2 added, hvdn3 removed)"
}

@test "with a spare host: a host that --preflight finds bad is the one without ranks; too few hosts are an error" {
    printf '#!/bin/sh\n[ "$(hostname)" != hvdn1 ] || { echo no licence; exit 3; }\n' | script hook
    begin on_login env HVD_PREFLIGHT_HOOK="$(on_login pwd)/hook" salloc -Q -N3 --ntasks-per-node=2 hvdrun --max-restarts 1 \
        --spares 1 -np 4 ./restart_worker.py work
    works_as "size 4 rank 0 on hvdn2 local 0/2 restarts 0" "size 4 rank 1 on hvdn2 local 1/2 restarts 0" \
        "size 4 rank 2 on hvdn3 local 0/2 restarts 0" "size 4 rank 3 on hvdn3 local 1/2 restarts 0"
    ends_well 30
    has "hvdn1 is left out: the site's program reports: no licence"
    run on_login salloc -Q -N3 --ntasks-per-node=2 hvdrun --max-restarts 1 --spares 1 -np 5 ./restart_worker.py work
    exits 2
    has "without 1 spare host there are 4 slots, but the job has 5 ranks"
}

@test "SIGKILL does not end a rank: a spare host takes the place of its host, which is not used again" {
    printf '#!/bin/sh\nif [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then
    [ $RANK != 2 ] || exec stat hung/file
    [ $RANK != 0 ] || { until [ -e work/go ]; do sleep 0.1; done; exit 3; }
fi
echo "$TORCHELASTIC_RESTART_COUNT rank $RANK on $(hostname)"; until [ -e work/stop ]; do sleep 0.1; done\n' | script stuck
    hung_fs hvdn2 hung
    begin on_login salloc -Q -N4 --ntasks-per-node=2 --no-kill hvdrun --max-restarts 2 --spares 1 --kill-wait 1 ./stuck
    says 20 "0 rank 3 on hvdn2"
    says 20 "hvdn4 is a spare host"
    on_login touch work/go
    says 20 "1 rank 2 on hvdn4"
    says 5 "1 rank 0 on hvdn1"
    says 5 "1 rank 4 on hvdn3"
    hung_fs_end hvdn2
    ends_well 30
    has "hvdn2: rank 2 cannot be killed: process" "(state D)" "hvdn2: the host is no longer used" \
        "hvdn4 takes the place of hvdn2" "generation 2: 6 ranks on 3 hosts (hvdn4 added, hvdn2 removed)"
}

# gpus: a nvidia-smi for hosts with one GPU, whose memory in use is in ~/mib.HOST. With ~/brief.HOST it is free again when
# somebody has asked for that alone.
gpus() {
    mkdir -p "$(home)/bin"
    printf '#!/bin/sh\nmib=$(cat ~/mib.$(hostname) 2>/dev/null || echo 10)
case "$*" in
*query-gpu=memory.used*) echo "$mib"; [ ! -e ~/brief.$(hostname) ] || rm -f ~/mib.$(hostname) ;;
*) echo "0, 0, No, $mib" ;;
esac\n' >"$(home)/bin/nvidia-smi"
    chmod 755 "$(home)/bin/nvidia-smi"
}

@test "hosts are checked again while ranks end: a bad one is replaced, and is the spare when it is good again" {
    local n path
    gpus
    path=$(on_login bash -c 'echo ~/bin:$PATH')
    begin on_login env PATH="$path" salloc -Q -N4 --ntasks-per-node=2 --no-kill hvdrun --hvd-verbose --max-restarts 3 \
        --spares 1 ./restart_worker.py work
    works_as "size 6 rank 0 on hvdn1 local 0/2 restarts 0" "size 6 rank 1 on hvdn1 local 1/2 restarts 0" \
        "size 6 rank 2 on hvdn2 local 0/2 restarts 0" "size 6 rank 3 on hvdn2 local 1/2 restarts 0" \
        "size 6 rank 4 on hvdn3 local 0/2 restarts 0" "size 6 rank 5 on hvdn3 local 1/2 restarts 0"
    says 10 "hvdn4 is a spare host"
    for n in 1 2 3; do echo 3000 >"$(home)/mib.hvdn$n"; done # of the ranks
    # hvdn2's is still in use when the ranks have ended; that of hvdn1 and hvdn3, too, but not at the second look.
    touch "$(home)/brief.hvdn1" "$(home)/brief.hvdn3"
    kill_rank hvdn3 5
    works_as "size 6 rank 0 on hvdn1 local 0/2 restarts 1" "size 6 rank 1 on hvdn1 local 1/2 restarts 1" \
        "size 6 rank 2 on hvdn4 local 0/2 restarts 1" "size 6 rank 3 on hvdn4 local 1/2 restarts 1" \
        "size 6 rank 4 on hvdn3 local 0/2 restarts 1" "size 6 rank 5 on hvdn3 local 1/2 restarts 1"
    says 1 "hvdn2 is left out: GPU 0 has 3000 MiB in use, and had 10 MiB before the ranks"
    rm "$(home)/mib.hvdn2"
    says 30 "hvdn2 is a spare host"
    ends_well 30
    has "hvdn1 was checked again, and is good" "hvdn4 takes the place of hvdn2"
    has_not "generation 3"
}

@test "ranks that fail again and again without progress end the job; a checkpoint is progress" {
    printf '#!/bin/sh\n[ "$RANK" = 1 ] || exec sleep 60\n[ ! -e work/write ] || date >>"work/a checkpoint.pt"
[ "$TORCHELASTIC_RESTART_COUNT" -lt 4 ] || rm -f work/write\nexit 3\n' | script fails
    begin on_login salloc -Q -N2 --ntasks-per-node=1 --no-kill hvdrun -np 2 --max-restarts 50 --json ./fails
    ended 30
    exits 86
    has "the last 3 generations ended soon after the start" "rank 1 on hvdn2 failed first: exit code 3" \
        '"generations":3' '"cause":"exit code 3","host":"hvdn2","rank":1' '"goodput":' "% of"
    on_login touch work/write
    begin on_login salloc -Q -N2 --ntasks-per-node=1 --no-kill hvdrun -np 2 --max-restarts 50 --json \
        --progress-file 'work/*point.pt' ./fails
    ended 30
    exits 86
    has "the last 3 generations ended without a new file of --progress-file" '"generations":8'
    begin on_login salloc -Q -N2 --ntasks-per-node=1 --no-kill hvdrun -np 2 --max-restarts 4 --max-idle-restarts 0 ./fails
    ended 30
    exits 3
    has "as often as --max-restarts allows"
}

@test "a rank that fails with the same exception on two hosts ends the job, and no host is blamed" {
    printf '#!/usr/bin/env python3\nimport os, time\nif os.environ["RANK"] != "1":\n    time.sleep(60)
raise ValueError("sample 17 is broken")\n' | script raises
    begin on_login salloc -Q -N3 --ntasks-per-node=1 --no-kill hvdrun -np 2 --spares 1 --max-restarts 50 --json ./raises
    ended 30
    exits 1
    has "the program is at fault, and not a host" '"generations":3' '"error":"ValueError: sample 17 is broken"'
}

# hvdn3 comes when generation 1 is young, hvdn4 a moment later.
@test "hosts that come change the job once, and not at once; one that goes does at once" {
    hosts hvdn1:1 hvdn2:1
    begin on_login salloc -Q -N4 --no-kill hvdrun --host-discovery-script ./discover --discovery-interval 0.2 -np 2 \
        --min-np 2 --max-np 4 --max-restarts 0 ./restart_worker.py work
    works_as "size 2 rank 0 on hvdn1 local 0/1 restarts 0" "size 2 rank 1 on hvdn2 local 0/1 restarts 0"
    hosts hvdn1:1 hvdn2:1 hvdn3:1
    sleep 2
    hosts hvdn1:1 hvdn2:1 hvdn3:1 hvdn4:1
    works_as "size 4 rank 0 on hvdn1 local 0/1 restarts 0" "size 4 rank 1 on hvdn2 local 0/1 restarts 0" \
        "size 4 rank 2 on hvdn3 local 0/1 restarts 0" "size 4 rank 3 on hvdn4 local 0/1 restarts 0"
    hosts hvdn2:1 hvdn3:1 hvdn4:1
    within 8 works_so 3 "$(printf 'size 3 rank %s local 0/1 restarts 0\n' "0 on hvdn2" "1 on hvdn3" "2 on hvdn4")"
    ends_well 30
    has "generation 2: 4 ranks on 4 hosts (hvdn[3-4] added)" "generation 3: 3 ranks on 3 hosts (hvdn1 removed)"
    has_not "generation 4" "warning" "error"
}

@test "ranks that write a checkpoint at SIGTERM have the time for it" {
    train 1 --max-restarts 1 -- --heed
    works_as "size 2 rank 0 on hvdn1 local 0/2 restarts 0" "size 2 rank 1 on hvdn1 local 1/2 restarts 0"
    kill_rank hvdn1 1
    works_as "size 2 rank 0 on hvdn1 local 0/2 restarts 1" "size 2 rank 1 on hvdn1 local 1/2 restarts 1"
    [[ -e $WORK/heeded.0 && ! -e $WORK/heeded.1 ]]
    ends_well 30
}

# KillWait is five seconds here; without Slurm it would be fifteen.
@test "without --kill-wait ranks have the time that Slurm gives them" {
    local ticks
    # Not a shell, which cannot handle a signal that it has started with ignored.
    script ticking <<'END'
#!/usr/bin/env python3
import os, signal, sys, time

def tick(*_):
    for _ in range(20):
        print("tick", flush=True)
        time.sleep(1)

signal.signal(signal.SIGTERM, tick)
print("ready", flush=True)
time.sleep(1)
if os.environ["RANK"] != "0":
    sys.exit(3)
while True:
    time.sleep(0.1)
END
    begin on_login salloc -Q -N1 --ntasks-per-node=2 --no-kill hvdrun --max-restarts 0 ./ticking
    ended 30
    exits 3
    has ready
    ticks=$(grep -c tick <<<"$output" || true)
    [[ $ticks -ge 1 && $ticks -le 9 ]] || { echo "$ticks: $output" && return 1; }
}

@test "when one rank has ended well the others go on, and after a failure all are started anew" {
    train 2 --max-restarts 1 -- --end 0
    works_as "size 4 rank 0 on hvdn1 local 0/2 restarts 0" "size 4 rank 1 on hvdn1 local 1/2 restarts 0" \
        "size 4 rank 2 on hvdn2 local 0/2 restarts 0" "size 4 rank 3 on hvdn2 local 1/2 restarts 0"
    sleep 1
    running "$PID"
    kill_rank hvdn2 2
    works_as "size 4 rank 0 on hvdn1 local 0/2 restarts 1" "size 4 rank 1 on hvdn1 local 1/2 restarts 1" \
        "size 4 rank 2 on hvdn2 local 0/2 restarts 1" "size 4 rank 3 on hvdn2 local 1/2 restarts 1"
    ends_well 30
}

# Slurm sends SIGTERM to all that runs in a job which it preempts.
@test "a companion job joins, and is preempted: that is a change of hosts, and no failure" {
    local alone=("rank 0 on hvdn1 local 0/1" "rank 1 on hvdn2 local 0/1")
    on_login sbatch -Q -w hvdn1 --exclusive -J mine --no-kill -o train.out --wrap "hvdrun -np 1 --min-np 1 --max-np 2 \
        --slots-per-host 1 --discover jobs:mine --max-restarts 0 ./restart_worker.py work"
    works_as "size 1 ${alone[0]} restarts 0"
    on_login sbatch -Q -w hvdn2 --exclusive -J mine -p preempt -o /dev/null --wrap 'sleep 300'
    works_as "size 2 ${alone[0]} restarts 0" "size 2 ${alone[1]} restarts 0"
    on_login sbatch -Q -w hvdn2 --exclusive -J other -o /dev/null --wrap 'sleep 1'
    wait_for 30 works_so 1 "size 1 ${alone[0]} restarts 0"
    stop
    wait_for 30 job_is_over
    cat "$(home)/train.out"
    grep "hvdn2 will be taken away in" "$(home)/train.out"
    grep "generation 3: 1 rank on 1 host (hvdn2 removed)" "$(home)/train.out"
    run grep -E "hvdrun: (warning|error)|failed" "$(home)/train.out"
    [[ ! $output ]]
}
job_is_over() { [[ ! $(on_login squeue -h -n mine 2>/dev/null) ]]; }

@test "hvdrun that is interrupted, ended or killed, and a job that is cancelled, leave nothing" {
    local signal
    for signal in INT TERM KILL cancel; do
        as_root hvdlogin rm -rf "$WORK/log"
        train 2 --max-restarts 3
        works_as "size 4 rank 0 on hvdn1 local 0/2 restarts 0" "size 4 rank 1 on hvdn1 local 1/2 restarts 0" \
            "size 4 rank 2 on hvdn2 local 0/2 restarts 0" "size 4 rank 3 on hvdn2 local 1/2 restarts 0"
        case $signal in
        cancel) as_root hvdctl scancel --user=alice ;;
        *) as_root hvdlogin pkill -"$signal" -x hvdrun ;;
        esac
        ended 20
        case $signal in
        INT) exits 130 ;;
        TERM) exits 143 ;;
        esac
        has_not "generation 2"
        assert_no_leftovers
    done
}
