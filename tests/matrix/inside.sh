#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# inside.sh - make matrix, within the root of another release: what a newcomer to it would do with a clone.
#
#     inside.sh [--built VARIABLES] [-j N] [FILE...]
#
# Clones /mnt/source, installs what is missing, builds, puts the programs in /mnt/out/hvd in the place of those that it has
# built, and runs the unit tests and the FILEs (tests/cluster/...), without a FILE all tests and that of the Debian packages; N of
# their files side by side. With FILEs the unit tests are built without optimizing, and those are left out that depend on no
# release. In /mnt/out are afterwards: facts (versions), problems (steps that have failed), a log for each step, and tests, the
# folder of logs and results of tests/run.

# --built: the clone was built elsewhere by make with these VARIABLES, and is in /mnt/out/hvd.tar. All is in place, but the
# machine is a slow one: tests have more time, and of the unit tests only the programs run.

set -uo pipefail

out=/mnt/out
side=() built='' variables=()
if [[ ${1-} == --built ]]; then
	built=1
	read -ra variables <<<"$2"
	shift 2
fi
if [[ ${1-} == -j ]]; then side=("JOBS=$2") && shift 2; fi
if [[ $built && ! ${side[*]} ]]; then side=(JOBS=2); fi

# problem WHAT REASON: a step that has failed counts as a test that has.
problem() {
	printf 'fail\t(%s)\t%s\t%s\n' "$1" "$1" "$2" >>"$out/problems"
	echo "FAIL $1: $2"
	exit 1
}

# version PACKAGE: without the distribution's own part.
version() {
	dpkg-query -W -f '${db:Status-Status} ${Version}\n' "$1" 2>/dev/null |
		sed -nE 's/^installed ([0-9]+:)?//; T; s/-[^-]*$//; s/[+](dfsg|really|ds)[^-]*$//; p'
}

facts() {
	# shellcheck disable=SC1091
	echo "os $(. /etc/os-release && echo "$PRETTY_NAME")"
	echo "arch $(uname -m)"
	echo "plugin $(sha256sum <"$([[ $built ]] && echo build/lib/hvd.so || echo "$out/hvd/lib/slurm/hvd.so")" | cut -c 1-12)"
	echo "slurm $(slurmctld -V | sed 's/^slurm[^ ]* //')"
	echo "gcc $(gcc -dumpfullversion)"
	echo "munge $(version libmunge2)"
	echo "hwloc $(version libhwloc-dev)"
	echo "gloo $(version libgloo-dev)"
	echo "openmpi $(version openmpi-bin)"
	echo "mpich $(version mpich)"
	echo "python $(version python3)"
	echo "pytorch $(version python3-torch)"
	echo "horovod $(sed -n 's/^\(mpi \)\{0,1\}\([0-9.]*\) .*/\2/p' /var/cache/hvd-peers/ready 2>/dev/null)"
}

# logged STEP COMMAND...
logged() {
	"${@:2}" >"$out/$1.log" 2>&1 </dev/null
}

# The line of a log that tells most.
told() {
	grep -iE '(^|[^a-z])(error|fatal|E):|\*\*\*' "$out/$1.log" | head -n 1 | grep . || tail -n 1 "$out/$1.log"
}

: >"$out/problems"
if [[ $built ]]; then
	logged clone tar -x -f "$out/hvd.tar" -C /usr/src --no-same-owner || problem clone "$(told clone)"
	cd /usr/src/hvd || exit 1
	facts >"$out/facts" 2>/dev/null
	# Not by make, whose rules would look at each source.
	export B=build MAKEFLAGS="${variables[*]}" HVD_TEST_LIMIT=900 HVD_TEST_LIMIT_BATS=3600 HVD_TEST_PATIENCE=6 HVD_TEST_FLAKY=20
	tests=(tests/run -j "${side[0]#JOBS=}" build/tests/unit/test_* "$@")
else
	logged clone git -c advice.detachedHead=false clone /mnt/source /usr/src/hvd || problem clone "$(told clone)"
	cd /usr/src/hvd || exit 1
	logged deps ./scripts/install-deps --test || problem deps "$(told deps)"
	facts >"$out/facts" 2>/dev/null

	quick=()
	if (($#)); then quick=(OPT=-O0 HARDEN=); fi
	export MAKEFLAGS="${quick[*]}"
	logged build timeout --kill-after=10 1200 make -j"$(nproc)" all units || problem build "$(told build)"
	# One build serves all roots. The copies are newer than what they are made of, so make leaves them as they are.
	{
		cp -r "$out/hvd/bin/." build/bin && cp -r "$out/hvd/libexec/hvd/." build/libexec/hvd &&
			cp "$out/hvd/lib/slurm/hvd.so" build/lib
	} || problem build "there are no programs to test"
	only=("peers_bats=$(echo tests/peers/*.bats) tests/packages/deb.bats")
	if (($#)); then
		only=("unit_bats=$(printf '%s\n' tests/unit/*.bats | grep -vE '/(run|matrix|documents|.*_scale)\.bats$' | xargs)" \
			"cluster_bats=$*" "peers_bats=")
	fi
	# Horovod has been installed before, or cannot be had.
	tests=(make -j"$(nproc)" PEERS=no "${side[@]}" "${only[@]}" check-all)
fi

# The logs of tests are outside of this root, whatever becomes of it.
mkdir -p "$out/tests" build/test-logs
mount --bind "$out/tests" build/test-logs || problem tests "cannot mount the folder of logs"
"${tests[@]}" </dev/null 2>&1 | tee "$out/tests.log" | grep --line-buffered -E '^(ok|FAIL) '
[[ -s $out/tests/results || $(compgen -G "$out/tests/*.results") ]] || problem tests "no test has run: $(tail -n 1 "$out/tests.log")"
