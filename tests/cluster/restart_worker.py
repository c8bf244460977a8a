#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank of an elastic job of PyTorch's kind, without PyTorch: it has its state from a checkpoint, and all ranks are
started anew when one fails or hosts change.

usage: restart_worker.py FOLDER [--heed] [--end RANK] [--until N]

It meets the others at the launch's store, where nothing of the last generation may be left, and writes a line to
FOLDER/log: "size S rank R on HOST local L/LS restarts N pid P". Rank 0 then counts, ten times a second, and writes the
number to FOLDER/checkpoint; it goes on from the number there. All end well when there is FOLDER/stop.

--heed      on SIGTERM write FOLDER/heeded.RANK a moment later, and end
--end RANK  this rank ends well at once
--until N   all end well when the number is N, and rank 0 says "counted to N"
"""
import os
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from tcpstore_client import Store  # noqa: E402

FOLDER = sys.argv[1]
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def heed(*_):
    time.sleep(1.5)
    open("%s/heeded.%d" % (FOLDER, RANK), "w").close()
    sys.exit(3)


def meet():
    """All pids, by rank. The store must be new: each rank is one of SIZE that have come, and no pid is an old one."""
    store = Store()
    assert 1 <= store.arrived <= SIZE, "%d ranks have come to a store for %d" % (store.arrived, SIZE)
    assert not store.check(["pid/%d" % RANK]), "the store has values of an old generation"
    store.set("pid/%d" % RANK, "%d" % os.getpid())
    pids = store.multi_get(["pid/%d" % each for each in range(SIZE)])
    store.close()
    return pids


def counted():
    try:
        with open(FOLDER + "/checkpoint") as file:
            return int(file.read())
    except FileNotFoundError:
        return 0


def count():
    n = counted() + 1
    with open(FOLDER + "/checkpoint.new", "w") as file:
        file.write(str(n))
    os.rename(FOLDER + "/checkpoint.new", FOLDER + "/checkpoint")


def option(name):
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else None


def main():
    if "--heed" in sys.argv:
        signal.signal(signal.SIGTERM, heed)
    meet()
    line = "size %d rank %d on %s local %s/%s restarts %s pid %d\n" % (
        SIZE, RANK, socket.gethostname(), os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"],
        os.environ["TORCHELASTIC_RESTART_COUNT"], os.getpid())
    log = os.open(FOLDER + "/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(log, line.encode())
    os.write(1, line.encode())
    if option("--end") == RANK:
        return
    until = option("--until")
    while not os.path.exists(FOLDER + "/stop") and (until is None or counted() < until):
        if RANK == 0:
            count()
        time.sleep(0.1)
    if RANK == 0 and until is not None:
        os.write(1, b"counted to %d\n" % counted())


main()
