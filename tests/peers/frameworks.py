#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a rank of a framework's users does, as short as it can be: come together, and sum over all ranks.

A rank prints one line: which framework, rank, size, and the sum of rank + 1 over all ranks; then what
the framework says of itself.

usage: frameworks.py jax [auto]|fabric DEVICES NODES|accelerate|deepspeed|tensorflow
"""
import os
import sys

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def tell(name, rank, size, total, *more):
    # One write: lines of ranks must not mix.
    print(" ".join(map(str, (name, "rank", rank, "of", size, "sum", int(total)) + more)) + "\n", end="", flush=True)


def jax(detect=""):
    """With "auto" JAX finds rank and size by itself, as it does under srun."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax as package
    from jax.experimental import multihost_utils
    if detect:
        package.distributed.initialize()
    else:
        package.distributed.initialize(os.environ["JAX_COORDINATOR_ADDRESS"], SIZE, RANK)
    ones = multihost_utils.process_allgather(package.numpy.array(package.process_index() + 1))
    tell("jax", package.process_index(), package.process_count(), ones.sum(), os.environ["JAX_COORDINATOR_ADDRESS"])
    package.distributed.shutdown()


def fabric(devices, nodes):
    import torch
    from lightning_fabric import Fabric
    one = Fabric(accelerator="cpu", devices=int(devices), num_nodes=int(nodes), strategy="ddp")
    one.launch()
    model = one.setup(torch.nn.Linear(1, 1, bias=False))
    model(torch.full((1, 1), float(one.global_rank + 1))).sum().backward()
    mean = next(model.parameters()).grad.item()  # DDP has averaged it
    tell("fabric", one.global_rank, one.world_size, round(mean * one.world_size),
         type(one.strategy.cluster_environment).__name__)


def accelerate():
    import torch
    from accelerate import Accelerator
    one = Accelerator(cpu=True)
    total = one.reduce(torch.tensor(float(one.process_index + 1)), "sum")
    tell("accelerate", one.process_index, one.num_processes, total.item(), one.local_process_index)
    one.end_training()


def deepspeed():
    os.environ["DS_ACCELERATOR"] = "cpu"
    import torch
    import deepspeed as package
    package.ops.__compatible_ops__.clear()  # else it compiles C++ for a minute
    model = torch.nn.Linear(1, 1, bias=False)
    engine = package.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
                                config={"train_micro_batch_size_per_gpu": 1}, dist_init_required=True)[0]
    engine.backward(engine(torch.full((1, 1), float(engine.global_rank + 1))).sum())
    mean = next(model.parameters()).grad.item()  # it has averaged the gradients
    tell("deepspeed", engine.global_rank, engine.world_size, round(mean * engine.world_size), engine.local_rank)
    torch.distributed.destroy_process_group()


def tensorflow():
    import tensorflow as tf
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    def step():
        return tf.distribute.get_replica_context().all_reduce("SUM", tf.constant(float(RANK + 1)))

    total = strategy.run(tf.function(step))
    tell("tensorflow", strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync, float(total))


PROGRAMS = {f.__name__: f for f in (jax, fabric, accelerate, deepspeed, tensorflow)}

if len(sys.argv) < 2 or sys.argv[1] not in PROGRAMS:
    sys.exit(__doc__)
PROGRAMS[sys.argv[1]](*sys.argv[2:])
