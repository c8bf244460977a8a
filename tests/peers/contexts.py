#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank of real Horovod that uses all its contexts and checks every result.

Each rank checks what it gets against arithmetic, and its place against the
places of all others. Then it prints one line,

    rank R of N on HOST: local L/n cross C/m

rank 0 also the times that hvd.init() took. Anything wrong is an exception.

usage: contexts.py
"""
import faulthandler
import os
import socket
import sys
import time

import torch
import horovod.torch as hvd


def collectives(rank, size):
    total = size * (size - 1) // 2
    # Few operations of each kind: eight ranks on two cores take some tenths of a second for one.
    for dtype, count in ((torch.int64, 1000), (torch.float32, 300000), (torch.float64, 1)):
        mine = torch.full((count,), rank, dtype=dtype)
        assert torch.all(hvd.allreduce(mine, op=hvd.Sum) == total)
    assert torch.allclose(hvd.allreduce(torch.full((10,), float(rank))), torch.full((10,), total / size))
    assert hvd.allreduce(torch.tensor([rank]), op=hvd.Max).item() == size - 1
    assert hvd.allreduce(torch.tensor([rank]), op=hvd.Min).item() == 0

    # Many operations at once, so that Horovod fuses them.
    handles = [hvd.allreduce_async(torch.full((50,), float(rank * i)), name="many.%d" % i, op=hvd.Sum) for i in range(64)]
    for i, handle in enumerate(handles):
        assert torch.all(hvd.synchronize(handle) == total * i)

    # Every rank contributes one row more than its rank.
    gathered = hvd.allgather(torch.full((rank + 1, 2), rank))
    assert torch.equal(gathered, torch.cat([torch.full((r + 1, 2), r) for r in range(size)]))

    for root in sorted({0, size - 1}):
        assert torch.all(hvd.broadcast(torch.full((1000,), 7.0 + rank), root_rank=root) == 7.0 + root)

    received, splits = hvd.alltoall(torch.full((size,), rank), splits=torch.ones(size, dtype=torch.int32))
    assert received.tolist() == list(range(size)) and splits.tolist() == [1] * size

    assert hvd.broadcast_object({"from": rank}, root_rank=size - 1) == {"from": size - 1}
    hvd.barrier()


def groups(rank, size, sets):
    """Process sets: contexts of their own, which meet at scopes of their own."""
    for members, group in sets:
        assert group.included() == (rank in members)
        if rank not in members:
            continue
        assert group.size() == len(members) and group.rank() == members.index(rank)
        assert hvd.allreduce(torch.tensor([rank]), op=hvd.Sum, process_set=group).item() == sum(members)
        assert hvd.allgather(torch.tensor([rank]), process_set=group).tolist() == members
        assert hvd.broadcast(torch.tensor([rank]), root_rank=members[-1], process_set=group).item() == members[-1]
    # A process set that is made while the job runs, of ranks that are no set yet: the first rank of each host, or some
    # ranks of the only host. Other ranks would not do with any rendezvous: Horovod names the scope in which ranks of
    # several hosts meet by their local rank within the set, but groups them by their local rank within the job. In a
    # set of ranks 0, 2 and 5 on hosts with two ranks each, rank 5 has no peer, but uses the scope of the others and
    # deletes their keys.
    local_ranks = hvd.allgather(torch.tensor([hvd.local_rank()])).tolist()
    members = [r for r in range(size) if local_ranks[r] == 0]
    if len(members) == 1:
        members = sorted({0, size // 2, size - 1})
    if members not in [m for m, _ in sets] + [list(range(size))]:
        group = hvd.add_process_set(members)
        if rank in members:
            assert hvd.allgather(torch.tensor([rank]), process_set=group).tolist() == members
        assert hvd.remove_process_set(group)


def place(rank, size):
    """Checks Horovod's local and cross ranks against the hosts that the ranks run on."""
    host = socket.gethostname()
    local = (hvd.local_rank(), hvd.local_size())
    cross = (hvd.cross_rank(), hvd.cross_size())
    places = hvd.allgather_object((rank, host, local, cross))
    assert [p[0] for p in places] == list(range(size))
    here = [p for p in places if p[1] == host]
    assert [p[2] for p in here] == [(i, len(here)) for i in range(len(here))], here
    alike = [p for p in places if p[2][0] == local[0]]
    assert len({p[1] for p in alike}) == len(alike)
    assert sorted(p[3] for p in alike) == [(i, len(alike)) for i in range(len(alike))], alike
    return "rank %d of %d on %s: local %d/%d cross %d/%d" % ((rank, size, host) + local + cross)


def main():
    # A rank that waits for ever prints where, before the test's own deadline ends it.
    faulthandler.dump_traceback_later(float(os.environ.get("HVD_TEST_DEADLINE", "60")) * 0.7)
    size = int(os.environ["HOROVOD_SIZE"])
    chosen = [list(range(0, size, 2)), list(range(1, size, 2))]
    sets = [(members, hvd.ProcessSet(members)) for members in chosen if 0 < len(members) < size]
    os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
    began = time.perf_counter()
    hvd.init(process_sets=[group for _, group in sets])
    took = time.perf_counter() - began

    rank = hvd.rank()
    assert rank == int(os.environ["HOROVOD_RANK"]) and hvd.size() == size
    collectives(rank, size)
    groups(rank, size, sets)
    line = place(rank, size)
    times = hvd.allgather_object(took)
    lines = hvd.allgather_object(line)
    if rank == 0:
        # One rank prints, so that lines of several ranks do not mix.
        lines.append("hvd.init(): %.3f s for the rank that came last, %.3f s for the one that waited longest" % (min(times), max(times)))
        sys.stdout.write("".join(text + "\n" for text in lines))
        sys.stdout.flush()
    hvd.shutdown()


main()
