# SPDX-License-Identifier: Apache-2.0
"""Run a Python function as the ranks of a job inside the executors of Spark.

    import hvdrun.spark

    def train(lr):
        import horovod.torch as hvd
        hvd.init()
        ...
        return loss

    losses = hvdrun.spark.run(train, args=(0.1,), num_proc=8)   # by rank

It takes the place of horovod.spark.run(), and run_elastic() that of horovod.spark.run_elastic(). Needs pyspark from 3.1
on; see help(hvdrun.spark.run).
"""

import itertools
import os
import secrets
import tempfile
import threading
import time
import warnings

from ._launch import END_SECONDS, Launch, find_hvdrun, read_records
from ._outcome import Outcome, failed, load_results
from ._run import elastic_options, pickle_call, same

__all__ = ["run", "run_elastic"]

# Seconds between two looks at something that has no event: the file with hvdrun's address, Spark's executors.
LOOK_SECONDS = 0.1
# Seconds that hvdrun has to say itself why the job ends, once Spark has failed.
REASON_SECONDS = 5
# What each rank runs: the executor's Python, with the text of _worker.py. The task of Spark sets both.
RANK = (
    'exec "$HVD_RUN_FUNC_PYTHON" -c \'import os; '
    'exec(compile(os.environ.pop("HVD_RUN_FUNC_WORKER"), "hvdrun/_worker.py", "exec"))\''
)

_numbers = itertools.count(1)


def _text_of(name):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name), encoding="utf-8") as f:
        return f.read()


def _make_task(source, main, send, lacks):
    """Returns the function of the stage. It refers to nothing of this module, which the executors need not have."""

    def task(_rows):
        namespace = {"__name__": "hvdrun_spark_task"}
        exec(compile(source, "hvdrun/_spark_task.py", "exec"), namespace)
        namespace[main](send, lacks)
        return []

    return task


def _texts(context):
    """Returns an accumulator of Spark's for texts, whose class goes to the executors with it."""
    from pyspark import AccumulatorParam

    class Texts(AccumulatorParam):
        def zero(self, value):
            return []

        def addInPlace(self, value, more):
            return value + more

    return context.accumulator([], Texts())


def _true(conf, name):
    return str(conf.get(name, "false")).strip().lower() == "true"


def exposure(conf):
    """Returns what Spark lacks so that nobody else can read the key of a launch that goes through it; None: nothing."""
    if not _true(conf, "spark.authenticate"):
        return "does not authenticate its connections (spark.authenticate)"
    if not any(
        _true(conf, name)
        for name in (
            "spark.network.crypto.enabled",
            "spark.authenticate.enableSaslEncryption",
            "spark.ssl.rpc.enabled",
        )
    ):
        return "does not encrypt its connections (spark.network.crypto.enabled)"
    return None


def _context():
    try:
        import pyspark
    except ImportError:
        raise ImportError("hvdrun.spark.run() needs the module pyspark: pip install pyspark")
    context = pyspark.SparkContext._active_spark_context
    if context is None:
        raise RuntimeError(
            "there is no SparkContext in this process: create a SparkSession first; a session of Spark Connect is not enough"
        )
    return context


def _thread(target):
    """Returns a thread whose jobs have the properties that the caller has set, the scheduler's pool among them."""
    try:
        from pyspark import InheritableThread as Thread
    except ImportError:  # before Spark 3.1
        Thread = threading.Thread
    return Thread(target=target, name="hvdrun-spark", daemon=True)


