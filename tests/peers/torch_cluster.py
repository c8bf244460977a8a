# SPDX-License-Identifier: Apache-2.0
"""A rank that does with torch.distributed what training programs do, and says of each part that it went well.

It is told nothing but what the launcher sets. Losses of distributed training are compared with those of the whole
batch in this process; every rank checks, and prints a line "rank R of N on HOST: PART ok".

  torch_cluster.py [PART…]     all parts: collectives groups objects ddp again last

Others: "fsdp", which imports torch._dynamo, as long as the rest of PyTorch takes; "kill", which kills rank 0 while the
others wait for it; and "leave", by which the last rank exits with status 5 then.
"""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist

BATCH, FEATURES, EPOCHS, RATE = 48, 6, 5, 0.1


def say(part, more=""):
    line = "rank %s of %s on %s: %s ok%s\n" % (
        os.environ["RANK"], os.environ["WORLD_SIZE"], os.uname().nodename, part, " " + more if more else "")
    os.write(1, line.encode())


def init():
    began = time.monotonic()
    dist.init_process_group("gloo")
    return time.monotonic() - began


def collectives():
    total = torch.tensor([float(dist.get_rank())], dtype=torch.float64)
    dist.all_reduce(total)
    size = dist.get_world_size()
    assert total.item() == size * (size - 1) / 2, total
    word = torch.tensor([dist.get_rank() + 40])
    dist.broadcast(word, src=size - 1)
    assert word.item() == size + 39, word
    dist.barrier()
    return "sum %d" % total.item()


def groups():
    """Ranks of the same remainder by 2 have a group of their own, and so have the first and the last rank."""
    rank, size = dist.get_rank(), dist.get_world_size()
    halves = [dist.new_group(list(range(first, size, 2))) for first in range(2)]
    ends = dist.new_group([0, size - 1])
    value = torch.tensor([1 << rank])
    dist.all_reduce(value, group=halves[rank % 2])
    assert value.item() == sum(1 << each for each in range(rank % 2, size, 2)), value
    if rank in (0, size - 1):
        value = torch.tensor([rank + 1])
        dist.all_reduce(value, group=ends)
        assert value.item() == size + 1, value


def objects():
    mine = {"rank": dist.get_rank(), "host": os.uname().nodename, "local": int(os.environ["LOCAL_RANK"])}
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, mine)
    assert [each["rank"] for each in everybody] == list(range(len(everybody))), everybody
    seen = {}
    for each in everybody:
        assert each["local"] == seen.get(each["host"], 0), everybody
        seen[each["host"]] = each["local"] + 1
    assert all(count == int(os.environ["LOCAL_WORLD_SIZE"]) for count in seen.values()), (seen, dict(os.environ))
    return "%d hosts" % len(seen)


def model(seed=7):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(torch.float64)


def batch():
    generator = torch.Generator().manual_seed(11)
    data = torch.randn(BATCH, FEATURES, generator=generator, dtype=torch.float64)
    return data, torch.sin(data.sum(1, keepdim=True))


def train(net, data, target, mean_loss):
    losses = []
    for _ in range(EPOCHS):
        for parameter in net.parameters():
            parameter.grad = None
        loss = ((net(data) - target) ** 2).mean()
        loss.backward()
        losses.append(mean_loss(loss.item()))
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.sub_(parameter.grad, alpha=RATE)
    return losses


def share():
    data, target = batch()
    rank, size = dist.get_rank(), dist.get_world_size()
    return data[rank::size], target[rank::size]


def mean_of_ranks(loss):
    loss = torch.tensor([loss], dtype=torch.float64)
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


def alike(losses):
    alone = train(model(), *batch(), lambda loss: loss)
    assert alone[-1] < 0.9 * alone[0], alone
    return all(abs(a - b) < 1e-9 * a for a, b in zip(alone, losses, strict=True))


def ddp():
    # What is compared can differ: ranks that keep to their own gradients train otherwise.
    assert dist.get_world_size() == 1 or not alike(train(model(), *share(), mean_of_ranks))
    # Rank 0's parameters count: the others must get them.
    net = torch.nn.parallel.DistributedDataParallel(model(7 + dist.get_rank()))
    losses = train(net, *share(), mean_of_ranks)
    assert alike(losses), losses
    return "loss %.6f" % losses[-1]


def fsdp():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    net = model()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (net[0], net[2], net):
        fully_shard(layer, mesh=mesh)
    assert net[0].weight.to_local().numel() < FEATURES * 16
    losses = train(net, *share(), mean_of_ranks)
    assert alike(losses), losses
    return "loss %.6f" % losses[-1]


def again():
    dist.barrier()
    dist.destroy_process_group()
    took = init()
    return "init %.3f s, %s" % (took, collectives())


def last():
    """Rank 0 ends first. The others use the store meanwhile, as NCCL's watchdog does."""
    store = dist.distributed_c10d._get_default_store()
    dist.barrier()
    if dist.get_rank() == 0:
        dist.destroy_process_group()
        sys.exit(0)
    end = time.monotonic() + 2
    while time.monotonic() < end:
        assert not store.check(["should dump"])
        time.sleep(0.1)


def kill():
    dist.barrier()  # all have said that they are there
    if dist.get_rank() == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def leave():
    dist.barrier()
    if dist.get_rank() == dist.get_world_size() - 1:
        os._exit(5)
    dist.barrier()


PARTS = [collectives, groups, objects, ddp, again, last]


def main():
    wanted = [globals()[each] for each in sys.argv[1:]] or PARTS
    say("init", "%.3f s" % init())
    for part in wanted:
        say(part.__name__, part())
    dist.destroy_process_group()


main()
