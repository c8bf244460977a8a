#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# enter.sh - run a command as root in the root file system of another release.
#
#     enter.sh [--scratch] [--bind FROM:TO]... ROOT COMMAND [ARG...]
#
#     --scratch       what the command writes is kept in memory, and gone when it ends: ROOT stays as it is
#     --bind FROM:TO  the folder FROM of this machine is visible as TO
#
# The command has mounts and processes of its own and shares the machine's network. All that it has started ends with
# it, and the mounts with that, also when this script is killed: the first process in there gets SIGKILL when its parent
# ends. The working folder is /, the environment is empty but for PATH, HOME, USER, LANG, TERM and TMPDIR.
#
# Exit status: the command's; 125 when the root could not be entered.

set -euo pipefail

usage() { sed -n 's/^# \{0,1\}//; 4,/^$/p' "$0" | sed 1,2d >&2 && exit 125; }

scratch='' binds=()
while (($#)); do
	case $1 in
	--scratch) scratch=1 ;;
	--bind) binds+=("${2-}") && shift ;;
	-*) usage ;;
	*) break ;;
	esac
	shift
done
(($# >= 2)) || usage
root=$(readlink -f "$1")
shift
[[ -d $root/etc ]] || { echo "enter.sh: $root is no root file system" >&2 && exit 125; }

# Within the new namespaces, as their first process: the mounts, and then the command in their midst.
# shellcheck disable=SC2016 # for the shell in there
inside='
set -eu
root=$1 scratch=$2 binds=$3
shift 3
trap "exit 125" EXIT
if [ "$scratch" ]; then
	# /mnt is this namespace'"'"'s own; overlayfs wants its two folders on one file system.
	mount -t tmpfs -o mode=755 scratch /mnt
	mkdir /mnt/upper /mnt/work /mnt/root
	mount -t overlay -o "lowerdir=$root,upperdir=/mnt/upper,workdir=/mnt/work" scratch /mnt/root
	root=/mnt/root
else
	mount --bind "$root" "$root"
fi
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
for file in /etc/resolv.conf /etc/hosts; do
	if [ -e $file ]; then rm -f "$root$file" && cp -L $file "$root$file"; fi
done
while read -r bind; do
	if [ "$bind" ]; then mkdir -p "$root${bind#*:}" && mount --bind "${bind%%:*}" "$root${bind#*:}"; fi
done <<BINDS
$binds
BINDS
# As switch_root does: the new root over the old one.
cd "$root"
mount --move . /
trap - EXIT
exec chroot . env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root USER=root LANG=C.UTF-8 \
	TERM=dumb TMPDIR=/tmp "$@"'

# The caller may have ended before its end was a signal: then it is not the parent any more. unshare itself heeds no TERM.
# shellcheck disable=SC2016 # for the shell in there
exec setpriv --pdeathsig KILL bash -c '[[ $PPID == "$1" ]] || exit 125
	shift
	trap "" INT QUIT
	trap "kill -KILL \$!; exit 143" TERM
	setpriv --pdeathsig KILL env --default-signal=INT,QUIT "$@" <&0 &
	wait $!' enter.sh "$PPID" \
	unshare --mount --pid --fork --kill-child --propagation private \
	sh -c "$inside" enter.sh "$root" "$scratch" "$(printf '%s\n' "${binds[@]}")" "$@"
