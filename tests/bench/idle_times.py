#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a process costs while nothing happens, as shares of one core in percent.

usage: idle_times.py PID SECONDS

Prints four numbers: all together; the process itself; its children that ended in that time; those that live. The third
is in clock ticks; the others are in nanoseconds (schedstat), unless that is less than the ticks by so much that threads have ended.
"""
import os
import sys
import time

TICK = os.sysconf("SC_CLK_TCK")


def stat(pid):
    with open("/proc/%s/stat" % pid) as f:
        w = f.read().rsplit(")", 1)[1].split()
    return w


def precise(pid):
    """Seconds of a core, of all threads."""
    total = 0
    for task in os.listdir("/proc/%s/task" % pid):
        with open("/proc/%s/task/%s/schedstat" % (pid, task)) as f:
            total += int(f.read().split()[0])
    return total / 1e9


def own(pid):
    w = stat(pid)
    ticks = (int(w[11]) + int(w[12])) / TICK
    return max(precise(pid), ticks)


def ended(pid):
    w = stat(pid)
    return (int(w[13]) + int(w[14])) / TICK


def children(pid):
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if stat(name)[1] == str(pid):
                    found[name] = own(name)
            except (FileNotFoundError, ProcessLookupError):
                pass
    return found


def main():
    pid, seconds = sys.argv[1], float(sys.argv[2])
    began, before = time.monotonic(), (own(pid), ended(pid), children(pid))
    time.sleep(seconds)
    after, took = (own(pid), ended(pid), children(pid)), time.monotonic() - began
    living = sum(after[2][c] - before[2][c] for c in after[2] if c in before[2])
    parts = (after[0] - before[0], after[1] - before[1], living)
    print(" ".join("%.3f" % (100 * n / took) for n in (sum(parts),) + parts))


main()
