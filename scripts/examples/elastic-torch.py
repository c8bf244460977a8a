#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training that may be started anew at any time, with any number of ranks, for elastic-torch.sbatch.

It needs nothing of the launcher but torch.distributed's variables. Rank 0 writes a checkpoint after each epoch, under
another name first, so that there is a whole one at any time; all ranks read it when they start. Each epoch uses all
samples once, however many ranks share them, so the result does not depend on when ranks came and went.
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

SAMPLES = 240  # to be divided evenly by the number of ranks


def save(path, **state):
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--pause", type=float, default=0, help="seconds of other work in each epoch")
    args = parser.parse_args()

    gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpu else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    device = torch.device("cpu")
    if gpu:  # LOCAL_RANK's, or the only one that this rank sees
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    restarts = os.environ["TORCHELASTIC_RESTART_COUNT"]

    torch.manual_seed(1)
    samples = torch.randn(SAMPLES, 8, dtype=torch.float64).to(device)
    goal = (samples @ torch.randn(8, 1, dtype=torch.float64).to(device)).tanh()
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double().to(device)
    first = 0
    if os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint, map_location=device)
        model.load_state_dict(state["model"])
        first = state["epoch"] + 1
    net = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    if first:
        optimizer.load_state_dict(state["optimizer"])

    for epoch in range(first, args.epochs):
        optimizer.zero_grad()
        loss = (net(samples[rank::ranks]) - goal[rank::ranks]).square().mean()
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss.detach_())
        if rank == 0:
            save(args.checkpoint, model=model.state_dict(), optimizer=optimizer.state_dict(), epoch=epoch)
            print(f"epoch {epoch} loss {loss.item() / ranks!r} ranks {ranks} restarts {restarts}", flush=True)
        time.sleep(args.pause)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
