#!/usr/bin/env bats
# srun --hvd where a container plugin puts the tasks into an image, in both orders of plugstack.conf. The image has no
# libc, no munge and nothing of this suite, and sets variables of the names that a launch sets.
#
# The plugin is a stand-in for pyxis and enroot (tests/standins/pyxis.c). HVD_PYXIS, the path of a spank_pyxis.so that
# was built for this Slurm, adds a test with the real ones; it needs enroot, mksquashfs and a static busybox.

load launch

setup_file() {
    suite_up --nodes 2
    export PLUGSTACK IMAGE BARE
    PLUGSTACK=$(cluster path)/etc/slurm/plugstack.conf
    local homes
    homes=$(cluster path)/home
    IMAGE=$homes/alice/image BARE=$homes/alice/bare
    cp "$PLUGSTACK" "$BATS_FILE_TMPDIR/plugstack.conf"
    [[ -e $B/tests/standins/pyxis.so ]] || skip "there is no stand-in for pyxis in $B: make test-tools"
    mkdir -p "$IMAGE"/{etc,proc,sys,dev} "$BARE/etc"
    cp "$B/tests/standins/show" "$IMAGE/show"
    cp "$B/tests/standins/show" "$BARE/show"
    cat >"$IMAGE/etc/environment" <<'END'
PYTORCH_VERSION=2.13.0
HOROVOD_RANK=image
HOROVOD_CONTROLLER=image
HOROVOD_GLOO_IFACE=image0
NCCL_SOCKET_IFNAME=image0
HOROVOD_CYCLE_TIME=image
IMAGE_ONLY=yes
END
    cp "$IMAGE/etc/environment" "$BARE/etc/environment"
    chown -R 20001:20001 "$IMAGE" "$BARE"
}
teardown() {
    cat "$BATS_FILE_TMPDIR/plugstack.conf" >"$PLUGSTACK"
    cluster_mend
}

# order hvd|late|pyxis…: writes these lines into plugstack.conf.
order() {
    local line
    for line in "$@"; do
        case $line in
        hvd) echo "required $B/lib/hvd.so libexecdir=$B/libexec/hvd" ;;
        late) echo "required $B/lib/hvd.so late" ;;
        pyxis) echo "required $B/tests/standins/pyxis.so" ;;
        *) echo "required $line" ;;
        esac
    done >"$PLUGSTACK"
}

NAMES="HOROVOD_RANK HOROVOD_SIZE HOROVOD_CONTROLLER HOROVOD_GLOO_IFACE NCCL_SOCKET_IFNAME IMAGE_ONLY RANK WORLD_SIZE \
LOCAL_RANK TORCHELASTIC_USE_AGENT_STORE HOROVOD_GLOO_RENDEZVOUS_ADDR HOROVOD_GLOO_RENDEZVOUS_PORT MASTER_ADDR MASTER_PORT"

# in_image ARG…: runs two ranks in the image, which print the variables above.
in_image() {
    # shellcheck disable=SC2086
    run launch srun -N2 -n2 --container-image="$IMAGE" "$@" /show $NAMES
}

# placed: both ranks ran in the image, with the variables of the launch and the others of the image, and got no
# descriptor.
placed() {
    exits 0
    for rank in 0 1; do
        has "HOROVOD_RANK=$rank HOROVOD_SIZE=2 HOROVOD_CONTROLLER=gloo HOROVOD_GLOO_IFACE=ib0 \
NCCL_SOCKET_IFNAME==ib0,eth0 IMAGE_ONLY=yes RANK=$rank WORLD_SIZE=2 LOCAL_RANK=0 TORCHELASTIC_USE_AGENT_STORE=" \
            "uid=${1:-20001} host=no fds=0"
    done
    # enroot's hook had set another address and port.
    (($(grep -cE "RENDEZVOUS_ADDR=127.0.0.1 HOROVOD_GLOO_RENDEZVOUS_PORT=[0-9]+ MASTER_ADDR=$(cluster addr hvdn1 ib0) MASTER_PORT=[0-9]+ " <<<"$output") == 2)) ||
        { echo "$output" && false; }
}

