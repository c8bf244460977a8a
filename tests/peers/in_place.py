# SPDX-License-Identifier: Apache-2.0
"""Horovod's own tests, with hvdrun in horovodrun's place: a plugin of pytest.

    HVDRUN=.../hvdrun PYTHONPATH=tests/peers pytest -p in_place HOROVOD/test/integration/test_static_run.py

The functions of horovod.runner that these tests call are replaced by ones that run hvdrun, called as horovodrun, with
the words that stand for their arguments, or, where a test has put words into sys.argv, with those. What hvdrun says goes
to this process's own stderr, and is the text of the RuntimeError that is raised when it fails. Without HVDRUN nothing is
replaced, and the tests run as they are: what fails then is no fault of hvdrun's.

HVD_IN_PLACE_HOSTS   two hosts, by a comma, that ssh reaches without a question. The tests mean this machine, called
                     localhost and 127.0.0.1, and have horovodrun believe that it is another one; hvdrun is not told
                     what is untrue, so it needs real ones. Tests that would reach them are skipped where there are none
HVD_IN_PLACE_OPTIONS more words for each command line, before the others
"""

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from unittest import mock

import pytest

HVDRUN = shutil.which(os.environ["HVDRUN"]) if "HVDRUN" in os.environ else None

# What a test may set of horovod.runner._HorovodArgs and its parser's result, and the option for it. Options of the
# tunables have the names of the members.
RENAMED = {"nics": "network-interfaces", "tcp_flag": "tcp", "slots": "slots-per-host", "use_gloo": "gloo", "use_mpi": "mpi",
           "use_jsrun": "jsrun", "cooldown_range": "blacklist-cooldown-range"}
# Not for the command line; cycle_time_ms and cache_capacity are (None,) where nobody has set them.
PASSED_OVER = {"command", "run_func", "executable", "check_build", "nic", "no_stall_check", "version"}


def option_words(args):
    words = shlex.split(os.environ.get("HVD_IN_PLACE_OPTIONS", ""))
    for name, value in sorted(vars(args).items()):
        if name in PASSED_OVER or value is None or value is False or value == (None,) or value in ([], set()):
            continue
        option = "--" + RENAMED.get(name, name).replace("_", "-")
        if name == "verbose":
            words += [option] * int(value)
        elif value is True:
            words.append(option)
        elif name == "nics":
            words += [option, ",".join(value)]
        elif isinstance(value, (list, tuple)):
            words += [option] + [str(v) for v in value]
        else:
            words += [option, str(value)]
    if getattr(args, "no_stall_check", None):
        words.append("--no-stall-check")
    return words


