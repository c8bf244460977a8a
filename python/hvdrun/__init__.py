# SPDX-License-Identifier: Apache-2.0
"""Run a Python function as the ranks of a Horovod job, through the scheduler.

    import hvdrun

    def train(lr):
        import horovod.torch as hvd
        hvd.init()
        ...
        return loss

    losses = hvdrun.run(train, args=(0.1,), num_proc=8)     # by rank

Within a Slurm job the ranks are tasks of a step on its nodes; elsewhere they are processes of this machine, or of the
hosts that are named. See hvdrun(1), and help(hvdrun.run).
"""

from ._outcome import LaunchError, RankError
from ._run import run

__all__ = ["run", "LaunchError", "RankError"]

for _thing in run, LaunchError, RankError:
    _thing.__module__ = __name__  # what tracebacks call them
del _thing
