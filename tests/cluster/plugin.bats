#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # what run sets
# The plugin's options, its lines in plugstack.conf, and that it does nothing
# without --hvd.

load launch

setup_file() {
    suite_up --nodes 2
    cp "$(cluster path)/etc/slurm/plugstack.conf" "$BATS_FILE_TMPDIR/plugstack.conf"
}
teardown() {
    cat "$BATS_FILE_TMPDIR/plugstack.conf" >"$(cluster path)/etc/slurm/plugstack.conf"
    # shellcheck disable=SC2086
    with_plugin ${PLAIN-}
    cluster_mend
}

# plugstack ARG…: writes these arguments into the plugin's line.
plugstack() {
    echo "required $B/lib/hvd.so libexecdir=$B/libexec/hvd $*" >"$(cluster path)/etc/slurm/plugstack.conf"
}

# without_plugin HOST…: plugstack.conf is empty there; with_plugin HOST…: no longer.
without_plugin() {
    local host
    PLAIN=$*
    for host in "$@"; do as_root "$host" mount --bind /dev/null /etc/slurm/plugstack.conf; done
}
with_plugin() {
    local host
    PLAIN=
    for host in "$@"; do as_root "$host" umount /etc/slurm/plugstack.conf; done
}

refused() {
    run on_login srun "$@" -N2 -n2 bash -c 'echo started'
    [ "$status" -ne 0 ]
    has_not started
}

@test "only what Slurm looks for is exported" {
    gives 0 nm -D --defined-only "$B/lib/hvd.so"
    [ "$(awk '{ print $3 }' <<<"$output" | sort | xargs)" = "plugin_name plugin_type plugin_version slurm_spank_exit \
slurm_spank_init slurm_spank_init_post_opt slurm_spank_local_user_init slurm_spank_task_exit slurm_spank_task_init slurm_spank_task_init_privileged \
slurm_spank_task_post_fork spank_plugin_version" ]
    run ldd "$B/lib/hvd.so"
    has_not jansson munge hwloc libevent libslurm zstd
}

@test "srun --help names the plugin's options" {
    for command in srun sbatch salloc; do
        gives 0 on_login "$command" --help
        has --hvd --no-hvd --hvd-nics --hvd-start-timeout --hvd-store --hvd-frameworks \
            --hvd-init-timeout --hvd-preflight --hvd-spares \
            --hvd-hang-timeout --hvd-hang-action --hvd-signal-ranks --hvd-requeue-on --hvd-stderr-lines --hvd-trace --hvd-events --hvd-verbose --hvd-config --hvd-key-file
    done
}

# told_alike COMMAND OPTION MESSAGE HINT: COMMAND prints just these two lines and ends with 2.
told_alike() {
    local command=true
    if [[ $1 == sbatch* ]]; then command=''; fi
    # shellcheck disable=SC2086
    gives 2 on_login $1 "$2" -N2 -n2 $command
    [[ $output == *"$3"$'\n'*"$4"* && $(wc -l <<<"$output") -eq 2 ]] || { echo "$1 $2: $output" && return 1; }
}

@test "bad values of options are refused with a reason" {
    for how in "srun --hvd" "sbatch --hvd --wrap=true" "salloc --hvd" hvdrun; do
        told_alike "$how" --hvd-start-timeout=0 'option --hvd-start-timeout: "0" is out of range' "a number of at least"
        told_alike "$how" --hvd-start-timeout=soon 'option --hvd-start-timeout: "soon" is not a number of seconds' "30, 1.5 or 2m"
        told_alike "$how" --hvd-store=moon 'option --hvd-store: "moon" is not known' "agent|rank0|off"
        told_alike "$how" --hvd-frameworks=torch,moon 'option --hvd-frameworks: "moon" is not known' "write auto, none, or"
        told_alike "$how" --hvd-init-timeout=soon 'option --hvd-init-timeout: "soon" is not a number of seconds' "30, 1.5 or 2m"
        told_alike "$how" --hvd-nics= 'option --hvd-nics: "" is not a list' "by single commas"
        told_alike "$how" --hvd-nics=a,,b 'option --hvd-nics: "a,,b" is not a list' "by single commas"
        told_alike "$how" --hvd-nics=10.0.0.0/99 'names no network interfaces: the part after / is not a number of bits' "subnets (10.77.0.0/24)"
        told_alike "$how" --hvd-trace= 'option --hvd-trace: the value is empty' "leave the option out"
    done
    # These values only the driver checks.
    for how in "srun --hvd" hvdrun; do
        for _ in 1 2 3; do
            # shellcheck disable=SC2086
            gives 2 on_login $how --hvd-config=/nowhere -N2 -n4 sh -c 'echo started'
            has "cannot open the configuration file /nowhere"
            has_not started "could not start"
        done
    done
    gives 2 on_login env HVD_STORE=moon srun --hvd -N2 -n4 sh -c 'echo started'
    has 'HVD_STORE: "moon" is not known'
    has_not started
    # An interface that no host has.
    for how in "srun --hvd" hvdrun; do
        for _ in 1 2 3; do
            # shellcheck disable=SC2086
            gives 2 on_login $how --hvd-nics=nosuch0 -N2 -n6 sh -c 'echo started'
            has "nosuch0" "only" eth0
            has_not started
        done
    done
    refused --hvd --hvd-nonsense
    assert_no_leftovers
}

