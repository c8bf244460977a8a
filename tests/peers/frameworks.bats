#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2034 # what run sets; what in_job reads
# The frameworks' own packages find each other by what a launch sets, with no word of it in the job script. Imports take
# seconds of a core, hence few ranks.

load ../cluster/launch
load ../cluster/lsf
load ../cluster/sshd
load peers

setup_file() {
    peers --frameworks
    suite --nodes 2
    if [[ $PEERS_WHY$CLUSTER_WHY ]]; then return 0; fi
    standins_up hvdn1 hvdn2
    if sshd_can; then sshd_prepare hvdn1 hvdn2; fi
}
setup() {
    needs_cluster
    PROGRAM=("$PY" "$HERE/frameworks.py")
}

# come_together NAME SIZE [TEXT]: each of SIZE ranks has said once that all are there, with TEXT at the end.
come_together() {
    local rank
    exits 0
    for ((rank = 0; rank < $2; rank++)); do
        [[ $(grep -c "$1 rank $rank of $2 sum $(($2 * ($2 + 1) / 2))${3+ $3\$}" <<<"$output") -eq 1 ]] ||
            { echo "not once from rank $rank: $output" && return 1; }
    done
}

# left_behind: prints what hosts run besides daemons, those of the stand-ins and sshd among them.
left_behind() { cluster leftovers | grep -vE 'process +[0-9]+ root +.*(standins/resd |sshd)|"sshd"'; }
clean() { [[ ! $(left_behind) ]]; }
nothing_left() {
    wait_for 10 clean || { left_behind && return 1; }
}

@test "JAX: two steps of one job side by side, each with a coordinator of its own" {
    script job.sh <<-END
	#!/bin/bash
	for step in 1 2; do
	    srun --hvd --overlap -N2 -n2 --ntasks-per-node=1 ${PROGRAM[*]} jax auto >jax.\$step 2>&1 &
	done
	wait -n && wait -n
	END
    submit -N2 -n4 job.sh
    exits 0
    for step in 1 2; do
        output=$(<"$(home)/jax.$step")
        come_together jax 2
        sed -nE 's/^jax rank 0 .* ([^ ]+)$/\1/p' "$(home)/jax.$step"
    done >"$BATS_TEST_TMPDIR/coordinators"
    [[ $(sort -u "$BATS_TEST_TMPDIR/coordinators" | grep -c :) -eq 2 ]]
    nothing_left
}

@test "JAX through ssh and blaunch, where it detects nothing: the program passes what is in the environment" {
    if sshd_can; then
        run on_login hvdrun --hosts hvdn1:1,hvdn2:1 "${PROGRAM[@]}" jax
        come_together jax 2
    fi
    JOB_HOSTS="hvdn1 1 hvdn2 1"
    installed blaunch
    run in_job hvdrun -np 2 "${PROGRAM[@]}" jax
    come_together jax 2
    nothing_left
}

@test "Lightning Fabric: four ranks under srun, and two through ssh" {
    run launch srun -N2 -n4 --ntasks-per-node=2 "${PROGRAM[@]}" fabric 2 2
    come_together fabric 4 SLURMEnvironment
    if sshd_can; then
        run on_login hvdrun --hosts hvdn1:1,hvdn2:1 "${PROGRAM[@]}" fabric 1 2
        come_together fabric 2 LightningEnvironment
    fi
    nothing_left
}

@test "accelerate and DeepSpeed need no launcher of theirs" {
    local name
    for name in accelerate deepspeed; do
        run launch srun -N2 -n2 --ntasks-per-node=1 "${PROGRAM[@]}" "$name"
        come_together "$name" 2 0
    done
    nothing_left
}

@test "TensorFlow: workers find each other by TF_CONFIG, where it is asked for" {
    run launch srun --hvd-frameworks=tensorflow,torch -N2 -n2 --ntasks-per-node=1 "${PROGRAM[@]}" tensorflow
    come_together tensorflow 2
    nothing_left
}
