# SPDX-License-Identifier: Apache-2.0
"""A task of the barrier stage of hvdrun.spark.run(): one task of each executor is its node agent.

The driver of Spark sends this file's text with the stage, so the executors need not have this package; that is why it
imports nothing of it. They need hvd-task, and their Python has pyspark.

The agent of an executor is the task with the lowest partition there. It runs hvd-task --join, which starts one rank for
each task of the executor, and ends with this process: hvd-task reads the launch's key from a pipe whose other end only
this process has. The other tasks wait, so that Spark counts what the ranks use, and so that Spark ends the stage when
it loses any of them.

A task that fails makes Spark start the whole stage again, which does not help where hvd-task is missing: that is
returned and not raised. hvdrun refuses the agents of a second stage once the ranks have started.
"""

import json
import os
import socket
import subprocess
import sys
import threading

# Bytes of what hvd-task says that come back to the driver.
TEXT_MAX = 4096
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


def missing(hvd_task):
    """Returns why no agent can run here, or None."""
    if not os.path.exists(hvd_task):
        return (
            "there is no {}: install this suite on the executors' machines, or say where it is by hvd_task=… or "
            "$HVD_TASK".format(hvd_task)
        )
    if not os.access(hvd_task, os.X_OK):
        return "{} cannot be executed".format(hvd_task)
    return None


def gpus_of(context):
    """Returns the GPUs that Spark has given to this task."""
    try:
        return list(context.resources()["gpu"].addresses)
    except (AttributeError, KeyError):  # before Spark 3.0; a job without GPUs
        return []


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
            send["hvd_task"],
            "--join=" + send["address"],
            "--key-file=-",
            "--slots=%d" % slots,
            "--index=%d" % index,
            "--name=" + name,
        ],
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


def main(send):
    """Returns a dictionary: host, the executor's name, and missing, why it had no agent, or None."""
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    partition = context.partitionId()
    name = executor_name()
    # Executors are told apart by the address that Spark has for each.
    executors = [info.address for info in context.getTaskInfos()]
    here = [i for i, address in enumerate(executors) if address == executors[partition]]
    told = [
        json.loads(text)
        for text in context.allGather(json.dumps({"missing": missing(send["hvd_task"]), "gpus": gpus_of(context)}))
    ]
    if not any(t["missing"] for t in told):
        if partition == here[0]:
            run_agent(send, name, len(here), partition, [gpu for i in here for gpu in told[i]["gpus"]])
        context.barrier()
    return {"host": name, "missing": told[partition]["missing"]}
