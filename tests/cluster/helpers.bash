# shellcheck shell=bash
# What tests on a real Slurm share.  In a bats file:
#
#   load ../cluster/helpers        (the path from the file's folder; launch.bash loads it, too, and has both teardowns)
#   setup_file()    { cluster_up --nodes 4; }
#   teardown_file() { cluster_down; }
#   teardown()      { cluster_mend; }
#   @test "…"       { run on_login srun -N4 hostname; … }
#
# HVD_TEST_CLUSTER names a cluster that is up already: it is used as it is and
# stays up, which makes a run quicker while hacking.  Without it every file has
# a cluster of its own, so that files may run side by side.
#
# What has nothing to do with Slurm is tested on hosts without it, which are up
# within a second: hosts_up --ssh instead of suite_up, and hvdrun --hosts.

HVD_CLUSTER_CMD=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../scripts/cluster" && pwd)/hvd-cluster

# Seconds that any one command on the cluster may take.
: "${HVD_TEST_DEADLINE:=60}"
# Waits of the tests may take this many times as long as on an idle machine.  It does
# not apply to limits that a test sets for the product.
: "${HVD_TEST_PATIENCE:=1}"

# hvd-cluster would ask for the name at each call.
export USER=${USER:-$(id -un)}

# cluster COMMAND…: hvd-cluster with a deadline; all calls go through here.  timeout
# stays in the foreground group, so that a terminal can interrupt what it runs.
cluster() {
    timeout --foreground --kill-after=10 $((HVD_TEST_DEADLINE * HVD_TEST_PATIENCE)) "$HVD_CLUSTER_CMD" "$@"
}

root_can() { ((EUID == 0)) || sudo -n true 2>/dev/null || skip "a cluster needs root"; }
cluster_can() {
    root_can
    command -v slurmctld >/dev/null || PATH=$PATH:/usr/sbin:/sbin command -v slurmctld >/dev/null ||
        skip "Slurm is not installed"
}

# cluster_up [OPTION OF up…]: in setup_file, brings a cluster up.  The options do not
# apply to a cluster that HVD_TEST_CLUSTER names.
cluster_up() {
    cluster_can
    export HVD_TEST_SLURM=1
    if [[ ${HVD_TEST_CLUSTER-} ]]; then
        export HVD_CLUSTER_NAME=$HVD_TEST_CLUSTER
        cluster path >/dev/null || return 1
        return 0
    fi
    export HVD_CLUSTER_NAME="t$$-$RANDOM" HVD_CLUSTER_MINE=1
    cluster up "$@"
}

# hosts_up [OPTION OF up…]: in setup_file, brings up hosts without Slurm, with the suite that was built in $B. With --ssh
# users log in on them by a stand-in for it. HVD_TEST_CLUSTER has no effect.
hosts_up() {
    root_can
    B=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && cd "${B:-build}" && pwd) || return 1
    export B HVD_PATH=$B/bin HVD_CLUSTER_NAME="t$$-$RANDOM" HVD_CLUSTER_MINE=1
    cluster up --no-slurm "$@"
}

# suite_up [OPTION OF up…]: in setup_file, brings a cluster up on which the suite that was
# built in $B is installed.
suite_up() {
    B=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && cd "${B:-build}" && pwd) || return 1
    [[ -e $B/lib/hvd.so ]] || skip "there is no plugin in $B: make all, with Slurm's headers"
    export B HVD_PATH=$B/bin
    cluster_up --plugin "$B/lib/hvd.so:libexecdir=$B/libexec/hvd" "$@"
}

cluster_down() {
    if [[ ${HVD_CLUSTER_MINE-} ]]; then cluster down; fi
}

# cluster_mend [--clean]: undoes faults and ends jobs, so that a test that fails does not make the next one fail. With
# --clean a test that has passed has to have left nothing before.
cluster_mend() {
    local left=0
    if [[ ! ${HVD_CLUSTER_NAME-} ]]; then return 0; fi
    if [[ ${1-} && ${BATS_TEST_COMPLETED-} ]]; then assert_no_leftovers 5 || left=1; fi
    if [[ -s $(cluster path)/faults ]]; then cluster fault clear; fi
    if [[ ! ${HVD_TEST_SLURM-} ]]; then cluster kill-users && return "$left"; fi
    local user
    for user in alice bob; do
        cluster exec --user root --host hvdctl -- scancel --user="$user" || true
    done
    cluster wait $((30 * HVD_TEST_PATIENCE))
    return "$left"
}

