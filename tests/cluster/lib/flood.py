#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Much output of several ranks, and did all of it arrive?

usage: flood.py write BYTES MAX         what a rank runs: about BYTES, in lines of at most MAX bytes
       flood.py check BYTES MAX RANKS LABEL <OUTPUT
       flood.py check BYTES MAX RANK LABEL FILE     of one rank, as it is in FILE

Lines have all bytes but those that end a line, and all lengths; the last one
has no end. LABEL is what stands in front of a line, with %d for the rank, or
empty. Each line must be whole, none missing, and each rank's in their order.
"""
import os
import re
import sys

# All but the two that end a line where labels are Horovod's.
BYTES = bytes(b for b in range(256) if b not in b"\r\n")


def lines(rank, total, most):
    """Of rank, without their ends. Lengths grow and start over, and are never the same for two ranks."""
    length, number, done = 1, 0, 0
    while done < total:
        head = b"%d %d " % (rank, number)
        size = min(length, most)
        shift = (rank * 31 + number * 7) % len(BYTES)
        block = BYTES[shift:] + BYTES[:shift]
        yield head + (block * (size // len(block) + 1))[:size]
        done += size
        number += 1
        length = 1 + rank if length >= most else length * 2 + rank


def write(total, most):
    out = bytearray()
    first = True
    for line in lines(int(os.environ["HOROVOD_RANK"]), total, most):
        out += line if first else b"\n" + line
        first = False
        if len(out) >= 100000:
            push(out)
            out = bytearray()
    push(out)


def push(out):
    view = memoryview(out)
    while view:
        view = view[os.write(1, view):]


def check(total, most, ranks, label, stream):
    label = re.compile(re.escape(label.encode()).replace(b"%d", rb"(\d+)"))
    expected = {rank: lines(rank, total, most) for rank in ranks}
    count = {rank: 0 for rank in ranks}
    for line in stream.read().split(b"\n")[:-1]:
        found = label.match(line)
        if not found:
            sys.exit("no label: %r…" % line[:200])
        rest = line[found.end():]
        rank = int(found.group(1) if found.groups() else rest[:1])
        want = next(expected[rank], None)
        if rest != want:
            at = next((i for i, (a, b) in enumerate(zip(rest, want or b"")) if a != b), 0)
            sys.exit("rank %d, line %d: not what was written: at %d of %d, %r…; it has %d bytes" % (
                rank, count[rank], at, len(want or b""), rest[at:at + 80], len(rest)))
        count[rank] += 1
    for rank in ranks:
        if next(expected[rank], None) is not None:
            sys.exit("rank %d: lines are missing after %d" % (rank, count[rank]))
    print("complete: %d lines of %d ranks" % (sum(count.values()), len(count)))


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "write":
        write(int(sys.argv[2]), int(sys.argv[3]))
    elif len(sys.argv) == 6 and sys.argv[1] == "check":
        check(int(sys.argv[2]), int(sys.argv[3]), range(int(sys.argv[4])), sys.argv[5], sys.stdin.buffer)
    elif len(sys.argv) == 7 and sys.argv[1] == "check":
        with open(sys.argv[6], "rb") as stream:
            check(int(sys.argv[2]), int(sys.argv[3]), [int(sys.argv[4])], sys.argv[5], stream)
    else:
        sys.exit(__doc__)


main()
