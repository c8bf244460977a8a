#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# Elastic jobs on nodes of Slurm's: a step daemon or munged goes or falls silent, Slurm says that a host is lost, or a
# node is tried again. The ranks are restart_worker.py.

load helpers
load launch
load restart_ranks

# shellcheck disable=SC2034 # read by train
TRAIN_OPTIONS=(--slots-per-host=2)

# Slurm itself is slow to notice.
setup_file() {
    suite_up --nodes 4 --slurm-conf SlurmdTimeout=120
    bring_worker
}
teardown_file() { cluster_down; }
setup() { fresh_work; }
teardown() {
    cluster_mend
    assert_no_leftovers 10
}

# numbered RANKS HOSTS OPTION: a job of this option on three hosts with two slots each has so many ranks on so many hosts, each
# of which finds its numbers in Slurm's variables, too, as a program does that reads those (JAX).
numbered() {
    local shows='echo "$RANK/$WORLD_SIZE $LOCAL_RANK $GROUP_RANK/$GROUP_WORLD_SIZE'
    shows+=' is $SLURM_PROCID/$SLURM_NTASKS $SLURM_LOCALID $SLURM_NODEID/$SLURM_NNODES"'
    shows+='; echo "$WORLD_SIZE/$GROUP_WORLD_SIZE has $SLURM_NPROCS $SLURM_STEP_NUM_TASKS/$SLURM_STEP_NUM_NODES"'
    run on_login salloc --quiet -N3 --ntasks-per-node=2 hvdrun "$3" bash -c "$shows"
    exits 0
    [[ $(grep -oE '[0-9]+/[0-9]+ [0-9] [0-9]/[0-9] is .*' <<<"$output" | awk -F ' is ' '$1 == $2' | sort -u | wc -l) -eq $1 ]] ||
        { echo "$3: $output" && return 1; }
    has "$(($1 - 1))/$1 1 $(($2 - 1))/$2 is " "$1/$2 has $1 $1/$2"
}

@test "a host is lost, and Slurm says so: that is believed at once" {
    train 3 -np 6 --min-np 4 --max-restarts 1
    trains 0 hvdn{1,2,3}
    fault silence hvdn2
    as_root hvdctl scontrol update nodename=hvdn2 state=down reason=test
    within 8 said "generation 2: 4 ranks on 2 hosts (hvdn2 removed)"
    ends_well 30
    # srun of 24.11 ends by itself then, which is noticed first.
    if slurm_before 24.11; then
        # Slurm is asked again when the others have ended. On a busy machine the silence may be noticed first.
        [[ $output == *"hvdn2 is left out: Slurm has given up the node"* ||
            $output == *"hvdn2 is left out: its node agent has not answered for 3 seconds"* ||
            $output == *"hvdn2 is left out: the connection to its node agent was lost: it has not answered for "* ]] ||
            { echo "$output" && return 1; }
    else
        has "hvdn2: its node agent ended before its ranks did"
    fi
}

# Its agent answers, so only Slurm knows. A host is asked about when ranks of others have ended.
@test "Slurm gives up a host on which ranks hang: it is lost, and the others begin again" {
    begin on_login salloc --quiet --no-kill -N3 --ntasks-per-node=1 hvdrun --max-restarts=1 --min-np=2 -np 3 \
        bash -c 'echo "rank of $TORCHELASTIC_RESTART_COUNT"; ((TORCHELASTIC_RESTART_COUNT == 0)) && [[ $(hostname) == hvdn2 ]] && sleep 300; true'
    says_times 20 3 "rank of 0"
    as_root hvdn2 pkill -STOP -x 'slurmd|slurmstepd'
    as_root hvdctl scontrol update nodename=hvdn2 state=down reason=test
    ended 60
    as_root hvdn2 pkill -CONT -x 'slurmd|slurmstepd'
    exits 0
    has "hvdn2 is left out: Slurm has given up the node" "generation 2: 2 ranks on 2 hosts (hvdn2 removed)"
}

