#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # what shells on the cluster evaluate
# Jobs that begin again: before their time limit, after a failed host, when a rank asks for it.
#
# cred_expire is how long Slurm waits before it starts a requeued job.

load helpers
load launch

setup_file() { suite_up --nodes 4 --slurm-conf AuthInfo=cred_expire=5; }
teardown_file() { cluster_down; }
teardown() { cluster_mend; }

# counter: a program that counts to 40 and adds up, at most 10 numbers in each cycle; then it waits for SIGUSR1. Each
# rank has a checkpoint, a file whose name begins with the argument.
counter() {
    rm -f "$(home)"/checkpoint.*
    script counter.sh <<'END'
#!/bin/bash
left=0
trap 'left=1' USR1
file=$1.$HOROVOD_RANK n=0 sum=0
[[ ! -e $file ]] || read -r n sum <"$file"
for ((most = n + 10; n < 40 && n < most; )); do
    ((++n, sum += n))
    echo "$n $sum" >"$file"
done
if ((n == 40)); then
    echo "rank $HOROVOD_RANK has counted to 40 in cycle $SLURM_RESTART_COUNT: $sum"
    exit 0
fi
until ((left)); do sleep 0.1; done
exit 1
END
}

count() { grep -cF -e "$1" <<<"$output" || true; }

counts() {
    local found
    found=$(count "$2")
    [[ $found -eq $1 ]] || { echo "$found times '$2', not $1: $output" && return 1; }
}

# A limit of time is a minute at least: the ranks get the signal some seconds after their start.
@test "a job that the time limit ends begins again until it is done" {
    counter
    script limit.sh <<'END'
#!/bin/bash
hvdrun --signal-ranks=USR1@56 --requeue-on=limit ./counter.sh checkpoint
END
    HVD_TEST_DEADLINE=150 submit -N2 --ntasks-per-node=2 --time=1 --requeue limit.sh
    exits 0
    counts 4 "has counted to 40 in cycle 3: 820"
    counts 3 "sending SIGUSR1 to all ranks"
    counts 3 "requeueing job $JOB (restart "
    counts 1 "this is restart 3 of job $JOB"
    assert_no_leftovers
}