@test "the stand-in for pyxis does what pyxis and enroot do to root and variables" {
    order pyxis
    gives 0 on_login srun -N2 -n2 --container-image="$IMAGE" /show HOROVOD_RANK RANK LOCAL_RANK WORLD_SIZE MASTER_PORT LANG
    has "HOROVOD_RANK=image RANK=1 LOCAL_RANK=0 WORLD_SIZE=2 MASTER_PORT=61" "LANG! uid=20001 host=no fds=0"
    run on_login env HOROVOD_RANK=mine srun --container-env=HOROVOD_RANK --container-image="$IMAGE" /show HOROVOD_RANK
    has "HOROVOD_RANK=mine"
    run on_login env HOROVOD_RANK=mine PYXIS_CONTAINER_ENV=HOROVOD_RANK srun --container-image="$IMAGE" /show HOROVOD_RANK
    has "HOROVOD_RANK=mine"
}

@test "hvd before the container plugin: what the plan sets arrives" {
    order hvd pyxis
    in_image
    placed
    in_image --container-remap-root
    placed 0
    assert_no_leftovers
}

@test "hvd behind the container plugin: hvd-agent still runs on the host" {
    order pyxis hvd
    in_image
    placed
    # --container-env, by which the user keeps variables of the host, makes no difference.
    in_image --container-env=NCCL_SOCKET_IFNAME
    placed
    # hvd-agent has another uid in its user namespace than munged sees.
    in_image --container-remap-root
    placed 0
    assert_no_leftovers
}

@test "an image may lack /proc and /dev" {
    for first in hvd pyxis; do
        order "$first" "$([[ $first == hvd ]] && echo pyxis || echo hvd)" late
        gives 0 launch srun -N2 -n2 --container-image="$BARE" /show HOROVOD_RANK NCCL_SOCKET_IFNAME
        has "HOROVOD_RANK=0 NCCL_SOCKET_IFNAME==ib0,eth0 uid=20001 host=no fds=0" "HOROVOD_RANK=1 "
    done
}

@test "the line hvd.so late: nothing that the user gives to pyxis takes the plan's variables away" {
    order hvd pyxis
    in_image --container-env=HOME
    exits 0
    has "HOROVOD_RANK=image" "NCCL_SOCKET_IFNAME=image0"
    order hvd pyxis late
    in_image --container-env=HOME
    placed
    # Tunables arrive as well, though their names are not known beforehand.
    script tunables.yaml <<<'params: {cycle_time_ms: 3}'
    gives 0 launch srun --hvd-config=tunables.yaml -N2 -n2 --container-image="$IMAGE" /show HOROVOD_CYCLE_TIME
    has "HOROVOD_CYCLE_TIME=3"
    # The line with late registers no options, starts nothing, and changes nothing without a container.
    gives 0 launch srun -N2 -n2 bash -c 'echo "rank $HOROVOD_RANK of $HOROVOD_SIZE"'
    has "rank 0 of 2" "rank 1 of 2"
    gives 0 on_login srun -N2 -n2 --container-image="$IMAGE" /show HOROVOD_RANK HOROVOD_SIZE
    has "HOROVOD_RANK=image HOROVOD_SIZE!"
    assert_no_leftovers
}

@test "a store that the user names is kept in a container, not mixed with the hook's or the launch's" {
    order hvd pyxis late
    gives 0 on_login env MASTER_ADDR=hvdn1 MASTER_PORT=29512 srun --hvd -N2 -n2 --container-image="$IMAGE" \
        /show MASTER_ADDR MASTER_PORT TORCHELASTIC_USE_AGENT_STORE RANK WORLD_SIZE
    has "MASTER_ADDR=hvdn1 MASTER_PORT=29512 TORCHELASTIC_USE_AGENT_STORE! RANK=1 WORLD_SIZE=2 "
    # Behind pyxis the hook's address looks like the user's.
    order pyxis hvd
    gives 0 on_login env MASTER_ADDR=hvdn1 MASTER_PORT=29512 srun --hvd -N2 -n2 --container-image="$IMAGE" \
        /show MASTER_ADDR TORCHELASTIC_USE_AGENT_STORE
    has "MASTER_ADDR=$(cluster addr hvdn1 ib0)"
    has_not "USE_AGENT_STORE!"
    assert_no_leftovers
}