@test "srun --hvd and hvdrun read values alike" {
    # shellcheck disable=SC2016
    local say='echo "$NCCL_SOCKET_IFNAME"'
    for how in srun hvdrun; do
        gives 0 launch "$how" --hvd-store=RANK0 --hvd-start-timeout=2m -N2 -n2 true
        gives 0 launch "$how" --hvd-nics=ib0 --hvd-nics=eth0 -N2 -n2 sh -c "$say"
        [ "$output" = $'=ib0,eth0\n=ib0,eth0' ]
        gives 2 launch "$how" --hvd-spares=1.5 -N2 -n2 true
        has 'option --hvd-spares: "1.5" is not a whole number'
    done
    gives 0 on_login hvdrun --hvd --no-hvd -N1 -n1 true
    # An option of the job holds until srun is given another value.
    run on_login salloc -Q -N2 --hvd --hvd-nics=ib0 srun -N2 -n2 sh -c "$say"
    [ "$output" = $'=ib0\n=ib0' ]
    run on_login salloc -Q -N2 --hvd --hvd-nics=ib0 srun --hvd-nics=eth0 -N2 -n2 sh -c "$say"
    [ "$output" = $'=eth0\n=eth0' ]
    run on_login salloc -Q -N2 --hvd --hvd-nics=eth0 srun --hvd-nics=eth0 --hvd-nics=ib0 -N2 -n2 sh -c "$say"
    [ "$output" = $'=ib0,eth0\n=ib0,eth0' ]
    # sbatch would keep only one of several.
    gives 2 on_login salloc -Q -N2 --hvd --hvd-nics=ib0 --hvd-nics=eth0 true
    has "--hvd-nics=ib0,eth0"
    assert_no_leftovers
}

@test "srun --hvd and hvdrun refuse the same combinations" {
    local how conf
    conf=$(home)/elastic.conf
    for how in "srun --hvd" hvdrun; do
        # shellcheck disable=SC2086
        gives 2 on_login env HVD_CONTROLLER=mpi $how --hvd-spares=1 -N2 --ntasks-per-node=1 echo started
        has "--spares cannot be used with the MPI controller" "the MPI decides which hosts have ranks"
        has_not started
        # So is what does nothing.
        # shellcheck disable=SC2086
        gives 0 on_login $how --hvd-hang-action=kill --hvd-verbose -N2 -n2 echo started
        has "--hang-action has no effect without --hang-timeout" started
    done
    gives 2 on_login env HOROVOD_CONTROLLER=mpi srun --hvd --hvd-spares=1 -N2 --ntasks-per-node=1 echo started
    has "--spares cannot be used with the MPI controller"
    # A file that makes jobs of hvdrun elastic makes no step of srun so.
    printf '%s\n' "min-np: 2" "max-np: 1" "discover: hosts" >"$conf"
    gives 0 launch srun --hvd-config="$conf" --hvd-spares=0 -N2 -n2 bash -c 'echo "at $MASTER_ADDR"'
    [ "$output" = "$(printf 'at %s\n' "$(cluster addr hvdn1 ib0)" "$(cluster addr hvdn1 ib0)")" ]
    assert_no_leftovers
}

