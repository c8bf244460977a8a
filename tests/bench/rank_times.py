#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time ranks of whole launches, side by side: launchers take turns, round after round, and medians are printed.

horovod, torch  How long real ranks of Horovod or PyTorch take to come together: from before the launcher until the last
                rank's Python runs (launch), and from there until the last rank has done hvd.init() or
                init_process_group(), and a first allreduce (meet). What imports take is in neither: between the two,
                ranks import, and wait until all have. Torchrun's agents import PyTorch before they start ranks: what
                the slowest took is taken out of the launch, and printed (agents). A first round warms caches.
again           Ranks of PyTorch that initialize, sum, destroy the group and initialize again, 20 times in each launch:
                how many times all did, before the first at which one failed.
death           When all ranks run, the last one exits with 7. The others obey SIGTERM: they note the time and end. In
                seconds after the death: when the last rank was gone, and when the launcher was. A rank that nobody ends
                gives up after a while and is counted (forgotten).
restart         The last rank kills itself (kill -9) two seconds after all have started. In seconds from then until the
                first and the last rank of the next generation run their first line. Ranks are plain Python, which
                imports next to nothing; all hosts must have one clock.
restart-torch   The same, where ranks first import PyTorch and do an allreduce. The start is from before the launcher
                until the last rank runs the first time.

usage: rank_times.py MODE ROUNDS NP PYTHON LABEL=LAUNCHER...
       rank_times.py --MODE FOLDER             what the launchers start
       rank_times.py --torchrun ARG... FOLDER  torchrun, in a launcher's words
"""
import datetime
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from statistics import median

DEADLINE = 120
AGAIN = 20
PATIENCE = 10  # of a rank that initializes again, and of one that nobody ends


# ---- what ranks and launchers write into a folder ----

def note(folder, what, who, *numbers):
    path = "%s/%s.%s" % (folder, what, who)
    with open(path + "~", "w", encoding="ascii") as out:
        out.write(" ".join("%.6f" % n for n in numbers))
    os.rename(path + "~", path)


def notes(folder, what):
    """The numbers of each who has noted this."""
    found = []
    for name in os.listdir(folder):
        if name.startswith(what + ".") and name[-1] != "~":
            with open(os.path.join(folder, name), encoding="ascii") as text:
                found.append([float(n) for n in text.read().split()])
    return found


def wait_for_all(folder, what, size):
    give_up = time.time() + DEADLINE / 2
    while len(notes(folder, what)) < size:
        if time.time() > give_up:
            sys.exit("rank_times: the other ranks did not get as far as this one: %s" % what)
        time.sleep(0.005)


# ---- ranks ----

def me_and_size():
    rank, size = ("RANK", "WORLD_SIZE") if "RANK" in os.environ else ("HOROVOD_RANK", "HOROVOD_SIZE")
    return int(os.environ[rank]), int(os.environ[size])


def import_horovod():
    import torch
    import horovod.torch as hvd

    def meet(size):
        hvd.init()
        assert hvd.allreduce(torch.ones(10), op=hvd.Sum)[0].item() == size

    return meet, hvd.shutdown


def import_torch():
    import torch
    import torch.distributed as dist

    def meet(size):
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=PATIENCE) if "--again" in sys.argv else None)
        ones = torch.ones(10)
        dist.all_reduce(ones)
        assert ones[0].item() == size

    return meet, dist.destroy_process_group


def rank_meets(folder, imports):
    started = time.time()
    me, size = me_and_size()
    meet, end = imports()
    note(folder, "imported", me)
    wait_for_all(folder, "imported", size)
    ready = time.time()
    meet(size)
    note(folder, "times", me, started, ready, time.time())
    end()


def rank_again(folder):
    me, size = me_and_size()
    meet, end = import_torch()
    for done in range(AGAIN + 1):
        meet(size)
        note(folder, "again", me, done)
        end()


def rank_dies(folder):
    me, size = me_and_size()

    def end(_signal, _frame):
        note(folder, "ended", me, time.time())
        os._exit(0)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, end)
    note(folder, "here", me)
    wait_for_all(folder, "here", size)
    if me == size - 1:
        time.sleep(0.5)
        note(folder, "died", me, time.time())
        os._exit(7)
    time.sleep(PATIENCE)
    note(folder, "forgotten", me, time.time())


def rank_restarts(folder, torch):
    me, size = me_and_size()
    if torch:
        import_torch()[0](size)
    now = time.time()
    # Not TORCHELASTIC_RESTART_COUNT: that of a torchrun on whose host nothing failed is 0 as before.
    restarted = bool(notes(folder, "died"))
    what = "restart" if restarted else "start"
    note(folder, what, me, now)
    wait_for_all(folder, what, size)
    if restarted:
        return
    time.sleep(2)
    if me == size - 1:
        note(folder, "died", me, time.time())
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(DEADLINE)


def torchrun(args):
    started = time.time()
    from torch.distributed.run import main as run
    note(args[-1], "agent", "%s.%d" % (os.uname().nodename, os.getpid()), time.time() - started)
    run(args)


# ---- launches ----

def launch(folder, mode, launcher, python, fails=None):
    """Seconds since the epoch: before the launch and after it. `fails`: whether it is to fail; None: it may."""
    began = time.time()
    run = subprocess.run(["timeout", str(DEADLINE)] + shlex.split(launcher) +
                         [python, os.path.abspath(__file__), "--" + mode, folder],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if fails is not None and (run.returncode != 0) != fails:
        sys.exit("rank_times: %s: status %d\n%s" % (launcher, run.returncode, run.stdout.decode()))
    return began, time.time()


def time_meeting(folder, mode, launcher, python, size):
    """Seconds of the launch, of meeting, of both, and of the agents' imports."""
    began, _ = launch(folder, mode, launcher, python, False)
    started, ready, done = (max(column) for column in zip(*notes(folder, "times")))
    agents = max(notes(folder, "agent"), default=[0])[0]
    return started - began - agents, done - ready, started - began - agents + done - ready, agents