@test "ranks see PYXIS_CONTAINER_ENV as the user has set it" {
    order hvd pyxis
    gives 0 launch srun -N1 -n1 --container-image="$IMAGE" /show HOROVOD_RANK PYXIS_CONTAINER_ENV
    has "HOROVOD_RANK=0 PYXIS_CONTAINER_ENV! "
    gives 0 on_login env PYXIS_CONTAINER_ENV=IMAGE_ONLY IMAGE_ONLY=mine srun --hvd -N1 -n1 --container-image="$IMAGE" \
        /show HOROVOD_RANK IMAGE_ONLY PYXIS_CONTAINER_ENV
    has "HOROVOD_RANK=0 IMAGE_ONLY=mine PYXIS_CONTAINER_ENV=IMAGE_ONLY "
    gives 0 launch srun -N1 -n1 bash -c 'echo "names<${PYXIS_CONTAINER_ENV-unset}>"'
    has "names<unset>"
}

@test "a network namespace of the container's own gets no names of interfaces" {
    order hvd pyxis late
    gives 0 launch srun -N2 -n2 --hvd-verbose --hvd-frameworks=torch --container-unshare=net --container-image="$BARE" \
        /show RANK GLOO_SOCKET_IFNAME NCCL_SOCKET_IFNAME HOROVOD_GLOO_IFACE TORCHELASTIC_USE_AGENT_STORE MASTER_ADDR
    has "network namespace of its own" "RANK=1 GLOO_SOCKET_IFNAME! NCCL_SOCKET_IFNAME" \
        "MASTER_ADDR=10." \
        "warning: the container has a network namespace of its own, from which the rendezvous relay cannot" \
        "share the node's network with the container"
    has_not "IFNAME=ib0"
    # After the container plugin a task in that network namespace cannot reach the driver, and the message says why.
    order pyxis hvd
    in_image --container-unshare=net --hvd-start-timeout=5
    [ "$status" -ne 0 ]
    has "network namespace of its own before hvd.so ran" "list hvd.so first in plugstack.conf"
    has_not "HOROVOD_RANK="
    assert_no_leftovers
}

@test "an order of plugins that cannot work is named" {
    order "$B/tests/standins/pyxis.so nocaps" hvd
    in_image
    [ "$status" -ne 0 ]
    has "hvd-agent" "list hvd.so before that one" "spank-hvd(8), CONTAINERS"
    has_not "HOROVOD_RANK="
    assert_no_leftovers
    order hvd "$B/tests/standins/pyxis.so nocaps" late
    in_image
    placed
}

@test "scancel reaches a rank that waits for its plan in a container" {
    order pyxis hvd
    fault node-freeze hvdn2
    begin launch srun -N2 -n2 --container-image="$IMAGE" /show HOROVOD_RANK
    wait_for 10 runs_on hvdn1 "hvd-agent plan"
    as_root hvdctl scancel --user=alice
    wait_for 5 gone hvdn1 "hvd-agent plan"
    fault node-thaw hvdn2
    ended 20
    [ "$status" -ne 0 ]
    assert_no_leftovers 10
}

# A stand-in for apptainer, which does to the environment what Apptainer documents of --cleanenv and APPTAINERENV_.
fake_apptainer() {
    script apptainer <<'END'
#!/bin/bash
clean=()
while IFS='=' read -r -d '' name value; do
    [[ $name != APPTAINERENV_* ]] || clean+=("${name#APPTAINERENV_}=$value")
done < <(env -0)
[[ $1 == exec && $2 == --cleanenv ]] || exit 9
exec env -i "${clean[@]}" "${@:4}"
END
}