class Stage(object):
    """The stage whose tasks are the agents, in a thread of its own. Leaving a `with` block ends it.

    It is a barrier stage, whose tasks all run or none, unless it is for an elastic job."""

    def __init__(self, context, tasks, elastic, source, send):
        self.context = context
        self.tasks = tasks
        self.elastic = elastic
        self.source = source
        self.send = send
        self.folder = tempfile.TemporaryDirectory(prefix="hvdrun-spark-")
        self.key_file = self._path("key")
        self.join_file = self._path("join")
        self.group = "hvdrun.spark.run.%d.%d" % (os.getpid(), next(_numbers))
        self.launch = None
        self.reason = None  # why the agents did not come or did not last, where Spark knows
        self._executors = None  # Spark's names of those that were there when the stage began
        self._stop = threading.Event()
        self._thread = None
        self._lacks = _texts(context)  # why executors have no agent
        with open(os.open(self.key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as f:
            f.write(send["key"] + "\n")

    def _path(self, name):
        return os.path.join(self.folder.name, name)

    def __enter__(self):
        return self

    def start(self, launch):
        self.launch = launch
        self._thread = _thread(self._run)
        self._thread.start()
        threading.Thread(target=self._watch, name="hvdrun-spark-watch", daemon=True).start()

    def _going(self):
        return not self._stop.is_set() and self.launch.process.poll() is None

    def _address(self):
        """Waits for hvdrun's address, when hvdrun has read the key. Returns None if hvdrun ends."""
        while self._going():
            try:
                with open(self.join_file) as f:
                    return f.read().strip()
            except FileNotFoundError:
                self._stop.wait(LOOK_SECONDS)
        return None

    def _room(self):
        """Returns how many tasks the executors that have come can run at once; None where Spark does not tell."""
        try:
            scala = self.context._jsc.sc()
            return scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile())
        except Exception:  # not a part of Spark's interface
            return None

    def _wait_for_room(self):
        """Spark looks for the slots of a barrier stage every 15 seconds only, so the stage is not submitted before."""
        if _true(self.context.getConf(), "spark.dynamicAllocation.enabled"):
            return  # Spark refuses barrier stages then, and says so
        while self._going():
            room = self._room()
            if room is None or room >= self.tasks:
                self.reason = None
                return
            self.reason = (
                "Spark's executors have room for {} of {} tasks at once: wait longer (start_timeout=…), or ask for "
                "less (num_proc=…)".format(room, self.tasks)
            )
            self._stop.wait(LOOK_SECONDS)

    def _executors_now(self):
        try:
            return set(self.context._jsc.sc().getExecutorIds().mkString(" ").split())
        except Exception:  # not a part of Spark's interface
            return None

    def why_ended(self):
        """Returns why ranks were ended from outside: what Spark says, or which executors it has lost since."""
        until = time.time() + REASON_SECONDS
        while not self.reason and self._executors and time.time() < until:
            now = self._executors_now()
            lost = self._executors - now if now is not None else None
            if lost:
                self.reason = "Spark has lost executor " + ", ".join(sorted(lost))
            self._stop.wait(LOOK_SECONDS)
        return self.reason

    def _run_stage(self):
        self.context.setJobGroup(self.group, "hvdrun.spark.run: {} ranks".format(self.tasks), True)
        rows = self.context.parallelize(range(self.tasks), self.tasks)
        task = _make_task(self.source, "elastic" if self.elastic else "main", self.send, self._lacks)
        (rows if self.elastic else rows.barrier()).mapPartitions(task).collect()

    def _watch(self):
        """Ends the launch as soon as an executor has said that it can have no agent; the others would wait for it."""
        while self._going():
            if self._lacks.value:
                self.reason = "\n".join(sorted(set(self._lacks.value)))
                self.launch.process.terminate()
                return
            self._stop.wait(LOOK_SECONDS)

    def _run(self):
        try:
            self.send["address"] = self._address()
            self.folder.cleanup()
            if not self.elastic:
                self._wait_for_room()
            if not self._going():
                return
            self._executors = self._executors_now()
            self._run_stage()
            self._end_launch(REASON_SECONDS)
        except Exception as e:
            if not self._stop.is_set():
                self.reason = "Spark has ended the stage: " + _words(e)
            self._end_launch(REASON_SECONDS)

    def _end_launch(self, patience):
        """Without its agents hvdrun would wait until its deadline. When ranks have run, it knows better what was."""
        until = time.time() + patience
        while self._going() and time.time() < until:
            self._stop.wait(LOOK_SECONDS)
        if self._going():
            self.launch.process.terminate()

    def __exit__(self, kind, *error):
        try:
            self._end(0 if kind else END_SECONDS)
        finally:
            self.folder.cleanup()

    def _end(self, patience):
        if self._thread is None:
            return
        if patience:  # all went well: the agents end by themselves
            self._thread.join(patience)
        self._stop.set()
        until = time.time() + END_SECONDS
        while self._thread.is_alive() and time.time() < until:
            try:
                self.context.cancelJobGroup(self.group)
            except Exception:  # the context has been stopped, which ends the job as well
                pass
            self._thread.join(1)


def _words(error):
    """Returns what an exception of Spark's says: what a task has raised, or Java's text without the stack."""
    text = str(getattr(error, "java_exception", None) or error)
    raised = text.rpartition("\nRuntimeError: ")[2]  # by _spark_task.py
    kept = []
    for line in (raised or text).strip().splitlines():
        if line.startswith(("\tat ", "Driver stacktrace:", " SQLSTATE")):
            break
        if line.strip():
            kept.append(line)
    return "\n".join(kept[:40])


def _find_hvd_agent(hvd_agent, program):
    """The path of hvd-agent on the executors: the given one, that in $HVD_AGENT, or the one installed with hvdrun.

    $HVD_TASK is the variable of older releases, in which the program was hvd-task.
    """
    hvd_agent = hvd_agent or os.environ.get("HVD_AGENT") or os.environ.get("HVD_TASK")
    if hvd_agent:
        return hvd_agent
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(program)))
    return os.path.join(prefix, "libexec", "hvd", "hvd-agent")


