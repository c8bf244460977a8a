#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the command line of hvdrun, called as horovodrun, with horovodrun's own parser.

What there is to compare is taken from that parser, option by option, and from
what it reads of a configuration file: an option or key that a later release
adds is missed here. Both sides get the same words; on theirs the result is
what their launcher would put into the environment of workers, on ours what
--dry-run --json says.

usage: options.py LINK CHECK

LINK   hvdrun, under the name horovodrun
CHECK  spellings | values | abbreviations | refusals | conflicts | config | defaults
"""
import argparse
import contextlib
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import warnings
from unittest import mock

from horovod.runner import launch
from horovod.runner.common.util import config_parser

LINK = ""
PLACE = ""

# What is only looked at here, for what would run then is not on every machine.
PARSED_ONLY = {"use_mpi", "use_jsrun", "min_num_proc", "max_num_proc", "slots", "elastic_timeout", "reset_limit",
               "cooldown_range", "host_discovery_script", "mpi_args", "binding_args"}
# They end the program themselves.
ENDING = {"help", "version", "check_build"}
# Of no use without another one.
NEEDED = {"autotune_log_file": ["--autotune"], "autotune_warmup_samples": ["--autotune"],
          "autotune_steps_per_sample": ["--autotune"], "autotune_bayes_opt_max_samples": ["--autotune"],
          "autotune_gaussian_process_noise": ["--autotune"], "timeline_mark_cycles": ["--timeline-filename", "t.json"]}

failures = []
compared = 0


def parser_of():
    """The parser that their function makes and keeps for itself."""
    with mock.patch.object(argparse.ArgumentParser, "parse_args", lambda self: (_ for _ in ()).throw(Got(self))):
        try:
            launch.parse_args()
        except Got as got:
            return got.args[0]
    raise AssertionError("horovodrun has made no parser")


class Got(Exception):
    pass


def theirs(words, environ=None):
    """The workers' variables that follow from these words; None when they are refused."""
    quiet = io.StringIO()
    with mock.patch.object(sys, "argv", ["horovodrun"] + words + ["true"]), warnings.catch_warnings(), \
            contextlib.redirect_stderr(quiet), mock.patch.dict(os.environ, environ or {}):
        warnings.simplefilter("ignore")
        try:
            args = launch.parse_args()
        except (SystemExit, ValueError, OSError):
            return None
    return config_parser.set_env_from_args({}, args)


