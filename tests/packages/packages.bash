# shellcheck shell=bash
# What the tests of packages share: a copy of a root folder, into which they can be installed.
#
# PACKAGES_ROOT is the root that is copied (this machine's). The copy is an overlay: nothing in the root itself changes,
# and what has changed in the copy is the upper layer.

SRC=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
: "${PACKAGES_ROOT:=/}"
# shellcheck disable=SC2034 # for the tests
VERSION=$(sed -n 's/^VERSION *:= *//p' "$SRC/Makefile")

# copy_up: $COPY is the copy, $UPPER what differs in it. The layers are on a tmpfs of their own, for an overlay cannot
# have its upper layer within the lower one.
copy_up() {
	((EUID == 0)) || skip "a copy of a root folder needs root"
	LAYERS=$BATS_FILE_TMPDIR/layers
	export COPY=$LAYERS/root UPPER=$LAYERS/upper LAYERS
	mkdir -p "$LAYERS"
	mount -t tmpfs -o size=2g tmpfs "$LAYERS"
	mkdir "$COPY" "$UPPER" "$LAYERS/work"
	mount -t overlay -o "lowerdir=$PACKAGES_ROOT,upperdir=$UPPER,workdir=$LAYERS/work" overlay "$COPY" 2>&1 ||
		skip "this kernel does not allow an overlay on $PACKAGES_ROOT"
}

copy_down() {
	[[ ${LAYERS-} ]] || return 0
	umount -l "$COPY" 2>/dev/null || true
	umount -l "$LAYERS" 2>/dev/null || true
}

# in_copy CMD…: as root in the copy; what it started ends with it. The tree is at /build there, if $BUILD is set.
in_copy() {
	unshare --mount --pid --fork --kill-child --propagation private bash -c '
		set -e
		mount -t proc proc "$1/proc"
		mount --rbind /dev "$1/dev"
		mount -t tmpfs tmpfs "$1/tmp"
		if [[ $2 ]]; then
			mkdir "$1/tmp/build"
			mount --bind "$2" "$1/tmp/build"
		fi
		cd "$1"
		exec chroot . env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 \
			DEBIAN_FRONTEND=noninteractive "${@:3}"' in_copy "$COPY" "${BUILD-}" "$@"
}

# build_tree: the committed sources in $BUILD, as a release has them, for a user without rights.
build_tree() {
	export BUILD=$BATS_FILE_TMPDIR/tree
	mkdir -p "$BUILD"
	git -C "$SRC" archive HEAD | tar -x -C "$BUILD"
	chown -R 65534:65534 "$BUILD"
}

as_nobody() { in_copy setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }

# assert_unchanged: nothing in the copy differs from its root but what package managers remember.
assert_unchanged() {
	local changed
	changed=$(cd "$UPPER" && find . \( -type f -o -type l -o -type c \) |
		grep -vE '^\./(var/(lib/(dpkg|apt|rpm|systemd)|cache|log)|tmp|etc/ld\.so\.cache|build)' || true)
	[[ -z $changed ]] || { echo "left behind: $changed" && return 1; }
}

# portable TARGET: make it in $BATS_FILE_TMPDIR, with the compiler and the libraries that earlier builds have left in $B.
portable() {
	local log=$BATS_FILE_TMPDIR/$1.log
	make -C "$SRC" B="$BATS_FILE_TMPDIR" PORTABLE="$B/portable" "$1" >"$log" 2>&1 || { cat "$log" && return 1; }
}

# assert_portable FOLDER: the programs and the plugin in it need no library but glibc's, and no symbol that glibc got after 2.28.
assert_portable() {
	local file what programs
	mapfile -t programs < <(find "$1" -type f -exec sh -c 'head -c 4 "$1" | grep -q ELF' sh {} \; -print)
	((${#programs[@]} >= 6)) || { echo "too few programs: ${programs[*]}" && return 1; }
	for file in "${programs[@]}"; do
		what=$(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
			grep -vE '^(ld-linux-.*|lib(c|m|dl|rt|pthread|resolv))\.so' || true)
		[[ ! $what ]] || { echo "$file needs $what" && return 1; }
		what=$(readelf -V "$file" | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1)
		[[ $(printf '%s\n' "$what" GLIBC_2.28 | sort -V | tail -n 1) == GLIBC_2.28 ]] || { echo "$file needs $what" && return 1; }
		! readelf -d "$file" | grep -E 'RPATH|RUNPATH' || { echo "$file has the path of a library" && return 1; }
	done
}
