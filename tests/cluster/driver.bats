#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# Messages about a driver that does not answer, and about a node without the suite.

load launch

setup_file() { suite_up --nodes 4 --slurm-conf SlurmdTimeout=120; }
teardown() {
    cluster_mend
    assert_no_leftovers
}

# late SIGNAL SECONDS: begins a launch that waits for hvdn4, with that start timeout; sends its driver the signal, and
# then lets hvdn4 come.
late() {
    local driver
    hold hvdn4 srun --hvd --hvd-start-timeout="$2" -N4 true
    for host in hvdn1 hvdn2 hvdn3; do wait_for 10 runs_on "$host" hvd-agent; done
    driver=$(as_root hvdlogin pgrep -x -o hvd-driver)
    as_root hvdlogin kill "-$1" "$driver"
    go_on
    [ "$status" -eq 1 ]
    # srun does not wait for a child of its plugin that is stopped.
    as_root hvdlogin kill -KILL "$driver" 2>/dev/null || true
}

@test "a driver that is stopped: its nodes say that it does not run" {
    late STOP 5
    # The first node that says so ends the step.
    has "is srun's hvd-driver or hvdrun stopped"
    case $output in
    *"hvd-agent: error: hvdn4"*) has "connected, but got no answer" "the driver accepts connections but does not answer" ;;
    *) has "hvdn1: no launch plan came from the driver in time" ;;
    esac
}

@test "a driver that was killed: its nodes say that, and nothing of a firewall" {
    late KILL 20
    has ": the connection to the driver ended" "did srun or hvdrun end, or was it killed?"
    has_not firewall
}

# srun waits for the tasks of such a host for ever.
@test "a host freezes before the start is complete: it is named, and srun --hvd ends, also by scancel" {
    hold hvdn4 srun --hvd --hvd-start-timeout=4 -N4 sleep 20
    within 22 stopped "$frozen_pid"
    go_on
    ((status != 0))
    has "hvd: error: the start took longer than 4 seconds: no registration from hvdn4"
    has_not "its node agent ended"
    cluster wait 120 # Slurm tries again for some time to reach the node
    hold hvdn4 srun --hvd --hvd-start-timeout=60 -N4 sleep 20
    for host in hvdn1 hvdn2 hvdn3; do wait_for 10 runs_on "$host" hvd-agent; done
    on_login scancel --user=alice
    within 22 stopped "$frozen_pid"
    go_on
    ((status != 0))
    has "hvd: error: no registration from hvdn4, and the node agents of all other hosts have ended"
    has_not "its node agent ended"
    cluster wait 120
}

@test "a node without the suite is named" {
    as_root hvdn3 mount -t tmpfs none "$B/libexec/hvd"
    run launch srun -N4 true
    as_root hvdn3 umount "$B/libexec/hvd"
    [ "$status" -eq 1 ]
    has "hvd: error: hvdn3: cannot run $B/libexec/hvd/hvd-agent: No such file or directory" "is the suite installed on this node?"
}
