# SPDX-License-Identifier: Apache-2.0
"""run(): from a function to the results of all ranks."""

import base64
import functools
import json
import os
import pickle
import sys
import sysconfig
import warnings

from ._launch import Launch, find_hvdrun, read_records
from ._outcome import Outcome, failed, load_results


def _cloudpickle():
    try:
        import cloudpickle
    except ImportError:
        raise ImportError("hvdrun.run() needs the module cloudpickle: pip install cloudpickle")
    return cloudpickle


def pickle_call(cloudpickle, func, args, kwargs):
    """Returns a pickle of the call, in base64."""
    if not callable(func):
        raise TypeError("func is not callable: {!r}".format(func))
    try:
        data = cloudpickle.dumps(functools.partial(func, *args, **(kwargs or {})))
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as e:
        raise TypeError("the function or its arguments cannot be pickled: {}".format(e)) from e
    return base64.b64encode(data)


def _paths(executable):
    """Returns sys.path for the ranks, without the interpreter's own folders if they use another interpreter."""
    if executable == sys.executable:
        return sys.path
    own = set(sysconfig.get_paths().values())
    return [p for p in sys.path if p not in own and "site-packages" not in p and "dist-packages" not in p]


def _option(arguments, name, value):
    if value is not None and value is not False:
        arguments.append("--" + name if value is True else "--{}={}".format(name, value))


def same(name, value, old, old_value):
    """Returns the value of a parameter that has an old name, too."""
    if value is not None and old_value is not None and value != old_value:
        raise ValueError("{}={} and {}={} are two names of one parameter".format(name, value, old, old_value))
    return old_value if value is None else value


def elastic_options(min_num_proc, max_num_proc, reset_limit, cooldown_range, host_discovery_script):
    """Returns hvdrun's options for an elastic job; none for a job of fixed size."""
    arguments = []
    _option(arguments, "min-np", min_num_proc)
    _option(arguments, "max-np", max_num_proc)
    _option(arguments, "host-discovery-script", host_discovery_script)
    if reset_limit is not None or cooldown_range is not None:
        if not arguments:
            raise ValueError("reset_limit and cooldown_range are for elastic jobs; also give min_num_proc")
        _option(arguments, "reset-limit", reset_limit)
    if cooldown_range is not None:
        least, most = cooldown_range
        arguments += ["--blacklist-cooldown-range", str(least), str(most)]
    return arguments


def _counts(num_proc, elastic, extra_args):
    """Returns hvdrun's options for the number of ranks."""
    if num_proc is None:
        num_proc = "all" if extra_args or elastic else 1
    if num_proc == "all":
        return []
    if isinstance(num_proc, bool) or not isinstance(num_proc, int) or num_proc < 1:
        raise ValueError('num_proc must be a number above 0, or "all", not {!r}'.format(num_proc))
    return ["-np", str(num_proc)]


