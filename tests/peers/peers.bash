# shellcheck shell=bash
# What tests with real Horovod share; for bats files that have loaded
# ../cluster/helpers and ../cluster/launch.

# Where a file's tests cannot run, setup skips each of them: the bats of Debian 12
# counts skip in setup_file as a failure. So:
#
#   setup_file()    { peers; suite --nodes 4; }
#   setup()         { needs_cluster; }        or needs_peers
#   teardown()      { mend; }
#   teardown_file() { cluster_down; }

# peers [--mpi | --torch | --torchft | --frameworks | --spark | --ray]: sets PY, Python with Horovod (or with what
# the option says), and HERE, this folder. It is installed by install.sh, before
# the tests. Where that was not done, or was not possible, they are skipped; where
# it went wrong, they fail.
peers() {
    local install=$BATS_TEST_DIRNAME/install.sh dir status reason name what=Horovod
    case ${1-} in
    --torch) what=PyTorch ;;
    --torchft) what=torchft ;;
    --frameworks) what=frameworks ;;
    --spark) what=Spark ;;
    --ray) what=Ray ;;
    esac
    export PEERS_WHY='' CLUSTER_WHY=''
    dir=$("$install" "$@" --where) || return 1
    if ! "$install" "$@" --check; then
        if [[ ! -e $dir/why-not ]]; then
            PEERS_WHY="$what: not installed for this: make peers does it"
            return 0
        fi
        IFS=$'\t' read -r status reason <"$dir/why-not"
        PEERS_WHY="no $what: $reason"
        if [[ $status == 77 ]]; then return 0; fi
        echo "$PEERS_WHY" >&2
        return 1
    fi
    export PY=$dir/venv/bin/python HORUN=$dir/venv/bin/horovodrun HERE=$BATS_TEST_DIRNAME
    # Eight ranks on two cores import PyTorch for seconds, and then wait for each other in every collective: what mostly
    # takes 15 s has taken a minute.
    export OMP_NUM_THREADS=1 HVD_TEST_DEADLINE=180
    while IFS= read -r name; do unset "$name"; done < <(compgen -e HOROVOD_)
}

# suite [OPTION OF hvd-cluster up…]: after peers; brings a cluster up, if there can be one.
suite() {
    if [[ $PEERS_WHY ]]; then return 0; fi
    built || return 1
    if ((EUID != 0)) && ! sudo -n true 2>/dev/null; then
        CLUSTER_WHY="a cluster needs root"
    elif ! PATH=$PATH:/usr/sbin:/sbin command -v slurmctld >/dev/null; then
        CLUSTER_WHY="Slurm is not installed"
    elif [[ ! -e $B/lib/hvd.so ]]; then
        CLUSTER_WHY="there is no plugin in $B: make all, with Slurm's headers"
    else
        suite_up "$@"
    fi
}

needs_peers() {
    if [[ $PEERS_WHY ]]; then skip "$PEERS_WHY"; fi
}

needs_cluster() {
    needs_peers
    if [[ $CLUSTER_WHY ]]; then skip "$CLUSTER_WHY"; fi
}

mend() {
    if [[ ! $PEERS_WHY$CLUSTER_WHY ]]; then cluster_mend "$@"; fi
}

# on_this CMD…: runs CMD on this machine, with a deadline.
on_this() { timeout --kill-after=10 "$HVD_TEST_DEADLINE" "$@"; }

# info TEXT…: prints a line that the log of a test that passes also has.
info() { printf '# %s\n' "$@" >&3; }

# all_gone SECONDS MARK: within that time, no process on this machine has MARK on
# its command line.
none_has() { ! pgrep -f -- "$1" >/dev/null; }
all_gone() {
    wait_for "$1" none_has "$2" || { pgrep -af -- "$2" && return 1; }
}

# soon TIME SECONDS: TIME is at most SECONDS after the time at which the rank has printed "fails at".
soon() {
    local began
    # shellcheck disable=SC2154 # what run sets
    began=$(sed -nE 's/.*fails at ([0-9.]+)$/\1/p' <<<"$output")
    [[ $began ]] || { echo "no rank said that it fails: $output" && return 1; }
    awk -v a="$began" -v b="$1" -v limit="$2" 'BEGIN { exit !(b - a <= limit) }' ||
        { echo "ended at $1, the rank failed at $began: $output" && return 1; }
    info "ended $(awk -v a="$began" -v b="$1" 'BEGIN { printf "%.2f", b - a }') s after the failure"
}

# rank_2_failed HOST STATUS TEXT ENDED [SECONDS]: the launcher ended with this status, at this time, so soon (4) after
# rank 2 had failed there, and says so once.
rank_2_failed() {
    exits "$2"
    has "rank 2 on $1 failed first: $3"
    [[ $(grep -c "failed first" <<<"$output") -eq 1 ]]
    soon "$4" "${5-4}"
}
