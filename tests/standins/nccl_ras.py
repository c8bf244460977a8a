#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nccl_ras.py [OPTION]... - in place of a process that uses NCCL: serves its RAS, as src/ras/client_support.cc of NCCL 2.28.7
does, at NCCL_RAS_ADDR, or at a free port of loopback. Prints the port, and ends with its stdin.

--ranks=N         a communicator of N (4) ranks, which have begun 42 operations each
--behind=R        rank R has begun one AllReduce less
--dead=R          rank R has died
--silent=R        rank R does not answer
--pids=FILE…      in place of hosts and processes that are not there: a process of this host for each rank, whose number the
                  file has once it runs
--moves           all ranks begin an operation between two questions
--old             before 2.28.7: text only
--mute            accepts connections, and says nothing
"""

import argparse
import json
import os
import re
import selectors
import socket
import sys
import time

OPS = ["Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Send", "Recv"]
MOST = 1024  # bytes of a command (struct rasClient.recvBuffer)


def where(options, rank):
    host, pid = f"10.0.0.{rank + 1}", 4000 + rank
    if options.pids:
        with open(options.pids[rank], encoding="ascii") as file:
            host, pid = "127.0.0.1", int(file.read())
    return {"rank": rank, "host": host, "pid": pid, "cuda_dev": rank, "nvml_dev": rank}


def counts(options, rank, asked):
    number = dict.fromkeys(OPS, 0)
    number.update(Broadcast=2, AllReduce=40 - (rank == options.behind) + (asked if options.moves else 0), Send=rank)
    return number


def status_json(options, asked):
    ranks, missing = [], []
    for rank in range(options.ranks):
        if rank in (options.dead, options.silent):
            missing.append({**where(options, rank), "status": {"unresponsive": rank == options.silent,
                                                      "considered_dead": rank == options.dead}})
        else:
            ranks.append({**where(options, rank),
                          "status": {"init_state": 0, "async_error": 0, "finalize_called": False,
                                     "destroy_flag": False, "abort_flag": False},
                          "collective_counts": counts(options, rank, asked)})
    return json.dumps({
        "nccl_version": "2.28.7", "cuda_runtime_version": 12090, "cuda_driver_version": 12090,
        "timestamp": time.strftime("%F %T"), "communicators_count": 1,
        "communicators": [{"hash": "0x1a2b", "secondary_hash": "0x3:0x4", "size": options.ranks,
                           "ranks_count": len(ranks), "missing_ranks_count": len(missing), "ranks": ranks,
                           "missing_ranks": missing}],
        "ras": {"collection_time_sec": 0.001, "timeouts_count": 0}}, indent=2) + "\n"


class Client:
    def __init__(self, sock):
        self.sock = sock
        self.received = b""
        self.json = False

    def answer(self, text):
        self.sock.sendall(text.encode())

    def command(self, line, options, asked):
        """False: that was the last one."""
        low = line.lower()
        if low.startswith("client protocol "):
            self.answer("SERVER PROTOCOL 2\n")
        elif low.startswith("timeout "):
            valid = re.fullmatch(r"\s*\+?[0-9]+", line[len("timeout "):])
            self.answer("OK\n" if valid else f"ERROR: Invalid timeout value {line[len('timeout '):]}\n")
        elif low.startswith("set format ") and not options.old:
            form = low[len("set format "):]
            if form in ("text", "json"):
                self.json = form == "json"
                self.answer("OK\n")
            else:
                self.answer(f"ERROR: Invalid format {line[len('set format '):]}\n")
        elif low in ("status", "verbose status"):
            if self.json:
                self.answer(status_json(options, asked))
            else:
                self.answer("NCCL version 2.26.2 compiled with CUDA 12.8\n\nJob summary\n===========\n\n"
                            "Errors\n======\n\nINCOMPLETE\n  Missing communicator data from 1 job process\n")
            return False
        else:
            self.answer(f"ERROR: Unknown command {line}\n")
        return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=4)
    for name in ("--behind", "--dead", "--silent"):
        parser.add_argument(name, type=int, default=-1)
    parser.add_argument("--pids", nargs="+")
    for name in ("--moves", "--old", "--mute"):
        parser.add_argument(name, action="store_true")
    options = parser.parse_args()
    host, port = os.environ.get("NCCL_RAS_ADDR", "127.0.0.1:0").rsplit(":", 1)
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind((host, int(port)))
    server.listen(16384)
    print(server.getsockname()[1], flush=True)
    selector = selectors.DefaultSelector()
    selector.register(server, selectors.EVENT_READ, server)
    selector.register(sys.stdin, selectors.EVENT_READ, sys.stdin)
    asked = 0
    while True:
        for key, _ in selector.select():
            if key.data is sys.stdin:
                if not os.read(0, 4096):
                    return
                continue
            if key.data is server:
                client = Client(server.accept()[0])
                selector.register(client.sock, selectors.EVENT_READ, client)
                continue
            client = key.data
            more = client.sock.recv(MOST - len(client.received))
            client.received += b"" if options.mute else more
            goes_on = bool(more)
            while goes_on and b"\n" in client.received:
                line, client.received = client.received.split(b"\n", 1)
                goes_on = client.command(line.decode().removesuffix("\r"), options, asked)
                asked += not goes_on
            if not goes_on or len(client.received) == MOST:
                selector.unregister(client.sock)
                client.sock.close()


main()
