#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time how long it takes from the death of a rank until all ranks run again, launchers in turn.

The last rank kills itself (kill -9) two seconds after all have started. Printed for each launcher are medians of the
seconds from then until the first and until the last rank of the next generation runs its first line, and the lowest and
highest of the latter. Ranks are plain Python, which imports next to nothing; all hosts must have one clock.

With --torch ranks import PyTorch and do an allreduce, after which they run; another column has the seconds from the start
of the launcher until the last rank runs the first time.

usage: restart_times.py [--torch] ROUNDS RANKS PYTHON LABEL=LAUNCHER...
       restart_times.py --rank FOLDER [--torch]     what the launchers start
"""
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time

DEADLINE = 120


def started(folder, restarts):
    """When ranks started, by file."""
    return [float(name.split(".", 2)[2]) for name in os.listdir(folder) if name.startswith("start.%d" % restarts)]


def allreduce():
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))


def rank(folder, torch):
    if torch:
        allreduce()
    now = time.time()
    me, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    # Not TORCHELASTIC_RESTART_COUNT: that of a torchrun on whose host nothing failed is 0 as before.
    restarts = int(any(name.startswith("death.") for name in os.listdir(folder)))
    open("%s/start.%d%03d.%.6f" % (folder, restarts, me, now), "w", encoding="ascii").close()
    while len(started(folder, restarts)) < size:
        time.sleep(0.01)
    if restarts:
        return
    time.sleep(2)
    if me == size - 1:
        open("%s/death.0.%.6f" % (folder, time.time()), "w", encoding="ascii").close()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(DEADLINE)


def once(launcher, python, size, torch):
    """Seconds: from the death until the first and the last run again; from the start until the last runs."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.time()
        run = subprocess.run(shlex.split(launcher) + [python, os.path.abspath(__file__), "--rank", folder] + torch,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             timeout=DEADLINE, check=False)
        death = [float(name[8:]) for name in os.listdir(folder) if name.startswith("death.")]
        again = started(folder, 1)
        if run.returncode or len(death) != 1 or len(again) != size:
            sys.exit("restart_times: %s: status %d\n%s" % (launcher, run.returncode, run.stdout.decode()))
        return min(again) - death[0], max(again) - death[0], max(started(folder, 0)) - began


def main():
    if sys.argv[1:2] == ["--rank"]:
        return rank(sys.argv[2], sys.argv[3:])
    torch = ["--torch"] if "--torch" in sys.argv[1:2] else []
    del sys.argv[1:1 + len(torch)]
    if len(sys.argv) < 5:
        return __doc__
    launchers = [arg.split("=", 1) for arg in sys.argv[4:]]
    times = {label: [] for label, _ in launchers}
    for _ in range(int(sys.argv[1])):
        for label, launcher in launchers:
            times[label].append(once(launcher, sys.argv[3], int(sys.argv[2]), torch))
    print("%-22s %8s %8s %8s %16s" % ("seconds", "start", "first", "last", "lowest-highest"))
    base = None
    for label, _ in launchers:
        first, last, start = (statistics.median(column) for column in zip(*times[label]))
        base = base or last
        print("%-22s %8.3f %8.3f %8.3f %16s   1:%.2f  n=%d" % (
            label, start, first, last, "%.3f-%.3f" % (min(t[1] for t in times[label]), max(t[1] for t in times[label])),
            last / base, len(times[label])))


if __name__ == "__main__":
    sys.exit(main())
