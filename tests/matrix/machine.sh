#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# machine.sh - run a command as root on an emulated machine of arm64, with a kernel of its own, on a root file system.
#
#     machine.sh --image ROOT IMAGE
#     machine.sh [--tap NAME:ADDRESS/BITS] IMAGE DIR COMMAND [ARG...]
#
#     --image   write the root file system into the file IMAGE, and its kernel (boot/vmlinuz-*) beside it
#     --tap     the machine's eth0 has this ADDRESS, and is the interface NAME here, which exists; else it has only lo
#
# DIR is visible as /mnt/out. What the command writes elsewhere is gone when it ends, and so is the machine; it ends also
# when this script is killed. The working folder is /, the environment is that of enter.sh. What the command says is
# said here; what the kernel says is in DIR/console.
#
# The machine is qemu-system-aarch64, so that its kernel answers each system call. qemu-user would be quicker, but it
# knows no clone() with CLONE_VM that makes no thread, by which hvd-agent starts ranks, and no ptrace(), sock_diag and
# seccomp filters.
#
# Exit status: the command's; 125 when the machine has not started, or has ended before the command.

set -euo pipefail

usage() { sed -n 's/^# \{0,1\}//; 4,/^$/p' "$0" | sed 1,2d >&2 && exit 125; }

# The kernel has its drivers as modules. What mounts the root is busybox and those modules.
initrd() {
	local root=$1 at version module file n=100
	version=$(cd "$root/usr/lib/modules" && printf '%s\n' * | sort -V | tail -n 1)
	at=$(mktemp -d)
	mkdir -p "$at"/{bin,lib/aarch64-linux-gnu,proc,sys,dev,new,modules}
	cp "$root/usr/bin/busybox" "$at/bin/"
	ln -s busybox "$at/bin/sh"
	cp "$root/lib/ld-linux-aarch64.so.1" "$at/lib/"
	cp -L "$root"/lib/aarch64-linux-gnu/{libc.so.6,libresolv.so.2} "$at/lib/aarch64-linux-gnu/"
	for module in crc32c_generic virtio_pci virtio_blk ext4 9p 9pnet_virtio virtio_net virtio[-_]rng; do
		# "FILE: WHAT IT NEEDS", the first needed one last.
		for file in $(sed -n "s|^\(.*/$module\.ko[.a-z]*\):|\1|p" "$root/usr/lib/modules/$version/modules.dep" | tr ' ' '\n' | tac); do
			[[ -e $(compgen -G "$at/modules/*-$(basename "$file")") ]] || cp "$root/usr/lib/modules/$version/$file" "$at/modules/$((n++))-$(basename "$file")"
		done
	done
	cat >"$at/init" <<'INIT'
#!/bin/sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
for module in /modules/*; do /bin/busybox insmod "$module"; done
until [ -e /dev/vda ]; do /bin/busybox sleep 0.1; done
/bin/busybox mount /dev/vda /new
for folder in proc sys dev; do /bin/busybox mount --move /$folder /new/$folder; done
/bin/busybox mkdir -p /new/mnt/out
/bin/busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 out /new/mnt/out
exec /bin/busybox switch_root /new /mnt/out/start
INIT
	chmod 755 "$at/init"
	(cd "$at" && find . | cpio --quiet -o -H newc | gzip -1)
	rm -rf "$at"
}

if [[ ${1-} == --image ]]; then
	(($# == 3)) || usage
	root=$2 image=$3
	trap 'rm -f "$image.new"' EXIT
	# The file is sparse; there is room for what the command writes.
	truncate -s "$(($(du -sxm "$root" | cut -f 1) + 4096))M" "$image.new"
	mke2fs -q -F -t ext4 -O ^has_journal -d "$root" "$image.new"
	cp -L "$(printf '%s\n' "$root"/boot/vmlinuz-* | sort -V | tail -n 1)" "$image.kernel"
	initrd "$root" >"$image.initrd"
	mv "$image.new" "$image"
	exit 0
fi

tap=''
if [[ ${1-} == --tap ]]; then tap=$2 && shift 2; fi
(($# >= 3)) || usage
image=$1 dir=$(readlink -f "$2")
shift 2
rm -f "$dir/status"
: >"$dir/said"

# The first process in there. Nobody has given it mounts or a network.
cat >"$dir/start" <<START
#!/bin/bash
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root USER=root LANG=C.UTF-8 TERM=dumb TMPDIR=/tmp
exec </dev/null >>/mnt/out/said 2>&1
mkdir -p /dev/pts /dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /tmp
# slurmd takes the unified hierarchy only with systemd's help.
mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
for kind in freezer memory cpuset devices cpuacct cpu none,name=systemd; do
	mkdir "/sys/fs/cgroup/\${kind#*=}"
	mount -t cgroup -o "\$kind" cgroup "/sys/fs/cgroup/\${kind#*=}"
done
ln -sfn /proc/self/fd /dev/fd
hostname hvd-arm64
echo 127.0.0.1 localhost hvd-arm64 >/etc/hosts
ip link set lo up
if [ '${tap#*:}' ]; then
	ip link set eth0 up && ip address add '${tap#*:}' dev eth0
fi
cd /
setsid -w $(printf '%q ' "$@")
echo \$? >/mnt/out/status
sync
echo o >/proc/sysrq-trigger
sleep 60
START
chmod 755 "$dir/start"

network=(-nic none)
if [[ $tap ]]; then
	network=(-netdev "tap,id=net,ifname=${tap%%:*},script=no,downscript=no" -device "virtio-net-pci,netdev=net,romfile=")
fi
setpriv --pdeathsig KILL qemu-system-aarch64 -machine virt -cpu cortex-a72 -accel tcg,thread=multi,tb-size=512 \
	-smp 2 -m 4096 -nodefaults -no-user-config -display none -monitor none -no-reboot -serial "file:$dir/console" \
	-kernel "$image.kernel" -initrd "$image.initrd" -append "console=ttyAMA0 quiet panic=-1 net.ifnames=0" \
	-drive "file=$image,if=none,id=root,format=raw,snapshot=on" -device virtio-blk-pci,drive=root \
	-fsdev "local,id=out,path=$dir,security_model=none" -device virtio-9p-pci,fsdev=out,mount_tag=out \
	-object rng-random,id=rng,filename=/dev/urandom -device virtio-rng-pci,rng=rng "${network[@]}" \
	</dev/null >"$dir/qemu.log" 2>&1 &
machine=$!
trap 'kill -KILL $machine 2>/dev/null || true' EXIT
tail -n +1 -f --pid=$machine "$dir/said" &
wait $machine || true
wait
status=$(cat "$dir/status" 2>/dev/null || echo 125)
if ((status == 125)); then tail -v -n 3 "$dir/qemu.log" "$dir/console" >&2; fi
exit "$status"
