#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""first_error.py [record] - a training of which rank 2 raises an exception; the others die of their connection to it."""
import sys

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record


def train():
    dist.init_process_group("gloo")
    ones = torch.ones(4)
    for step in range(1000):
        if step == 20 and dist.get_rank() == 2:
            raise ValueError("bad batch")
        dist.all_reduce(ones)


(record(train) if sys.argv[1:] == ["record"] else train)()
