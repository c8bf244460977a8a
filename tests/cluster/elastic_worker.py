#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A worker of an elastic job that trains nothing, and says to the launcher what Horovod's workers say.

usage: elastic_worker.py FOLDER

It comes to the rendezvous, meets the others, tells where it listens for changes of hosts, and then waits. Rank 0 hears of
changes; a file FOLDER/again.N, which it makes then, or the test, has all workers of the generation that they met in as
the Nth ask for their next places. All end well when there is FOLDER/stop. Each writes a line to FOLDER/log for every
generation: "size S rank R on HOST local L/LS cross C/CS was R0 pid P", and prints it.
"""
import base64
import hashlib
import hmac
import http.client
import os
import pickle
import socket
import struct
import sys
import threading
import time

FOLDER = sys.argv[1]
ADDR, PORT = os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])
HOST, SLOT = os.environ["HOROVOD_HOSTNAME"], int(os.environ["HOROVOD_LOCAL_RANK"])
KEY = os.urandom(32)
# A pickled AckResponse, as Horovod's workers send it.
ACK = bytes.fromhex("80059539000000000000008c22686f726f766f642e72756e6e65722e636f6d6d6f6e2e7574696c2e6e6574776f726b948c0b"
                    "41636b526573706f6e73659493942981942e")


def ask(how, path, body=b""):
    """Like Horovod's clients, which have patience with an answer that comes late."""
    link = http.client.HTTPConnection(ADDR, PORT, timeout=100)
    link.request(how, path, body)
    answer = link.getresponse()
    body = answer.read()
    link.close()
    return answer.status, body


def put(path, body):
    status, _ = ask("PUT", path, body)
    assert status == 200, (path, status)


def exactly(link, n):
    data = b""
    while len(data) < n:
        more = link.recv(n - len(data))
        if not more:
            return None
        data += more
    return data


changed = threading.Event()


def listen(server):
    while True:
        link, _ = server.accept()
        head = exactly(link, 36)
        body = head and exactly(link, struct.unpack("<i", head[32:])[0])
        if body and hmac.compare_digest(hmac.new(KEY, body, hashlib.sha256).digest(), head[:32]):
            if b"HostsUpdatedRequest" in body:
                changed.set()
            link.sendall(hmac.new(KEY, ACK, hashlib.sha256).digest() + struct.pack("<i", len(ACK)) + ACK)
        link.close()


def tell_where():
    server = socket.create_server(("", 0))
    threading.Thread(target=listen, args=(server,), daemon=True).start()
    link = socket.create_connection((ADDR, PORT))
    own = link.getsockname()[0]
    link.close()
    where = ({"eth0": [(own, server.getsockname()[1])]}, KEY)
    put("/worker_addresses/%s:%d" % (HOST, SLOT), base64.b64encode(pickle.dumps(where, protocol=4)))


def meet(rank, size):
    put("/global/rank_%d" % rank, b"here")
    for other in range(size):
        while ask("GET", "/global/rank_%d" % other)[0] != 200:
            time.sleep(0.1)
    ask("DELETE", "/global/rank_%d" % rank)


def main():
    place = [int(os.environ["HOROVOD_" + name]) for name in
             ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")]
    first, told = place[0], False
    # Those that come to a later generation count as the others do.
    met = int(open(FOLDER + "/generation").read()) if os.path.exists(FOLDER + "/generation") else 0
    while place[0] >= 0:
        rank, size = place[:2]
        meet(rank, size)
        met += 1
        if rank == 0:
            with open(FOLDER + "/generation.new", "w") as f:
                f.write("%d" % met)
            os.rename(FOLDER + "/generation.new", FOLDER + "/generation")
        if not told:
            tell_where()
        told = True
        line = "size %d rank %d on %s local %d/%d cross %d/%d was %d pid %d\n" % (
            size, rank, HOST, *place[2:], first, os.getpid())
        with open(FOLDER + "/log", "a") as f:
            f.write(line)
        sys.stdout.write(line)
        sys.stdout.flush()
        again = "%s/again.%d" % (FOLDER, met)
        while not os.path.exists(again):
            if os.path.exists(FOLDER + "/stop"):
                return
            if rank == 0 and changed.is_set():
                open(again, "w").close()
            time.sleep(0.05)
        changed.clear()
        status, body = ask("GET", "/rank_and_size/%s:%d" % (HOST, SLOT))
        assert status == 200, status
        place = [int(n) for n in body.decode().split(",")]


main()
