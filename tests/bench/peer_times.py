#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time how long real ranks of Horovod or PyTorch take to come together, side by side.

For each launch: from before the launcher until the last rank's Python runs
(launch), and from there until the last rank has done hvd.init() or
init_process_group(), and a first allreduce (meet). What imports take is in
neither: between the two, ranks import, and wait until all have. Torchrun's
agents import PyTorch before they start ranks: what the slowest took is taken
out of the launch, and printed (agents). Launchers take turns, round after
round; printed are medians, and the ratio of the sums to the first launcher's.

usage: peer_times.py horovod|torch ROUNDS NP PYTHON LABEL=LAUNCHER...
       peer_times.py again LAUNCHES NP PYTHON LABEL=LAUNCHER...
           ranks of PyTorch that meet, end the group, and meet again, 20 times in each launch: how many
           times all did, before the first at which one failed
       peer_times.py --horovod|--torch|--again FOLDER     what the launchers start
       peer_times.py --torchrun ARG... FOLDER             torchrun, in a launcher's words
"""
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

DEADLINE = 120
AGAIN = 20
PATIENCE = 10  # of a rank that meets the others again


def import_horovod():
    import torch
    import horovod.torch as hvd

    def meet(size):
        hvd.init()
        assert hvd.allreduce(torch.ones(10), op=hvd.Sum)[0].item() == size

    return os.environ["HOROVOD_RANK"], int(os.environ["HOROVOD_SIZE"]), meet, hvd.shutdown


def import_torch():
    import torch
    import torch.distributed as dist

    def meet(size):
        dist.init_process_group("gloo")
        ones = torch.ones(10)
        dist.all_reduce(ones)
        assert ones[0].item() == size

    return os.environ["RANK"], int(os.environ["WORLD_SIZE"]), meet, dist.destroy_process_group


def rank(framework, folder):
    started = time.time()
    me, size, meet, end = framework()
    open("%s/imported.%s" % (folder, me), "w", encoding="ascii").close()
    while sum(name.startswith("imported.") for name in os.listdir(folder)) < size:
        if time.time() > started + DEADLINE / 2:
            sys.exit("peer_times: rank %s waits in vain for the others to import" % me)
        time.sleep(0.005)
    ready = time.time()
    meet(size)
    done = time.time()
    with open("%s/times.%s" % (folder, me), "w", encoding="ascii") as out:
        out.write("%.6f %.6f %.6f" % (started, ready, done))
    end()


def rank_again(folder):
    import datetime
    import torch
    import torch.distributed as dist
    for done in range(AGAIN + 1):
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=PATIENCE))
        ones = torch.ones(10)
        dist.all_reduce(ones)
        assert ones[0].item() == dist.get_world_size()
        with open("%s/again.%d" % (folder, dist.get_rank()), "w", encoding="ascii") as out:
            out.write("%d" % done)
        dist.destroy_process_group()


def again(launches, size, python, launchers):
    good = {label: [] for label, _ in launchers}
    for _ in range(launches):
        for label, launcher in launchers:
            with tempfile.TemporaryDirectory() as folder:
                subprocess.run(["timeout", str(DEADLINE // 2)] + shlex.split(launcher) +
                               [python, os.path.abspath(__file__), "--again", folder], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=DEADLINE, check=False)
                paths = ["%s/again.%d" % (folder, me) for me in range(size)]
                good[label].append(min(int(numbers(path)[0]) if os.path.exists(path) else 0 for path in paths))
    for label, _ in launchers:
        print("%-22s %d of %d  (in each launch: %s)" % (
            label, sum(good[label]), launches * AGAIN, " ".join(map(str, good[label]))))


def torchrun(args):
    started = time.time()
    from torch.distributed.run import main as run
    with open("%s/agent.%s.%d" % (args[-1], os.uname().nodename, os.getpid()), "w", encoding="ascii") as out:
        out.write("%.6f" % (time.time() - started))
    run(args)


def numbers(path):
    with open(path, encoding="ascii") as text:
        return [float(t) for t in text.read().split()]


def once(framework, launcher, python, size):
    """One launch: seconds of the launch, of meeting, and of the agents' imports."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.time()
        run = subprocess.run(launcher + [python, os.path.abspath(__file__), "--" + framework, folder],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             timeout=DEADLINE, check=False)
        if run.returncode:
            sys.exit("peer_times: %s: status %d\n%s" % (shlex.join(launcher), run.returncode, run.stdout.decode()))
        started, ready, done = (max(column) for column in zip(*(
            numbers("%s/times.%d" % (folder, me)) for me in range(size))))
        agents = max([numbers("%s/%s" % (folder, name))[0] for name in os.listdir(folder)
                      if name.startswith("agent.")], default=0)
        return started - began - agents, done - ready, agents


def main():
    ranks = {"--horovod": import_horovod, "--torch": import_torch}
    if len(sys.argv) == 3 and sys.argv[1] in ranks:
        return rank(ranks[sys.argv[1]], sys.argv[2])
    if len(sys.argv) == 3 and sys.argv[1] == "--again":
        return rank_again(sys.argv[2])
    if len(sys.argv) > 5 and sys.argv[1] == "again":
        return again(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], [arg.split("=", 1) for arg in sys.argv[5:]])
    if len(sys.argv) > 2 and sys.argv[1] == "--torchrun":
        return torchrun(sys.argv[2:])
    if len(sys.argv) < 6 or "--" + sys.argv[1] not in ranks:
        sys.exit(__doc__)
    framework, rounds, size, python = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    launchers = [arg.split("=", 1) for arg in sys.argv[5:]]
    seen = {label: [] for label, _ in launchers}
    for round_ in range(rounds + 1):
        for label, launcher in launchers:
            times = once(framework, shlex.split(launcher), python, size)
            if round_:  # the first round warms caches
                seen[label].append(times)
    print("%-22s %9s %9s %9s %9s %9s %7s %9s" % (
        "launcher", "launch s", "meet s", "sum s", "min s", "max s", "ratio", "agents s"))
    first = None
    for label, _ in launchers:
        launch, meet, agents = zip(*seen[label])
        sums = [a + b for a, b in zip(launch, meet)]
        first = first or statistics.median(sums)
        print("%-22s %9.3f %9.3f %9.3f %9.3f %9.3f %7.3g %9.3f" % (
            label, statistics.median(launch), statistics.median(meet), statistics.median(sums), min(sums), max(sums),
            statistics.median(sums) / first, statistics.median(agents)))
    return 0


sys.exit(main())
