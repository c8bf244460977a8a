#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# shellcheck disable=SC2016 # $PID and $HOME are for the shell that runs the command
# Elastic training by real Horovod, on this machine: two of its names are two hosts.

load ../cluster/launch
load peers
load elastic

setup_file() { elastic_file; }
setup() { elastic_here --launcher=fork; }
teardown() { all_gone 10 "$BATS_TEST_TMPDIR"; }

@test "a host is added and removed" {
    echo "localhost:2" >"$HOSTS"
    gives 0 on_this "${ELASTIC[@]}" --min-np 2 -np 2 "$PY" "$HERE/elastic.py" "$LOG" --pause 0.1 --epochs 1000 \
        --quit "$LOG.2" --at '1:0:any:echo 127.0.0.1:2 >>$HOSTS' --at '4*:0:any:echo localhost:2 >$HOSTS' --at '2*:5:any:true'
    has "generation 2: 4 ranks on 2 hosts (127.0.0.1 added)" "generation 3: 2 ranks on 1 host (127.0.0.1 removed)"
    sizes 2 4 2
    every_batch_once
}

@test "a rank is killed: its place is filled, the training goes on from its last commit" {
    printf 'localhost:2\n127.0.0.1:2\n' >"$HOSTS"
    gives 0 on_this "${ELASTIC[@]}" -v --min-np 4 -np 4 "$PY" "$HERE/elastic.py" "$LOG" --at '1:3:2:kill -9 $PID'
    has "rank 2 on 127.0.0.1 failed: killed by signal 9 (SIGKILL)"
    has "the host is still used, because the other hosts do not have enough slots" "generation 2: 4 ranks on 2 hosts"
    survived 0 1
    sizes 4
    every_batch_once 3
    loss_as_alone
    info "killed -> first batch: $(recovered 0) s"
}

@test "a host whose rank failed is left when the others are enough" {
    printf 'localhost:2\n127.0.0.1:2\n' >"$HOSTS"
    gives 0 on_this "${ELASTIC[@]}" -v --min-np 2 -np 4 "$PY" "$HERE/elastic.py" "$LOG" --at '1:3:3:kill -9 $PID'
    has "generation 2: 2 ranks on 1 host (127.0.0.1 removed)"
    survived 0 0
    sizes 4 2
    loss_as_alone
    info "killed -> first batch: $(recovered 0) s"
}

@test "the job ends when the reset limit is met" {
    echo "localhost:2" >"$HOSTS"
    gives 1 on_this "${ELASTIC[@]}" --min-np 2 -np 2 --reset-limit 0 "$PY" "$HERE/elastic.py" "$LOG" --at '1:3:1:kill -9 $PID'
    has "the ranks have changed 0 times, as often as --reset-limit allows"
}

@test "the job ends when hosts never come, and when none of them can be used" {
    echo "localhost:2" >"$HOSTS"
    gives 1 on_this "${ELASTIC[@]}" --min-np 4 --elastic-timeout 2 true
    has "2 slots, but 4 ranks are needed: waiting for hosts"
    has "there were not enough slots for 2 seconds: 2, but 4 ranks are needed"
    echo "elsewhere.invalid:2" >"$HOSTS"
    gives 1 on_this "${ELASTIC[@]}" --min-np 2 true
    has "elsewhere.invalid: it is another machine, but fork starts ranks on this machine only"
    has "none of the hosts can be used"
}

@test "a program that fails everywhere is not tried again and again" {
    echo "localhost:2" >"$HOSTS"
    gives 3 on_this "${ELASTIC[@]}" --min-np 2 sh -c 'exit 3'
    has "failed first: exit code 3"
}

@test "a program need not train, and options that need a fixed size are refused" {
    echo "localhost:2" >"$HOSTS"
    gives 0 on_this "${ELASTIC[@]}" --min-np 2 --label sh -c 'echo "$HOROVOD_RANK of $HOROVOD_SIZE $HOROVOD_ELASTIC"'
    has "0: 0 of 2 1" "1: 1 of 2 1"
    gives 0 on_this "$HVDRUN" --launcher=ssh --min-np 2 --hosts a:2,b:3 --dry-run true
    has "5 ranks on 2 hosts" "--host=1:2:b --ranks=0:3"
    gives 2 on_this "${ELASTIC[@]}" --min-np 2 --keep-going true
    has "--keep-going (-K0) cannot be used with an elastic job"
}

trains() { grep -q "^epoch" "$LOG" 2>/dev/null; }

@test "hvdrun that is interrupted or killed leaves nothing" {
    local pid ended=0
    echo "localhost:2" >"$HOSTS"
    "${ELASTIC[@]}" --min-np 2 "$PY" "$HERE/elastic.py" "$LOG" --epochs 1000 3>&- &
    pid=$!
    wait_for 60 trains
    kill -INT "$pid"
    wait "$pid" || ended=$?
    [[ $ended -eq 130 ]]
    all_gone 1 "$LOG"
    rm "$LOG"
    "${ELASTIC[@]}" --min-np 2 "$PY" "$HERE/elastic.py" "$LOG" --epochs 1000 3>&- &
    pid=$!
    wait_for 60 trains
    kill -KILL "$pid"
    all_gone 10 "$LOG"
}
