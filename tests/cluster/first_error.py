#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""first_error.py DIR WAY [RANK] - a rank of a program whose ranks are connected, one of which (5) fails by WAY.

The others notice within milliseconds, as by a connection that was closed, and die of that. DIR has the two pipes
"alive", whose only writer is the rank that fails, and "ready", into which each other rank writes when it listens.
"""

import ctypes
import os
import resource
import signal
import sys


def fail(way):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if way == "raise":
        print("a line before it", file=sys.stderr)
        raise ValueError("bad batch")
    if way == "segv":
        ctypes.string_at(0)
    if way == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "flood":
        for _ in range(200):
            sys.stderr.write(("x" * 1023 + "\n") * 1024)
        raise ValueError("bad batch")
    sys.exit(int(way))


def main():
    folder, way = sys.argv[1:3]
    culprit = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    size = int(os.environ["HOROVOD_SIZE"])
    if int(os.environ["HOROVOD_RANK"]) == culprit:
        ready = os.open(folder + "/ready", os.O_RDWR)
        alive = os.open(folder + "/alive", os.O_RDWR)  # what the others wait for
        come = 0
        while come < size - 1:
            come += len(os.read(ready, size))
        os.set_inheritable(alive, False)
        fail(way)
    alive = os.open(folder + "/alive", os.O_RDONLY)
    ready = os.open(folder + "/ready", os.O_RDWR)
    os.write(ready, b"r")
    os.close(ready)
    os.read(alive, 1)
    raise RuntimeError("[../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:4711")


main()
