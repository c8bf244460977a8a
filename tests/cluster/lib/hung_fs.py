#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file system that hangs, as one does whose server has gone.

usage: hung_fs.py DIRECTORY

Run as root. Mounts a FUSE file system at the directory, which takes every request and answers none but the first one
of the mount. A process that looks up a name there cannot be killed (state D) until this one ends. Prints "mounted".
"""
import ctypes
import os
import signal
import struct
import sys

MNT_DETACH = 2
INIT = 26

LIBC = ctypes.CDLL(None, use_errno=True)


def mount(where):
    fd = os.open("/dev/fuse", os.O_RDWR)
    options = "fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other" % fd
    if LIBC.mount(b"hung", where.encode(), b"fuse", 0, options.encode()) != 0:
        sys.exit("cannot mount: %s" % os.strerror(ctypes.get_errno()))
    return fd


def serve(fd):
    """Answer the request that begins the mount, and no other."""
    while True:
        request = os.read(fd, 1 << 20)
        _, opcode, unique = struct.unpack_from("=IIQ", request)
        if opcode == INIT:
            major, minor = struct.unpack_from("=II", request, 40)
            body = struct.pack("=IIIIHHII", major, min(minor, 31), 65536, 0, 12, 9, 65536, 1) + bytes(32)
            os.write(fd, struct.pack("=IiQ", 16 + len(body), 0, unique) + body)
            print("mounted", flush=True)


def end(*_):
    LIBC.umount2(sys.argv[1].encode(), MNT_DETACH)
    os._exit(0)


signal.signal(signal.SIGTERM, end)
serve(mount(sys.argv[1]))
