#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch's own TCPStore servers and this suite's, asked the same.

usage: torch_store.py compare PORT [--operations N] [--seed N]
       torch_store.py limits PORT
       torch_store.py serve [--legacy]

compare  sends N random operations of several clients to the server at PORT and to torch's two servers (with libuv, and
         the one before it), in the same order, and compares each answer and who is woken. Clients are torch's own and
         plain sockets, which also split and join messages as a network may. Every difference ends it.
limits   compares what becomes of a connection that asks for too much, with torch's server with libuv.
serve    runs torch's server alone; prints its port, and ends with standard input.

What is known and wanted to differ is not asked for, or is in DIFFERENCES:
"""
import argparse
import collections
import datetime
import os
import pathlib
import random
import select
import socket
import struct
import sys
import time

os.environ.setdefault("RES_OPTIONS", "timeout:1 attempts:1") # torch's server looks up the name of each peer
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR") # not a word for each connection that torch's server closes
import torch.distributed as dist

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "cluster" / "lib"))
from tcpstore_client import (ADD, CHECK, COMPARE_SET, GET, MULTI_GET, PING, SET, VALIDATE, WAIT, MAGIC, Store, keys,
                             text)

DIFFERENCES = """
- A GET or MULTI_GET of a missing key: an empty value with libuv and here; without libuv the connection is closed.
- Queues, LIST_KEYS and BARRIER: torch's server without libuv has none.
- A QUEUE_PUSH with libuv leaves the client that it wakes among those that wait, where it is in the way of later waits:
  each queue has at most one client here that waits, and that client waits for nothing else.
- COMPARE_SET of a missing key with an expected value: all of them answer the expected value, though it is not stored.
  torch with libuv then wakes who waits for the key, though it is still missing; the other two do not. torch without
  libuv wakes nobody by COMPARE_SET, even when that stores the key.
