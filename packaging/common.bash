# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# What the scripts that make packages share. They are run by make, at the top of the tree, with B, VERSION and REVISION.

set -euo pipefail
umask 022

# Where all of it goes.
out=$(mkdir -p "$B/packages" && cd "$B/packages" && pwd)

fail() {
	printf '%s: %s\n' "$(basename "$0")" "$1" >&2
	exit 1
}

# fail_with LOG WHAT: what has failed, with the end of its log.
fail_with() {
	tail -n 30 "$1" >&2
	fail "$2, see $1"
}

# tool PROGRAM…
tool() {
	local name
	for name; do
		command -v "$name" >/dev/null || fail "$name is not installed: scripts/install-deps --package"
	done
}

# What is missing is named here, by packages, and not by the first compiler error.
need() {
	local missing
	missing=$(scripts/install-deps "$@" --print) && return 0
	fail "something that packaging needs is missing. scripts/install-deps $* installs it:
    $missing"
}

say_what_is_left_out() {
	[[ -z $(git status --porcelain --untracked-files=no) ]] ||
		echo "$(basename "$0"): changes that are not committed are not in the package" >&2
}

# export_source DIR: what is committed, or, in a released tree, all of it; also sets SOURCE_DATE_EPOCH, so that the same
# commit makes the same package.
export_source() {
	rm -rf "$1"
	mkdir -p "$1"
	if [[ -e .git ]]; then
		git archive HEAD | tar -x -C "$1"
		SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
		say_what_is_left_out
	else
		tar -c --exclude='./build*' . | tar -x -C "$1"
		SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(stat -c %Y NEWS)}
	fi
	export SOURCE_DATE_EPOCH
}

# Whoever makes the package; people outside of this tree publish it under their own name.
packager=${PACKAGER:-"hvd packagers <hvd@packages.invalid>"}
