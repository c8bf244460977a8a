#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# emulate.sh - run a command, and let this machine run programs of arm64 meanwhile, by qemu-user.
#
#     emulate.sh COMMAND [ARG...]
#
# The kernel finds qemu-aarch64-static by an entry of binfmt_misc that names its file as it is outside of any root. The entry
# is this command's own, beside those that others have registered, and ends with it and all that it has started.
#
# Exit status: the command's; 77 when this machine cannot do it, and standard error says why.

set -euo pipefail

skip() { echo "$*" >&2 && exit 77; }

(($#)) || { echo "usage: emulate.sh COMMAND [ARG...]" >&2 && exit 2; }
[[ $(uname -m) != aarch64 ]] || exec "$@"
((EUID == 0)) || skip "to run programs of arm64 needs root"
if [[ ${1-} != --mounted ]]; then
	command -v qemu-aarch64-static >/dev/null || skip "qemu-user-static is not installed here (scripts/install-deps --arm64)"
	exec unshare --mount --propagation private "$0" --mounted "$@"
fi
shift

at=/proc/sys/fs/binfmt_misc
mount -t binfmt_misc binfmt_misc "$at" || skip "binfmt_misc cannot be mounted here"
entry=hvd-arm64-$$
# An ELF file for aarch64. P: argv[0] stays as it is. F: the interpreter is opened now, so roots need no copy of it.
# Of Debian's packages the program whose name ends so takes P into account; others find out by themselves.
qemu=/usr/libexec/qemu-binfmt/aarch64-binfmt-P
[[ -x $qemu ]] || qemu=$(command -v qemu-aarch64-static)
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf ':%s:M::%s:%s:%s:OPF' "$entry" "$magic" "$mask" "$qemu" >"$at/register" || skip "binfmt_misc accepts no entry here"

# The command takes this process's place. The entry goes when the last process that the command has started has ended, however
# that was: until then this pipe has somebody at its other end. Who waits there is no child of the command, which may wait for
# all of its children.
exec 9> >({
	trap '' HUP INT TERM
	exec >/dev/null 2>&1
	cd / && cat && echo -1 >"$at/$entry"
} <&0 &)
exec "$@"
