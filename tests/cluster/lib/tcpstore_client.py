#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client of PyTorch's TCPStore without PyTorch: a module for tests, and a light rank that meets the others as
torch.distributed.init_process_group() does. Format of messages: PyTorch, torch/csrc/distributed/c10d/TCPStore*.cpp.

As a rank, with the environment that a launcher sets: publish a value, wait for everybody's, print their sum.

  tcpstore_client.py [--value N] [--rounds N] [--hold SECONDS] [--linger SECONDS] [--further] [--exit STATUS]
"""

import argparse
import errno
import os
import socket
import struct
import sys
import time

VALIDATE, SET, COMPARE_SET, GET, ADD, CHECK, WAIT = range(7)
MULTI_GET, PING = 10, 13
MAGIC = 0x3C85F7CE


def text(data):
    data = data.encode() if isinstance(data, str) else data
    return struct.pack("=Q", len(data)) + data


def keys(names):
    return struct.pack("=Q", len(names)) + b"".join(text("/" + name) for name in names)


class Store:
    """One connection. Keys get the '/' in front that torch's TCPStore gives them."""

    def __init__(self, host=None, port=None, init=True, timeout=60):
        address = host or os.environ["MASTER_ADDR"], int(port or os.environ["MASTER_PORT"])
        self.socket = socket.create_connection(address, timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.send(struct.pack("=BI", VALIDATE, MAGIC) + struct.pack("=BI", PING, os.getpid()))
        if self.read("=I") != os.getpid():
            raise OSError("the store's answer to PING is wrong")
        self.arrived = self.counter("init/", 1) if init else None

    def send(self, data):
        self.socket.sendall(data)

    def receive(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise EOFError("the store has closed the connection")
            data += piece
        return data

    def read(self, format):
        return struct.unpack(format, self.receive(struct.calcsize(format)))[0]

    def value(self):
        return self.receive(self.read("=Q"))

    def counter(self, key, delta):
        self.send(struct.pack("=B", ADD) + text(key) + struct.pack("=q", delta))
        return self.read("=q")

    def add(self, key, delta):
        return self.counter("/" + key, delta)

    def set(self, key, value):
        self.send(struct.pack("=B", SET) + text("/" + key) + text(value))

    def get(self, key):
        self.wait([key])
        self.send(struct.pack("=B", GET) + text("/" + key))
        return self.value()

    def multi_get(self, names):
        self.wait(names)
        self.send(struct.pack("=B", MULTI_GET) + keys(names))
        return [self.value() for _ in names]

    def check(self, names):
        self.send(struct.pack("=B", CHECK) + keys(names))
        return self.read("=B") == 0

    def wait(self, names):
        self.send(struct.pack("=B", WAIT) + keys(names))
        if self.read("=B") != 0:
            raise OSError("the store's answer to WAIT is wrong")

    def close(self):
        self.socket.close()


def rank(options):
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") not in ("1", "True"):
        sys.exit("tcpstore_client: no launcher's store: TORCHELASTIC_USE_AGENT_STORE is neither 1 nor True")
    me, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    value = "default_pg/0//value/%d"  # as init_process_group() names its keys
    done = "default_pg/0//done/%d"
    for left in reversed(range(options.rounds)):
        began = time.monotonic()
        store = Store()
        if store.check([value % me]):
            raise OSError("a value is there before it was set")
        store.set(value % me, str(options.value + me))
        total = sum(int(each) for each in store.multi_get([value % rank for rank in range(world)]))
        took = time.monotonic() - began
        line = "rank %d of %d: sum %d in %.3f s at %s:%d" % (me, world, total, took, *store.socket.getpeername()[:2])
        os.write(1, (line + "\n").encode())
        # The store ends with the last rank of rank 0's host: rank 0 stays until all others have their sum.
        store.set(done % me, "1")
        if me == 0:
            store.wait([done % rank for rank in range(world)])
        if options.further:
            further(store, me, world)
        if left == 0:
            time.sleep(options.hold)
        if options.linger and me:
            linger(store, me, options.linger + (me == 1))
        store.close()
    return options.exit


def further(store, me, world):
    """As programs do that take MASTER_ADDR for an address of rank 0's host: rank 0 listens at a port of its own, on all
    addresses, and broadcasts MASTER_ADDR with that port. Nobody else may have rank 0's port at MASTER_ADDR."""
    if me == 0:
        try:
            socket.create_server(("", int(os.environ["MASTER_PORT"]))).close()
            raise OSError("MASTER_PORT is free on rank 0's host")
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE:
                raise
        with socket.create_server(("", 0)) as server:
            server.settimeout(20)
            store.set("further", "%s %d" % (os.environ["MASTER_ADDR"], server.getsockname()[1]))
            for _ in range(world - 1):
                server.accept()[0].sendall(b"of rank 0")
    else:
        with socket.create_connection(store.get("further").split(), 5) as sock:
            os.write(1, b"rank %d: at MASTER_ADDR is the server %s\n" % (me, sock.recv(100)))
    store.set("further/%d" % me, "1")
    store.wait(["further/%d" % rank for rank in range(world)])


def linger(store, me, seconds):
    """As NCCL's watchdog does in every rank: look for a key, again and again, whether rank 0 is still there or not. Rank 1
    goes on for longest: the store ends with the last rank of rank 0's host."""
    end, looks = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        if store.check(["should dump"]):
            raise OSError("a key is there that nobody has set")
        looks += 1
        time.sleep(0.05)
    os.write(1, b"rank %d: the store was there for all of %g s\n" % (me, seconds) if looks else b"")


def main():
    parser = argparse.ArgumentParser(description="A light rank that meets the others at the launch's TCPStore.")
    parser.add_argument("--value", type=int, default=0, help="this plus the rank is what the rank adds to the sum")
    parser.add_argument("--rounds", type=int, default=1, help="meet so often, each time with a new connection")
    parser.add_argument("--hold", type=float, default=0, help="seconds to stay after having met for the last time")
    parser.add_argument("--linger", type=float, default=0, help="seconds for which ranks other than 0 use the store on")
    parser.add_argument("--further", action="store_true", help="also meet at another port of MASTER_ADDR")
    parser.add_argument("--exit", type=int, default=0, help="status to end with")
    return rank(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
