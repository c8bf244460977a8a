#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install.sh - what tests/peers run against: Horovod itself, release 0.28.1 as PyPI has it, compiled with Gloo for
# Debian's PyTorch; and, each by an option, a present PyTorch, the frameworks beside it, and Spark.
#
# Each goes into a virtual environment of its own, outside of this repository:
#
#     HVD_PEERS_DIR, or /var/cache/hvd-peers for root, where the test cluster's users can read it,
#     or ${XDG_CACHE_HOME:-~/.cache}/hvd-peers
#
# When it is there already, this ends at once. Debian's packages are installed by apt-get as root or by sudo; Horovod
# takes some 700 MB of disk altogether, and some minutes of compiling.
#
# Exit status: 0 it is there; 77 it cannot be had on this machine (no root, no network, ...), and standard error says
# why; 1 something that should have worked did not. The reason is kept in DIR/why-not: the tests are skipped with it,
# or, after status 1, fail with it.
#
#     --where   print the folder, and do nothing
#     --check   only say, by the exit status, whether it is there
#     --anew    remove what is there first
#
# In front of these, what to install instead:
#
#     --mpi          a second Horovod, with Open MPI besides Gloo, in the folder DIR/mpi. Which of the two a worker of it
#                    uses is told by its environment; without a word it is MPI, so it is not what the other tests run
#     --torch        PyTorch for the CPU, in DIR/torch: 220 MB to fetch, 1 GB of disk
#     --torchft      torchft, in DIR/torchft, beside the PyTorch of --torch, which is installed, too: 10 MB to fetch
#     --frameworks   JAX, Lightning Fabric, accelerate, DeepSpeed and TensorFlow beside the same PyTorch, in
#                    DIR/frameworks: 700 MB to fetch, 3 GB of disk
#     --spark        Spark with its Python module, in DIR/spark, and Java: 500 MB to fetch, 600 MB of disk
#     --ray          Ray, in DIR/ray: 80 MB to fetch, 250 MB of disk
#     --all          all of these and Horovod, one after the other, whatever becomes of another
#
# PyPI's own PyTorch for Linux is the build for CUDA, 3 GB to fetch with the libraries that it loads. So the release is
# asked for as VERSION+cpu, which PyPI cannot have: first where pip is told to look (pip.conf, PIP_FIND_LINKS, ...), then
# at https://download.pytorch.org/whl/cpu. HVD_PEERS_TORCH=VERSION takes another build, PyPI's for example.
#
# HVD_PEERS_SOURCE=DIR, for this and for the tests: not the release, but the source tree in DIR, a clone of Horovod's
# repository for example, goes into a folder of its own (source, in those above). Submodules that are not checked out
# there are taken from the release. DIR is copied, and looked at again with --anew only.

set -euo pipefail

# shellcheck source=SCRIPTDIR/../cache.bash
. "$(dirname "${BASH_SOURCE[0]}")/../cache.bash"

TORCH=${HVD_PEERS_TORCH:-2.13.0+cpu}
TORCH_INDEX=https://download.pytorch.org/whl/cpu
BESIDE_TORCH="numpy psutil"
FRAMEWORKS="jax==0.10.2 lightning-fabric==2.6.6 accelerate==1.15.0 deepspeed==0.19.8 tensorflow-cpu==2.21.0"
TORCHFT=0.2.0
SPARK=${HVD_PEERS_SPARK:-4.3.0}
RAY=${HVD_PEERS_RAY:-2.60.0}
VERSION=0.28.1
SDIST_SHA256=92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0
PYTHON=/usr/bin/python3

