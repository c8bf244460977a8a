#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Watch the log of an elastic training (tests/peers/elastic.py) through its event 0, and say how long things took.

usage: elastic_times.py LOG SIZE QUIT [--limit SECONDS]

Waits for the first batch after the event that has this size, and where the size was the same before, a process that is
new; a second later makes the file QUIT, at which the training ends. Prints four numbers of seconds, "-" for none:
  total    from the event to that batch
  pause    the longest time from one batch to the next, from the event to a second after that batch
  import   the longest that a process which began after the event took until it called hvd.init()
  rest     total without import
and nothing when that batch does not come in time.
"""
import argparse
import time


def parse(text):
    """The event's time, batches as (time, size, pid) in order of time, processes as (start, init)."""
    event, batches, workers = None, [], []
    for line in text.splitlines():
        w = line.split()
        if line.startswith("event 0 ") and len(w) == 4:
            event = float(w[3])
        elif line.startswith("epoch ") and len(w) == 12:
            batches.append((float(w[11]), int(w[5]), w[9]))
        elif line.startswith("worker ") and len(w) == 6:
            workers.append((float(w[3]), float(w[5])))
    return event, sorted(batches), workers


def goal(event, batches, size):
    """The time of the batch that is waited for, or None."""
    if event is None:
        return None
    before = [b for b in batches if b[0] <= event]
    pids = {b[2] for b in before}
    same = bool(before) and before[-1][1] == size
    for at, n, pid in batches:
        if at > event and n == size and not (same and pid in pids):
            return at
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("log")
    parser.add_argument("size", type=int)
    parser.add_argument("quit")
    parser.add_argument("--limit", type=float, default=120)
    args = parser.parse_args()
    end = time.time() + args.limit
    reached = None
    while reached is None and time.time() < end:
        time.sleep(0.2)
        try:
            with open(args.log) as f:
                reached = goal(*parse(f.read())[:2], args.size)
        except FileNotFoundError:
            pass
    time.sleep(1)
    with open(args.log) as f:
        event, batches, workers = parse(f.read())
    open(args.quit, "w").close()
    if reached is None:
        return
    times = [b[0] for b in batches]
    pause = max(b - a for a, b in zip(times, times[1:]) if event <= b <= reached + 1)
    imports = [init - start for start, init in workers if start > event and init <= reached]
    total = reached - event
    took = max(imports) if imports else None
    print("%.2f %.2f %s %s" % (total, pause, "-" if took is None else "%.2f" % took,
                               "-" if took is None else "%.2f" % (total - took)))


main()
