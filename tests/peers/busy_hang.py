#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that use their processors and print nothing, in phases, each until the file STOP.PHASE is there: busy_hang.py STOP

    all      all ranks compute, at one line
    steps    the last rank computes, at changing lines, while the others wait
    alone    the last rank computes, at one line, while the others wait
    spins    the last rank, in Python, while the others wait in a collective
"""
import os
import sys

import torch
import torch.distributed as dist

there = os.path.exists


def spin():
    while True: pass  # one line


def steps(stop):
    a = torch.randn(300, 300)
    while not there(stop):
        # None of these lines takes much of the time.
        a = a.sort(0).values
        a = a.sort(1).values
        a = a.flip(0).sort(0).values
        a = a.flip(1).sort(1).values
        a = (a @ a @ a).tanh().sort(0).values
        a = torch.randn(300, 300) + a.mean()
        a = (a @ a).softmax(0).sort(1).values
        a = torch.randn(300, 300).sort(0).values


def one_line(stop, a):
    while not os.access(stop, os.F_OK): [a @ a @ a @ a @ a @ a]  # no other function of Python is called


dist.init_process_group("gloo")
torch.set_num_threads(1)
last = dist.get_rank() == dist.get_world_size() - 1
compute = lambda stop: one_line(stop, torch.randn(500, 500))
for phase, work in ("all", compute), ("steps", steps), ("alone", compute), ("spins", lambda stop: spin()):
    dist.all_reduce(torch.ones(4))
    print(f"{phase} begins\n", end="", flush=True)  # in one piece
    if last or phase == "all":
        work(f"{sys.argv[1]}.{phase}")
dist.all_reduce(torch.ones(4))
