#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# hvdrun --ray with real Ray. Its processes take seconds of a core on each host, so one launch proves as much as it can.

load ../cluster/launch
load peers

setup_file() {
    peers --ray
    # Slurm's KillWait of the cluster is short for Ray's many processes on a busy machine.
    export HVD_KILL_WAIT=30
    suite --nodes 3
}
setup() { needs_cluster; }
teardown() { mend --clean; }

# no_files HOST…: no hvd-ray has left its directory there.
no_files() {
    local host
    for host in "$@"; do
        run as_root "$host" sh -c 'ls -d /tmp/hvd-ray-*'
        exits 2
    done
}

@test "the driver sees all hosts at once, at their addresses in the fast network; strangers have no token" {
    local host
    gives 0 on_login sbatch --wait -N3 -o ray.out "$SRC/scripts/examples/ray.sbatch" "$PY" "$HERE/ray_driver.py" 3
    output=$(on_login cat ray.out)
    has "sees 3 of 3 hosts" "head $(cluster addr hvdn1 ib0)" "ran on 3; variables of ranks: none" \
        "without the token: refused"
    for host in hvdn1 hvdn2 hvdn3; do
        has "node $host $(cluster addr "$host" ib0) cpus $(getconf _NPROCESSORS_ONLN)"
    done
    has_not Traceback
    no_files hvdn1 hvdn2 hvdn3
    assert_no_leftovers
}

@test "the first error is the raylet that was killed, with the end of its log" {
    begin on_login hvdrun --ray -N2 "$PY" "$HERE/ray_driver.py" 2 600
    says 120 waits
    as_root hvdn2 pkill -KILL -x raylet
    ended 20 137
    has "hvd-ray: raylet was killed by signal 9 (SIGKILL) on hvdn2. Its last lines:" "(raylet) " \
        "rank ray:1 on hvdn2 failed first: exit code 137"
    no_files hvdn1 hvdn2
    assert_no_leftovers
}

@test "a Python without Ray is an error that says what to do" {
    run on_login hvdrun --ray -N2 /usr/bin/python3 -c 'import ray'
    exits 1
    has "hvd-ray: /usr/bin/python3 on hvdn" "has no module ray; activate the environment that has it"
    assert_no_leftovers
}
