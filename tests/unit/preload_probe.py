# SPDX-License-Identifier: Apache-2.0
"""Prints what a process has got from its start. Its arguments after the first say how it ends."""

import atexit
import ctypes
import os
import re
import resource
import signal
import subprocess
import sys


def show(name, *values):
    for value in values:
        print(name, "=", re.sub("0x[0-9a-f]{4,}", "ADDRESS", str(value)), flush=True)


def at_the_end():
    print("atexit", flush=True)


# What differs between two launches.
OF_LAUNCH = ("PORT", "ERROR_FILE", "ADDRESS", "ENDPOINT", "RDZV_ID", "LAUNCH_VARIABLES")


def environment(block):
    for entry in block.split(b"\0"):
        name = entry.partition(b"=")[0]
        yield name if name.decode().endswith(OF_LAUNCH) else entry


def read(path):
    with open(path, "rb") as f:
        return f.read()


def descriptors():
    for fd in sorted(os.listdir("/proc/self/fd")):
        try:
            yield fd, re.sub("[0-9]+", "N", os.readlink("/proc/self/fd/" + fd))
        except OSError:  # that of the list
            pass


def status_of(*names):
    for line in read("/proc/self/status").decode().splitlines():
        if line.split(":")[0] in names:
            show("status", line)


show("argv", sys.argv)
show("orig_argv", getattr(sys, "orig_argv", None))
show("path", sys.path)
show("flags", sys.flags)
show("warnoptions", sys.warnoptions)
show("xoptions", sys._xoptions)
show("executable", (sys.executable, sys.prefix, os.readlink("/proc/self/exe")))
show("cmdline", read("/proc/self/cmdline"))
show("comm", read("/proc/self/comm"))
show("main", *sorted((n, str(v)[:80]) for n, v in vars(sys.modules["__main__"]).items() if n.startswith("__")))
show("sitecustomize", getattr(sys.modules.get("sitecustomize"), "__file__", None))
show("cache", [path for path in sys.path_importer_cache if "preload" in path])
show("environ", *environment(b"\0".join(b"=".join(pair) for pair in os.environb.items())))
show("proc environ", *environment(read("/proc/self/environ")))
show("PATH for children", subprocess.check_output("echo $PYTHONPATH $RANK $LC_CTYPE", shell=True))
show("cwd", os.getcwd())
show("umask", os.umask(0o22))
show("nice", os.nice(0))
show("affinity", os.sched_getaffinity(0))
show("limits", [resource.getrlimit(n) for n in range(16)])
show("oom", read("/proc/self/oom_score_adj"))
show("leader", (os.getpgrp() == os.getpid(), os.getsid(0) == os.getsid(os.getppid()), os.getpgrp() == os.getpgid(os.getppid())))
show("parent", read("/proc/%d/comm" % os.getppid()))
show("descriptors", *descriptors())
show("kinds", [os.fstat(n).st_mode for n in range(3)])
show("inheritable", [os.get_inheritable(n) for n in range(3)])
show("streams", [(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, type(s.buffer).__name__)
                 for s in (sys.stdin, sys.stdout, sys.stderr)])
show("handlers", *((n, signal.getsignal(n)) for n in range(1, 65) if n not in (32, 33)))
status_of("SigBlk", "SigIgn", "SigCgt", "Threads", "NoNewPrivs", "Groups", "Cpus_allowed_list")
death = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(death))  # PR_GET_PDEATHSIG
show("death", death.value)
show("stdin", sys.stdin.read())
sys.stdout.write("not flushed\n")
atexit.register(at_the_end)


def deep(how):
    if how == "raise":
        raise ValueError("from the program")
    if how == "text":
        sys.exit("a text")
    if how == "code":
        sys.exit(7)
    if how == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    if how == "kill":
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    if how == "stack":
        import traceback

        traceback.print_stack()
    if how == "thread":
        import threading
        import time

        threading.Thread(target=lambda: (time.sleep(0.2), print("thread", flush=True))).start()
    if how == "spawn":
        import multiprocessing

        process = multiprocessing.get_context("spawn").Process(target=print, args=("spawned",))
        process.start()
        process.join()
    if how == "warn":
        import warnings

        warnings.warn("a warning", stacklevel=3)


if __name__ == "__main__":
    deep(sys.argv[1] if len(sys.argv) > 1 else "")
