#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hvdrun.spark.run() on a cluster of Spark's on this machine, two executors with two tasks each: spark.py WHAT."""

import glob
import hashlib
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
import warnings

import hvdrun
import hvdrun.spark
from pyspark import SparkConf, SparkContext

started = time.time()


def say(*words):
    print("{:.1f}".format(time.time() - started), *words, flush=True)


def context(**more):
    conf = SparkConf().setMaster("local-cluster[2,2,1024]").setAppName("hvdrun")
    conf.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
    for name, value in more.items():
        conf.set("spark." + name.replace("_", "."), value)
    sc = SparkContext(conf=conf)
    sc.setLogLevel("OFF")
    say("Spark is up")
    return sc


def where():
    """A rank, its place, and all that it sees of keys."""
    environ = os.environ
    names = "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE"
    numbers = tuple(int(environ[name]) for name in names)
    return numbers + (environ["HOROVOD_HOSTNAME"], environ.get("COLOUR")), keys_to_be_seen()


def executor():
    """The process of the executor that this rank is in."""
    pid = os.getpid()
    while pid > 1:
        with open("/proc/%d/cmdline" % pid) as f:
            if "CoarseGrainedExecutorBackend" in f.read():
                return pid
        with open("/proc/%d/stat" % pid) as f:
            pid = int(f.read().rpartition(")")[2].split()[1])
    raise RuntimeError("no executor above this rank")


def keys_to_be_seen():
    """Hashes of all that looks like a key in environments and command lines on this machine."""
    found = set()
    for name in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(name, "rb") as f:
                found.update(hashlib.sha256(key).hexdigest() for key in re.findall(rb"[0-9a-f]{64}", f.read()))
        except OSError:
            pass
    return found


def allreduce():
    import torch
    import horovod.torch as hvd

    hvd.init()
    return hvd.rank(), hvd.size(), hvd.allreduce(torch.ones(4) * (hvd.rank() + 1), op=hvd.Sum)[3].item()


def results():
    made = []
    token_hex = secrets.token_hex
    secrets.token_hex = lambda n: made.append(token_hex(n)) or made[-1]
    answers = hvdrun.spark.run(where, num_proc=4, env={"COLOUR": "red"})
    secrets.token_hex = token_hex
    for place, _ in answers:
        say("rank", *place)
    key = hashlib.sha256(made[0].encode()).hexdigest()
    say("the key is seen:", any(key in seen for _, seen in answers))
    other = subprocess.Popen(["sleep", "20"], env={"SEEN": made[0]})
    say("a key in an environment is seen:", key in keys_to_be_seen())
    other.kill()
    other.wait()
    say("Horovod:", hvdrun.spark.run(allreduce, num_proc=2, executable=os.environ["HOROVOD_PYTHON"]))


def expect(kind, what, **options):
    try:
        hvdrun.spark.run(what, **options)
    except kind as e:
        say(type(e).__name__ + ":", e)
        return e
    raise AssertionError("nothing was raised")


def elastic():
    """A rank that dies: the others go on without it."""

    def train():
        import torch
        import horovod.torch as hvd

        hvd.init()
        state = hvd.elastic.TorchState(step=0)

        @hvd.elastic.run
        def steps(state):
            while state.step < 30:
                hvd.allreduce(torch.ones(10), name="x")
                if state.step == 5 and hvd.rank() == 1 and hvd.size() == 3:
                    os.kill(os.getpid(), signal.SIGKILL)
                state.step += 1
                state.commit()
                time.sleep(0.05)

        steps(state)
        return hvd.rank(), hvd.size(), state.step

    python = os.environ["HOROVOD_PYTHON"]
    say("elastic:", hvdrun.spark.run_elastic(train, num_proc=3, min_np=2, executable=python))


def cost(sc):
    """What failed and interrupted functions cost, where each executor has two tasks: executors, and what they cache."""

    def raises():
        time.sleep(1)
        if os.environ["RANK"] == "3":
            raise LookupError("no data")
        time.sleep(100)

    def cached():
        return sum(rdd.numCachedPartitions() for rdd in sc._jsc.sc().getRDDStorageInfo())

    def executors():
        return sorted(sc._jsc.sc().getExecutorIds().mkString(" ").split())

    data = sc.parallelize(range(4), 4).cache()
    data.count()
    before = executors()
    say("cached:", cached())
    expect(hvdrun.RankError, raises, num_proc=4)
    threading.Timer(6, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        hvdrun.spark.run(time.sleep, (100,), num_proc=4)
    except KeyboardInterrupt:
        say("interrupted")
    time.sleep(3)  # time enough for an executor to die of it
    say("executors live on:", before == executors())
    say("still cached:", cached())
    data.unpersist()


def failures(folder):
    def divides():
        if os.environ["RANK"] == "1":
            1 // 0
        time.sleep(100)

    def kills_executor():
        with open(os.path.join(folder, "ran-" + os.environ["RANK"]), "a") as f:
            f.write(os.environ["HOROVOD_HOSTNAME"] + "\n")
        time.sleep(1)
        if os.environ["RANK"] == "1":
            os.kill(executor(), signal.SIGKILL)
        time.sleep(100)

    e = expect(hvdrun.RankError, divides, num_proc=2)
    say("rank", e.rank, "on", e.host, "has raised", repr(e.__cause__))
    began = time.time()
    expect(hvdrun.LaunchError, where, num_proc=5, start_timeout=2)
    say("in time:", time.time() - began < 20)
    expect(hvdrun.LaunchError, where, num_proc=2, hvd_agent="/nonesuch/hvd-agent")
    e = expect(hvdrun.LaunchError, kills_executor, num_proc=2)
    time.sleep(3)  # time enough for a second run
    ran = [open(name).read().split() for name in sorted(glob.glob(folder + "/ran-*"))]
    say("runs:", *(len(names) for names in ran))
    name = ran[1][0]
    # In this module's words or, where Spark was faster, in Spark's ("ExecutorLostFailure (executor 1 exited …").
    said = re.match(r"Spark has .*xecutor {}\b".format(name.rpartition("-")[2]), str(e), re.DOTALL) is not None
    say("the killed executor is named:", said and name in str(e))


def runs(folder):
    """Spark authenticates and encrypts here, so there is no warning."""
    warnings.simplefilter("error", RuntimeWarning)
    sc = context(authenticate="true", authenticate_secret="not a secret", network_crypto_enabled="true")
    results()
    elastic()
    cost(sc)
    failures(folder)
    sc.stop()


def stays(folder):
    """Interrupted first, and then killed."""

    def waits(name):
        with open(os.path.join(folder, name + os.environ["RANK"]), "w") as f:
            f.write("%d" % os.getpid())
        time.sleep(1000)

    sc = context()
    try:
        hvdrun.spark.run(waits, ("first-",), num_proc=2)
    except KeyboardInterrupt:
        say("interrupted")
    say("and again:", hvdrun.spark.run(lambda: os.environ["RANK"], num_proc=1))
    hvdrun.spark.run(waits, ("second-",), num_proc=2)
    sc.stop()


if __name__ == "__main__":
    {"runs": runs, "stays": stays}[sys.argv[1]](*sys.argv[2:])