- Numbers that overflow in ADD: undefined in torch. Text that is no number: the connection is closed by all.
- A first message that is no VALIDATE: no answer with libuv, closed here.
"""
__doc__ += DIFFERENCES

GETNUMKEYS, DELETE_KEY, APPEND = 7, 8, 9
MULTI_SET, CANCEL_WAIT = 11, 12
QUEUE_PUSH, QUEUE_POP, QUEUE_LEN, LIST_KEYS, BARRIER = range(14, 19)
WOKEN, CANCELED = 0, 1
CLOSED = "closed"
BARRIER_SIZE = 2
PATIENCE = 20
OURS = "127.0.0.1"

PLAIN = ["key/%d" % n for n in range(8)] + ["a", "", "with\0zero", "long/" + "x" * 2000]
COUNTERS = ["count/%d" % n for n in range(3)]
QUEUES = ["queue/%d" % n for n in range(3)]


def byte(query):
    return struct.pack("=B", query)


def name(key):
    return text("/" + key)


class Plain(Store):
    """A connection whose messages are made by hand. `waits`: it has asked, and may be answered at any time."""

    def __init__(self, host, port):
        self.pending = b""
        super().__init__(host, port, init=False, timeout=PATIENCE)
        self.waits = False

    def receive(self, size):
        # torch's server sends each answer for itself, and the next only when the first is acknowledged.
        while len(self.pending) < size:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            piece = self.socket.recv(1 << 18)
            if not piece:
                raise EOFError("the store has closed the connection")
            self.pending += piece
        data, self.pending = self.pending[:size], self.pending[size:]
        return data

    def pairs(self, format="=q"):
        return [self.value() for _ in range(self.read(format))]

    def answer(self, query, *arguments):
        """What the server answers to a query that was sent."""
        try:
            if query in (SET, APPEND, MULTI_SET, QUEUE_PUSH):
                return None
            if query in (GET, COMPARE_SET):
                return self.value()
            if query in (ADD, GETNUMKEYS, DELETE_KEY, QUEUE_LEN):
                return self.read("=q")
            if query == CHECK:
                return self.read("=B")
            if query == MULTI_GET:
                return [self.value() for _ in arguments[0]]
            if query == PING:
                return self.read("=I")
            if query == QUEUE_POP:
                length = self.read("=q")
                return (length, self.value() if length > 0 else None)
            if query == LIST_KEYS:
                return sorted(self.pairs())
        except (EOFError, ConnectionError):
            return CLOSED
        raise ValueError(query)

    def readable(self):
        return bool(self.pending or select.select([self.socket], [], [], 0)[0])


def message(query, *arguments):
    """A query as a client sends it."""
    out = byte(query)
    if query in (GET, DELETE_KEY, QUEUE_POP, QUEUE_LEN):
        out += name(arguments[0])
    elif query in (SET, APPEND, QUEUE_PUSH):
        out += name(arguments[0]) + text(arguments[1])
    elif query == COMPARE_SET:
        out += name(arguments[0]) + text(arguments[1]) + text(arguments[2])
    elif query in (ADD, BARRIER):
        out += name(arguments[0]) + struct.pack("=q", arguments[1])
    elif query in (CHECK, WAIT, MULTI_GET):
        out += keys(arguments[0])
    elif query == MULTI_SET:
        out += struct.pack("=q", len(arguments[0]))
        out += b"".join(name(key) + text(value) for key, value in zip(*arguments))
    elif query == PING:
        out += struct.pack("=I", arguments[0])
    return out


class Server:
    """One of the servers that are compared, with its clients: the same number in each."""

    def __init__(self, label, host, port, plain, native):
        self.label, self.host, self.port = label, host, port
        self.plain = [Plain(host, port) for _ in range(plain)]
        self.native = [dist.TCPStore(host, port, is_master=False, wait_for_workers=False,
                                     timeout=datetime.timedelta(seconds=PATIENCE)) for _ in range(native + 1)]
        self.aside = self.native.pop()

    def again(self, client):
        self.plain[client].close()
        self.plain[client] = Plain(self.host, self.port)

    def send(self, client, data, cut):
        if cut is None:
            self.plain[client].send(data)
        else:
            self.plain[client].send(data[:cut])
            self.plain[client].send(data[cut:])

    def woken(self):
        """The waiting clients that have an answer."""
        return {n for n, client in enumerate(self.plain) if client.waits and client.readable()}


class Difference(Exception):
    pass


class Comparison:
    def __init__(self, servers, seed, extended):
        self.servers, self.seed, self.extended = servers, seed, extended
        self.random = random.Random(seed)
        self.clients = len(servers[0].plain)
        self.queue_clients = len(QUEUES) if extended else 0 # the last ones: each waits for its queue and nothing else
        self.waiting = {} # client: what it waits for
        self.barriers = 0
        self.done = 0
        self.counts = {}
        self.history = collections.deque(maxlen=60)

    def differ(self, what, answers):
        lines = "".join("\n  %s: %.300r" % (server.label, answer) for server, answer in zip(self.servers, answers))
        raise Difference("seed %d, operation %d: different answers to %s%s\nbefore that:\n  %s" % (
            self.seed, self.done, what, lines, "\n  ".join(self.history)))

    def same(self, what, answers):
        self.history.append("%s: %.100r" % (what, answers[0]))
        if any(answer != answers[0] for answer in answers):
            self.differ(what, answers)
        return answers[0]

    def ask(self, client, query, *arguments, cut=None):
        """Send to all of them and compare the answers; a PING says that a query without an answer is done with."""
        data = message(query, *arguments)
        silent = query in (SET, APPEND, MULTI_SET, QUEUE_PUSH)
        if silent:
            data += message(PING, self.done)
        for server in self.servers:
            server.send(client, data, cut)
        answers = []
        for server in self.servers:
            answers.append(server.plain[client].answer(PING if silent else query, *arguments))
        answer = self.same("query %d %.200r of client %d" % (query, arguments, client), answers)
        if answer == CLOSED:
            for server in self.servers:
                server.again(client)
        return answer

    def settle(self):
        """The same clients are woken everywhere; a server may wake one a moment after it has answered another."""
        if not self.waiting:
            return
        deadline = time.monotonic() + PATIENCE
        while True:
            woken = [server.woken() for server in self.servers]
            if all(each == woken[0] for each in woken):
                break
            if time.monotonic() > deadline:
                self.differ("waits: the woken clients of %r" % self.waiting, woken)
            time.sleep(0.0005)
        for client in woken[0]:
            self.same("a wait of client %d" % client, [server.plain[client].read("=B") for server in self.servers])
            self.rest(client)

    def sync(self):
        """No answer tells that a wait has begun. The server without libuv takes one query of a connection at a time, in
        an order of its own: what it is asked next comes after the wait, when both were there at once."""
        self.same("num_keys", [server.aside.num_keys() for server in self.servers])

    def rest(self, client):
        self.waiting.pop(client)
        for server in self.servers:
            server.plain[client].waits = False

    def begin_wait(self, client, data, what):
        self.waiting[client] = what
        self.history.append("client %d waits for %r" % (client, what))
        for server in self.servers:
            server.plain[client].send(message(PING, self.done) + data)
        for server in self.servers:
            server.plain[client].answer(PING)
            server.plain[client].waits = True
        self.sync()

    def cancel(self, client):
        """A client that waits gives up: the answer to its wait may be under way."""
        for server in self.servers:
            server.plain[client].send(message(CANCEL_WAIT))
        got = []
        for server in self.servers:
            first = server.plain[client].read("=B")
            got.append([first] if first == CANCELED else [first, server.plain[client].read("=B")])
        self.same("CANCEL_WAIT of client %d" % client, got)
        self.rest(client)

    # The operations. Each returns whether it could be done.

    def idle(self, queue=False):
        first = self.clients - self.queue_clients
        candidates = [n for n in (range(first, self.clients) if queue else range(first)) if n not in self.waiting]
        return self.random.choice(candidates) if candidates else None

    def some_value(self):
        kind = self.random.random()
        if kind < 0.3:
            return str(self.random.randrange(-1000, 1000))
        # torch's server without libuv keeps an empty value back for 200 ms.
        if kind < (0.35 if self.extended else 0.303):
            return ""
        if kind < 0.37:
            return self.random.randbytes(1 << self.random.randrange(13, 17))
        return self.random.randbytes(self.random.randrange(40))

    def there(self, names):
        """Those that are stored, as the first server says."""
        aside = self.servers[0].aside
        return [key for key in names if aside.check([key])]

    def query(self):
        pick, client = self.random, self.idle()
        if client is None:
            return False
        key = pick.choice(PLAIN + COUNTERS)
        names = [pick.choice(PLAIN + COUNTERS) for _ in range(pick.randrange(1, 6))]
        query = pick.choice([SET, SET, COMPARE_SET, GET, ADD, ADD, CHECK, CHECK, GETNUMKEYS, DELETE_KEY, DELETE_KEY,
                             APPEND, MULTI_GET, MULTI_SET, PING] +
                            ([QUEUE_LEN, LIST_KEYS] if self.extended else []))
        if query in (GET, MULTI_GET) and not self.extended:
            names = self.there(names)
            if not names:
                return False
            key = names[0]
        if query == ADD and pick.random() < 0.9:
            key = pick.choice(COUNTERS)
        arguments = {
            SET: lambda: (key, self.some_value()),
            APPEND: lambda: (pick.choice(PLAIN), self.some_value()),
            # What is expected is what is there, now and then.
            COMPARE_SET: lambda: (key, pick.choice([self.now(key), self.some_value()]), self.some_value()),
            ADD: lambda: (key, pick.randrange(-5, 100)),
            CHECK: lambda: (names,),
            MULTI_GET: lambda: (names,),
            MULTI_SET: lambda: (names, [self.some_value() for _ in names]),
            GETNUMKEYS: tuple, LIST_KEYS: tuple,
            PING: lambda: (pick.randrange(1 << 32),),
            QUEUE_LEN: lambda: (pick.choice(QUEUES),),
        }.get(query, lambda: (key,))()
        stores = query == COMPARE_SET and not arguments[1]
        if query == COMPARE_SET and not (stores and self.extended) and self.awaited(key) and not self.there([key]):
            return False
        cut = pick.randrange(1, len(message(query, *arguments)) + 1) if pick.random() < 0.15 else None
        self.ask(client, query, *arguments, cut=cut)
        return True

    def awaited(self, key):
        return any(key in what for what in self.waiting.values())

    def now(self, key):
        return self.servers[0].aside.get(key) if self.there([key]) else ""

    def joined(self):
        """Several queries in one piece: the answers come in their order."""
        pick, client = self.random, self.idle()
        if client is None:
            return False
        batch = []
        for _ in range(pick.randrange(2, 7)):
            key, value = pick.choice(PLAIN), self.some_value()
            batch.append(pick.choice([(SET, key, value), (CHECK, [key]), (GETNUMKEYS,), (DELETE_KEY, key),
                                      (APPEND, key, value), (ADD, "joined", 1), (PING, 7)]))
        batch.append((PING, 1))
        data = b"".join(message(*each) for each in batch)
        cut = pick.randrange(1, len(data)) if pick.random() < 0.5 else None
        for server in self.servers:
            server.send(client, data, cut)
        self.same("joined queries %.200r" % batch,
                  [[server.plain[client].answer(*each) for each in batch] for server in self.servers])
        return True

    def wait(self):
        pick, client = self.random, self.idle()
        # Somebody must be left to set what is waited for.
        if client is None or len(self.waiting) > self.clients - self.queue_clients - 3:
            return False
        names = [pick.choice(PLAIN) for _ in range(pick.randrange(1, 4))]
        self.begin_wait(client, message(WAIT, names), names)
        return True

    def give_up(self):
        if not self.waiting:
            return False
        self.cancel(self.random.choice(sorted(self.waiting)))
        return True

    def leave(self):
        """A client vanishes, waiting or not."""
        client = self.random.randrange(self.clients)
        if client in self.waiting:
            self.rest(client)
        for server in self.servers:
            server.again(client)
        self.sync()
        return True

    def barrier(self):
        """Members come to a barrier until all are there; one or the other may give up, and its arrival counts."""
        client = self.idle()
        if client is None or len(self.waiting) > self.clients - self.queue_clients - 3:
            return False
        key = "barrier/%d" % (self.barriers // BARRIER_SIZE % 3)
        if self.barriers % BARRIER_SIZE == 0:
            self.ask(client, DELETE_KEY, key)
        self.barriers += 1
        self.begin_wait(client, message(BARRIER, key, BARRIER_SIZE), [key])
        return True

    def queue(self):
        pick = self.random
        which = pick.randrange(len(QUEUES))
        waiter = self.clients - self.queue_clients + which
        if pick.random() < 0.3 and waiter not in self.waiting:
            self.begin_wait(waiter, message(WAIT, [QUEUES[which]]), [QUEUES[which]])
            return True
        client = self.idle()
        if client is None:
            return False
        if pick.random() < 0.5:
            self.ask(client, QUEUE_PUSH, QUEUES[which], self.some_value())
        else:
            self.ask(client, QUEUE_POP, QUEUES[which])
        return True

    def native(self):
        """An operation of torch's own client."""
        pick = self.random
        which = pick.randrange(len(self.servers[0].native))
        key = pick.choice(PLAIN)
        value = self.some_value()
        value = value.hex() if isinstance(value, bytes) else value
        queue = pick.choice(QUEUES)
        present = self.there([key])
        awaited = self.awaited(key)
        choices = [
            ("set", lambda store: (store.set(key, value), store.num_keys())),
            ("add", lambda store: store.add("torch/count", 3)),
            ("check", lambda store: store.check([key, "a"])),
            ("delete_key", lambda store: store.delete_key(key)),
            ("append", lambda store: (store.append(key, value), store.num_keys())),
            ("multi_set", lambda store: (store.multi_set([key, "a"], [value, value]), store.num_keys())),
            ("num_keys", lambda store: store.num_keys()),
        ]
        if present or not awaited:
            choices.append(("compare_set", lambda store: store.compare_set(key, value, value + "x")))
        if present:
            choices += [("get", lambda store: store.get(key)),
                        ("multi_get", lambda store: store.multi_get([key, key])),
                        ("wait", lambda store: store.wait([key]))]
        elif pick.random() < 0.05:
            choices = [("wait in vain", lambda store: self.in_vain(store, key))]
        if self.extended:
            choices += [("queue_push", lambda store: (store.queue_push(queue, value), store.queue_len(queue))),
                        ("queue_len", lambda store: store.queue_len(queue)),
                        ("list_keys", lambda store: sorted(store.list_keys()))]
            if self.servers[0].aside.check([queue]):
                choices.append(("queue_pop", lambda store: store.queue_pop(queue)))
        label, do = pick.choice(choices)
        self.same("torch's %s of %r" % (label, key), [do(server.native[which]) for server in self.servers])
        return True

    @staticmethod
    def in_vain(store, key):
        try:
            store.wait([key], datetime.timedelta(milliseconds=10))
        except dist.DistStoreError as error:
            return "wait timeout" in str(error)
        return "no timeout"

    def run(self, operations):
        weighted = [self.query] * 20 + [self.joined] * 2 + [self.wait] * 4 + [self.give_up] + [self.native] * 5
        if self.extended:
            weighted += [self.queue] * 5 + [self.barrier] * 2
        while self.done < operations:
            do = self.leave if self.random.random() < 0.005 else self.random.choice(weighted)
            if do():
                self.done += 1
                self.counts[do.__name__] = self.counts.get(do.__name__, 0) + 1
            self.settle()
        while self.waiting:
            self.cancel(min(self.waiting))