@test "apptainer as the command: the plan's variables arrive with --cleanenv too" {
    fake_apptainer
    local apptainer with
    apptainer=$(home)/apptainer
    for with in srun hvdrun; do
        gives 0 launch "$with" -N2 -n2 "$apptainer" exec --cleanenv IMAGE "$IMAGE/show" HOROVOD_RANK HOROVOD_SIZE HOME \
            TORCHELASTIC_USE_AGENT_STORE
        has "HOROVOD_RANK=0 HOROVOD_SIZE=2 HOME! TORCHELASTIC_USE_AGENT_STORE=1" "HOROVOD_RANK=1 HOROVOD_SIZE=2 HOME!"
        gives 0 on_login env APPTAINERENV_NCCL_SOCKET_IFNAME=mine "$with" "$([[ $with == srun ]] && echo --hvd || echo -l)" -N1 -n1 \
            "$apptainer" exec --cleanenv IMAGE "$IMAGE/show" HOROVOD_RANK NCCL_SOCKET_IFNAME
        has "HOROVOD_RANK=0 NCCL_SOCKET_IFNAME=mine"
    done
    gives 0 on_login hvdrun --launcher=fork -np 1 "$apptainer" exec --cleanenv IMAGE "$IMAGE/show" HOROVOD_RANK
    has "HOROVOD_RANK=0"
    # Other commands get no such variables.
    run launch srun -N1 -n1 bash -c 'env | grep -c APPTAINERENV_'
    has 0
    assert_no_leftovers
}

@test "the real apptainer runs ranks from a folder as the image" {
    command -v apptainer >/dev/null || skip "apptainer is not installed"
    local image="$IMAGE" way
    mkdir -p "$image"/{bin,tmp,var/tmp,root,home}
    : >"$image/etc/resolv.conf"
    : >"$image/etc/hosts"
    echo root:x:0: >"$image/etc/group"
    echo root:x:0:0:root:/root:/bin/sh >"$image/etc/passwd"
    chown -R 20001:20001 "$image"
    for way in "" --cleanenv --containall; do
        # shellcheck disable=SC2086
        gives 0 launch srun -N2 -n2 apptainer exec $way "$image" /show HOROVOD_RANK HOROVOD_SIZE NCCL_SOCKET_IFNAME
        has "HOROVOD_RANK=0 HOROVOD_SIZE=2 NCCL_SOCKET_IFNAME==ib0,eth0 uid=20001 host=no fds=0" "HOROVOD_RANK=1"
        # shellcheck disable=SC2086
        gives 0 launch hvdrun -N2 -n2 apptainer exec $way "$image" /show HOROVOD_RANK HOROVOD_SIZE NCCL_SOCKET_IFNAME
        has "HOROVOD_RANK=0 HOROVOD_SIZE=2 NCCL_SOCKET_IFNAME==ib0,eth0" "HOROVOD_RANK=1"
    done
    assert_no_leftovers
}

# bundle: makes a folder as Slurm's --container wants it, and the site's configuration for that.
bundle() {
    BUNDLE=$(home)/bundle
    mkdir -p "$BUNDLE"/rootfs
    cp "$B/tests/standins/show" "$BUNDLE/rootfs/show"
    cat >"$BUNDLE/config.json" <<'END'
{"ociVersion": "1.0.2", "root": {"path": "rootfs"}, "mounts": [], "linux": {"namespaces": [{"type": "user"}]},
 "process": {"cwd": "/", "args": ["/show"], "env": ["PATH=/bin", "HOROVOD_RANK=bundle", "BUNDLE_ONLY=yes"]}}
END
    chown -R 20001:20001 "$BUNDLE"
    local runtime
    runtime="python3 $(cd "$BATS_TEST_DIRNAME/../standins" && pwd)/oci_run.py"
    cat >"$(dirname "$PLUGSTACK")/oci.conf" <<END
RunTimeQuery="$runtime state %t"
RunTimeKill="$runtime kill %t"
RunTimeDelete="$runtime delete %t"
RunTimeRun="$runtime run %b"
END
}

