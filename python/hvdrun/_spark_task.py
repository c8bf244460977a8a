# SPDX-License-Identifier: Apache-2.0
"""A task of the barrier stage of hvdrun.spark.run(): one task of each executor is its node agent.

The driver of Spark sends this file's text with the stage, so the executors need not have this package; that is why it
imports nothing of it. They need hvd-agent, and their Python has pyspark.

The agent of an executor is the task with the lowest partition there. It runs hvd-agent connect, which starts one rank for
each task of the executor, and ends with this process: hvd-agent reads the launch's key from a pipe whose other end only
this process has. The other tasks wait for it at a socket of the executor, so that Spark counts what the ranks use, and
so that Spark ends the stage when it loses any of them. They do not wait in BarrierTaskContext.barrier() or allGather():
when Spark 4 ends a task that waits there, an exception that nobody catches ends the whole executor with status 50.

A task that fails makes Spark start the whole stage again, which does not help where hvd-agent is missing: that is told by
an accumulator, which comes to Spark's driver as soon as the task has ended well. hvdrun refuses the agents of a second
stage once the ranks have started.
"""

import hashlib
import hmac
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time

# Bytes of what hvd-agent says that come back to the driver.
TEXT_MAX = 4096
# Seconds that the tasks of one executor, which Spark starts together, may take to find each other; between two tries.
TOGETHER_SECONDS = 120
RETRY_SECONDS = 0.1
# Bytes that a task tells the agent of its executor.
TOLD_MAX = 65536
# Levels of parent processes among which an executor's own process is.
PARENTS_MAX = 8


