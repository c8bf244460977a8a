#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad clients of a TCPStore, while a good one goes on.

usage: tcpstore_hostile.py PORT PID [--connections N]

Each kind of bad client is let loose on the server at PORT, process PID; meanwhile a good client must get its answers,
and the server's memory and processor time must stay bounded. A line for each kind; the exit status is 1 when a bound
is broken.
"""
import argparse
import os
import resource
import socket
import struct
import sys
import time

from tcpstore_client import GET, MAGIC, MULTI_GET, SET, VALIDATE, Store, keys, text

MIB = 1 << 20
HELLO = struct.pack("=BI", VALIDATE, MAGIC)


def memory(pid):
    with open("/proc/%d/statm" % pid, encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def processor(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def connect(port, number, data=b""):
    """Connections of several addresses: one has not ports for all of them beside what was open before."""
    sock = socket.socket()
    sock.bind(("127.0.0.%d" % (2 + number % 100), 0))
    sock.connect(("127.0.0.1", port))
    if data:
        sock.sendall(data)
    sock.setblocking(False)
    return sock


def half_open(port, count):
    """Nothing, the first byte, the greeting, the beginning of a request."""
    said = [b"", b"\0", HELLO, HELLO + struct.pack("=BQ", SET, 100)]
    return [connect(port, n, said[n % len(said)]) for n in range(count)]


def announced(port, count):
    """Long values that are announced, and do not come."""
    lengths = [8 * MIB, 1 << 62, (1 << 64) - 1]
    return [connect(port, n, HELLO + struct.pack("=B", SET) + text("/k") + struct.pack("=Q", lengths[n % 3]) + b"x")
            for n in range(count)]


def many_keys(port, count):
    """A list of keys that never ends."""
    data = HELLO + struct.pack("=BQ", MULTI_GET, 131072) + text("/" + "k" * 8000) * 8
    return [connect(port, n, data) for n in range(count)]


def unread(port, count):
    """Long answers that nobody reads."""
    good = Store("127.0.0.1", port, init=False)
    good.set("long", b"v" * (8 * MIB))
    good.check(["long"])
    good.close()
    ask = (struct.pack("=B", GET) + text("/long")) * 100 + struct.pack("=B", MULTI_GET) + keys(["long"] * 100)
    return [connect(port, n, HELLO + ask) for n in range(count)]


def dribble(socks, seconds):
    """A byte now and then."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for sock in socks[::10]:
            try:
                sock.send(b"k")
            except OSError:
                pass # the server has closed it
        time.sleep(0.05)


def ended(sock):
    """The server has closed the connection, and nothing that it has sent is left to read."""
    try:
        return sock.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


# What, how many, MiB by which the server may grow.
KINDS = [(half_open, 10000, 64), (announced, 300, 64), (many_keys, 100, 64), (unread, 100, 300)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("pid", type=int)
    parser.add_argument("--connections", type=int, default=10000)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    good = Store("127.0.0.1", options.port)
    broken = 0
    for kind, count, allowed in KINDS:
        before = memory(options.pid)
        socks = kind(options.port, min(count, options.connections, hard - 100))
        slowest = 0
        for _ in range(8):
            began = time.monotonic()
            good.add("count", 1)
            slowest = max(slowest, time.monotonic() - began)
            dribble(socks, 0.1)
        used = processor(options.pid)
        time.sleep(1)
        used = processor(options.pid) - used
        grown = (memory(options.pid) - before) / MIB
        closed = sum(ended(sock) for sock in socks)
        bad = grown > allowed or used > 0.2 or slowest > 5
        broken += bad
        print("%s %s: %d connections, %d of them closed by the server; it grew by %.1f MiB and uses %.0f %% of a"
              " processor; the good client waited %.3f s at most" % (
                  "BROKEN" if bad else "kept", kind.__name__, len(socks), closed, grown, 100 * used, slowest),
              flush=True)
        for sock in socks:
            sock.close()
    good.add("count", 1)
    return broken != 0


if __name__ == "__main__":
    sys.exit(main())