@test "Slurm's own --container gets the plan's variables, or is refused by releases that cannot" {
    bundle
    gives 0 on_login srun -N1 -n1 --container="$BUNDLE" /show HOROVOD_RANK BUNDLE_ONLY
    has "HOROVOD_RANK=bundle BUNDLE_ONLY=yes" "host=no"
    run launch srun -N2 -n2 --container="$BUNDLE" /show HOROVOD_RANK HOROVOD_SIZE NCCL_SOCKET_IFNAME BUNDLE_ONLY
    if [[ $(on_login srun --version) == "slurm-wlm 22.05"* ]]; then
        exits 2
        has "cannot reach a container of --container" "Slurm 23.02 or newer"
    else
        exits 0
        has "HOROVOD_RANK=0 HOROVOD_SIZE=2 NCCL_SOCKET_IFNAME==ib0,eth0 BUNDLE_ONLY=yes" "HOROVOD_RANK=1" "fds=0"
    fi
    rm "$(dirname "$PLUGSTACK")/oci.conf"
    assert_no_leftovers
}

@test "hvdrun refuses a container of srun's, and names srun --hvd" {
    local given
    for given in --container-image=ubuntu --container-name=one --container=/bundle; do
        gives 2 on_login hvdrun -N1 -n1 "$given" true
        has "cannot start ranks in a container that srun starts (${given%%=*})" "use srun --hvd"
    done
    gives 2 on_login env PYXIS_CONTAINER_IMAGE=ubuntu hvdrun -N1 -n1 true
    has "(PYXIS_CONTAINER_IMAGE)"
    gives 2 on_login env SRUN_CONTAINER=/bundle hvdrun -N1 -n1 true
    has "(--container)"
    gives 2 on_login salloc -Q -N2 hvdrun --min-np 1 --container-image=ubuntu true
    has "(--container-image)"
    assert_no_leftovers
}

# shellcheck disable=SC2016
@test "the real pyxis and enroot run ranks in both orders of plugins" {
    [[ ${HVD_PYXIS-} ]] || skip "HVD_PYXIS does not name a spank_pyxis.so that was built for this Slurm"
    local busybox shell applet
    for applet in enroot mksquashfs busybox; do
        command -v "$applet" >/dev/null || skip "$applet is not installed"
    done
    busybox=$(command -v busybox)
    [[ $(ldd "$busybox" 2>&1) == *"not a dynamic"* ]] || skip "$busybox is not linked statically"
    shell=$(home)/real
    mkdir -p "$shell"/{bin,etc,proc,sys,dev,tmp,run,root}
    cp "$busybox" "$shell/bin/busybox"
    for applet in sh env cat ls kill mkdir id; do ln -sf busybox "$shell/bin/$applet"; done
    cp "$B/tests/standins/show" "$shell/show"
    { cat "$IMAGE/etc/environment" && echo PATH=/bin; } >"$shell/etc/environment"
    echo 'root:x:0:0:root:/root:/bin/sh' >"$shell/etc/passwd"
    mksquashfs "$shell" "$(home)/real.sqsh" -all-root -quiet -no-progress >/dev/null
    chmod 644 "$(home)/real.sqsh"
    chown 20001 "$(home)/real.sqsh"
    # pyxis makes this folder when slurmd starts, but here slurmd has started without pyxis.
    for host in hvdn1 hvdn2; do as_root "$host" mkdir -p /run/pyxis; done
    for lines in "hvd $HVD_PYXIS" "hvd $HVD_PYXIS late" "$HVD_PYXIS hvd"; do
        # shellcheck disable=SC2086
        order $lines
        sed -i "s|^required $HVD_PYXIS.*|& runtime_path=/run/pyxis|" "$PLUGSTACK"
        for more in --no-container-remap-root --container-remap-root; do
            gives 0 launch srun -N2 -n4 "$more" --container-image="$(home)/real.sqsh" \
                /show HOROVOD_RANK HOROVOD_SIZE HOROVOD_CONTROLLER NCCL_SOCKET_IFNAME IMAGE_ONLY RANK
            for rank in 0 1 2 3; do
                has "HOROVOD_RANK=$rank HOROVOD_SIZE=4 HOROVOD_CONTROLLER=gloo NCCL_SOCKET_IFNAME==ib0,eth0 \
IMAGE_ONLY=yes RANK=$rank uid=$([[ $more == --no* ]] && echo 20001 || echo 0)"
            done
        done
    done
    assert_no_leftovers 10
}
