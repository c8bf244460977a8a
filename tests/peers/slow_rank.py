# SPDX-License-Identifier: Apache-2.0
"""slow_rank.py HOW - trains by DDP on Gloo until it is ended. Rank 1 needs half a second more for each step than the others: HOW
is "step", where it sleeps, "loader", whose process is slow, or "none": no rank does."""
import sys
import time

import torch
import torch.distributed as dist

STEP = 0.1
how = sys.argv[1]
dist.init_process_group("gloo")
rank = dist.get_rank()
slow = how if rank == 1 else "none"
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)]))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 30

    def __getitem__(self, i):
        if slow == "loader":
            time.sleep((0.5 + STEP) / 4)
        return torch.ones(64)


steps = 0
for batch in torch.utils.data.DataLoader(Samples(), batch_size=4, num_workers=1 if how == "loader" else 0):
    time.sleep(STEP + (0.5 if slow == "step" else 0))
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
    steps += 1
    if steps == 3 and rank == 0:
        print("the third step is done", flush=True)