@test "options without --hvd are said to do nothing" {
    gives 0 on_login srun --hvd-nics=eth0 --hvd-start-timeout=3 -N1 -n1 true
    has "--hvd-nics does nothing without --hvd" "--hvd-start-timeout does nothing"
    run on_login srun --hvd-nics=eth0 --hvd -N1 -n1 true
    [ -z "$output" ]
    run on_login srun --no-hvd --hvd-nics=eth0 -N1 -n1 true
    [ -z "$output" ]
    # Some steps of a job may have --hvd, and others not.
    run on_login salloc -Q -N1 --hvd-nics=eth0 srun -N1 -n1 true
    [ -z "$output" ]
    assert_no_leftovers
}

@test "bad lines in plugstack.conf are refused with a reason" {
    plugstack colour=blue
    refused --hvd
    has "colour=blue" "no such key" "nics start_timeout"
    plugstack kill_on_bad_exit=2
    refused --hvd
    has "kill_on_bad_exit=2" "0 or 1"
    plugstack start_timeout=-1
    refused --hvd
    has "start_timeout=-1"
    plugstack verbose
    refused --hvd
    has "key=value"
    plugstack late
    refused --hvd
    has "\"late\" must be the only one"
    plugstack libexecdir=relative
    refused --hvd
    has "absolute path"
}

@test "a libexecdir without the programs ends the start, and is named" {
    echo "required $B/lib/hvd.so libexecdir=/nowhere" >"$(cluster path)/etc/slurm/plugstack.conf"
    refused --hvd
    has "cannot run /nowhere/hvd-driver" libexecdir
    # Jobs without --hvd run as ever.
    gives 0 on_login srun -N2 -n2 true
    assert_no_leftovers
}

@test "a driver that cannot be started ends srun, also where the plugin is optional" {
    for how in required optional; do
        echo "$how $B/lib/hvd.so libexecdir=/nowhere" >"$(cluster path)/etc/slurm/plugstack.conf"
        gives 1 on_login srun --hvd -N2 -n2 bash -c 'echo started'
        has "cannot run /nowhere/hvd-driver"
        has_not started
        # No step is left.
        run on_login salloc --quiet -N2 -n2 bash -c \
            'srun --hvd bash -c "echo started"; echo "status $?"; sleep 1; squeue -h -s -j $SLURM_JOB_ID -o "step %i"'
        has "status 1"
        has_not started
        if grep -E '^step [0-9]+\.[0-9]+$' <<<"$output"; then return 1; fi
    done
    assert_no_leftovers
}

@test "srun --async is refused, also where the plugin is optional" {
    on_login srun --help | grep -q -e ' --async ' || skip "this release's srun has no --async"
    for how in required optional; do
        echo "$how $B/lib/hvd.so libexecdir=$B/libexec/hvd" >"$(cluster path)/etc/slurm/plugstack.conf"
        gives 2 on_login salloc --quiet -N2 -n2 srun --hvd --async true
        has "srun --async does not wait for the step" "leave --async out"
        gives 2 on_login salloc --quiet --hvd -N2 -n2 srun --asyn true
        # Words of the command are not options of srun.
        gives 0 on_login salloc --quiet -N2 -n2 srun --hvd echo --async
    done
    gives 2 launch hvdrun --async -N2 -n2 true
    has "--async cannot be used with hvdrun"
    assert_no_leftovers
}

# other_release FILE: makes a plugin that claims to be for another release of Slurm.
other_release() {
    python3 - "$B/lib/hvd.so" "$1" <<'END'
import struct, subprocess, sys
def lines(*command):
    return [l.split() for l in subprocess.check_output(command, text=True).splitlines()]
symbol = next(int(l[0], 16) for l in lines("nm", "-D", sys.argv[1]) if l[-1:] == ["plugin_version"])
offset = next(symbol - int(l[2], 16) + int(l[1], 16) for l in lines("readelf", "-lW", sys.argv[1])
              if l[:1] == ["LOAD"] and int(l[2], 16) <= symbol < int(l[2], 16) + int(l[4], 16))
data = bytearray(open(sys.argv[1], "rb").read())
struct.pack_into("<I", data, offset, struct.unpack_from("<I", data, offset)[0] + 0x100)
open(sys.argv[2], "wb").write(data)
END
}

