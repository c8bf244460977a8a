# shellcheck shell=bash
# What soak.sh and soak_faults.sh share: a cluster that lasts as long as the script.
# B is the build folder; work is a folder for the script's files, which goes with the cluster.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cluster=$here/../../scripts/cluster/hvd-cluster
B=$(cd "$here/../.." && cd "${B:-build}" && pwd) || exit 2
export HVD_PATH=$B/bin HVD_CLUSTER_NAME=soak$$
work=$(mktemp -d) || exit 1

# on HOST USER CMD…: with 90 seconds for the command; a launch takes a fraction of one.
on() {
    local host=$1 user=$2
    shift 2
    timeout --kill-after=5 90 "$cluster" exec --host "$host" --user "$user" -- "$@"
}

finish() {
    timeout 120 "$cluster" down
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# soak_up [OPTION OF hvd-cluster up…]
soak_up() {
    timeout 120 "$cluster" up --srun-port-range 20000-20999 \
        --plugin "$B/lib/hvd.so:libexecdir=$B/libexec/hvd" "$@" || exit 1
}
