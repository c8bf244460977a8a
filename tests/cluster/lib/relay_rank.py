#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A light rank that uses the launch's rendezvous, as a TCPStore and over HTTP, until a file is there, and then says
whether it has found what it left.

  relay_rank.py FOLDER [own]

The TCPStore is at the address that PyTorch is told, which is of rank 0's host; with "own" at that of Horovod, which is of
the rank's own host. Ranks meet, and write FOLDER/at.RANK, with their host and the rendezvous' address and port. Then each counts, reads what
the others have written, and looks for keys that nobody of the job writes; FOLDER/alive.RANK has how often. It ends when
FOLDER/stop is there. A rank whose store is lost says so, and ends with status 3.
"""

import http.client
import os
import socket
import sys
import time

from tcpstore_client import Store

FOREIGN = ["evil", "evil/0"]
SLOW = 5


class Web:
    """Horovod's scopes, at the address that its workers are told."""

    def __init__(self):
        self.address = os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(*self.address, timeout=20)
        connection.request(method, path, body)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, data


def write(name, text):
    with open(name + ".new", "w", encoding="ascii") as file:
        file.write(text)
    os.rename(name + ".new", name)


def main():
    folder, me, world = sys.argv[1], int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    web = Web()
    store = Store(*web.address, timeout=40) if sys.argv[2:] == ["own"] else Store(timeout=40)
    store.set("own/%d" % me, "of rank %d" % me)
    if web.ask("PUT", "/scope/%d" % me, b"of rank %d" % me)[0] != 200:
        sys.exit("rank %d: its value is not taken" % me)
    if store.multi_get(["own/%d" % each for each in range(world)]) != [b"of rank %d" % each for each in range(world)]:
        sys.exit("rank %d: the ranks have not met" % me)
    write("%s/at.%d" % (folder, me), "%s %s %d\n" % (socket.gethostname(), *store.socket.getpeername()[:2]))
    count, slowest, other = 0, 0.0, 0
    while not os.path.exists(folder + "/stop"):
        began = time.monotonic()
        count += 1
        if store.add("count/%d" % me, 1) != count:
            sys.exit("rank %d: somebody else counts with it" % me)
        if store.check(FOREIGN[:1]) or store.check(FOREIGN[1:]):
            sys.exit("rank %d: a key is there that nobody of the job has written" % me)
        other = (other + 1) % world
        if store.get("own/%d" % other) != b"of rank %d" % other:
            sys.exit("rank %d: the value of rank %d was changed" % (me, other))
        if web.ask("GET", "/scope/%d" % other) != (200, b"of rank %d" % other):
            sys.exit("rank %d: the value of rank %d was changed over HTTP" % (me, other))
        slowest = max(slowest, time.monotonic() - began)
        write("%s/alive.%d" % (folder, me), "%d\n" % count)
        time.sleep(0.05)
    print("rank %d: intact, %s" % (me, "never slow" if slowest < SLOW else "once slow: %.1f s" % slowest), flush=True)


try:
    main()
except (EOFError, ConnectionError, http.client.HTTPException) as problem:
    print("rank %s: its store is lost: %s" % (os.environ["RANK"], problem), flush=True)
    sys.exit(3)
