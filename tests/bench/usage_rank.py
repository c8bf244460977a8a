#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage_rank.py DIR THREADS - a rank for bench_usage.sh: as many threads, two processes below it, a connection to each other
rank, over which it sends something in each step of half a second. The ranks find each other by files in DIR."""
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

folder, threads = pathlib.Path(sys.argv[1]), int(sys.argv[2])
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
for _ in range(threads):
    threading.Thread(target=lambda: time.sleep(1e6), daemon=True).start()
below = [subprocess.Popen(["sleep", "1000"]) for _ in range(2)]
listener = socket.create_server(("127.0.0.1", 0))
(folder / f"{rank}.new").write_text(str(listener.getsockname()[1]))
(folder / f"{rank}.new").rename(folder / str(rank))
peers = []
for other in range(rank):
    while not (folder / str(other)).exists():
        time.sleep(0.1)
    peers.append(socket.create_connection(("127.0.0.1", int((folder / str(other)).read_text()))))
while len(peers) < size - 1:
    peers.append(listener.accept()[0])
(folder / f"{rank}.ready").touch()
while True:
    end = time.process_time() + 0.02
    while time.process_time() < end:
        pass
    time.sleep(0.48)
    for peer in peers:
        peer.sendall(b"x")
    for peer in peers:
        peer.recv(1)
