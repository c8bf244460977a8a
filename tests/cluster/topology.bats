#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# Where Slurm knows the network's topology: which spare host takes the place of a host that is lost.

load helpers
load launch
load restart_ranks

# The first spare host is hvdn3, but hvdn4 is below the switch of hvdn1 and hvdn2.
TREE='SwitchName=leaf1 Nodes=hvdn[1-2,4]
SwitchName=leaf2 Nodes=hvdn3
SwitchName=core Switches=leaf[1-2]'

setup_file() {
    suite_up --nodes 4 --slurm-conf TopologyPlugin=topology/tree --conf-file "topology.conf=$TREE"
    bring_worker
}
teardown_file() { cluster_down; }
setup() { fresh_work; }
teardown() {
    cluster_mend
    assert_no_leftovers
}

@test "the spare host below the same switch takes the place of a lost host, and then the next one" {
    train 4 --max-restarts 3 --spares 2
    says 20 "rank 3 on hvdn2 local 1/2 restarts 0"
    says 20 "hvdn3 is a spare host"
    says 20 "hvdn4 is a spare host"
    fault node-kill hvdn2
    says 30 "rank 2 on hvdn4 local 0/2 restarts 1"
    says 5 "hvdn4 takes the place of hvdn2, below the same switch (core.leaf1)"
    fault node-kill hvdn4
    says 30 "rank 2 on hvdn3 local 0/2 restarts 2"
    says 5 "hvdn3 (below core.leaf2) takes the place of hvdn4 (below core.leaf1); no fit spare host is nearer"
    says 5 "rank 0 on hvdn1 local 0/2 restarts 2"
    ends_well 30
}
