#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time how long real Horovod's ranks take to come together, side by side.

For each launch: from before the launcher until the last rank's Python runs
(launch), and from there until the last rank has done hvd.init() and a first
allreduce (meet). What imports take is in neither: between the two, ranks
import, and wait until all have. Launchers take turns, round after round;
printed are medians, and the ratio of the sums to the first launcher's.

usage: peer_times.py ROUNDS NP PYTHON LABEL=LAUNCHER...
       peer_times.py --rank FOLDER     what the launchers start
"""
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

DEADLINE = 120


def rank(folder):
    started = time.time()
    import torch
    import horovod.torch as hvd
    me, size = os.environ["HOROVOD_RANK"], int(os.environ["HOROVOD_SIZE"])
    open("%s/imported.%s" % (folder, me), "w", encoding="ascii").close()
    while sum(name.startswith("imported.") for name in os.listdir(folder)) < size:
        if time.time() > started + DEADLINE / 2:
            sys.exit("peer_times: rank %s waits in vain for the others to import" % me)
        time.sleep(0.005)
    ready = time.time()
    hvd.init()
    assert hvd.allreduce(torch.ones(10), op=hvd.Sum)[0].item() == size
    done = time.time()
    with open("%s/times.%s" % (folder, me), "w", encoding="ascii") as out:
        out.write("%.6f %.6f %.6f" % (started, ready, done))
    hvd.shutdown()


def once(launcher, python, size):
    with tempfile.TemporaryDirectory() as folder:
        began = time.time()
        run = subprocess.run(launcher + [python, os.path.abspath(__file__), "--rank", folder], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=DEADLINE, check=False)
        if run.returncode:
            sys.exit("peer_times: %s: status %d\n%s" % (shlex.join(launcher), run.returncode, run.stdout.decode()))
        times = []
        for me in range(size):
            with open("%s/times.%d" % (folder, me), encoding="ascii") as text:
                times.append([float(t) for t in text.read().split()])
        started, ready, done = (max(column) for column in zip(*times))
        return started - began, done - ready


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--rank":
        return rank(sys.argv[2])
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    rounds, size, python = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    launchers = [arg.split("=", 1) for arg in sys.argv[4:]]
    seen = {label: [] for label, _ in launchers}
    for round_ in range(rounds + 1):
        for label, launcher in launchers:
            times = once(shlex.split(launcher), python, size)
            if round_:  # the first round warms caches
                seen[label].append(times)
    print("%-14s %9s %9s %9s %9s %9s %7s" % ("launcher", "launch s", "meet s", "sum s", "min s", "max s", "ratio"))
    first = None
    for label, _ in launchers:
        sums = [a + b for a, b in seen[label]]
        first = first or statistics.median(sums)
        print("%-14s %9.3f %9.3f %9.3f %9.3f %9.3f %7.3g" % (
            label, statistics.median(a for a, _ in seen[label]), statistics.median(b for _, b in seen[label]),
            statistics.median(sums), min(sums), max(sums), statistics.median(sums) / first))
    return 0


sys.exit(main())
