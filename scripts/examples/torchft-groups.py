#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torchft-groups.py - training by torchft in replica groups, of which any may fail at any time: the others go on at once, and a
group that comes back gets the present state from one of them.

Nothing in here knows what starts it: torchft.sbatch sets the variables that torchft's own examples read,
TORCHFT_LIGHTHOUSE and REPLICA_GROUP_ID, from those of the launch. torchft itself finds the store of its group by
MASTER_ADDR and MASTER_PORT.

    --steps N       train for N steps of all groups together (1000)
    --until FILE    ... or until this file exists
    --pause S       wait this long after each step (0)
"""
import argparse
import os
import time
from datetime import timedelta

import torch
from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--until")
parser.add_argument("--pause", type=float, default=0)
options = parser.parse_args()

group = int(os.environ["REPLICA_GROUP_ID"])
again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
torch.manual_seed(group)  # torchft gives all groups the weights of one
model = torch.nn.Linear(8, 1)
inner = torch.optim.SGD(model.parameters(), lr=0.05)


def load(state):
    model.load_state_dict(state["model"])
    inner.load_state_dict(state["optimizer"])


def save():
    return {"model": model.state_dict(), "optimizer": inner.state_dict()}


manager = Manager(
    pg=ProcessGroupGloo(timeout=timedelta(seconds=10)),
    load_state_dict=load,
    state_dict=save,
    min_replica_size=1,
    replica_id=f"group_{group}_",
    timeout=timedelta(seconds=20),
)
optimizer = Optimizer(manager, inner)
ddp = DistributedDataParallel(manager, model)
truth = torch.arange(8.0).unsqueeze(1)
print(f"group {group} restart {again} begins", flush=True)
while manager.current_step() < options.steps:
    step = manager.current_step()
    torch.manual_seed(1000 * step + group)  # each group has data of its own
    data = torch.randn(16, 8)
    optimizer.zero_grad()  # finds out which groups there are
    loss = torch.nn.functional.mse_loss(ddp(data), data @ truth)
    loss.backward()
    stop = torch.tensor([float(bool(options.until) and os.path.exists(options.until))])
    manager.allreduce(stop).wait()
    optimizer.step()  # if all groups have succeeded
    print(f"group {group} restart {again} step {manager.current_step()} of {manager.num_participants()} groups "
          f"loss {loss.item():.6f}", flush=True)
    if stop.item() > 0:
        break
    time.sleep(options.pause)
weights = ",".join(f"{w:.6f}" for w in model.weight.flatten().tolist())
print(f"group {group} restart {again} done at step {manager.current_step()}: {weights}", flush=True)
manager.shutdown(wait=False)