# Slurm refuses plugins of another release. The plugin claims to be of the release that has loaded it.
@test "a plugin that was built for another release of Slurm works, also where it is required" {
    local other
    other=$(cluster path)/home/other.so
    other_release "$other"
    echo "required $other libexecdir=$B/libexec/hvd" >"$(cluster path)/etc/slurm/plugstack.conf"
    gives 0 on_login srun -N1 -n1 echo started
    has_not "Incompatible Slurm plugin"
    gives 0 launch srun --hvd -N2 -n2 bash -c 'echo "rank $HOROVOD_RANK of $HOROVOD_SIZE"'
    has "rank 0 of 2" "rank 1 of 2"
    fault slurmd-kill hvdn2
    gives 124 as_root hvdn2 timeout 3 slurmd -D -N hvdn2
    has_not "slurmd initialization failed" "Incompatible Slurm plugin"
}

@test "defaults of plugstack.conf hold, and options win over them" {
    plugstack nics=eth0
    gives 0 launch srun -N2 -n2 bash -c 'echo "iface $HOROVOD_GLOO_IFACE"'
    has "iface eth0"
    gives 0 launch srun --hvd-nics=ib0 -N2 -n2 bash -c 'echo "iface $HOROVOD_GLOO_IFACE"'
    has "iface ib0"
    plugstack enabled=1
    run on_login srun -N2 -n2 bash -c 'echo "size $HOROVOD_SIZE"'
    has "size 2"
    run on_login srun --no-hvd -N2 -n2 bash -c 'echo "size $HOROVOD_SIZE"'
    has_not "size 2"
    plugstack kill_on_bad_exit=0
    gives 3 launch srun -N2 -n2 bash -c '[ $HOROVOD_RANK = 0 ] && exit 3; sleep 1; echo went on'
    has "went on"
    plugstack verbose=1
    run launch srun -N2 -n2 true
    has "network 1"
    assert_no_leftovers
}

@test "without --hvd nothing of the suite is started" {
    gives 0 on_login strace -f -qq -e trace=execve -o trace srun -N1 -n1 true
    grep -q execve "$(home)/trace"
    gives 1 grep -E 'hvd-(driver|task)' "$(home)/trace"
    begin on_login srun -N2 -n2 bash -c 'echo ready; env; sleep 2'
    says 10 ready
    for host in hvdlogin hvdn1 hvdn2; do
        run on_host "$host" ps -e -o args=
        has_not hvd-driver hvd-agent
        # Only Slurm and munge have sockets, of any kind.
        run as_root "$host" ss -Htulnp
        if grep -vE '"(srun|slurmd|slurmstepd|munged)"' <<<"$output" | grep .; then return 1; fi
    done
    ended 10 0
    has_not HOROVOD_ SLURM_HVD_
    assert_no_leftovers
}

@test "--no-hvd after --hvd undoes it" {
    gives 0 launch srun --no-hvd -N2 -n2 bash -c 'echo "size<$HOROVOD_SIZE>"'
    has "size<>"
}

@test "--hvd-verbose says what was found; without it nothing is said" {
    gives 0 launch srun -N2 -n2 true
    [ -z "$output" ]
    run launch srun --hvd-verbose -N2 -n2 true
    has "network 1" ib0 docker0
    run launch hvdrun -N2 -n2 true
    [ -z "$output" ]
    run launch hvdrun --hvd-verbose -N2 -n2 true
    has "network 1" ib0 docker0
}