def run(
    func,
    args=(),
    kwargs=None,
    num_proc=None,
    min_num_proc=None,
    max_num_proc=None,
    slots=None,
    reset_limit=None,
    cooldown_range=None,
    hosts=None,
    hostfile=None,
    host_discovery_script=None,
    start_timeout=None,
    ssh_port=None,
    ssh_identity_file=None,
    disable_cache=None,
    output_filename=None,
    verbose=None,
    use_gloo=None,
    use_mpi=None,
    mpi_args=None,
    network_interface=None,
    network_interfaces=None,
    executable=None,
    np=None,
    min_np=None,
    max_np=None,
    env=None,
    extra_args=(),
    hvdrun=None
):
    """Call func(*args, **kwargs) in every rank of a job, and return what the ranks return, a list by rank.

    Parameters are those of horovod.run(), and mean the same. func, its arguments and its results are pickled by
    cloudpickle, and may have some 190 MiB each.

    A MAC of the launch stands in front of each pickle on its way; what other users send is not read.

    num_proc            ranks; 1 if it is not given, "all" for all slots of the allocation
    hosts, hostfile     "h1:2,h2:2", or a file of "h1 slots=2"; default: the Slurm job's, elsewhere this machine
    slots               slots of a host that is listed without a number
    start_timeout       seconds until every rank must have its place (30)
    ssh_port, ssh_identity_file     for hosts outside of a job
    output_filename     a folder: every rank's output goes to files there, too
    verbose             say why what was chosen; 2: say every step
    use_gloo, use_mpi, mpi_args     the controller
    network_interfaces  a list: use these only
    executable          the ranks' Python, by default this one; cloudpickle has to be there
    disable_cache       without effect: nothing is cached
    np, network_interface   the same as num_proc and network_interfaces
    min_num_proc, max_num_proc, reset_limit, cooldown_range, host_discovery_script
                        an elastic job of Horovod's: ranks come and go, func uses hvd.elastic.run. The list has what
                        the ranks of the last generation return. cooldown_range is (least, most) seconds. With
                        extra_args=["--max-restarts=N"] all ranks call func anew, as PyTorch's do
    min_np, max_np      the same as min_num_proc and max_num_proc

    Not in horovod.run():
    env                 variables for hvdrun and the ranks, besides os.environ; None takes one away
    extra_args          a list of more options of hvdrun, srun's among them: ["-N2", "--partition=gpu"]. With these and
                        without num_proc they decide how many ranks there are
    hvdrun              the program, if it is not in PATH; $HVDRUN names it, too

    Raises RankError when a rank raises or dies, LaunchError when the job cannot start. At an interrupt (Ctrl-C) the
    ranks are ended first.
    """
    elastic = elastic_options(
        same("min_num_proc", min_num_proc, "min_np", min_np),
        same("max_num_proc", max_num_proc, "max_np", max_np),
        reset_limit,
        cooldown_range,
        host_discovery_script,
    )
    if hosts is not None and hostfile is not None:
        raise ValueError("give hosts or hostfile, not both")
    if use_gloo and use_mpi:
        raise ValueError("give use_gloo or use_mpi, not both")
    if mpi_args and not use_mpi:
        raise ValueError("mpi_args needs use_mpi=True")
    if isinstance(extra_args, str):
        raise TypeError("extra_args is a list of words, not one string")
    if network_interface:
        warnings.warn("network_interface is an old name of network_interfaces", DeprecationWarning, 2)
        network_interfaces = network_interfaces or network_interface.split(",")
    if isinstance(network_interfaces, str):
        network_interfaces = [network_interfaces]

    arguments = _counts(same("num_proc", num_proc, "np", np), elastic, extra_args) + elastic
    _option(arguments, "hosts", hosts)
    _option(arguments, "hostfile", hostfile)
    _option(arguments, "slots-per-host", slots)
    _option(arguments, "start-timeout", start_timeout)
    _option(arguments, "ssh-port", ssh_port)
    _option(arguments, "ssh-identity-file", ssh_identity_file)
    _option(arguments, "disable-cache", bool(disable_cache))
    _option(arguments, "output-filename", output_filename)
    arguments.extend(["--hvd-verbose"] * int(verbose or 0))
    _option(arguments, "gloo", bool(use_gloo))
    _option(arguments, "mpi", bool(use_mpi))
    _option(arguments, "mpi-args", mpi_args)
    _option(arguments, "network-interfaces", ",".join(network_interfaces) if network_interfaces else None)
    arguments.extend(str(a) for a in extra_args)

    executable = executable or sys.executable or "python3"
    environ = dict(os.environ)
    environ["HVD_RUN_FUNC_PATH"] = json.dumps(_paths(executable))
    for name, value in (env or {}).items():
        environ.pop(name, None)
        if value is not None:
            environ[name] = str(value)
    command = [executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "_worker.py")]
    program = find_hvdrun(hvdrun)
    outcome = Outcome()
    with Launch(program, pickle_call(_cloudpickle(), func, args, kwargs), arguments, command, environ) as launch:
        for head, data in read_records(launch.results):
            outcome.add(head, data)
        status = launch.wait()
    messages = launch.forward.messages
    if status != 0 or outcome.end is None or not outcome.end["started"]:
        raise failed(outcome, status, messages)
    return load_results(outcome, status, messages)