def _patience(start_timeout):
    if start_timeout is None:
        start_timeout = os.environ.get("HOROVOD_SPARK_START_TIMEOUT", 600)
    return max(1, int(start_timeout))


def run(
    fn,
    args=(),
    kwargs=None,
    num_proc=None,
    start_timeout=None,
    use_mpi=None,
    use_gloo=None,
    extra_mpi_args=None,
    env=None,
    stdout=None,
    stderr=None,
    verbose=1,
    nics=None,
    prefix_output_with_timestamp=False,
    executable=None,
    hvd_agent=None,
    extra_args=(),
    hvdrun=None,
    hvd_task=None
):
    """Call fn(*args, **kwargs) in every rank of a job in Spark's executors, and return what the ranks return, by rank.

    Parameters are those of horovod.spark.run(), and mean the same. Each rank belongs to one task of a barrier stage, so
    all of them run at the same time or none does. The tasks of one executor are one host: local ranks count in an
    executor, and ranks in the order of the executors' lowest partitions.

    num_proc            ranks, and so tasks; by default spark.default.parallelism
    start_timeout       seconds until all tasks must run; by default $HOROVOD_SPARK_START_TIMEOUT, or 600
    env                 variables for the ranks besides those of their executor; None takes one away
    stdout, stderr      where the ranks' output goes, by default sys.stdout and sys.stderr
    verbose             0 or 1: only what goes wrong; 2: why what was chosen; 3: every step
    nics                a list: use these network interfaces only
    prefix_output_with_timestamp    the time stands in front of each line
    executable          the ranks' Python, by default that of the executor's tasks; it must find pyspark
    use_gloo            without effect: what the controller of Horovod's ranks is anyway
    use_mpi, extra_mpi_args     NotImplementedError: no MPI starts processes in executors

    Not in horovod.spark.run():
    hvd_agent           the path of the program hvd-agent on the executors; $HVD_AGENT names it, too. By default where it
                        is here, beside hvdrun. hvd_task and $HVD_TASK, as older releases called them, mean the same
    extra_args          a list of more options of hvdrun
    hvdrun              the program on this machine, if it is not in PATH; $HVDRUN names it, too

    The key of the launch goes to the executors in the tasks of the stage, over Spark's own connections. So that nobody
    else can read it, Spark must authenticate and encrypt these: spark.authenticate and spark.network.crypto.enabled.
    There is a RuntimeWarning where it does not.

    Raises RankError when a rank raises or dies, LaunchError when the job cannot start or loses an executor; nothing is
    run a second time. At an interrupt (Ctrl-C) the ranks and the stage are ended first.
    """
    if use_mpi or extra_mpi_args:
        raise NotImplementedError("use_mpi: MPI does not start processes in Spark's executors; leave use_mpi out")
    context = _context()
    num_proc = _number("num_proc", num_proc, context.defaultParallelism)
    options = ["-np", str(num_proc)]
    common = start_timeout, env, stdout, stderr, verbose, nics, prefix_output_with_timestamp, executable
    return _launch(context, (fn, args, kwargs), num_proc, False, options, common, hvd_agent or hvd_task, extra_args, hvdrun)


