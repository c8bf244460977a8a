#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real torch.distributed, with its ranks on this machine, at a store that none of them serves.

usage: torch_init.py PORT [--ranks N] [--rounds N] [--only NAME]

The ranks are forked when torch is imported. Each goes through all of STEPS, with the environment that a launcher sets.
Prints a line for each rank and step; the exit status is 1 when one has failed.
"""
import argparse
import datetime
import os
import signal
import sys
import time
import traceback

import torch
import torch.distributed as dist

PATIENCE = datetime.timedelta(seconds=30)


def total(value, group=None):
    tensor = torch.tensor([value])
    dist.all_reduce(tensor, group=group)
    return int(tensor)


def met(world):
    assert total(dist.get_rank() + 1) == world * (world + 1) // 2


def again_and_again(rank, world, options):
    """Each time with the same names in the store."""
    took = []
    for _ in range(options.rounds):
        began = time.monotonic()
        dist.init_process_group("gloo", timeout=PATIENCE)
        took.append(time.monotonic() - began)
        met(world)
        dist.destroy_process_group()
    return "%d of %d times, median %.1f ms" % (len(took), options.rounds, 1000 * sorted(took)[len(took) // 2])


def groups(rank, world, options):
    dist.init_process_group("gloo", timeout=PATIENCE)
    halves = [list(range(world // 2)), list(range(world // 2, world))]
    made = [dist.new_group(ranks) for ranks in halves]
    mine = rank >= world // 2
    assert total(rank, made[mine]) == sum(halves[mine])
    dist.barrier()
    gathered = [None] * world
    dist.all_gather_object(gathered, {"rank": rank})
    assert gathered == [{"rank": n} for n in range(world)]
    dist.destroy_process_group()


def by_address(rank, world, options):
    where = "tcp://%s:%s" % (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=world, timeout=PATIENCE)
    met(world)
    dist.destroy_process_group()


def stores(rank, world, options):
    """The group's store by hand: below a prefix, cloned, and waited for in vain."""
    dist.init_process_group("gloo", timeout=PATIENCE)
    store = dist.distributed_c10d._get_default_store()
    mine = dist.PrefixStore("mine", store)
    mine.set("rank/%d" % rank, str(rank))
    mine.wait(["rank/%d" % n for n in range(world)], PATIENCE)
    if hasattr(mine, "clone"): # since 2.5
        clone = mine.clone()
        assert clone.get("rank/%d" % ((rank + 1) % world)) == str((rank + 1) % world).encode()
        clone.set("clone/%d" % rank, "x")
        mine.wait(["clone/%d" % ((rank + 1) % world)], PATIENCE)
    began = time.monotonic()
    try:
        mine.wait(["never", "rank/0"], datetime.timedelta(milliseconds=200))
        raise AssertionError("what nobody sets is there")
    except (dist.DistStoreError if hasattr(dist, "DistStoreError") else RuntimeError):
        took = time.monotonic() - began
        assert 0.15 < took < 10, took
    assert mine.add("count", 1) <= world
    met(world)
    dist.destroy_process_group()
    return "waited %.2f s in vain" % took


def two_stores(rank, world, options):
    """A program's own store where MASTER_* say, beside the group's."""
    where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    own = dist.TCPStore(*where, world_size=world, is_master=rank == 0, wait_for_workers=False, timeout=PATIENCE)
    dist.init_process_group("gloo", timeout=PATIENCE)
    own.set("own/%d" % rank, str(rank))
    assert own.get("own/%d" % (world - 1)) == str(world - 1).encode()
    met(world)
    dist.destroy_process_group()
    return "twice"


STEPS = [again_and_again, groups, by_address, stores, two_stores]


def be(rank, world, options):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
    for step in STEPS:
        if options.only and step.__name__ != options.only:
            continue
        said = step(rank, world, options)
        os.write(1, b"rank %d: %s: %s\n" % (rank, step.__name__.encode(), (said or "well").encode()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only")
    options = parser.parse_args()
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=options.port, WORLD_SIZE=str(options.ranks),
                      LOCAL_WORLD_SIZE=str(options.ranks), TORCHELASTIC_USE_AGENT_STORE="True",
                      TORCHELASTIC_RESTART_COUNT="0", GLOO_SOCKET_IFNAME="lo")
    children = []
    for rank in range(options.ranks):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                be(rank, options.ranks, options)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        children.append(child)
    failed = 0
    for _ in range(options.ranks):
        _, status = os.wait()
        if status and not failed:
            # The others would wait for it.
            failed = 1
            time.sleep(1)
            for child in children:
                try:
                    os.kill(child, signal.SIGTERM)
                except ProcessLookupError:
                    pass
    sys.exit(failed)


if __name__ == "__main__":
    main()