# on_login CMD…: runs CMD there, as alice. A job begins when the nodes of ended ones are free again, or after five seconds:
# else Slurm would take other nodes for it, or say that it waits.
on_login() {
    case ${HVD_TEST_SLURM-}$1 in 1srun | 1hvdrun | 1salloc | 1sbatch) within 5 none_completing 2>/dev/null || true ;; esac
    cluster exec -- "$@"
}

none_completing() { [[ ! $(as_root hvdctl timeout 2 squeue --noheader --states=completing) ]]; }

on_host() {
    local host=$1
    shift
    cluster exec --host "$host" -- "$@"
}

# as_user USER CMD…: runs CMD on the login host.
as_user() {
    local user=$1
    shift
    cluster exec --user "$user" -- "$@"
}

# as_root HOST CMD…: runs CMD on that host.
as_root() {
    local host=$1
    shift
    cluster exec --user root --host "$host" -- "$@"
}

fault() { cluster fault "$@"; }

# assert_no_leftovers [SECONDS]: within that time hosts run nothing but their daemons, and all nodes are idle.
assert_no_leftovers() {
    if cluster leftovers --wait $((${1:-5} * HVD_TEST_PATIENCE)); then return 0; fi
    # Slurm drains a node where it could not end a task in time. The next test is to find it idle.
    # shellcheck disable=SC2016 # for the shell there
    if [[ ${HVD_TEST_SLURM-} ]]; then
        as_root hvdctl bash -c 'for node in $(sinfo -hN -t drain -o %N | sort -u); do scontrol update nodename="$node" state=resume; done' || true
    fi
    return 1
}

# wait_for SECONDS CMD…: runs CMD until it succeeds, with HVD_TEST_PATIENCE; within SECONDS CMD…: without it.
wait_for() { within $(($1 * HVD_TEST_PATIENCE)) "${@:2}"; }
within() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        if ((SECONDS >= end)); then
            echo "not within the time: $*" >&2
            return 1
        fi
        sleep 0.1
    done
}

# driver_port [HOST]: the port at which the driver of the launch that runs on HOST listens.
driver_port() {
    as_root "${1:-hvdlogin}" ss -Htlnp | sed -nE '/"hvd(-driver|run)"/ s/.*\*:([0-9]+) .*/\1/p' | head -1
}
has_driver_port() { [[ $(driver_port "$@") ]]; }

# hold HOST CMD…: begin a launch on the login host and freeze HOST, so that the start cannot complete.  Sets $port, the
# port of the driver.  go_on thaws the host, waits for the end of the launch, and sets $status and $output.
hold() {
    frozen=$1 frozen_out="$BATS_TEST_TMPDIR/frozen"
    shift
    # A frozen host does not end what it had to do for the last job, and then none gets it.
    [[ ! ${HVD_TEST_SLURM-} ]] || wait_for 5 none_completing
    fault node-freeze "$frozen"
    on_login "$@" >"$frozen_out" 2>&1 3>&- &
    frozen_pid=$!
    wait_for 5 has_driver_port
    # shellcheck disable=SC2034
    port=$(driver_port)
}

go_on() {
    fault node-thaw "$frozen"
    status=0
    wait "$frozen_pid" || status=$?
    output=$(<"$frozen_out")
    echo "$output"
    echo "status $status"
}

# peer USER HOST ARG…: runs lib/peer.py there, a peer that breaks the rules of the protocol.
peer() {
    local user=$1 host=$2
    shift 2
    cluster exec --user "$user" --host "$host" -- python3 "$PEER" "$@"
}
# learn_session: sets $session to that of alice's launch, as a process of it on hvdn1 was told.
learn_session() { session=$(peer root hvdn1 session 2>/dev/null) && [[ $session ]]; }
PEER=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/lib/peer.py
