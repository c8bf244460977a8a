#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run and the helpers set
# shellcheck disable=SC2030,SC2031
# shellcheck disable=SC2016 # $HOROVOD_RANK and the like are for the shell that runs the command
# A cluster without munge: AuthType=auth/slurm, and no munged on any host. On a Slurm that has no auth/slurm (before
# 24.05) only what needs none is tested, on an ordinary cluster.

load launch

HOSTS="hvdlogin hvdctl hvdn1 hvdn2"

# Why this Slurm cannot do without munge; nothing when it can.
why_munge() {
    local version
    version=$(PATH=$PATH:/usr/sbin:/sbin slurmd -V | awk '{ print $2 }')
    if [[ $(printf '%s\n' 24.05 "$version" | sort -V | head -1) != 24.05 ]]; then
        echo "Slurm $version has no auth/slurm, which came with 24.05"
    elif ! PATH=$PATH:/usr/sbin:/sbin command -v sackd >/dev/null; then
        echo "sackd is not installed"
    fi
}

setup_file() {
    local why
    cluster_can
    why=$(why_munge)
    if [[ $why ]]; then
        suite_up --nodes 2 --slurm-conf SlurmdTimeout=120
    else
        suite_up --nodes 2 --slurm-conf SlurmdTimeout=120 --auth slurm --srun-port-range 20000-20999
    fi
}
teardown() {
    show_library
    cluster_mend
    assert_no_leftovers
}

without_munge() {
    local why
    why=$(why_munge)
    if [[ $why ]]; then skip "$why"; fi
}

# What was installed with munge can be loaded no longer, on any host; hvd-selftest cannot run then, for Gloo's MPI wants
# it.
hide_library() {
    local host
    library=$(readlink -f "$(PATH=$PATH:/sbin ldconfig -p | awk '$1 == "libmunge.so.2" { print $NF; exit }')")
    [[ -f $library ]]
    for host in $HOSTS; do as_root "$host" mount --bind /dev/null "$library"; done
}

show_library() {
    local host
    if [[ ! ${library-} ]]; then return 0; fi
    for host in $HOSTS; do as_root "$host" umount "$library"; done
    library=
}

# The command of a rank that prints who it is, and reaches the rendezvous.
RANK='exec 9<>/dev/tcp/$HOROVOD_GLOO_RENDEZVOUS_ADDR/$HOROVOD_GLOO_RENDEZVOUS_PORT && printf "GET /a/b HTTP/1.0\r\n\r\n" >&9 &&
      read -r -t 10 _ code _ <&9 && echo "rank $HOROVOD_RANK of $HOROVOD_SIZE: $code" || exit
      sleep 1' # the rendezvous on the first node ends with rank 0, and the others may be slow to begin

ranks_met() { exits 0 && [[ $(grep -cE "^rank [0-9]+ of $1: 404" <<<"$output") -eq $1 ]] || { echo "$output" && return 1; }; }

# a_key FILE [MODE]: makes a key file in alice's home.
a_key() {
    on_login bash -c "umask 077; head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >$1; chmod ${2-600} $1"
}

@test "the hosts have no munged, no socket of munged, and no libmunge that could be loaded" {
    local host with
    without_munge
    run on_login scontrol show config
    has "auth/slurm" "cred/slurm"
    hide_library
    for host in $HOSTS; do
        ! as_root "$host" pgrep -x munged
        as_root "$host" test ! -e /run/munge
        gives 1 as_root "$host" python3 -c 'import ctypes; ctypes.CDLL("libmunge.so.2")'
    done
    for with in srun hvdrun; do
        run launch $with -N2 -n3 bash -c "$RANK"
        ranks_met 3
    done
    run on_login salloc -Q -N2 --ntasks-per-node=2 --no-kill hvdrun --min-np 2 bash -c 'echo "rank $HOROVOD_RANK of 4: 404"'
    ranks_met 4
}

@test "one machine needs no munge" {
    hide_library
    run on_login hvdrun -np 2 bash -c "$RANK"
    ranks_met 2
}

