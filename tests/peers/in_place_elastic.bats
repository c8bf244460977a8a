#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034 # IN_PLACE is for horovods_own
# Horovod's own tests of elastic training, with hvdrun in horovodrun's place, on this machine; see in_place.py.

load ../cluster/launch
load peers
load in_place

setup_file() { in_place_file --nodes 1; }
setup() {
    needs_peers
    IN_PLACE=(on_this)
}

# Four tests pass with horovodrun; Horovod itself skips the others.
@test "test_elastic_torch.py passes: hosts that come and go, ranks that fail, the reset limit, hosts that are used again" {
    HVD_TEST_DEADLINE=400 horovods_own integration/test_elastic_torch.py -p in_place_elastic
    all_passed 4
    all_gone 10 elastic_torch_main.py
}
