#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long requests to a rendezvous over loopback take while another user floods it with connections. As root.

usage: flood_latency.py PROCESSES SECONDS [ROUNDS [NICE]]

Starts hvd-rendezvous of the build in $B as user 1, and PROCESSES times connect_flood as user 65534, whose complete requests
are on connections that it resets at once. Prints, for each round, how many connections the server has accepted, what one
has cost it, and how long the requests of user 1 took, each on a new connection. With NICE, the flood's niceness above that
of all others, the server has a processor whenever it wants one, as where jobs have processors of their own.
"""
import json
import os
import signal
import socket
import subprocess
import sys
import time

SERVER, FLOODER = 1, 65534
REQUEST = "HEAD /scope/key HTTP/1.0\r\n\r\n"
LIMIT = 30


def one_process(port, seconds, pipe):
    """User 1's: the times of all its answers, as a list in JSON."""
    os.setgid(SERVER)
    os.setuid(SERVER)
    took, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        with socket.socket() as client:
            client.settimeout(LIMIT)
            client.connect(("127.0.0.1", port))
            client.sendall(REQUEST.encode())
            if not client.recv(100).startswith(b"HTTP/1.1 404"):
                sys.exit("no answer")
        took.append(time.monotonic() - began)
        time.sleep(0.005)
    os.write(pipe, json.dumps(took).encode())
    os._exit(0)


def measure(build, processes, seconds, nice):
    server = subprocess.Popen([build + "/bin/hvd-rendezvous", "--json"], stdout=subprocess.PIPE, text=True, user=SERVER,
                              group=SERVER)
    port = json.loads(server.stdout.readline())["port"]
    command = ["nice", "-n", nice, build + "/tests/bench/connect_flood", "127.0.0.1", str(port), "1e9",
               str(LIMIT + seconds), REQUEST]
    flood = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, user=FLOODER, group=FLOODER)
             for _ in range(processes)]
    for each in flood:
        each.stdout.readline()
    time.sleep(0.5)
    read, write = os.pipe()
    if os.fork() == 0:
        one_process(port, seconds, write)
    os.close(write)
    with os.fdopen(read) as pipe:
        took = sorted(json.loads(pipe.read()))
    os.wait()
    for each in flood:
        each.send_signal(signal.SIGTERM)
        each.communicate()
    server.send_signal(signal.SIGTERM)
    said = server.stdout.read()
    usage = os.wait4(server.pid, 0)[2]
    accepted = json.loads(said.splitlines()[-1])["connections"]
    cpu = usage.ru_utime + usage.ru_stime
    print("%6d accepted, %5.1f us each; %4d answers: median %7.1f ms, 9 of 10 within %7.1f ms, longest %7.1f ms" % (
        accepted, cpu / accepted * 1e6, len(took), *(took[int((len(took) - 1) * part)] * 1e3 for part in (0.5, 0.9, 1))),
        flush=True)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build = os.environ.get("B", "build")
    for _ in range(int(sys.argv[3]) if len(sys.argv) > 3 else 1):
        measure(build, int(sys.argv[1]), float(sys.argv[2]), sys.argv[4] if len(sys.argv) > 4 else "0")


main()