# What must be there, and Debian's package that has it.
needs() {
	if [[ $kind == @(torch|torchft|frameworks|spark|ray) ]]; then
		echo "py:venv,ensurepip python3-venv"
		[[ $kind != spark ]] || echo "cmd:java default-jre-headless"
		return
	fi
	cat <<'NEEDS'
cmd:cmake                         cmake
cmd:make                          make
cmd:g++                           g++
py:venv,ensurepip                 python3-venv
py:torch                          python3-torch
py:cffi                           python3-cffi
py:cloudpickle                    python3-cloudpickle
py:packaging                      python3-packaging
py:psutil                         python3-psutil
py:setuptools                     python3-setuptools
py:wheel                          python3-wheel
py:yaml                           python3-yaml
file:/usr/include/python3.*/Python.h          python3-dev
file:/usr/include/pybind11/pybind11.h         pybind11-dev
file:/usr/include/torch/csrc/api/include/torch/torch.h  libtorch-dev
NEEDS
	[[ $kind != mpi ]] || echo "\
cmd:mpicxx.openmpi                libopenmpi-dev
cmd:mpirun.openmpi                openmpi-bin"
}

where() {
	local source=${HVD_PEERS_SOURCE:+/source}
	[[ $kind != @(torch|torchft|frameworks|spark|ray) ]] || source=
	realpath -m "${HVD_PEERS_DIR:-$(cache_dir hvd-peers)$source}${kind:+/$kind}"
}

say() { echo "peers: $*" >&2; }

# give_up STATUS REASON
give_up() {
	say "$2"
	printf '%s\t%s\n' "$1" "$2" 2>/dev/null >"$dir/why-not" || true
	exit "$1"
}

# Somewhere else than in a folder with modules of such names, of which the caller's may be one.
python() { (cd / && "$PYTHON" "$@"); }

met() {
	local what=${1#*:}
	case $1 in
	cmd:*) command -v "$what" >/dev/null ;;
	py:*) python -c "import $what" 2>/dev/null ;;
	file:*) compgen -G "$what" >/dev/null ;;
	esac
}

missing() {
	local what package
	while read -r what package; do
		met "$what" || echo "$package"
	done < <(needs)
}

as_root() {
	if ((EUID == 0)); then
		"$@"
	else
		sudo -n "$@"
	fi
}

apt() {
	as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l timeout 600 apt-get -q -o Acquire::Retries=3 \
		-o Acquire::http::Timeout=30 -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120 "$@" </dev/null
}