@test "no program is linked to libmunge" {
    local program
    for program in "$B"/bin/* "$B"/libexec/hvd/hvd-* "$B"/lib/hvd.so; do
        gives 0 readelf -d "$program"
        has_not munge
    done
}

@test "srun --hvd and hvdrun work from the login host" {
    without_munge
    for with in srun hvdrun; do
        selftest 4 2 launch $with -N2 -n4 hvd-selftest --quick
    done
}

@test "srun --hvd and hvdrun work in an allocation and in a batch script" {
    local out
    without_munge
    selftest 4 2 on_login salloc -Q -N2 --ntasks-per-node=2 bash -c 'srun --hvd hvd-selftest --quick && hvdrun hvd-selftest --quick'
    [[ $(grep -c "4 ranks on 2 hosts: OK" <<<"$output") -eq 2 ]]
    out=$(home)/batch.out
    printf '%s\n' '#!/bin/bash' 'srun hvd-selftest --quick' 'hvdrun hvd-selftest --quick' | script job.sh
    run on_login sbatch --hvd --wait -N2 --ntasks-per-node=1 --output=batch.out --export=ALL job.sh
    output=$(<"$out")
    selftest_ok 2 2
    [[ $(grep -c "2 ranks on 2 hosts: OK" <<<"$output") -eq 2 ]]
}

@test "an elastic job works, with a node agent for each host" {
    without_munge
    gives 0 on_login salloc -Q -N2 --ntasks-per-node=2 --no-kill hvdrun --min-np 2 sh -c 'echo "hello $HOROVOD_RANK"; cat'
    [[ $(grep hello <<<"$output" | sort) == "$(printf 'hello %d\n' 0 1 2 3)" ]]
}

@test "a rank that fails ends the others, and its status is told" {
    without_munge
    run on_login srun --hvd -N2 -n4 sh -c '[ $HOROVOD_RANK -eq 3 ] && exit 7; sleep 60'
    has "task 3: Exited with exit code 7"
    gives 7 on_login hvdrun -N2 -n4 sh -c '[ $HOROVOD_RANK -eq 3 ] && exit 7; sleep 60'
    has "rank 3 on hvdn2 failed first: exit code 7"
}

# input FROM OPTION…: prints what each of three ranks of hvdrun reads.
input() {
    gives 0 on_login hvdrun -N2 -n3 "${@:2}" sh -c 'echo "$HOROVOD_RANK:$(cat)"' <"$1"
    output=$(sort <<<"$output" | xargs)
}

@test "the key comes before the input for the ranks, and --input works" {
    local file="$BATS_TEST_TMPDIR/file"
    without_munge
    echo word >"$file"
    input "$file"
    [[ $output == "0:word 1:word 2:word" ]]
    input "$file" --input=all
    [[ $output == "0:word 1:word 2:word" ]]
    input "$file" --input=1
    [[ $output == "0: 1:word 2:" ]]
    input "$file" --input=none
    [[ $output == "0: 1: 2:" ]]
    input /dev/null
    [[ $output == "0: 1: 2:" ]]
    # A pipe that stays open is no reason to wait.
    gives 0 on_login hvdrun -N2 -n2 true < <(sleep 50)
    run on_login env SLURM_STDINMODE=1 hvdrun -N2 -n2 sh -c 'echo "$HOROVOD_RANK:$(cat)"' <"$file"
    [[ $(sort <<<"$output" | xargs) == "0: 1:word" ]]
}

# More than Slurm keeps for a task that does not read.
@test "much input reaches one rank" {
    without_munge
    run on_login hvdrun -N2 -n3 --input=1 sh -c \
        'if [ $HOROVOD_RANK -eq 1 ]; then echo "read $(wc -c)"; : >~/read; else until [ -e ~/read ]; do sleep 0.1; done; fi' \
        < <(head -c 5000000 /dev/zero)
    rm -f "$(home)/read"
    exits 0
    has "read 5000000"
}

@test "--pty and a file as --input are refused without a key file" {
    without_munge
    gives 2 on_login hvdrun -N2 --pty true
    has "there is no munge here" "which is impossible with --pty" "--key-file=FILE"
    gives 2 on_login hvdrun -N2 --input=/etc/hostname true
    has "there is no munge here" "which is impossible with a file as --input" "--key-file=FILE"
    a_key key
    gives 0 on_login hvdrun --key-file=key -N2 -n2 --input=/etc/hosts sh -c 'grep -c hvdn1'
    [[ $(grep -c '^1$' <<<"$output") -eq 2 ]]
    # Programs that know no other way than munge say so.
    gives 1 on_login hvdrun --launcher=mpirun --hosts hvdn1:1,hvdn2:1 true
    has "munge does not run on this host: no socket " "--key-file=FILE"
}

@test "a key file works with srun --hvd and hvdrun" {
    a_key key
    selftest 2 2 on_login srun --hvd --hvd-key-file=key -N2 hvd-selftest --quick
    selftest 2 2 on_login hvdrun --key-file key -N2 hvd-selftest --quick
    selftest 2 2 on_login env HVD_KEY_FILE=key srun --hvd -N2 hvd-selftest --quick
    a_key open 644
    run on_login srun --hvd --hvd-key-file=open -N2 true
    [[ $status -ne 0 ]]
    has "the key file open is open to others" "chmod 600 open"
    run on_login srun --hvd --hvd-key-file=nowhere -N2 true
    [[ $status -ne 0 ]]
    has "cannot find the key file nowhere"
    gives 2 on_login srun --hvd --hvd-key-file= -N2 true
    has "option --hvd-key-file: the value is empty"
}

@test "other users cannot take part in a launch" {
    local login with kind user session
    without_munge
    login=$(cluster addr hvdlogin eth0)
    for with in "srun --hvd" hvdrun; do
        # shellcheck disable=SC2086
        hold hvdn2 $with -N2 hvd-selftest --quick
        wait_for 10 learn_session
        # A process of the same user that the launch has not started cannot either.
        for user in bob alice; do
            [[ $(peer $user hvdn1 auth "$login" "$port" garbage) == "refused: the peer does not know this launch" ]]
            for kind in garbage empty; do
                [[ $(peer $user hvdn1 auth "$login" "$port" $kind --session "$session") == "refused: the peer does not hold this launch's key" ]]
            done
            [[ $(peer $user hvdn1 auth "$login" "$port" none --session "$session") == "refused: a message lacks the string \"cred\"" ]]
        done
        go_on
        selftest_ok 2 2
        has "refused a connection from $(cluster addr hvdn1 eth0): the peer does not know this launch" \
            "refused a connection from $(cluster addr hvdn1 eth0): the peer does not hold this launch's key"
    done
}

# Prints the launch's key from the memory of one of its processes on a host.
raw_key() {
    as_root "$1" bash -c 'for fd in /proc/[0-9]*/fd/*; do
        [[ $(readlink "$fd") == "/memfd:key (deleted)" ]] || continue
        od -An -v -tx1 "$fd" | tr -d " \n"
        exit
    done'
}

has_key() { [[ $(raw_key "$1") ]]; }

# nowhere KEY: the key is not found on any host, nor in what Slurm prints.
nowhere() {
    local host
    [[ ${#1} -eq 64 ]]
    for host in $HOSTS; do
        run peer root "$host" search --memory sleep /tmp /dev/shm /run /var/tmp "$(home)" <<<"$1"
        echo "$host: $output"
        exits 0
        has '"hits": []'
    done
    run on_login bash -c 'scontrol show job -dd; scontrol show step -dd; sacct 2>&1; squeue --json 2>&1'
    has JobId= StepId=
    has_not "$1"
    run as_root hvdn1 bash -c 'scontrol listpids; cat /proc/*/environ /proc/*/cmdline | tr "\0" "\n"'
    has_not "$1"
}

@test "the key is in no environment, on no command line, in no file and in no answer of Slurm's" {
    local key
    without_munge
    # The driver has the key, and so has hvd-agent on the other host, which waits for the frozen one.
    hold hvdn2 srun --hvd -N2 bash -c 'env; sleep 3'
    key=$(raw_key hvdlogin)
    wait_for 10 has_key hvdn1
    [[ $(raw_key hvdn1) == "$key" ]]
    nowhere "$key"
    go_on
    exits 0
    # The job itself does not see the key.
    has SLURM_STEP_ID= HOROVOD_RANK=
    has_not "$key" launch_key launch-key SPANK_OPTION_hvd

}

@test "the key is gone from the ranks' memory, and a rank has no descriptor of it" {
    local key with
    without_munge
    for with in srun hvdrun; do
        begin launch $with -N2 sh -c 'env; ls -l /proc/self/fd; exec sleep 20'
        wait_for 20 as_root hvdn1 pgrep -u alice -x sleep
        # Under hvdrun the rank shim keeps the key, to tell how the rank ended.
        case $with in
        srun) key=$(raw_key hvdlogin) ;;
        hvdrun) key=$(raw_key hvdn1) ;;
        esac
        nowhere "$key"
        ended 30 0
        has SLURM_STEP_ID= HOROVOD_RANK=
        has_not "memfd:key" "$key"
    done
}

# Users can set the hidden option themselves; that has no effect on others.
@test "a variable by which the user sets the hidden option has no effect" {
    local name=_SLURM_SPANK_OPTION_hvd_hvd_launch_key zeros
    without_munge
    zeros=$(printf '0%.0s' {1..64})
    selftest 2 2 on_login env "$name=${zeros//0/f}" srun --hvd -N2 hvd-selftest --quick
    selftest 2 2 on_login env "SLURM_SPANK_$name=$zeros" srun --hvd -N2 hvd-selftest --quick
    run on_login srun --hvd-launch-key="$zeros" -N2 true
    [[ $status -ne 0 ]]
    run on_login srun --help
    has --hvd-key-file
    has_not launch-key
}

@test "a step within a step gets its own key" {
    without_munge
    gives 0 on_login srun --hvd -N1 -n1 sh -c 'srun --overlap --hvd -N1 -n1 hvd-selftest --quick && srun --overlap -n1 echo plain'
    has "1 rank" plain
}
