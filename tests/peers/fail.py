#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks of real Horovod, one of which fails in the middle of its work.

usage: fail.py HOW RANK MARK

HOW   raise  an exception that nobody catches, while the others compute
      exit   os._exit(7), while the others wait for it in an allreduce
      kill   SIGKILL, while the others wait for it in an allreduce
RANK  the one that fails; it prints "fails at TIME", by the clock, right before
MARK  not used: it is found on the command lines of what is left over

An exception is another matter than a sudden end: Python first ends Horovod,
which ends all allreduces of the others with an exception as well, and any of
them may then be the first whose process ends. So they do something else.
"""
import os
import signal
import sys
import time

import torch
import horovod.torch as hvd


def main():
    how, which = sys.argv[1], int(sys.argv[2])
    hvd.init()
    for _ in range(10):
        assert hvd.allreduce(torch.ones(100), op=hvd.Sum)[0].item() == hvd.size()
    if hvd.rank() == which:
        time.sleep(0.5)
        print("fails at %.6f" % time.time(), flush=True)
        if how == "raise":
            raise RuntimeError("out of data")
        if how == "exit":
            os._exit(7)
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "raise":
        time.sleep(60)
    hvd.allreduce(torch.ones(100))
    sys.exit("fail.py: an allreduce without rank %d" % which)


main()
