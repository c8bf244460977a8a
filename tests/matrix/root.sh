#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# root.sh - root file systems of other releases of Debian, for make matrix: made by debootstrap, and kept.
#
#     root.sh SUITE                 make the root of SUITE (trixie, sid, ...), or bring it up to date when it is old
#     root.sh --anew SUITE          remove what is there first
#     root.sh --check SUITE         only say, by the exit status, whether it is there
#     root.sh --where               print the folder of all roots, and do nothing
#     root.sh --change SUITE DIR COMMAND [ARG...]
#                                   run COMMAND in it as root, with DIR visible as /mnt/source; what it writes stays
#
# They lie outside of this repository, some 2 GB each with what the tests need:
#
#     HVD_MATRIX_DIR, or /var/cache/hvd-roots for root,
#     or ${XDG_CACHE_HOME:-~/.cache}/hvd-roots
#
# The mirror is the one that this machine's own apt has for its release, or HVD_MATRIX_MIRROR. A SUITE whose name ends in
# -arm64 is that suite for arm64 (bookworm-arm64): it can be made and changed only within emulate.sh.
#
# A root is complete when DIR/SUITE/.ready is there. While it is being changed this is not so, and what is found
# incomplete is made anew. DIR/SUITE.lock is held meanwhile; who uses a root holds it shared.
#
# Exit status: 0 it is there, or the command's; 77 it cannot be had on this machine (no root, no network, ...), and
# standard error says why, as does DIR/SUITE.why-not; 1 something that should have worked did not; 2 wrong usage.
#
# HVD_MATRIX_DAYS   after so many days packages are brought up to date (7)

set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=SCRIPTDIR/../cache.bash
. "$HERE/../cache.bash"
job=''

usage() {
	sed -n 's/^# \{0,1\}//; 4,/^$/p' "$0" | sed 1,2d >&2
	exit 2
}

where() { echo "${HVD_MATRIX_DIR:-$(cache_dir hvd-roots)}"; }

say() { echo "$suite: $*" >&2; }

# give_up STATUS REASON
give_up() {
	say "$2"
	printf '%s\t%s\n' "$1" "$2" 2>/dev/null >"$dir/$suite.why-not" || true
	exit "$1"
}

# limited SECONDS COMMAND...: its output goes to the log. The shell waits in a way that a signal can interrupt; when the
# shell is killed, so is the command.
limited() {
	local status=0
	setpriv --pdeathsig KILL timeout --signal=KILL "$@" </dev/null >>"$log" 2>&1 &
	job=$!
	wait "$job" || status=$?
	job=
	return $status
}

stop() {
	if [[ $job ]]; then
		# What timeout runs ends when timeout ends.
		kill -KILL "$job" 2>/dev/null || true
		wait "$job" 2>/dev/null || true
	fi
	rm -rf --one-file-system "$dir/$suite.new"
}

# The mirror of this machine's own release. Security fixes and updates have others, without other suites.
mirror() {
	local id
	if [[ ${HVD_MATRIX_MIRROR-} ]]; then
		echo "$HVD_MATRIX_MIRROR"
		return
	fi
	# shellcheck disable=SC1091
	id=$(. /etc/os-release && echo "${ID-} ${VERSION_CODENAME-}")
	[[ $id == debian\ * ]] || return 0
	apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
		awk -v suite="${id#* }" '$2 == "main" && $1 == suite { print $3; exit }'
}

# What apt-get asks the network through.
proxy() {
	local P=''
	eval "$(apt-config shell P Acquire::http::Proxy)"
	echo "$P"
}

reachable() {
	local file
	for file in InRelease Release; do
		wget -q -O /dev/null --timeout=20 --tries=2 "${1%/}/dists/$release/$file" 2>/dev/null && return 0
	done
	return 1
}