@test "a step daemon is killed: its host counts as lost at once, and the job goes on" {
    train 3 -np 4 --max-restarts 1
    trains 0 hvdn{1,2}
    as_root hvdn2 pkill -KILL -x slurmstepd
    within 8 trains_so 1 "$(printf '%s\n' hvdn1 hvdn1 hvdn3 hvdn3)"
    ends_well 20
    has "hvdn2 is left out: slurmstepd ended before the ranks that it had started"
}

@test "a step daemon is killed before the first ranks start: its host counts as lost as soon as they do" {
    waits_for_fourth
    as_root hvdn2 pkill -KILL -x slurmstepd
    fault node-thaw hvdn4
    within 20 said "hvdn2 is left out: slurmstepd ended before the ranks that it had started" || { cat "$OUT" && return 1; }
    ends_well 30
    has_not "srun did not end in time"
}

# After that srun is not waited for. hvdrun's end is what counts: salloc's needs munged itself.
@test "munged is killed, or stopped, on a host of ranks or on hvdrun's own, and the job ends: the host is named" {
    local how where
    for where in hvdn2 hvdlogin; do
        for how in KILL STOP; do
            as_root hvdlogin rm -rf "$WORK"/{log,stop}
            train 2 -np 4 --max-restarts 1
            trains 0 hvdn{1,2}
            as_root "$where" pkill -"$how" -x munged
            stop
            within 15 no_hvdrun
            as_root "$where" pkill -CONT -x munged || fault munged-start "$where"
            ended 30
            exits 1
            has "$where: munged does not answer there, so srun cannot learn that its ranks have ended; ending it" \
                "the last output of its ranks may be missing"
        done
    done
    assert_no_leftovers 20
}
no_hvdrun() { ! as_root hvdlogin pgrep -x hvdrun >/dev/null; }

@test "an agent is killed before the first generation: its host is tried again" {
    before_first
    fault node-thaw hvdn4
    says 15 "hvdn2: trying the host again"
    trains 0 hvdn{1,2,3,4}
    ends_well 20
    has "generation 1: 8 ranks on 4 hosts"
}

# It has no ranks whose output may be missing.
@test "the links of a spare host are cut, and the job ends: it waits for seconds" {
    train 3 -np 4 --max-restarts 1 --spares 1
    trains 0 hvdn{1,2}
    fault silence hvdn3
    ends_well 9
    [[ $output == *"hvdn3: srun did not end in time"* || $output == *"hvdn3 is left out: "* ]] || { echo "$output" && return 1; }
    has_not "error"
}

# hvdrun on the login host does not end with its job.
@test "the Slurm job is cancelled, or is over already, so that no host can come: the launch ends at once, and says why" {
    begin on_login salloc --quiet -N2 --ntasks-per-node=2 bash -c 'env | grep ^SLURM_ >job.env
        exec hvdrun -np 4 --max-restarts=3 sleep 60'
    wait_for 20 runs_on hvdn2 '^sleep 60'
    as_root hvdctl scancel --user=alice
    ended 15 1
    has "was cancelled (scancel)" "; ending the launch"
    has_not "elastic-timeout" "did the host or its network fail"
    # shellcheck disable=SC2016 # the shell on the login host
    begin on_login bash -c 'export $(<job.env) && exec hvdrun -np 4 --max-restarts=3 hostname'
    ended 15 1
    has "was cancelled (scancel)" "; ending the launch"
    # shellcheck disable=SC2016 # the shell on the login host
    begin on_login bash -c 'export $(<job.env) SLURM_JOB_ID=4711 && exec hvdrun -np 4 --max-restarts=3 hostname'
    ended 15 1
    has "job 4711"
    has_not "elastic-timeout" "waiting for hosts"
}

@test "Slurm's variables have the ranks' numbers where agents have started them, and beside spare hosts" {
    numbered 6 3 --max-restarts=1
    numbered 4 2 --spares=1
}

@test "Slurm's variables have the ranks' numbers where mpirun has started them" {
    command -v mpirun >/dev/null || skip "mpirun is not installed"
    numbered 6 3 --mpi
}
