#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# shellcheck disable=SC2016 # $PID and $HOME are for the shell that runs the command
# Elastic training by real Horovod in a Slurm allocation.

load ../cluster/launch
load peers
load elastic

setup_file() { elastic_file --nodes 4; }
setup() { elastic_begin; }
teardown() { elastic_end; }

@test "a host is added and removed; a rank is killed" {
    hosts hvdn1:2 hvdn2:2
    gives 0 elastic --min-np 2 -np 4 --host-discovery-script ./discover "$PY" "$HERE/elastic.py" log --pause 0.1 \
        --epochs 1000 --quit log.3 --at '1:0:any:echo hvdn3:2 >>~/hosts' --at '6*:3:3:kill -9 $PID' \
        --at '4*:5:any:echo hvdn1:2 >~/hosts' --at '2*:5:any:true'
    has "generation 2: 6 ranks on 3 hosts (hvdn3 added)" "rank 3 on hvdn2 failed: killed by signal 9 (SIGKILL)"
    has "generation 3: 4 ranks on 2 hosts (hvdn2 removed)"
    sizes 4 6 4 2
    every_batch_once
    info "killed -> first batch: $(recovered 1) s"
}

@test "two ranks are killed at once" {
    hosts hvdn1:2 hvdn2:2 hvdn3:2
    gives 0 elastic -v --min-np 2 -np 6 --host-discovery-script ./discover "$PY" "$HERE/elastic.py" log \
        --at '1:3:2:kill -9 $PID' --at '1:3:5:kill -9 $PID'
    has "rank 2 on hvdn2 failed" "rank 5 on hvdn3 failed"
    survived 1 0
    sizes 6 2
    loss_as_alone
    info "killed -> first batch: $(recovered 1) s"
}

@test "a new worker that fails before it has reached the rendezvous does not disturb the others" {
    hosts hvdn1:2
    gives 0 elastic --min-np 2 -np 2 --host-discovery-script ./discover \
        sh -c '[ $HOROVOD_RANK = 3 ] && mkdir ~/failed-once 2>/dev/null && exit 5; exec "$@"' sh \
        "$PY" "$HERE/elastic.py" log --epochs 1000 --quit log.2 --pause 0.1 \
        --at '1:0:any:echo hvdn2:2 >>~/hosts' --at '2:0:any:echo hvdn3:2 >>~/hosts' --at '4*:5:any:true'
    has "rank 3 on hvdn2 failed: exit code 5"
    sizes 2 4
    every_batch_once
}

@test "the host of rank 0 is lost" {
    begin on_login env OMP_NUM_THREADS=1 salloc -Q -N3 --ntasks-per-node=2 --no-kill hvdrun --min-np 2 -np 6 \
        "$PY" "$HERE/elastic.py" log --epochs 4 --pause 0.3
    wait_for 100 grep -q "^epoch 1" "$LOG"
    fault node-kill hvdn1
    ended 100 0
    has "generation 2: 4 ranks on 2 hosts (hvdn1 removed)"
    every_batch_once 4
}
