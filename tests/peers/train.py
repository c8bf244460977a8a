#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small training, the same with any number of ranks.

Fits a network to made-up data, whole and seeded, in double precision. Each
rank takes its share of every batch; the batches are the same however many
ranks share them. Prints the loss over all data after each epoch, one a line.

usage: train.py [--alone | --apart]

--alone  one process, without Horovod
--apart  with Horovod, but each rank keeps to its own gradients: must go wrong
"""
import math
import sys

import torch

SAMPLES, BATCH, EPOCHS = 480, 48, 5


def data():
    torch.manual_seed(11)
    x = torch.rand(SAMPLES, 4, dtype=torch.float64) * 2 - 1
    y = (torch.sin(3 * x[:, :1]) + x[:, 1:2] * x[:, 2:3] - 0.5 * x[:, 3:] ** 2) * 2
    return x, y


def network(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.Tanh(), torch.nn.Linear(32, 32), torch.nn.Tanh(),
                               torch.nn.Linear(32, 1)).double()


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else ""
    torch.set_num_threads(1)
    rank, size = 0, 1
    if mode != "--alone":
        import horovod.torch as hvd
        hvd.init()
        rank, size = hvd.rank(), hvd.size()
        if SAMPLES % BATCH or BATCH % size:
            sys.exit("train.py: %d ranks cannot share batches of %d evenly" % (size, BATCH))

    x, y = data()
    model = network(100 + rank)  # rank 0's counts: the others must get it
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if mode != "--alone":
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        if mode != "--apart":
            optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    loss_of = torch.nn.MSELoss()
    share = BATCH // size
    for epoch in range(EPOCHS):
        torch.manual_seed(1000 + epoch)
        order = torch.randperm(SAMPLES)
        for at in range(0, SAMPLES, BATCH):
            mine = order[at + rank * share:at + (rank + 1) * share]
            optimizer.zero_grad()
            loss_of(model(x[mine]), y[mine]).backward()
            optimizer.step()
        with torch.no_grad():
            loss = loss_of(model(x), y)
            if mode != "--alone":
                if mode != "--apart":
                    losses = hvd.allgather(loss.reshape(1))
                    assert torch.all(losses == losses[0]), "ranks have grown apart: %s" % losses
                loss = hvd.allreduce(loss)
        assert math.isfinite(loss)
        if rank == 0:
            print("epoch %d loss %.17g" % (epoch, loss), flush=True)
    if mode != "--alone":
        hvd.shutdown()


main()
