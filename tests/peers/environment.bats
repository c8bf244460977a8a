#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2154 # what other shells evaluate, what run sets
# The environment of a worker, compared with the one that Horovod's own launcher
# makes.

load ../cluster/launch
load ../cluster/sshd
load peers

setup_file() {
    peers
    suite --nodes 2
}

# The variables of other frameworks, which Horovod's launcher does not set, are left out. The caller's environment has
# unusual values, names that Horovod's launcher
# does not pass to other hosts, and settings of Horovod.
CALLER=(HVD_FRAMEWORKS=horovod PLAIN=plain 'WORDS=a  b "c" $d' $'LINES_=one\ntwo' EMPTY= OLDPWD=/x "CUDA_VISIBLE_DEVICES=1,0"
    HOROVOD_FUSION_THRESHOLD=1048576 HOROVOD_LOG_LEVEL=error NCCL_DEBUG=INFO)

setup() {
    needs_peers
    # Horovod's launcher goes through /bin/sh, and not every sh passes functions on. hvdrun passes on all.
    unset -f bats_readlinkf
    DIR=$BATS_TEST_TMPDIR
}

# worker NAME RUN COMMAND…: writes the environments of the ranks that COMMAND starts to
# $DIR/NAME. A shell runs COMMAND, as for users: without it there is no variable _.
worker() {
    local to=$DIR/$1 how=$2
    shift 2
    mkdir "$to" && chmod 777 "$to"
    gives 0 "$how" env "${CALLER[@]}" bash -c '"$@"; exit' - "$@" "$PY" "$HERE/environ.py" "$to"
}

# differences A.json B.json: prints a line for each variable that only B has (+), that
# only A has (-), or that differs (!).
differences() {
    jq -rn --slurpfile a "$1" --slurpfile b "$2" '$a[0] as $a | $b[0] as $b | ($a + $b) | keys[] |
        if $b[.] == null then "-" + . elif $a[.] == null then "+" + . elif $a[.] != $b[.] then "!" + . else empty end'
}

# differ A B ENTRY…: the differences are just these.
differ() {
    local a=$DIR/$1.json b=$DIR/$2.json
    shift 2
    diff <(printf '%s\n' "$@" | sort) <(differences "$a" "$b" | sort)
}

value() { jq -r --arg name "$2" '.[$name]' "$DIR/$1.json"; }

# Each launch has a port of its own; _ is the path of the last command of the shell.
OWN=('!HOROVOD_GLOO_RENDEZVOUS_PORT' '!_')
# Workers of hvdrun meet at an agent on their own host.
AGENT=('!HOROVOD_GLOO_RENDEZVOUS_ADDR')
# hvdrun also sets what torch.distributed reads, gives NCCL whole names, not prefixes (=eth0), and lists what it has set.
MORE=(+GLOO_SOCKET_IFNAME '!NCCL_SOCKET_IFNAME' +HVD_LAUNCH_VARIABLES)
# CUDA_VISIBLE_DEVICES of the caller lists GPUs. ssh does not pass it on.
GPUS=(+NCCL_RAS_ADDR)
# Horovod's launcher calls this host localhost; a scheduler calls it by its name.
NAMED=('!HOROVOD_HOSTNAME')

# By these the plugin in srun tells the plugin in the tasks where the driver is, and which step it means.
PLUGIN=(+SLURM_HVD_BOOT +SLURM_HVD_STEP)

@test "hvdrun -np 2 on one machine sets the variables of horovodrun -np 2" {
    local rank
    worker horovodrun on_this "$HORUN" -np 2
    worker hvdrun on_this "$B/bin/hvdrun" -np 2
    for rank in 0 1; do
        differ horovodrun/$rank hvdrun/$rank "${OWN[@]}" "${MORE[@]}" "${GPUS[@]}"
        [[ $(value hvdrun/$rank HOROVOD_RANK) == "$rank" && $(value hvdrun/$rank LINES_) == $'one\ntwo' ]]
    done
}