# Documentation and translations are not needed; a root that was half written is made anew, so nothing is synced.
configure() {
	mkdir -p "$1/etc/dpkg/dpkg.cfg.d" "$1/etc/apt/apt.conf.d"
	cat >"$1/etc/dpkg/dpkg.cfg.d/hvd-matrix" <<'DPKG'
force-unsafe-io
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/man/*
DPKG
	cat >"$1/etc/apt/apt.conf.d/90hvd-matrix" <<APT
APT::Install-Recommends "false";
Acquire::Languages "none";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
${http_proxy:+Acquire::http::Proxy \"$http_proxy\";}
APT
}

make_root() {
	local from script new=$dir/$suite.new
	((EUID == 0)) || give_up 77 "making the root of another release needs root"
	for from in debootstrap wget unshare; do
		PATH=$PATH:/usr/sbin:/sbin command -v "$from" >/dev/null ||
			give_up 77 "$from is not installed here (scripts/install-deps --all)"
	done
	from=$(mirror)
	[[ $from ]] || give_up 77 "this machine's apt names no mirror of Debian, and HVD_MATRIX_MIRROR is not set"
	http_proxy=${http_proxy:-$(proxy)}
	if [[ $http_proxy ]]; then export http_proxy; else unset http_proxy; fi
	reachable "$from" || give_up 77 "the mirror of this machine's apt is out of reach, or has no $release"

	# A release that is newer than debootstrap is made as the newest that it knows.
	script=/usr/share/debootstrap/scripts/$release
	[[ -e $script ]] || script=/usr/share/debootstrap/scripts/sid

	say "making its root"
	rm -rf --one-file-system "${dir:?}/$suite" "$new"
	mkdir -p "$new"
	configure "$new"
	# With mounts and processes of its own, none of which stays, however this ends.
	limited $((slow * 1200)) setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --propagation private \
		env PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" \
		debootstrap ${arch:+--arch="$arch"} --variant=minbase --include=ca-certificates,git "$release" "$new" "$from" "$script" ||
		give_up "$(bootstrap_status)" "debootstrap has failed: $(why)"
	touch "$new/.ready"
	mv "$new" "$dir/$suite"
	say "its root is there, after $SECONDS s"
}

why() {
	grep -E '^(E|W): ' "$log" | tail -n 1 | grep . || tail -n 1 "$log"
}

# What cannot be fetched is the network's fault, what cannot be unpacked is not.
bootstrap_status() {
	if grep -qE "^E: (Couldn't download|Failed getting|Invalid Release|Couldn't find these)" "$log"; then
		echo 77
	else
		echo 1
	fi
}

# change COMMAND...: in the root, which is not ready meanwhile, nor afterwards if packages are left half installed.
change() {
	local status=0
	mv "$dir/$suite/.ready" "$dir/$suite/.changing"
	limited "$((slow * seconds))" "$HERE/enter.sh" "${bind[@]}" "$dir/$suite" "$@" || status=$?
	if [[ ! $("$HERE/enter.sh" --scratch "$dir/$suite" dpkg --audit 2>&1) ]]; then
		mv "$dir/$suite/.changing" "$dir/$suite/.ready"
	fi
	return $status
}

old() {
	[[ $(find "$dir/$suite/.ready" -mtime "+$((${HVD_MATRIX_DAYS:-7} - 1))") ]]
}

upgrade() {
	say "bringing its packages up to date"
	# shellcheck disable=SC2016
	if seconds=1200 change sh -c 'export DEBIAN_FRONTEND=noninteractive
		printf "#!/bin/sh\nexit 101\n" >/usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d
		apt-get -q -o APT::Update::Error-Mode=any update && apt-get -q -y dist-upgrade; status=$?
		apt-get clean
		rm -f /usr/sbin/policy-rc.d
		exit $status'; then
		touch "$dir/$suite/.ready"
	elif [[ -e $dir/$suite/.ready ]]; then
		say "cannot be brought up to date, and stays as it is: $(why)"
	else
		make_root
	fi
}

ready() { [[ -e $dir/$suite/.ready ]]; }

main() {
	local mode=make bind=() slow=1 seconds=2700
	case ${1-} in
	--where) where && return 0 ;;
	--check | --anew | --change) mode=${1#--} && shift ;;
	-*) usage ;;
	esac
	suite=${1-}
	[[ $suite =~ ^[a-z][a-z0-9.-]*$ ]] || usage
	release=${suite%-arm64} arch=''
	if [[ $release != "$suite" ]]; then arch=arm64; fi
	# Emulated, each program takes its time.
	if [[ $arch && $(uname -m) != aarch64 ]]; then slow=4; fi
	shift
	dir=$(where)
	if [[ $mode == check ]]; then ready && return 0 || return 1; fi
	[[ $mode != change ]] || (($# >= 2)) || usage

	if ! mkdir -p "$dir" 2>/dev/null; then say "cannot make the folder $dir" && return 77; fi
	exec {lock}>"$dir/$suite.lock"
	flock -w 1800 "$lock" || { say "another run has been at it for half an hour" && return 1; }
	umask 022
	log=$dir/$suite.log
	trap stop EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM

	if [[ $mode == change ]]; then
		ready || { say "its root is not complete" && return 1; }
		bind=(--bind "$(readlink -f "$1"):/mnt/source")
		shift
		: >"$log"
		change "$@"
		return
	fi
	if [[ $mode == make ]] && ready; then
		if ((EUID == 0)) && old; then : >"$log" && upgrade; fi
		return 0
	fi
	: >"$log"
	rm -f "$dir/$suite.why-not"
	make_root
}

main "$@"
