#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that use their processors and print nothing, until the file STOP is there: busy_hang.py HOW STOP

    spins    the last rank, in Python, while the others wait in a collective
    steps    the last rank computes, at changing lines, while the others wait
    alone    the last rank computes, at one line, while the others wait
    all      all ranks compute, at one line
"""
import os
import sys

import torch
import torch.distributed as dist

how, stop = sys.argv[1:]
there = os.path.exists


def spin():
    while True: pass  # one line


def steps(a):
    while not there(stop):
        b = a @ a
        c = torch.relu(b)
        a = (c @ a).tanh()
        b = torch.linalg.inv(a + torch.eye(len(a)))
        c = b.softmax(0)
        a = c @ b
        a = torch.randn(len(a), len(a)) + a.mean()
        b = (a * a).sum(0)
        a = a.sort(1).values


def one_line(a):
    while not os.access(stop, os.F_OK): [a @ a @ a @ a @ a @ a]  # no other function of Python is called


dist.init_process_group("gloo")
torch.set_num_threads(1)
ones = torch.ones(4)
dist.all_reduce(ones)
print(f"rank {dist.get_rank()} has met {int(ones[0])}\n", end="", flush=True)  # in one piece
if dist.get_rank() == dist.get_world_size() - 1 or how == "all":
    {"spins": spin, "steps": lambda: steps(torch.randn(300, 300)), "alone": lambda: one_line(torch.randn(500, 500)),
     "all": lambda: one_line(torch.randn(500, 500))}[how]()
dist.all_reduce(ones)
print("it went well\n", end="", flush=True)
