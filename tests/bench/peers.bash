# shellcheck shell=bash
# What benchmarks with real Horovod or PyTorch share. TOP is the root of the sources, B the build, VENV the Python with
# Horovod, or with what the option of tests/peers/install.sh in PEERS installs.

BENCH=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOP=$(cd "$BENCH/../.." && pwd)
B=$(cd "$TOP" && realpath "${B:-build}")
# shellcheck disable=SC2086
"$TOP/tests/peers/install.sh" ${PEERS-} --check || {
	echo "$(basename "$0" .sh): skipped: tests/peers/install.sh ${PEERS-} has not installed what it needs: make peers"
	exit 0
}
# shellcheck disable=SC2034,SC2086 # for the benchmarks
VENV=$("$TOP/tests/peers/install.sh" ${PEERS-} --where)/venv
export OMP_NUM_THREADS=1

# bench_cluster: a cluster of four nodes that sshd runs on, and whose login host is on all networks, for horovodrun cannot
# do without. It goes when the benchmark ends, as the folder RESULTS does.
bench_cluster() {
	export B HVD_PATH="$B/bin" HVD_CLUSTER_NAME=bench$$ HVD_TEST_DEADLINE=3600
	# shellcheck source=tests/cluster/helpers.bash
	source "$TOP/tests/cluster/helpers.bash"
	# shellcheck source=tests/cluster/launch.bash
	source "$TOP/tests/cluster/launch.bash"
	# shellcheck source=tests/cluster/sshd.bash
	source "$TOP/tests/cluster/sshd.bash"
	sshd_can || { echo "$(basename "$0" .sh): OpenSSH is not installed" >&2 && exit 1; }
	RESULTS=$(mktemp -d)
	trap 'cluster down >/dev/null 2>&1 || true; rm -rf "$RESULTS"' EXIT
	cluster up --nodes 4 --login-ib --plugin "$B/lib/hvd.so:libexecdir=$B/libexec/hvd" >/dev/null
	sshd_prepare hvdn1 hvdn2 hvdn3 hvdn4
}
