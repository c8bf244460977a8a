#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From the history of hvdrun --json: what followed from each fault.

usage: fault_times.py OUTPUT <FAULTS

A line of FAULTS is "KIND HOST TIME". OUTPUT has the line of --json. Prints for each fault kind, host, and the seconds until the launcher had noticed it, until the last old rank had gone, and
until the next generation began.
"""
import json
import sys


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as out:
        result = json.loads([line for line in out if line.startswith("{") and '"backend"' in line][-1])
    faults = [line.split() for line in sys.stdin]
    history = result["history"]
    if len(history) != len(faults) + 1:
        sys.exit("%d generations, %d faults" % (len(history), len(faults)))
    for (kind, host, at), old, new in zip(faults, history, history[1:]):
        noticed = old["training"]
        print("%-8s %-8s %8.2f %8.2f %8.2f  %s" %
              (kind, host, old["time"] + noticed - float(at), old["ending"],
               new["began"] - old["began"] - noticed - old["ending"], old.get("cause", "")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