def start(words):
    """Runs it to its end, and passes on what it says. Raises what horovodrun's functions do."""
    print("+ horovodrun " + " ".join(shlex.quote(w) for w in words), flush=True)
    with subprocess.Popen(["horovodrun"] + words, executable=HVDRUN, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
        said = []
        for line in run.stderr:
            said.append(line.decode("utf-8", "replace"))
            sys.stderr.write(said[-1])
    if run.returncode:
        raise RuntimeError("status %d:\n%s" % (run.returncode, "".join(said)))


@contextlib.contextmanager
def link():
    """hvdrun under the name horovodrun."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "horovodrun")
        os.symlink(os.path.realpath(HVDRUN), path)
        yield path


def call(args):
    """args.run_func in every rank."""
    import hvdrun

    with link() as program:
        try:
            return hvdrun.run(args.run_func, num_proc=args.num_proc, executable=args.executable, hvdrun=program,
                              extra_args=option_words(args))
        except hvdrun.LaunchError as e:
            raise RuntimeError("\n".join([str(e)] + e.messages)) from e


def run(args):
    """In place of launch._run."""
    if not args.hosts and not args.hostfile and not args.host_discovery_script:
        args.hosts = "localhost:%d" % args.num_proc
    if args.run_func:
        return call(args)
    words = option_words(args) + args.command
    if args.use_mpi:
        # horovodrun becomes a shell that runs mpirun, and a test has a shell run it.
        from horovod.runner import mpi_run

        line = "exec -a horovodrun " + " ".join(shlex.quote(w) for w in [HVDRUN] + words)
        line = "exec bash -c " + shlex.quote(line)
        mpi_run.os.execve("/bin/sh", ["/bin/sh", "-c", line], dict(os.environ))
        return None
    return start(words)


def run_elastic(args):
    """In place of launch._run_elastic. Times that a test has changed within horovodrun become options."""
    from horovod.runner.elastic import driver

    words = ["--elastic-timeout", str(driver.ELASTIC_TIMEOUT_SECS)]
    words += ["--discovery-interval", str(driver.DISCOVER_HOSTS_FREQUENCY_SECS)]
    if os.path.basename(sys.argv[0]) == "horovodrun":
        return start(shlex.split(os.environ.get("HVD_IN_PLACE_OPTIONS", "")) + words + sys.argv[1:])
    return start(words + option_words(args) + args.command)


def told_to_workers(words):
    """The variables that hvdrun has for workers with these words. ValueError when it refuses them."""
    done = subprocess.run(["horovodrun", "--dry-run", "--json"] + words + ["true"], executable=HVDRUN,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise ValueError(done.stderr)
    return dict(entry.split("=", 1) for entry in json.loads(done.stdout)["rank_env"])


def number(text):
    """3 and 3.0 are the same to a worker."""
    with contextlib.suppress(ValueError):
        return float(text)
    return text


# What a worker assumes when it is told nothing, which hvdrun may tell it nevertheless.
ASSUMED = {"HOROVOD_AUTOTUNE": "0", "HOROVOD_STALL_CHECK_DISABLE": "0"}


def parse_args(theirs, env_from):
    """In place of launch.parse_args: their namespace, of which a test looks at members, once hvdrun has made the same of
    the words for workers."""
    def parse():
        ours = told_to_workers(sys.argv[1:])
        args = theirs()
        wanted = env_from({}, args)
        for name in set(ours) | set(wanted):
            pair = [number(env.get(name, ASSUMED.get(name, ""))) for env in (wanted, ours)]
            assert pair[0] == pair[1], "%s: horovodrun has %r, hvdrun %r" % (name, pair[0], pair[1])
        args.hvdrun_env = ours
        return args
    return parse


def set_env_from_args(theirs):
    """In place of config_parser.set_env_from_args: hvdrun's variables; numbers as horovodrun writes them."""
    def set_env(env, args):
        if not hasattr(args, "hvdrun_env"):
            return theirs(env, args)
        wanted = theirs({}, args)
        for name, value in args.hvdrun_env.items():
            if name in wanted or name not in ASSUMED:
                env[name] = wanted[name] if number(value) == number(wanted.get(name, "")) else value
        return env
    return set_env


@contextlib.contextmanager
def horovod_args(self, mode, controller, run_func=None, command=None):
    """In place of StaticRunTests.horovod_args: what it asks for, and not its mocks, nor what horovodrun says of its own
    steps with --verbose."""
    from horovod.runner import _HorovodArgs

    hosts = ["localhost", "127.0.0.1"]
    remote = [h for h in os.environ.get("HVD_IN_PLACE_HOSTS", "").split(",") if h]
    if mode != "local":
        if len(remote) < 2:
            self.skipTest("HVD_IN_PLACE_HOSTS names no two hosts")
        hosts = remote[:2] if mode == "remote" else ["localhost", remote[0]]
    hargs = _HorovodArgs()
    hargs.num_proc = 4
    hargs.hosts = ",".join("%s:2" % h for h in hosts)
    hargs.use_gloo = controller == "gloo"
    hargs.use_mpi = controller == "mpi"
    hargs.run_func = run_func
    hargs.command = [command] if command else None
    hargs.nics = []
    hargs.verbose = 2
    hargs.disable_cache = True
    with mock.patch("horovod.runner.mpi_run.os.execve") as execve:
        yield hargs, execve


def pytest_configure():
    if not HVDRUN:
        return
    from horovod.runner import launch
    from horovod.runner.common.util import config_parser

    launch._run = run
    launch._run_elastic = run_elastic
    launch.parse_args = parse_args(launch.parse_args, config_parser.set_env_from_args)
    config_parser.set_env_from_args = set_env_from_args(config_parser.set_env_from_args)


def pytest_collection_modifyitems(items):
    for item in items:
        cls = getattr(item, "cls", None)
        if HVDRUN and cls is not None and cls.__name__ == "StaticRunTests":
            cls.horovod_args = horovod_args


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_logreport(report):
    """A line for each test that a script can read: passed, failed or skipped, and which."""
    yield
    if report.when == "call" or report.outcome == "skipped":
        sys.__stdout__.write("\nresult: %s %s\n" % (report.outcome, report.nodeid.rpartition("::")[2]))
        sys.__stdout__.flush()
