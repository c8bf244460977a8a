#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2034 # what run sets; what loss_as_alone reads
# shellcheck disable=SC2016,SC2088 # $PID, ~ and the like are for the shell that runs the command
# Elastic training by real Horovod with faults that are rare, or that meet.

load ../cluster/launch
load peers
load elastic

setup_file() { elastic_file --nodes 3; }
setup() {
    elastic_begin
    rm -rf "$(home)"/{enough,out}
}
teardown() {
    local host
    if [[ ! $PEERS_WHY$CLUSTER_WHY ]]; then
        for host in hvdn1 hvdn2 hvdn3; do node "$host" resume >/dev/null 2>&1 || true; done
    fi
    elastic_end
}

node() { as_root hvdctl scontrol update node="$1" state="$2" reason=test; }

# train HOSTS SLOTS [OPTION OF hvdrun…] -- [OPTION OF elastic.py…]: begins a training in an allocation of that shape,
# whose nodes are watched unless an option names another discovery source. The last epoch begins when ~/enough exists.
train() {
    local hosts=$1 slots=$2 options=()
    shift 2
    while [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    begin on_login env OMP_NUM_THREADS=1 salloc -Q -N"$hosts" --ntasks-per-node="$slots" --no-kill hvdrun --min-np 1 \
        -np $((hosts * slots)) "${options[@]}" "$PY" "$HERE/elastic.py" log --hold 2:enough "${@:2}"
}
enough() { : >"$(home)/enough"; }

# works_with N: soon the training has N ranks.
at_work() { [[ $(tail -1 "$LOG" 2>/dev/null) == *" size $1 "* ]]; }
works_with() { wait_for 100 at_work "$1" || { cat "${OUT-$(home)/train.out}" && return 1; }; }

# went_well: the training ended, with the result of an undisturbed one.
went_well() {
    enough
    ended 60 0
    every_batch_once 3
    loss_as_alone
}

@test "a node drains, and is used again when it does so no longer" {
    train 3 1 --
    works_with 3
    node hvdn3 drain
    works_with 2
    node hvdn3 resume
    works_with 3
    went_well
    has "(hvdn3 removed)" "(hvdn3 added)"
    has_not "failed" "silent"
}

@test "slurmd of a node is lost: its ranks go on until Slurm gives the node up, and the others without them" {
    train 3 1 --
    works_with 3
    fault slurmd-kill hvdn2
    works_with 2
    cluster restart-node hvdn2
    went_well
    has "(hvdn2 removed)"
}

@test "a survivor is killed after it asked for its next rank and before others did" {
    train 2 2 -- --at '1:3:1:kill -9 $PID' --on-reset '3:(sleep 0.3; kill -9 $PID) &' --on-reset '2:sleep 2'
    wait_for 100 test -e "$LOG.reset.0"
    wait_for 100 test -e "$LOG.reset.1"
    went_well
    has "rank 1 on hvdn1 failed" "rank 3 on hvdn2 failed"
}

@test "a survivor is killed after it got its next rank and before it connected to others" {
    train 2 2 --gloo-timeout-seconds 90 -- --at '1:3:1:kill -9 $PID' --on-reset '2:sleep 1' \
        --on-reset '3:(sleep 0.3; kill -STOP $PID; sleep 4; kill -9 $PID) &'
    wait_for 100 test -e "$LOG.reset.1"
    went_well
}

# A label is the rank with which a process began. Rank 0 is killed, so the ranks of those that stay change.
@test "labelled output is complete, and each line its writer's, through changes of hosts" {
    hosts hvdn1:1
    train 2 1 --host-discovery-script ./discover -np 1 --label --output-filename out -- --say \
        --at '0:5:any:echo hvdn2:2 >>~/hosts' --at '3*:5:0:kill -9 $PID'
    works_with 3
    went_well
    sizes 1 3 2
    grep -v hold "$LOG" | sort >"$BATS_TEST_TMPDIR/log"
    sed -nE 's/^[0-9]+: ((epoch|worker|event|loss) .*)/\1/p' "$OUT" | sort | diff - "$BATS_TEST_TMPDIR/log"
    cat "$(home)"/out/rank.*/stdout | sed -E 's/^[0-9]+: //' | grep -v hold | sort | diff - "$BATS_TEST_TMPDIR/log"
    awk '/: epoch/ && !($11 in label) { label[$11] = $1; if ($1 != $9 ":") { print; bad = 1 } }
        /: epoch/ && label[$11] != $1 { print; bad = 1 }
        END { exit bad }' "$OUT"
}

# mode HOW: says what the discovery script does from now on.
mode() { echo "$1" >"$(home)/mode" && chmod 666 "$(home)/mode"; }
calls() { wc -l <"$(home)/calls"; }
called() { (($(calls) >= $1)); }

@test "a discovery script may fail, print rubbish, and hang" {
    cat >"$(home)/discover" <<-'END'
	#!/bin/sh
	echo x >>~/calls
	case $(cat ~/mode) in
	fail) echo "the hosts are out" >&2; exit 3 ;;
	rubbish) echo hvdn1:1; echo "what is this?" ;;
	hang) echo fail >~/mode; sleep 1000 ;;
	*) cat ~/hosts ;;
	esac
	END
    hosts hvdn1:1
    : >"$(home)/calls" && chmod 666 "$(home)/calls"
    mode fail
    gives 1 on_login salloc -Q -N1 --no-kill hvdrun --min-np 1 --host-discovery-script ./discover true
    has "the hosts are out" "the discovery script ./discover: exit code 3"
    mode rubbish
    gives 2 on_login salloc -Q -N1 --no-kill hvdrun --min-np 1 --host-discovery-script ./discover true
    has "the discovery script ./discover: line 2 of its output"

    mode well
    train 2 1 --host-discovery-script ./discover -np 1 --
    works_with 1
    mode hang
    says 60 "host discovery is failing; keeping the hosts known so far: the discovery script ./discover: it did not end"
    says 20 "keeping the hosts known so far: the discovery script ./discover: exit code 3"
    wait_for 20 called $(($(calls) + 2))
    mode rubbish
    says 20 "keeping the hosts known so far: the discovery script ./discover: line 2 of its output"
    hosts hvdn1:1 hvdn2:1
    mode well
    says 20 "host discovery works again"
    works_with 2
    went_well
    [[ $(grep -c "exit code 3" <<<"$output") -eq 1 ]]
}

companion() { on_login sbatch --no-requeue -w hvdn2 -J mine -o /dev/null --wrap 'sleep 300'; }

@test "all of a companion job's node is lost; the node comes back, with another companion" {
    job=$(on_login sbatch --parsable -w hvdn1 -J mine --no-kill -o train.out --wrap "OMP_NUM_THREADS=1 hvdrun -np 1 \
        --min-np 1 --slots-per-host 1 --start-timeout 100 --discover jobs:mine $PY $HERE/elastic.py log --hold 2:enough")
    works_with 1
    companion
    works_with 2
    fault node-kill hvdn2
    works_with 1
    cluster restart-node hvdn2
    companion
    works_with 2
    enough
    wait_for 60 job_over "$job"
    cat "$(home)/train.out"
    every_batch_once 3
    loss_as_alone
}
