#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training that hangs: the last rank sleeps before a collective that the others are in already."""
import time

import torch
import torch.distributed as dist


def late():
    time.sleep(600)


dist.init_process_group("gloo")
ones = torch.ones(4)
dist.all_reduce(ones)
print(f"rank {dist.get_rank()} has met {int(ones[0])}", flush=True)
if dist.get_rank() == dist.get_world_size() - 1:
    late()
dist.all_reduce(ones)
