#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time whole launches, side by side.

Runs each command of a set in turn, round after round, so that whatever else the
machine does falls on all of them alike; prints medians and the ratio to the
first. To be run inside a cluster: on its login host or in an allocation.

usage: launch_times.py [--cpu FILE] ROUNDS LABEL=COMMAND...

--cpu: and processor time, by FILE, the cpu.stat of the control group that the
cluster is in. What other hosts do after a launch has ended is part of it.
"""
import shlex
import statistics
import subprocess
import sys
import time


SETTLE_SECONDS = 0.3


def usage_ms(path):
    with open(path, encoding="ascii") as stat:
        return int(stat.readline().split()[1]) / 1000


def once(argv):
    began = time.perf_counter()
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          timeout=120, check=False)
    took = time.perf_counter() - began
    if done.returncode != 0:
        sys.exit("launch_times: %s: status %d\n%s" % (shlex.join(argv), done.returncode, done.stderr.decode()))
    return took


def once_cpu(path, argv):
    """Wall seconds, and milliseconds of processor time; None without a file to read that from."""
    if not path:
        return once(argv), None
    time.sleep(SETTLE_SECONDS)
    before = usage_ms(path)
    took = once(argv)
    time.sleep(SETTLE_SECONDS)
    return took, usage_ms(path) - before


def print_cpu(commands, cpu):
    first = statistics.median(cpu[commands[0][0]])
    print("%-28s %9s %9s %9s %7s" % ("command", "median ms", "min ms", "more ms", "ratio"))
    for label, _ in commands:
        ms = statistics.median(cpu[label])
        print("%-28s %9.0f %9.0f %9.0f %7.3g" % (label, ms, min(cpu[label]), ms - first, ms / first))


def main():
    path = sys.argv[2] if sys.argv[1:2] == ["--cpu"] else None
    args = sys.argv[3:] if path else sys.argv[1:]
    if len(args) < 2:
        sys.exit(__doc__)
    rounds = int(args[0])
    commands = [arg.split("=", 1) for arg in args[1:]]
    times = {label: [] for label, _ in commands}
    cpu = {label: [] for label, _ in commands}
    for round_ in range(rounds + 1):
        for label, command in commands:
            took, ms = once_cpu(path, shlex.split(command))
            if round_:  # the first round warms caches
                times[label].append(took)
                cpu[label].append(ms)
    first = statistics.median(times[commands[0][0]])
    print("%-28s %9s %9s %9s %7s" % ("command", "median s", "min s", "max s", "ratio"))
    for label, _ in commands:
        t = times[label]
        print("%-28s %9.3f %9.3f %9.3f %7.3g" % (label, statistics.median(t), min(t), max(t),
                                                 statistics.median(t) / first))
    if path:
        print_cpu(commands, cpu)


main()