def run(words, environ=None):
    return subprocess.run([LINK] + words + ["true"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          check=False, cwd=PLACE, env=dict(os.environ, **(environ or {})))


def ours(words, environ=None):
    """The same for hvdrun; a text when they are refused."""
    done = run(["--dry-run", "--json"] + words, environ)
    if done.returncode:
        return "status %d: %s" % (done.returncode, done.stderr.strip())
    return dict(entry.split("=", 1) for entry in json.loads(done.stdout)["rank_env"])


def number(text):
    """3 and 3.0 are the same to a worker."""
    try:
        return float(text)
    except ValueError:
        return text


# What a worker assumes when it is told nothing. horovodrun takes --no-autotune for nothing said, hvdrun tells it to the
# workers, so that it wins over what the user's environment has; and any key of the map stall_check is for horovodrun as
# good as "enabled" too.
ASSUMED = {"HOROVOD_AUTOTUNE": "0", "HOROVOD_STALL_CHECK_DISABLE": "0"}


def same(a, b):
    return isinstance(b, dict) and all(number(a.get(k, ASSUMED.get(k, ""))) == number(b.get(k, ASSUMED.get(k, "")))
                                       for k in set(a) | set(b))


def compare(words, dest=""):
    global compared
    compared += 1
    want = theirs(words)
    if want is None:
        failures.append("%s: horovodrun itself refuses this" % words)
    elif dest in PARSED_ONLY:
        done = run(["--version"] + words)
        if done.returncode:
            failures.append("%s: %s" % (words, done.stderr.strip()))
    else:
        got = ours(words)
        if not same(want, got):
            failures.append("%s: horovodrun %s, hvdrun %s" % (words, want, got))


def values(action):
    """Some that are acceptable, as lists of words."""
    if action.nargs == 0:
        return [[]]
    if action.dest == "cooldown_range":
        return [["60", "300"]]
    if action.dest == "hosts":
        return [["localhost:4"], ["localhost:2,localhost:2"][:1]]
    if action.dest in ("hostfile", "config_file"):
        return [[os.path.join(PLACE, action.dest)]]
    if action.dest == "nics":
        return [["lo"]]
    if action.dest == "num_proc":
        return [["4"]]
    if action.dest == "min_num_proc":
        return [["2"]]
    if action.choices:
        return [[choice] for choice in action.choices]
    if action.dest in ("mpi_args", "binding_args"):
        return [["--map-by=ppr:6:node"]]
    if action.type is int:
        return [["7"], ["1"], ["2000"]]
    if action.type is float:
        return [["0.5"], ["1"], [".25"], ["1e-1"]]
    return [["name"], ["with space/and=sign"]]


def lines(action, spelling, value):
    """The ways to write it."""
    if not value:
        return [[spelling]]
    joined = [[spelling + "=" + value[0]]] if len(value) == 1 and (spelling.startswith("--") or len(spelling) > 2) else []
    if len(value) == 1 and value[0].startswith("--"):
        return joined  # argparse takes the word for an option
    if len(spelling) == 2:
        joined.append([spelling + value[0]])
    return [[spelling] + value] + joined


def rest(action):
    return NEEDED.get(action.dest, []) + ([] if action.dest == "num_proc" else ["-np", "4"])


def options():
    return [action for action in parser_of()._actions if action.option_strings and action.dest not in ENDING]


def check_spellings():
    for action in options():
        for spelling in action.option_strings:
            for line in lines(action, spelling, values(action)[0]):
                compare(line + rest(action), action.dest)
    for action in parser_of()._actions:
        for spelling in action.option_strings if action.dest in ENDING else []:
            if run([spelling]).returncode:
                failures.append("%s is refused" % spelling)


def check_values():
    for action in options():
        for value in values(action)[1:]:
            compare([action.option_strings[-1]] + value + rest(action), action.dest)
        if action.dest in NEEDED:  # without the other one it comes to nothing
            compare([action.option_strings[-1]] + values(action)[0] + ["-np", "4"], action.dest)
    # Zero is a value too. The last of two counts.
    for option in ("fusion-threshold-mb", "cycle-time-ms", "cache-capacity", "stall-check-shutdown-time-seconds",
                   "thread-affinity", "gloo-timeout-seconds"):
        compare(["--" + option, "0", "-np", "4"])
        compare(["--" + option, "5", "-np", "4", "--" + option, "6"])
    compare(["--network-interface", "lo", "--network-interface", "lo,eth0", "--network-interfaces", "lo,ib0", "-np", "4"])
    compare(["--fusion-threshold-mb", "100000", "-np", "4"])


def check_abbreviations():
    names = [s for action in parser_of()._actions for s in action.option_strings if s.startswith("--")]
    for action in options():
        for name in action.option_strings:
            # Old names are for old scripts, which have them whole.
            if not name.startswith("--") or "log-hide" in name:
                continue
            short = next((name[:n] for n in range(3, len(name)) if [m for m in names if m.startswith(name[:n])] == [name]),
                         None)
            if short:
                value = values(action)[0]
                compare(lines(action, short, value)[0] + rest(action), action.dest)


def check_refusals():
    for action in options():
        for wrong in ("x", "1.5", "-1", "-3", ""):
            line = [action.option_strings[-1] + "=" + wrong] + rest(action)
            if action.nargs == 0 or action.nargs == 2 or theirs(line) is not None:
                continue
            if wrong == "1.5" and action.dest.endswith("timeout"):
                continue  # hvdrun takes a time for what it is
            refused(line)
    for line in (["--blacklist-cooldown-range", "60", "-np", "4"], ["--no-such-option", "-np", "4"], ["-np"], ["-np", "x"],
                 ["--autotune-gaussian-process-noise", "1.5", "-np", "4"], ["--log-level", "LOUD", "-np", "4"]):
        assert theirs(line) is None, line
        refused(line)


def refused(line):
    global compared
    compared += 1
    done = run(line)
    if done.returncode != 2 or not done.stderr:
        failures.append("%s: horovodrun refuses this, hvdrun: status %d %s" % (line, done.returncode, done.stderr))


def check_conflicts():
    # Not refused by hvdrun, and why: --prefix-output-with-timestamp is about the prefix of a line, and stands by
    # mistake among horovodrun's options for what Horovod logs; two names of one thing do not contradict each other.
    agree = [{"--log-with-timestamp", "--no-log-hide-timestamp"}, {"--log-without-timestamp", "--log-hide-timestamp"}]
    for group in parser_of()._mutually_exclusive_groups:
        for one, two in itertools.combinations(group._group_actions, 2):
            names = {one.option_strings[-1], two.option_strings[-1]}
            line = [one.option_strings[-1]] + values(one)[0] + [two.option_strings[-1]] + values(two)[0] + ["-np", "4"]
            assert theirs(line) is None, line
            if "--prefix-output-with-timestamp" in names or names in agree:
                done = ours(line)
                if not isinstance(done, dict):
                    failures.append("%s: %s" % (line, done))
            else:
                refused(line)


class Spy(dict):
    """A configuration file that has everything, and notes what is asked for."""

    def __init__(self, seen, prefix=""):
        super().__init__()
        self.seen, self.prefix = seen, prefix

    def __bool__(self):
        return True

    def get(self, key, default=None):
        if self.prefix or key == "controller":
            self.seen.append(self.prefix + key)
            return default
        return Spy(self.seen, key + ".")


def config_keys():
    seen = []
    args = argparse.Namespace(**{name: None for name in ("use_gloo", "use_mpi", "autotune", "no_stall_check")})
    config_parser.set_args_from_config(args, Spy(seen), set())
    return seen


def check_config():
    keys = config_keys()
    assert len(keys) > 20, keys
    dests = {action.dest: action for action in options()}
    samples = {"autotune.enabled": ["true"], "stall_check.enabled": ["true", "no"], "controller": ["gloo", "GLOO"]}
    for key in keys:
        section, _, name = key.partition(".")
        action = next((dests[d] for d in (name, section + "_" + name, "log_" + name) if d in dests), None)
        if key not in samples:
            samples[key] = ["yes", "off"] if action.nargs == 0 else [v[0] for v in values(action) if v != ["1e-1"]]
        for sample in samples[key]:
            for off in ([], [("autotune.enabled", "true"), ("timeline.filename", "t.json")]):
                configured(off + [(key, sample)], [])
        # The command line wins.
        if action:
            configured([("autotune.enabled", "true"), ("timeline.filename", "t.json"), (key, samples[key][-1])],
                       [action.option_strings[-1]] + values(action)[0])
    # All of it at once.
    configured([(key, samples[key][0]) for key in keys], [])
    # What it does not know it passes over.
    for key in ("logging.hide_timestamp", "params.novelty", "novelty.within", "novelty"):
        configured([("params.cache_capacity", "9"), (key, "true")], [])
    configured([(key, samples[key][0]) for key in keys], ["--no-autotune", "--cache-capacity", "0", "--log-level", "FATAL"])


def configured(entries, words):
    entries = dict(entries)
    path = os.path.join(PLACE, "sample.yaml")
    with open(path, "w", encoding="ascii") as out:
        for key, value in entries.items():
            if "." not in key:
                out.write("%s: %s\n" % (key, value))
        for section in sorted({key.partition(".")[0] for key in entries if "." in key}):
            out.write(section + ":\n")
            for key, value in entries.items():
                if key.startswith(section + "."):
                    out.write("  %s: %s\n" % (key.partition(".")[2], value))
    before = len(failures)
    compare(["-np", "4", "--config-file", path] + words)
    if len(failures) > before:
        with open(path, encoding="ascii") as text:
            failures[-1] += "\n" + text.read()


def check_defaults():
    global compared
    compare(["-np", "4"])
    for environ, words, timeout in (({}, [], 30), ({"HOROVOD_START_TIMEOUT": "77"}, [], 77),
                                    ({"HOROVOD_START_TIMEOUT": "77"}, ["--start-timeout", "55"], 55)):
        compared += 1
        got = json.loads(run(["--dry-run", "--json", "-np", "4"] + words, environ).stdout)
        if got["start_timeout"] != timeout or [host["name"] for host in got["hosts"]] != ["localhost"]:
            failures.append("%s %s: %s" % (environ, words, got))


def main():
    global LINK, PLACE
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    LINK = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as PLACE:
        with open(os.path.join(PLACE, "hostfile"), "w", encoding="ascii") as out:
            out.write("localhost slots=4\n")
        with open(os.path.join(PLACE, "config_file"), "w", encoding="ascii") as out:
            out.write("params:\n  cache_capacity: 9\n")
        globals()["check_" + sys.argv[2]]()
    for failure in failures:
        print(failure)
    print("%d lines compared, %d differ" % (compared, len(failures)))
    sys.exit(bool(failures))


main()