def time_again(folder, mode, launcher, python, size):
    launch(folder, mode, launcher, python)
    done = notes(folder, "again")
    return (min(done)[0] if len(done) == size else 0,)


def time_death(folder, mode, launcher, python, size):
    """Seconds from the death until the last rank and the launcher had gone; ranks that nobody ended."""
    _, over = launch(folder, mode, launcher, python, True)
    # A launcher may have gone before its ranks.
    while len(notes(folder, "ended") + notes(folder, "forgotten")) < size - 1 and time.time() < over + PATIENCE + 5:
        time.sleep(0.05)
    died, ended, forgotten = notes(folder, "died")[0][0], notes(folder, "ended"), notes(folder, "forgotten")
    # Killed without a chance to note it: gone when the launcher was, as far as is known.
    last = max(ended + forgotten + ([[over]] if len(ended) < size - 1 else []))[0]
    return last - died, over - died, len(forgotten)


def time_restart(folder, mode, launcher, python, size):
    """Seconds from the launch until the last rank ran; from the death until the first and the last ran again."""
    began, _ = launch(folder, mode, launcher, python, False)
    died, again = notes(folder, "died")[0][0], notes(folder, "restart")
    return max(notes(folder, "start"))[0] - began, min(again)[0] - died, max(again)[0] - died


# Of each mode: the rank, the time of a launch, its columns, which of them is compared, and rounds that do not count.
MODES = {
    "horovod": (lambda folder: rank_meets(folder, import_horovod), time_meeting, ("launch", "meet", "sum", "agents"), 2, 1),
    "torch": (lambda folder: rank_meets(folder, import_torch), time_meeting, ("launch", "meet", "sum", "agents"), 2, 1),
    "again": (rank_again, time_again, ("of %d" % AGAIN,), 0, 0),
    "death": (rank_dies, time_death, ("last rank", "launcher", "forgotten"), 0, 0),
    "restart": (lambda folder: rank_restarts(folder, False), time_restart, ("start", "first", "last"), 2, 0),
    "restart-torch": (lambda folder: rank_restarts(folder, True), time_restart, ("start", "first", "last"), 2, 0),
}


def compare(mode, rounds, size, python, launchers):
    _, measure, columns, compared, warm = MODES[mode]
    seen = {label: [] for label, _ in launchers}
    for round_ in range(rounds + warm):
        for label, launcher in launchers:
            with tempfile.TemporaryDirectory() as folder:
                times = measure(folder, mode, launcher, python, size)
            if round_ >= warm:
                seen[label].append(times)
    first = None
    print("%-24s" % mode + "".join("%11s" % name for name in columns) + "   %s, each" % columns[compared])
    for label, times in seen.items():
        medians = [median(column) for column in zip(*times)]
        first = first or medians[compared]
        print("%-24s" % label + "".join("%11.3f" % m for m in medians) + "   1:%.3g  " % (
            medians[compared] / first if first else 0) + " ".join("%.3g" % t[compared] for t in times), flush=True)


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--torchrun":
        torchrun(sys.argv[2:])
    elif len(sys.argv) == 3 and sys.argv[1][2:] in MODES:
        MODES[sys.argv[1][2:]][0](sys.argv[2])
    elif len(sys.argv) > 5 and sys.argv[1] in MODES:
        compare(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], [arg.split("=", 1) for arg in sys.argv[5:]])
    else:
        sys.exit(__doc__)


main()