packages() {
	local wanted status=0
	[[ -x $PYTHON ]] || give_up 77 "Debian's Python is needed, and there is no $PYTHON here"
	mapfile -t wanted < <(missing)
	((${#wanted[@]})) || return 0
	command -v apt-get >/dev/null || give_up 77 "no apt-get here, and what is needed is not installed: ${wanted[*]}"
	((EUID == 0)) || sudo -n true 2>/dev/null ||
		give_up 77 "installing Debian's packages needs root: ${wanted[*]}"
	say "installing ${wanted[*]}"
	apt update >>"$log" 2>&1 || true
	apt install -y --no-install-recommends "${wanted[@]}" >>"$log" 2>&1 || status=$?
	((status != 124)) || give_up 77 "apt-get does not install ${wanted[*]} within ten minutes; see $log"
	((status == 0)) || give_up 77 "apt-get cannot install ${wanted[*]}: $(grep -E '^E: ' "$log" | tail -n 1)"
	mapfile -t wanted < <(missing)
	((${#wanted[@]} == 0)) || give_up 1 "installed, but still not found: ${wanted[*]}"
}

# The same Python as Debian's PyTorch, and nothing of what the caller has set up for another one.
pip() {
	env -u PYTHONPATH -u PYTHONHOME PATH="$dir/venv/bin:/usr/local/bin:/usr/bin:/bin" \
		timeout "$seconds" "$dir/venv/bin/python" -m pip --disable-pip-version-check --no-input "$@" \
		</dev/null >>"$log" 2>&1
}

# A copy of HVD_PEERS_SOURCE in $dir/tree, made whole.
source_tree() {
	local part whole
	[[ -e $HVD_PEERS_SOURCE/setup.py ]] || give_up 1 "HVD_PEERS_SOURCE=$HVD_PEERS_SOURCE is no source tree of Horovod"
	mkdir -p "$dir/tree" "$dir/release"
	cp -a "$HVD_PEERS_SOURCE/." "$dir/tree"
	tar -xzf "$dir/sdist/horovod-$VERSION.tar.gz" -C "$dir/release" --strip-components=1
	for part in "$dir"/tree/third_party/* "$dir"/tree/third_party/*/*; do
		whole=$dir/release${part#"$dir/tree"}
		if [[ -d $part && -d $whole ]] && rmdir "$part" 2>/dev/null; then cp -a "$whole" "$part"; fi
	done
	rm -rf "$dir/release"
}

# torch_is MAJOR MINOR: PyTorch is of that release or a later one.
torch_is() {
	python -c 'import sys, torch
sys.exit(tuple(map(int, torch.__version__.split(".")[:2])) < tuple(map(int, sys.argv[1:])))' "$@"
}

# The release, unpacked in $dir/tree.
release_tree() {
	mkdir -p "$dir/tree"
	tar -xzf "$dir/sdist/horovod-$VERSION.tar.gz" -C "$dir/tree" --strip-components=1
}

# Horovod 0.28.1 is of 2023. PyTorch's headers have asked for C++17 since 2.1 and Horovod asks for C++14; and its
# flatbuffers assigns to a constant member in a template that nobody uses, which GCC takes for an error from 14 on.
renew_tree() {
	torch_is 2 1 || return 0
	sed -i 's/set(CMAKE_CXX_STANDARD 14)/set(CMAKE_CXX_STANDARD 17)/' "$dir/tree/CMakeLists.txt" \
		"$dir/tree/horovod/torch/CMakeLists.txt"
	sed -i 's/const size_type count_;/size_type count_;/' \
		"$dir/tree/third_party/flatbuffers/include/flatbuffers/stl_emulation.h"
}

horovod() {
	local seconds status=1
	"$PYTHON" -m venv --system-site-packages "$dir/venv" >>"$log" 2>&1 || give_up 1 "no virtual environment; see $log"

	echo "horovod==$VERSION --hash=sha256:$SDIST_SHA256" >"$dir/requirements"
	seconds=120 pip download --no-deps --no-binary :all: --no-build-isolation --require-hashes -r "$dir/requirements" \
		-d "$dir/sdist" || give_up 77 "Horovod cannot be fetched from PyPI: $(grep -E '^ *ERROR: ' "$log" | tail -n 1)"

	# Horovod asks for -O3 -g, which takes twice as long to compile. Its setup.py has no way to say otherwise but
	# another cmake: the settings come before the others, and only where it configures. Horovod and its Gloo use
	# <stdexcept> and <cstdint> in files that do not include them, and from GCC 13 on no other header does so for them.
	cat >"$dir/cmake" <<-'WRAPPER'
		#!/bin/sh
		case $1 in
		--*) exec cmake "$@" ;;
		*) exec cmake '-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -DNDEBUG -include stdexcept -include cstdint' \
			-DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DMPI_CXX_COMPILER=mpicxx.openmpi "$@" ;;
		esac
	WRAPPER
	chmod 755 "$dir/cmake"
	if [[ $kind == mpi ]]; then export HOROVOD_WITH_MPI=1; else export HOROVOD_WITHOUT_MPI=1; fi
	if [[ ${HVD_PEERS_SOURCE-} ]]; then source_tree; else release_tree; fi
	renew_tree
	# What is newer than 2.6 has never been seen to work with it: then it is no fault here that it does not.
	if torch_is 2 7; then status=77; fi
	say "compiling Horovod $VERSION (some minutes); the log: $log"
	seconds=1800 HOROVOD_CMAKE=$dir/cmake MAKEFLAGS=-j$(nproc) \
		HOROVOD_WITH_GLOO=1 HOROVOD_WITH_PYTORCH=1 \
		HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 \
		pip install --verbose --no-deps --no-build-isolation "$dir/tree" ||
		give_up $status "Horovod $VERSION does not compile here: $(grep -E ' error: |rror [0-9]+$' "$log" | head -n 1); see $log"
	(cd / && timeout 60 "$dir/venv/bin/python" -c 'import horovod.torch as hvd
assert hvd.gloo_built() and hvd.mpi_built() == ("'"$kind"'" == "mpi")' </dev/null >>"$log" 2>&1) ||
		give_up $status "Horovod is installed, but does not work; see $log"
}

# pip_gets WHAT ARGUMENT...: pip install; nothing that is missing on the index or the way there is a fault of this machine.
pip_gets() {
	local what=$1 began status=0
	shift
	began=$(wc -l <"$log")
	pip install --retries 2 "$@" || status=$?
	((status)) || return 0
	((status != 124)) || give_up 77 "$what cannot be fetched within ${seconds} s; see $log"
	! tail -n "+$((began + 1))" "$log" | grep -qE 'ERROR: (No matching distribution|Could not (find|install).*(version|HTTP|Connection))|HTTPSConnectionPool' ||
		give_up 77 "$what cannot be fetched: $(grep -E '^ *ERROR: ' "$log" | tail -n 1)"
	give_up 1 "$what does not install: $(grep -E '^ *ERROR: ' "$log" | tail -n 1); see $log"
}

# What is in the virtual environment already is left there: pip finds what is missing.
torch() {
	local seconds=900
	[[ -x $dir/venv/bin/python ]] || "$PYTHON" -m venv "$dir/venv" >>"$log" 2>&1 ||
		give_up 1 "no virtual environment; see $log"
	say "installing PyTorch $TORCH; the log: $log"
	# Alone first: with no other package in the question, it can be said where this one comes from.
	pip install --retries 2 --no-deps "torch==$TORCH" ||
		pip install --retries 2 --no-deps --index-url "$TORCH_INDEX" "torch==$TORCH" ||
		give_up 77 "PyTorch $TORCH is neither where pip looks nor to be had from $TORCH_INDEX: $(grep -E '^ *ERROR: ' "$log" | tail -n 1)"
	# shellcheck disable=SC2086
	pip_gets "what PyTorch needs" "torch==$TORCH" $BESIDE_TORCH
}

# torchft asks for PyTorch, and finds that of --torch through a path: a second one would be a gigabyte more.
torchft() {
	local seconds=600 python torch
	torch=${dir%/*}/torch
	"${BASH_SOURCE[0]}" --torch || give_up $? "torchft needs PyTorch, which is not in $torch"
	"$PYTHON" -m venv "$dir/venv" >>"$log" 2>&1 || give_up 1 "no virtual environment; see $log"
	python=$(basename "$dir"/venv/lib/python3*)
	echo "$torch/venv/lib/$python/site-packages" >"$dir/venv/lib/$python/site-packages/torch.pth"
	say "installing torchft $TORCHFT; the log: $log"
	pip_gets "torchft $TORCHFT" "torchft==$TORCHFT" "torch==$TORCH"
}

frameworks() {
	local seconds=900
	torch
	say "installing $FRAMEWORKS"
	# DeepSpeed comes as source: its setup.py looks at the PyTorch and the setuptools that are there.
	pip_gets "setuptools" setuptools wheel
	# shellcheck disable=SC2086
	pip_gets "$FRAMEWORKS" --no-build-isolation "torch==$TORCH" $FRAMEWORKS
}

# What pip would build of it is a copy of the same size, which is not kept.
spark() {
	local seconds=600
	"$PYTHON" -m venv "$dir/venv" >>"$log" 2>&1 || give_up 1 "no virtual environment; see $log"
	say "installing Spark $SPARK; the log: $log"
	pip_gets "pyspark $SPARK" --no-cache-dir "pyspark==$SPARK"
	# Java may be there, and be older than this Spark takes.
	env -u SPARK_HOME -u PYSPARK_DRIVER_PYTHON PYSPARK_PYTHON="$dir/venv/bin/python" timeout 60 \
		"$dir/venv/bin/spark-submit" --version </dev/null >>"$log" 2>&1 ||
		give_up 77 "Spark $SPARK does not start with this Java: $(java -version 2>&1 | head -n 1); see $log"
}

ray() {
	local seconds=600
	"$PYTHON" -m venv "$dir/venv" >>"$log" 2>&1 || give_up 1 "no virtual environment; see $log"
	say "installing Ray $RAY; the log: $log"
	pip_gets "Ray $RAY" "ray==$RAY"
}

# To look for garbage while PyTorch is imported takes a tenth of that time, and each rank of each test imports it.
collect_rarely() {
	local site
	for site in "$dir"/venv/lib/python3*/site-packages; do
		[[ ! -w $site ]] || echo 'import gc; gc.set_threshold(100000)' >"$site/collect_rarely.pth"
	done
}

# imports MODULE...
imports() {
	(cd / && timeout 120 "$dir/venv/bin/python" -c "import $*" </dev/null >>"$log" 2>&1) ||
		give_up 1 "installed, but import $* fails; see $log"
}

# Another Horovod, another PyTorch, another Python: to be built anew.
recipe() {
	case $kind in
	torch) echo "torch $TORCH $BESIDE_TORCH $("$PYTHON" -V 2>/dev/null || true)" && return ;;
	torchft) echo "torchft $TORCHFT torch $TORCH $("$PYTHON" -V 2>/dev/null || true)" && return ;;
	frameworks) echo "torch $TORCH $BESIDE_TORCH $FRAMEWORKS $("$PYTHON" -V 2>/dev/null || true)" && return ;;
	spark) echo "spark $SPARK $("$PYTHON" -V 2>/dev/null || true)" && return ;;
	ray) echo "ray $RAY $("$PYTHON" -V 2>/dev/null || true)" && return ;;
	esac
	echo "${HVD_PEERS_SOURCE:+$HVD_PEERS_SOURCE }${kind:+$kind }$VERSION $SDIST_SHA256 $(dpkg-query -W -f '${Package} ${Version} ' python3-torch python3 2>/dev/null || true)"
}

ready() { [[ -e $dir/ready && $(<"$dir/ready") == "$(recipe)" ]]; }

# each [OPTION]: what main does, for each kind; the status is the gravest: 1, then 77.
each() {
	local option status worst=0
	for option in --torch --torchft --frameworks --spark --ray "" --mpi; do
		status=0
		# shellcheck disable=SC2086
		"${BASH_SOURCE[0]}" $option "$@" || status=$?
		if ((status && worst != 1)); then worst=$status; fi
	done
	return $worst
}

main() {
	local anew=''
	if [[ ${1-} == --all ]]; then
		each "${@:2}"
		return
	fi
	kind=''
	if [[ ${1-} == --@(mpi|torch|torchft|frameworks|spark|ray) ]]; then kind=${1#--} && shift; fi
	dir=$(where)
	case ${1-} in
	'') ;;
	--where) echo "$dir" && return 0 ;;
	--check) ready && return 0 || return 1 ;;
	--anew) anew=1 ;;
	*)
		sed -n 's/^# \{0,1\}//; 3,/^$/p' "$0" >&2
		return 2
		;;
	esac
	if [[ ! $anew ]] && ready; then
		collect_rarely
		return 0
	fi

	mkdir -p "$dir" 2>/dev/null || { say "cannot make the folder $dir" && exit 77; }
	exec {lock}>"$dir/lock"
	flock -w 900 "$lock" || { say "another run is still at it" && exit 1; }
	if [[ ! $anew ]] && ready; then return 0; fi

	umask 022
	chmod 755 "$dir"
	log=$dir/install.log
	if [[ $anew || $kind != @(torch|frameworks) || -e $dir/ready ]]; then rm -rf "$dir/venv"; fi
	rm -rf "$dir/sdist" "$dir/tree" "$dir/ready" "$dir/why-not"
	: >"$log"
	packages
	case $kind in
	torch) torch && imports torch.distributed ;;
	torchft) torchft && imports torchft ;;
	spark) spark && imports pyspark ;;
	ray) ray && imports ray ;;
	frameworks)
		frameworks
		imports torch.distributed, jax, lightning_fabric, accelerate, deepspeed
		imports tensorflow
		;;
	*) horovod ;;
	esac
	collect_rarely
	recipe >"$dir/ready"
	say "$(cut -d ' ' -f 1-2 "$dir/ready") is in $dir, after $SECONDS s"
}

main "$@"