def run_elastic(
    fn,
    args=(),
    kwargs=None,
    num_proc=None,
    min_num_proc=None,
    max_num_proc=None,
    start_timeout=None,
    elastic_timeout=None,
    reset_limit=None,
    cooldown_range=None,
    env=None,
    stdout=None,
    stderr=None,
    verbose=1,
    nics=None,
    prefix_output_with_timestamp=False,
    min_np=None,
    max_np=None,
    executable=None,
    hvd_agent=None,
    extra_args=(),
    hvdrun=None,
    hvd_task=None
):
    """Call fn(*args, **kwargs), which uses hvd.elastic.run, in the ranks of an elastic job in Spark's executors. Returns
    what the ranks of the last generation return, by rank.

    Parameters are those of horovod.spark.run_elastic(), and of run(), and mean the same. There are as many tasks as there
    may be ranks, of an ordinary stage: each is a host of its own with one slot, which joins the job when Spark has room
    for it. When an executor is lost, the others go on, and Spark starts its tasks again elsewhere.

    num_proc            the job begins with so many ranks; by default spark.default.parallelism
    min_num_proc        it goes on with as few; by default num_proc. min_np is the same
    max_num_proc        there are no more, so many tasks; by default num_proc. max_np is the same
    elastic_timeout     seconds that it waits for so many ranks; by default $HOROVOD_ELASTIC_TIMEOUT, or 600
    reset_limit         how often ranks may come or go
    cooldown_range      (least, most) seconds after which a task is used again that a rank has failed in
    """
    context = _context()
    num_proc = _number("num_proc", num_proc, context.defaultParallelism)
    least = _number("min_num_proc", same("min_num_proc", min_num_proc, "min_np", min_np), num_proc)
    most = _number("max_num_proc", same("max_num_proc", max_num_proc, "max_np", max_np), max(num_proc, least))
    options = ["-np", str(num_proc)] + elastic_options(least, most, reset_limit, cooldown_range, None)
    if elastic_timeout is None:
        elastic_timeout = os.environ.get("HOROVOD_ELASTIC_TIMEOUT", 600)
    options.append("--elastic-timeout={}".format(elastic_timeout))
    common = start_timeout, env, stdout, stderr, verbose, nics, prefix_output_with_timestamp, executable
    return _launch(context, (fn, args, kwargs), most, True, options, common, hvd_agent or hvd_task, extra_args, hvdrun)


def _number(name, value, default):
    if value is None:
        value = default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("{} must be a number above 0, not {!r}".format(name, value))
    return value


def _launch(context, call, tasks, elastic, options, common, hvd_agent, extra_args, hvdrun):
    """The launch of both kinds of jobs, to its results."""
    from pyspark import cloudpickle

    start_timeout, env, stdout, stderr, verbose, nics, prefix_output_with_timestamp, executable = common
    if isinstance(extra_args, str):
        raise TypeError("extra_args is a list of words, not one string")
    lacks = exposure(context.getConf())
    if lacks:
        warnings.warn(
            "Spark {}: others on its network can read the key of this launch, and run code as you in its "
            "ranks".format(lacks),
            RuntimeWarning,
            3,
        )
    program = find_hvdrun(hvdrun)
    patience = _patience(start_timeout)
    call = pickle_call(cloudpickle, *call)
    send = {
        "key": secrets.token_hex(32),
        "hvd_agent": _find_hvd_agent(hvd_agent, program),
        "worker": _text_of("_worker.py"),
        "executable": executable,
        "env": {name: None if value is None else str(value) for name, value in (env or {}).items()},
    }
    outcome = Outcome()
    with Stage(context, tasks, elastic, _text_of("_spark_task.py"), send) as stage:
        arguments = ["--launcher=join"] + options + ["--start-timeout=%d" % patience]
        arguments += ["--key-file=" + stage.key_file, "--join-file=" + stage.join_file]
        arguments += ["--hvd-verbose"] * (int(verbose or 0) - 1)
        if nics:
            arguments.append("--network-interfaces=" + ",".join(sorted(nics)))
        if prefix_output_with_timestamp:
            arguments.append("--prefix-output-with-timestamp")
        arguments.extend(str(a) for a in extra_args)
        with Launch(
            program, call, arguments, ["/bin/sh", "-c", RANK], dict(os.environ), stdout=stdout, stderr=stderr
        ) as launch:
            stage.start(launch)
            for head, data in read_records(launch.results):
                outcome.add(head, data)
            status = launch.wait()
        messages = launch.forward.messages
        if status != 0 or outcome.end is None or not outcome.end["started"]:
            raise failed(outcome, status, messages, stage.why_ended() if outcome.ended() else stage.reason)
    return load_results(outcome, status, messages)