def executor_id():
    """Returns Spark's name for this executor, as the command line of its process has it, or None."""
    pid = os.getppid()
    for _ in range(PARENTS_MAX):
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as f:
                words = f.read().decode("utf-8", "replace").split("\0")
            with open("/proc/%d/stat" % pid, "rb") as f:
                pid = int(f.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return None
        if "--executor-id" in words[:-1]:
            return words[words.index("--executor-id") + 1]
        if pid <= 1:
            return None
    return None


def executor_name():
    """Returns the name of this executor as a host of the launch. Executors of one machine have names of their own."""
    number = executor_id()
    return socket.gethostname() + ("-executor-" + number if number else "")


def missing(hvd_agent):
    """Returns why no agent can run here, or None."""
    if not os.path.exists(hvd_agent):
        return (
            "there is no {}: install this suite on the executors' machines, or give its path by hvd_agent=… or "
            "$HVD_AGENT".format(hvd_agent)
        )
    if not os.access(hvd_agent, os.X_OK):
        return "{} cannot be executed".format(hvd_agent)
    return None


def gpus_of(context):
    """Returns the GPUs that Spark has given to this task."""
    try:
        return list(context.resources()["gpu"].addresses)
    except (AttributeError, KeyError):  # before Spark 3.0; a job without GPUs
        return []


def socket_name(key, executor):
    """Returns the name of the executor's socket, an abstract one that nobody else can know before it is there."""
    mac = hmac.new(key.encode("ascii"), executor.encode("utf-8"), hashlib.sha256)
    return "\0hvdrun-spark-" + mac.hexdigest()[:32]


def is_own(connection):
    """Returns whether the process at the other end is of this user. Everybody on the host can read the socket's name while
    it is there, and take it when the agent has ended."""
    pid_uid_gid = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", pid_uid_gid)[1] == os.getuid()


class Others(object):
    """The other tasks of this executor, at the agent's end of the socket."""

    def __init__(self, name):
        self._until = time.time() + TOGETHER_SECONDS
        self._tasks = {}  # partition: (attempt, GPUs, connection)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        while True:
            try:
                self._listener.bind(name)
                break
            except OSError:  # the agent of a stage that Spark has given up has not ended yet
                if time.time() > self._until:
                    raise
                time.sleep(RETRY_SECONDS)
        self._listener.listen(128)

    def _take(self, connection):
        if not is_own(connection):
            return False
        connection.settimeout(10)
        try:
            told = json.loads(connection.makefile("r").readline(TOLD_MAX))
        except (OSError, ValueError):
            return False
        partition, attempt = told["partition"], told["attempt"]
        if partition in self._tasks:
            if self._tasks[partition][0] > attempt:
                return False
            self._tasks[partition][2].close()
        self._tasks[partition] = attempt, told["gpus"], connection
        return True

    def gpus(self, partitions):
        """Waits for the tasks of these partitions. Returns their GPUs in the order of the partitions."""
        while not all(p in self._tasks for p in partitions):
            self._listener.settimeout(max(self._until - time.time(), RETRY_SECONDS))
            try:
                connection = self._listener.accept()[0]
            except socket.timeout:
                raise RuntimeError("Spark has not started all tasks of executor {}".format(executor_id()))
            if not self._take(connection):
                connection.close()
        return [gpu for p in partitions for gpu in self._tasks[p][1]]

    def release(self):
        """The ranks have ended."""
        self._listener.close()
        for _, _, connection in self._tasks.values():
            try:
                connection.sendall(b"\n")
            except OSError:  # Spark has ended it
                pass
            connection.close()


def wait_for_agent(name, told):
    """Tells the agent of this executor what it has to know, and returns when the ranks have ended."""
    until = time.time() + TOGETHER_SECONDS
    while time.time() < until:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            try:
                connection.connect(name)
                if is_own(connection):
                    connection.sendall(json.dumps(told).encode("ascii") + b"\n")
                    if connection.recv(1):
                        return
                    until = time.time() + TOGETHER_SECONDS  # that agent has died, or was one of a stage given up
            except OSError:  # it is not there yet
                pass
        time.sleep(RETRY_SECONDS)
    raise RuntimeError("executor {} has no agent".format(executor_id()))


def environment(send, gpus):
    """Returns the environment of an agent, and so of its ranks."""
    environ = dict(os.environ)
    environ["HVD_RUN_FUNC_PATH"] = json.dumps(sys.path)
    environ["HVD_RUN_FUNC_PICKLE"] = "pyspark.cloudpickle"
    environ["HVD_RUN_FUNC_PYTHON"] = send["executable"] or sys.executable
    environ["HVD_RUN_FUNC_WORKER"] = send["worker"]
    if gpus:
        # In the order of the ranks: local rank i has the i-th of them.
        environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    for name, value in send["env"].items():
        environ.pop(name, None)
        if value is not None:
            environ[name] = value
    return environ


def tell(stream, texts):
    """Passes on what the agent says to this executor's log, and keeps the end of it."""
    for line in stream:
        sys.stderr.write(line)
        sys.stderr.flush()
        texts.append(line)
        del texts[:-20]


def run_agent(send, name, slots, index, gpus):
    """Runs the agent until its ranks have ended. Raises what it says when it cannot be part of the launch."""
    texts = []
    agent = subprocess.Popen(
        [
            send["hvd_agent"],
            "connect",
            send["address"],
            "--key-file=-",
            "--slots=%d" % slots,
            "--name=" + name,
        ]
        + ([] if index is None else ["--index=%d" % index]),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        errors="replace",
        env=environment(send, gpus),
    )
    reader = threading.Thread(target=tell, args=(agent.stderr, texts), daemon=True)
    reader.start()
    try:
        agent.stdin.write(send["key"] + "\n")
        agent.stdin.flush()  # and left open: its end is the end of the agent and of its ranks
    except OSError:  # the agent has ended; its status and its text say why
        pass
    status = agent.wait()
    reader.join(5)  # a process that a rank has left behind may have the pipe open
    if status != 0 and texts:
        raise RuntimeError("{}: {}".format(name, "".join(texts).strip()[-TEXT_MAX:]))


def elastic(send, lacks):
    """A task of run_elastic(): each is an agent with one slot, and a host of its own. When it fails, as with its executor,
    Spark starts another."""
    from pyspark import TaskContext

    name, why = executor_name(), missing(send["hvd_agent"])
    if why:
        lacks.add([name + ": " + why])
    else:
        run_agent(send, name, 1, None, gpus_of(TaskContext.get()))


def main(send, lacks):
    """Tells the accumulator `lacks` why there is no agent here, if that is so."""
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    partition = context.partitionId()
    name = executor_name()
    why = missing(send["hvd_agent"])
    if why:
        lacks.add([name + ": " + why])
        return
    # Executors are told apart by the address that Spark has for each.
    executors = [info.address for info in context.getTaskInfos()]
    here = [i for i, address in enumerate(executors) if address == executors[partition]]
    gpus, where = gpus_of(context), socket_name(send["key"], executors[partition])
    if partition != here[0]:
        wait_for_agent(where, {"partition": partition, "attempt": context.taskAttemptId(), "gpus": gpus})
        return
    others = Others(where)
    try:
        run_agent(send, name, len(here), partition, gpus + others.gpus(here[1:]))
    finally:
        others.release()
