#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""watch_pty.py HVDRUN JOB SCENARIO - hvdrun --watch JOB on a terminal of this process, which plays the user.

Fails with what the screen shows when something that is expected does not come.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

PATIENCE = 60.0


class Terminal:
    """A vt100 as far as ncurses uses it, and the program on it."""

    def __init__(self, argv, term="vt100", width=80, height=24):
        self.raw, self.rest = "", ""
        self.clear(width, height)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # The size is there before the program is.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
            os.read(0, 1)
            os.environ["TERM"] = term
            os.environ.pop("LINES", None)
            os.environ.pop("COLUMNS", None)
            os.execv(argv[0], argv)
        self.modes = termios.tcgetattr(self.fd)
        os.write(self.fd, b"\n")

    def clear(self, width, height):
        self.width, self.height, self.x, self.y = width, height, 0, 0
        self.cells = [[" "] * width for _ in range(height)]

    def rows(self):
        return ["".join(row).rstrip() for row in self.cells]

    def read(self, seconds):
        """Take what the program writes within the time; False at its end."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        text = data.decode("utf-8", "replace")
        self.raw += text
        self.draw(self.rest + text)
        return bool(data)

    def draw(self, text):
        at = 0
        while at < len(text):
            c = text[at]
            if c == "\x1b":
                match = re.match(r"\x1b(\[[?>]?[0-9;]*[@-~]|[()].|[=>78MDEHc])", text[at:])
                if not match:
                    break
                self.obey(match.group(1))
                at += len(match.group(0))
                continue
            at += 1
            if c == "\r":
                self.x = 0
            elif c == "\n":
                self.y = min(self.y + 1, self.height - 1)
            elif c == "\b":
                self.x = max(self.x - 1, 0)
            elif c >= " " and self.x < self.width:
                self.cells[self.y][self.x] = c
                self.x += 1
        self.rest = text[at:]

    def obey(self, code):
        numbers = [int(n) if n else 0 for n in re.findall(r"\d*", code[1:-1])[:-1]] if code[0] == "[" else []
        first = numbers[0] if numbers else 0
        if code[0] != "[" or code[1:2] == "?":
            return
        if code[-1] == "H":
            self.y = min(max(first, 1), self.height) - 1
            self.x = min(max(numbers[2] if len(numbers) > 2 else numbers[1] if len(numbers) > 1 else 1, 1),
                         self.width) - 1
        elif code[-1] == "A":
            self.y = max(self.y - max(first, 1), 0)
        elif code[-1] == "B":
            self.y = min(self.y + max(first, 1), self.height - 1)
        elif code[-1] == "C":
            self.x = min(self.x + max(first, 1), self.width - 1)
        elif code[-1] == "D":
            self.x = max(self.x - max(first, 1), 0)
        elif code[-1] == "K":
            until = self.x + 1 if first == 1 else self.width
            for x in range(0 if first == 1 else self.x, min(until, self.width)):
                self.cells[self.y][x] = " "
        elif code[-1] == "J":
            for y in range(self.y, self.height):
                for x in range(self.x if y == self.y else 0, self.width):
                    self.cells[y][x] = " "

    def fail(self, why):
        sys.exit(f"{why}; the screen:\n" + "\n".join(self.rows()) + f"\nthe output ends with {self.raw[-600:]!r}")

    def until(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                self.fail(f"not within {PATIENCE:.0f} s: {what}")
            if not self.read(0.5) and not condition():
                self.fail(f"it has ended before: {what}")

    def shows(self, text):
        self.until(lambda: text in "\n".join(self.rows()), text)

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def resize(self, width, height):
        self.clear(width, height)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def by_key(self):
        return not termios.tcgetattr(self.fd)[3] & termios.ICANON

    def ends(self, status):
        """The program ends with this status, below 0 by a signal; the terminal is as it was before."""
        end = time.monotonic() + PATIENCE
        while True:
            pid, how = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > end:
                self.fail("it does not end")
            self.read(0.1)
        while select.select([self.fd], [], [], 0)[0] and self.read(0):
            pass
        got = -os.WTERMSIG(how) if os.WIFSIGNALED(how) else os.WEXITSTATUS(how)
        if got != status:
            self.fail(f"it has ended with {got} instead of {status}")
        if termios.tcgetattr(self.fd) != self.modes:
            self.fail("the modes of the terminal are not restored")


def watch(hvdrun, job, **how):
    return Terminal([hvdrun, f"--watch={job}", "--interval=1"], **how)


def started(hvdrun, job):
    terminal = watch(hvdrun, job)
    terminal.shows("ranks: 3 running")
    if not terminal.by_key():
        terminal.fail("keys are not passed on as they are typed")
    return terminal


def keys(hvdrun, job):
    t = started(hvdrun, job)
    t.shows(" RANK HOST")
    assert t.rows()[0].startswith(f"hvdrun --watch {job}  "), t.rows()
    assert t.rows()[-1].startswith("q leave"), t.rows()
    for key, text in [("o", "ranks by rank"), ("h", "RANKS HOST"), ("h", " RANK HOST"),
                      ("?", "leave; the job goes on"), ("?", "ranks: 3 running"), ("s", "3 ranks of pid"),
                      ("1s", "1 rank of pid"),
                      ("2l", "last lines of rank 2"), ("", "(stdout and stderr):"), ("", "here"), ("1", "rank 1: l last"),
                      ("x", "q leave"), ("l", "ranks: 3 running"), ("s", "stacks")]:
        t.type(key)
        t.shows(text)
    t.type("s")
    t.shows("ranks: 3 running")
    t.resize(72, 8)
    t.shows("  lines 1-6 of ")
    t.until(lambda: t.rows()[7].startswith("q leave"), "the keys in the last line")
    t.type("\x1bOB")  # in the mode of ncurses
    t.shows("  lines 2-7 of ")
    t.resize(100, 30)
    t.until(lambda: t.rows()[29].startswith("q leave"), "the keys in the last line")
    t.type("q")
    t.ends(0)


def waits(hvdrun, job):
    """A job of four ranks, of which rank 3 waits in the store."""
    t = watch(hvdrun, job)
    t.shows("  rank 3 on hvdn2 waits in the store: for never")
    t.shows(" RANK HOST ")
    for key, text in [("3l", "last of 3"), ("l", " RANK HOST "), ("1l", "last of 1"), ("q", "")]:
        t.type(key)
        t.shows(text)
    t.ends(0)


def signals(hvdrun, job):
    t = started(hvdrun, job)
    t.type("\x03")
    t.ends(0)
    t = started(hvdrun, job)
    os.kill(t.pid, signal.SIGTERM)
    t.ends(-signal.SIGTERM)
    t = started(hvdrun, job)
    os.close(t.fd)
    end = time.monotonic() + PATIENCE
    while not os.waitpid(t.pid, os.WNOHANG)[0]:
        if time.monotonic() > end:
            sys.exit("it goes on without its terminal")
        time.sleep(0.1)


def dumb(hvdrun, job):
    t = watch(hvdrun, job, term="dumb")
    t.until(lambda: t.raw.count("ranks: 3 running") >= 2, "two times the state")
    if t.by_key() or len(re.findall(r"---- \d\d:\d\d:\d\d ----", t.raw)) < 2:
        t.fail("no lines")
    os.kill(t.pid, signal.SIGTERM)
    t.ends(-signal.SIGTERM)


def end(hvdrun, job):
    t = started(hvdrun, job)
    os.kill(int(job[len("pid:"):]), signal.SIGTERM)
    t.ends(0)
    last = t.raw[t.raw.rindex("process "):]
    if "ranks: " not in last or "hvdrun: the launch has ended" not in last:
        t.fail("the last state is not there")


if __name__ == "__main__":
    {"keys": keys, "waits": waits, "signals": signals, "dumb": dumb, "end": end}[sys.argv[3]](sys.argv[1], sys.argv[2])
