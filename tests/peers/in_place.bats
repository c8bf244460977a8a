#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Horovod's own tests of horovodrun and horovod.run(), with hvdrun in their place; see in_place.py.

load ../cluster/launch
load ../cluster/sshd
load peers
load in_place

setup_file() { in_place_file --nodes 2; }
setup() {
    needs_cluster
    # shellcheck disable=SC2034 # for horovods_own
    IN_PLACE=(on_login)
}

# Two hosts that ssh reaches, where there is an sshd.
with_ssh() {
    export HVD_IN_PLACE_HOSTS=''
    if sshd_can; then
        sshd_prepare hvdn1 hvdn2
        sshd_up hvdn1
        sshd_up hvdn2
        HVD_IN_PLACE_HOSTS=hvdn1,hvdn2
    fi
}

@test "test_static_run.py passes: commands and functions on this host, on others and on both" {
    with_ssh
    horovods_own integration/test_static_run.py -k gloo
    if [[ $HVD_IN_PLACE_HOSTS ]]; then all_passed 12; else all_passed 4; fi
}

@test "test_static_run.py passes with the MPI controller" {
    PEERS_PY=$("$BATS_TEST_DIRNAME/install.sh" --mpi --where)/venv/bin/python
    [[ -x $PEERS_PY ]] || skip "Horovod with MPI is not installed: install.sh --mpi does it"
    with_ssh
    horovods_own integration/test_static_run.py -k mpi
    if [[ $HVD_IN_PLACE_HOSTS ]]; then all_passed 12; else all_passed 4; fi
}

@test "test_interactiverun.py passes: run(func) that succeeds and fails, and an elastic job" {
    horovods_own integration/test_interactiverun.py
    all_passed 3
    [[ ! $(sshd_left_behind) ]] || { sshd_left_behind && return 1; }
}

@test "test_run.py passes where it tests command lines" {
    horovods_own single/test_run.py -k "args or fixed_param or library_env or config_file or validate_config"
    all_passed 13
}