def torchs_host():
    """torch's server looks up the name of each peer, which may take seconds for an IPv4 address in an IPv6 socket."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return "::1"
    except OSError:
        return "127.0.0.1"


def serve(libuv):
    return dist.TCPStore(torchs_host(), 0, is_master=True, wait_for_workers=False, use_libuv=libuv)


def compare(port, operations, seed):
    for libuv in (True, False):
        torchs = serve(libuv)
        servers = [Server("torch, libuv" if libuv else "torch, no libuv", torchs.host, torchs.port, 9, 2),
                   Server("hvd-rendezvous", OURS, port, 9, 2)]
        for key in servers[1].aside.list_keys(): # of the comparison before this one
            servers[1].aside.delete_key(key)
        began = time.monotonic()
        comparison = Comparison(servers, seed, extended=libuv)
        comparison.run(operations)
        print("%s: %d operations with seed %d, the same answers, in %.1f s: %s" % (
            servers[0].label, comparison.done, seed, time.monotonic() - began,
            ", ".join("%s %d" % item for item in sorted(comparison.counts.items()))), flush=True)


def becomes(host, port, data, reply):
    """What becomes of a connection that has said this after its VALIDATE: its next answer, or its end."""
    client = Plain(host, port)
    client.socket.settimeout(PATIENCE)
    try:
        client.send(data)
        if reply:
            client.send(message(PING, 5))
            return client.read("=I")
        return client.receive(1)
    except (EOFError, ConnectionError):
        return CLOSED
    finally:
        client.close()


def limits(port):
    torchs = serve(True)
    lengths = struct.Struct("=Q")
    cases = [
        ("a key of 8 KiB", message(SET, "k" * 8191, "v"), True),
        ("a key of one byte more", message(SET, "k" * 8192, "v"), True),
        ("a value of 8 MiB", message(SET, "k", b"v" * (8 << 20)), True),
        ("an announced value of one byte more", byte(SET) + name("k") + lengths.pack((8 << 20) + 1), False),
        ("an announced value of 8 EiB", byte(SET) + name("k") + lengths.pack(1 << 63), False),
        ("an announced value of 16 EiB", byte(APPEND) + name("k") + lengths.pack((1 << 64) - 1), False),
        ("an announced key of 16 EiB", byte(GET) + lengths.pack((1 << 64) - 1), False),
        ("131,073 keys", byte(WAIT) + lengths.pack(131073), False),
        ("16 EiB of keys", byte(MULTI_GET) + lengths.pack((1 << 64) - 1), False),
        ("-1 pairs", byte(MULTI_SET) + struct.pack("=q", -1), False),
        ("a query that does not exist", byte(19), False),
        ("another", byte(255), False),
    ]
    for label, data, reply in cases:
        theirs, ours = becomes(torchs.host, torchs.port, data, reply), becomes(OURS, port, data, reply)
        if theirs != ours:
            raise Difference("%s: torch %r, hvd-rendezvous %r" % (label, theirs, ours))
    # The last one is how a client before 2.2 begins, where ADD was 3.
    for first in (struct.pack("=BI", VALIDATE, MAGIC + 1), b"\0\0\0\0\0", byte(3) + text("init/") + lengths.pack(1)):
        with socket.create_connection((OURS, port), PATIENCE) as sock:
            sock.sendall(first)
            if sock.recv(1) != b"":
                raise Difference("an answer to the first bytes %r" % first)
    print("%d limits are the same" % len(cases))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for command in ("compare", "limits"):
        commands.add_parser(command).add_argument("port", type=int)
    commands.choices["compare"].add_argument("--operations", type=int, default=10000)
    commands.choices["compare"].add_argument("--seed", type=int, default=None)
    commands.add_parser("serve").add_argument("--legacy", action="store_true")
    options = parser.parse_args()
    if options.command == "serve":
        store = serve(not options.legacy)
        print(store.port, flush=True)
        sys.stdin.read()
    elif options.command == "limits":
        limits(options.port)
    else:
        seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "little")
        print("seed %d" % seed, flush=True)
        compare(options.port, options.operations, seed)


if __name__ == "__main__":
    try:
        main()
    except Difference as difference:
        sys.exit("torch_store: %s" % difference)
