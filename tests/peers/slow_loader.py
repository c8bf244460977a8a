#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training with DistributedDataParallel whose last rank sleeps in its loader, before each step; without end."""
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def load(slow):
    if slow:
        time.sleep(8)
    return torch.randn(16, 32)


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
slow = "slow" in sys.argv and dist.get_rank() == dist.get_world_size() - 1
model = DistributedDataParallel(torch.nn.Linear(32, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
steps = 0  # In the first two DistributedDataParallel prepares itself, and ranks wait at several places.
while True:
    batch = load(slow)
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    steps += 1
    if steps == 3:
        print(f"rank {dist.get_rank()} trains\n", end="", flush=True)  # in one piece
