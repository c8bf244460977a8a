# SPDX-License-Identifier: Apache-2.0
"""slow_rank.py HOW - trains by DDP on Gloo until it is ended. In a step each rank waits 0.1 s, as for a GPU. Rank 1 needs
longer: HOW is "step", it sleeps; or "loader", the process that loads its data does; or "taken", it computes instead, from the
fourth step on at the last processor, which the test then has other processes take. With "even" it does not."""
import os
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
how = sys.argv[1] if rank == 1 else "even"
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)]))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 30

    def __getitem__(self, i):
        if how == "loader":
            time.sleep(0.15)
        return torch.ones(64)


def compute(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


steps = 0
for batch in torch.utils.data.DataLoader(Samples(), batch_size=4, num_workers=1 if how == "loader" else 0):
    if how == "taken":
        compute(0.1)
    else:
        time.sleep(0.6 if how == "step" else 0.1)
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
    steps += 1
    if steps == 3:
        if how == "taken":
            os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
        if rank == 0:
            print("the third step is done", flush=True)