# own_task: hvd-agent is a script, in alice's home, that notes what it was called with on which host, then runs TEXT and
# the real one.
own_task() {
    mkdir -p "$(home)/libexec"
    ln -sf "$B"/libexec/hvd/* "$(home)/libexec/"
    rm "$(home)/libexec/hvd-agent"
    script libexec/hvd-agent <<EOF
#!/bin/bash
echo "\$(hostname) \$*" >>"$(home)/tasks"
$1
exec $B/libexec/hvd/hvd-agent "\$@"
EOF
    chown -R "$(stat -c %u:%g "$(home)")" "$(home)/libexec"
    rm -f "$(home)/tasks"
    echo "required $B/lib/hvd.so libexecdir=$(home)/libexec" >"$(cluster path)/etc/slurm/plugstack.conf"
}

@test "the tasks of a host share one hvd-agent plan" {
    own_task ''
    gives 0 launch srun -N2 -n7 --overcommit -m plane=3 bash -c 'echo "$SLURM_PROCID=$HOROVOD_RANK $HOROVOD_HOSTNAME:$HOROVOD_LOCAL_RANK $SLURM_LOCALID"'
    [ "$(sort <<<"$output" | sed -E 's/^([0-9]+)=\1 hvdn[12]:([0-9]+) \2$/right/' | uniq -c | xargs)" = "7 right" ]
    [ "$(sed "s/ --events//; s/ -- .*//" <"$(home)/tasks" | sort | xargs)" = "hvdn1 plan hvdn2 plan" ]
}

@test "a command with a relative path is looked at in the directory of the step" {
    # shellcheck disable=SC2016
    on_login bash -c 'mkdir -p venv/bin venv/lib/python3.9/site-packages/torch
        echo "__version__ = \"2.6.0\"" >venv/lib/python3.9/site-packages/torch/version.py
        printf "#!/bin/sh\necho \"store \$TORCHELASTIC_USE_AGENT_STORE\"\n" >venv/bin/python; chmod +x venv/bin/python'
    gives 0 on_login srun --hvd -N2 -n4 --overcommit venv/bin/python
    # As PyTorch before 2.7 wants it (lib/frameworks/resolve.h).
    [ "$(grep -c "^store True$" <<<"$output")" = 4 ]
    assert_no_leftovers
}

@test "an hvd-agent plan that fails ends all tasks of its host, and one message says so" {
    own_task '[ $(hostname) = hvdn1 ] || { echo "no plan today" >&2; exit 9; }'
    begin launch srun --hvd-start-timeout=30 -N2 -n8 --overcommit --ntasks-per-node=4 echo started
    ended 20
    has_not started
    [ "$(grep -c "no plan today" <<<"$output")" = 1 ]
    has "hvdn2"
    assert_no_leftovers
}

@test "a first task that is killed ends the tasks of its host that wait for it" {
    own_task '[ $(hostname) = hvdn1 ] || exec sleep 300'
    begin launch srun --hvd-start-timeout=15 --kill-on-bad-exit=0 -N2 -n8 --overcommit --ntasks-per-node=4 echo started
    wait_for 10 runs_on hvdn2 "sleep 300"
    as_root hvdn2 bash -c 'kill -9 $(ps -o ppid= $(pgrep -x sleep))'
    wait_for 10 said "this host's first task ended before it had the launch plan"
    ended 40
    has_not started
    assert_no_leftovers
}

@test "nodes without the plugin: an error names them and plugstack.conf" {
    # shellcheck disable=SC2016
    local say='echo "rank ${RANK-none}"'
    without_plugin hvdn1 hvdn2
    gives 1 on_login srun --hvd -N2 -n2 sh -c "$say"
    has "rank none" "no registration from any host, but its tasks have run: each by itself" "plugstack.conf of each node must list hvd.so"
    gives 1 on_login srun --hvd --hvd-spares=1 -N2 sh -c "$say"
    has "its tasks have run"
    run on_login srun --hvd -N2 -n2 sh -c 'exit 3'
    exits_one_of 3 143
    has "srun has ended before the start was complete: no registration from any host" "if tasks did run, srun's plugin is not loaded there"
    gives 0 on_login hvdrun -N2 -n2 true # which needs no plugin
    with_plugin hvdn1
    PLAIN=hvdn2
    run on_login srun --hvd --hvd-start-timeout=2 -N2 -n2 sh -c "$say"
    exits_one_of 1 143
    has "the start took longer than 2 seconds: no registration from hvdn2" "does plugstack.conf there list hvd.so?"
    gives 0 on_login srun --hvd --hvd-spares=1 --hvd-start-timeout=3 -N2 sh -c "$say"
    has "rank none" "rank 0" "hvdn2 left out: its node agent did not register in time" "does plugstack.conf there list hvd.so?"
    with_plugin hvdn2
    gives 0 on_login srun --hvd -N2 -n2 sh -c "$say"
    has "rank 0" "rank 1"
    has_not "plugstack.conf"
    assert_no_leftovers
}
