#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time whole launches, side by side.

Runs each command of a set in turn, round after round, so that whatever else the
machine does falls on all of them alike; prints medians and the ratio to the
first. To be run inside a cluster: on its login host or in an allocation.

usage: launch_times.py ROUNDS LABEL=COMMAND...
"""
import shlex
import statistics
import subprocess
import sys
import time


def once(argv):
    began = time.perf_counter()
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          timeout=120, check=False)
    took = time.perf_counter() - began
    if done.returncode != 0:
        sys.exit("launch_times: %s: status %d\n%s" % (shlex.join(argv), done.returncode, done.stderr.decode()))
    return took


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    rounds = int(sys.argv[1])
    commands = [arg.split("=", 1) for arg in sys.argv[2:]]
    times = {label: [] for label, _ in commands}
    for round_ in range(rounds + 1):
        for label, command in commands:
            took = once(shlex.split(command))
            if round_:  # the first round warms caches
                times[label].append(took)
    first = statistics.median(times[commands[0][0]])
    print("%-28s %9s %9s %9s %7s" % ("command", "median s", "min s", "max s", "ratio"))
    for label, _ in commands:
        t = times[label]
        print("%-28s %9.3f %9.3f %9.3f %7.3g" % (label, statistics.median(t), min(t), max(t),
                                                 statistics.median(t) / first))


main()