@test "srun --hvd and hvdrun on a node set the variables of horovodrun -np 2, and keep those of plain srun" {
    local rank with
    needs_cluster
    DIR=$(home)/environments-$RANDOM
    mkdir -m 777 "$DIR"
    worker horovodrun on_login "$HORUN" -np 2
    worker plain on_login srun -N1 -n2
    worker srun on_login srun --hvd -N1 -n2
    worker hvdrun on_login hvdrun -N1 -n2
    for rank in 0 1; do
        # Slurm sets these in every task's environment, Horovod's launcher does not.
        mapfile -t slurm < <(differences "$DIR/horovodrun/$rank.json" "$DIR/plain/$rank.json" | grep -x '+.*')
        (("${#slurm[@]}" > 20))
        differ horovodrun/$rank srun/$rank "${OWN[@]}" "${MORE[@]}" "${GPUS[@]}" "${NAMED[@]}" "${slurm[@]}" "${PLUGIN[@]}"
        differ horovodrun/$rank hvdrun/$rank "${OWN[@]}" "${MORE[@]}" "${GPUS[@]}" "${NAMED[@]}" "${slurm[@]}"
        for with in srun hvdrun; do
            [[ $(value $with/$rank HOROVOD_RANK) == "$rank" && $(value $with/$rank HOROVOD_HOSTNAME) == hvdn1 ]]
        done
    done
    rm -rf "$DIR"
    assert_no_leftovers
}

# A login by ssh sets these, which differ from one connection to the next.
CONNECTION=('!SSH_CLIENT' '!SSH_CONNECTION')

# The network is given, so that launchers do not differ by their choices. The settings are in a file.
@test "on two hosts hvdrun over ssh, hvdrun and srun --hvd set the variables of horovodrun over ssh" {
    local rank eth0=--network-interfaces=eth0 config
    needs_cluster
    if ! sshd_can; then skip "OpenSSH is not installed"; fi
    sshd_prepare hvdn1 hvdn2
    DIR=$(home)/environments-$RANDOM
    mkdir -m 777 "$DIR"
    config=$DIR/settings.yaml
    cat >"$config" <<-END
	params:
	  cycle_time_ms: 2.5
	  hierarchical_allreduce: no
	timeline:
	  filename: t.json
	  mark_cycles: on
	stall_check:
	  enabled: true
	  warning_time_seconds: 90
	library_options:
	  gloo_timeout_seconds: 77
	logging:
	  with_timestamp: true
	END
    worker horovodrun on_login "$HORUN" -np 2 -H hvdn1:1,hvdn2:1 "$eth0" --config-file "$config"
    worker ssh on_login hvdrun -np 2 --hosts hvdn1:1,hvdn2:1 "$eth0" --config-file "$config"
    worker plain on_login srun -N2 -n2
    worker srun on_login srun --hvd -N2 -n2 --hvd-nics=eth0 --hvd-config="$config"
    worker hvdrun on_login hvdrun -N2 -n2 "$eth0" --config-file "$config"
    for rank in 0 1; do
        # The shell that ssh runs there has changed its directory.
        differ horovodrun/$rank ssh/$rank "${OWN[@]}" "${AGENT[@]}" "${MORE[@]}" "${CONNECTION[@]}" -OLDPWD
        # Slurm sets these, the CUDA_VISIBLE_DEVICES of the launching host among them if a job asks for no GPU, and the
        # login sets the others.
        mapfile -t slurm < <(differences "$DIR/horovodrun/$rank.json" "$DIR/plain/$rank.json" |
            grep -xE '[+].*|-(MAIL|OLDPWD|SSH_CLIENT|SSH_CONNECTION)')
        (("${#slurm[@]}" > 20))
        # Slurm takes the options of plugins out of a task's environment, and misses some where several follow upon each
        # other.
        mapfile -t missed < <(differences "$DIR/plain/$rank.json" "$DIR/srun/$rank.json" |
            grep -xE '[+]_SLURM_SPANK_OPTION_hvd_hvd_(nics|config)')
        differ horovodrun/$rank srun/$rank "${OWN[@]}" "${AGENT[@]}" "${MORE[@]}" "${GPUS[@]}" "${slurm[@]}" "${PLUGIN[@]}" "${missed[@]}"
        differ horovodrun/$rank hvdrun/$rank "${OWN[@]}" "${AGENT[@]}" "${MORE[@]}" "${GPUS[@]}" "${slurm[@]}"
        [[ $(value ssh/$rank HOROVOD_GLOO_RENDEZVOUS_ADDR) == 127.0.0.1 ]]
        [[ $(value ssh/$rank HOROVOD_GLOO_TIMEOUT_SECONDS) == 77 && $(value srun/$rank HOROVOD_CYCLE_TIME) == 2.5 ]]
        [[ $(value hvdrun/$rank HOROVOD_HOSTNAME) == hvdn$((rank + 1)) && $(value ssh/$rank CUDA_VISIBLE_DEVICES) == null ]]
    done
    sshd_down hvdn1
    sshd_down hvdn2
    rm -rf "$DIR"
    assert_no_leftovers
}
