#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time how long a job lives on after its first rank has died, side by side.

When all ranks run, the last one exits with 7. The others obey SIGTERM: they
note the time and end. Printed, in seconds after the death: when the last rank
was gone, and when the launcher was; medians over the rounds, in which launchers
take turns. A rank that nobody ends gives up after a while and is counted.

usage: death_times.py ROUNDS NP LABEL=LAUNCHER...
       death_times.py --rank FOLDER     what the launchers start
"""
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time

PATIENCE = 10


def note(folder, what, rank):
    path = "%s/%s.%s" % (folder, what, rank)
    with open(path + "~", "w", encoding="ascii") as out:
        out.write("%.6f" % time.time())
    os.rename(path + "~", path)


def rank(folder):
    me, size = os.environ["HOROVOD_RANK"], int(os.environ["HOROVOD_SIZE"])

    def end(_signal, _frame):
        note(folder, "ended", me)
        os._exit(0)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, end)
    note(folder, "here", me)
    give_up = time.time() + 60
    while sum(name.startswith("here.") and name[-1] != "~" for name in os.listdir(folder)) < size:
        if time.time() > give_up:
            sys.exit("death_times: rank %s waits in vain for the others" % me)
        time.sleep(0.01)
    if me == str(size - 1):
        time.sleep(0.5)
        note(folder, "died", me)
        os._exit(7)
    time.sleep(PATIENCE)
    note(folder, "forgotten", me)


def times(folder, what):
    found = []
    for name in os.listdir(folder):
        if name.startswith(what + ".") and name[-1] != "~":
            with open(os.path.join(folder, name), encoding="ascii") as text:
                found.append(float(text.read()))
    return found


def once(launcher, size):
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(launcher + [sys.executable, os.path.abspath(__file__), "--rank", folder],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=180,
                             check=False)
        over = time.time()
        died = times(folder, "died")
        if run.returncode == 0 or not died:
            sys.exit("death_times: %s: status %d\n%s" % (shlex.join(launcher), run.returncode, run.stdout.decode()))
        # A launcher may have gone before its ranks.
        while len(times(folder, "ended") + times(folder, "forgotten")) < size - 1 and time.time() < over + PATIENCE + 5:
            time.sleep(0.05)
        forgotten = times(folder, "forgotten")
        # Killed without a chance to note it: gone when the launcher was, as far as is known.
        last = max(times(folder, "ended") + forgotten + ([over] if len(times(folder, "ended")) < size - 1 else []))
        return last - died[0], over - died[0], len(forgotten)


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--rank":
        return rank(sys.argv[2])
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    rounds, size = int(sys.argv[1]), int(sys.argv[2])
    launchers = [arg.split("=", 1) for arg in sys.argv[3:]]
    seen = {label: [] for label, _ in launchers}
    for _ in range(rounds):
        for label, launcher in launchers:
            seen[label].append(once(shlex.split(launcher), size))
    print("%-24s %12s %8s %14s %10s" % ("launcher", "last rank s", "max s", "launcher s", "forgotten"))
    for label, _ in launchers:
        rows = seen[label]
        print("%-24s %12.3f %8.3f %14.3f %10d" % (
            label, statistics.median(r[0] for r in rows), max(r[0] for r in rows), statistics.median(r[1] for r in rows),
            max(r[2] for r in rows)))
    return 0


sys.exit(main())
