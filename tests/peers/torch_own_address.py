# SPDX-License-Identifier: Apache-2.0
"""Programs that know where their ranks rendezvous: torch_own_address.py HOW[,HOW...] [ADDRESS] [PORT]

They run under plain srun, and must run under a launch whose store they do not use. ADDRESS is one of rank 0's host. One
process does one HOW after the other, for the import of PyTorch takes longer than any of them.

env      sets MASTER_ADDR and MASTER_PORT itself, from Slurm's variables, as idr_torch and many research programs do
tcp      init_method="tcp://ADDRESS:PORT"
spawn    each rank starts two processes, which are a world of their own on localhost
actors   each task starts two workers, which make one world of all tasks' workers, as Ray Train does below ray start
second   rank 0 serves a second store beside the one of the default group, as vLLM and verl do for a second world
by_hand  rank 0 serves a TCPStore at MASTER_ADDR and a free port, whose number the others get through the default group
plain    init_process_group() with the variables that it finds
late     as env, and rank 0 takes 9 s before it begins to serve
"""

import datetime
import os
import socket
import subprocess
import sys
import time

SECONDS = float(os.environ.get("OWN_ADDRESS_SECONDS", "60"))
hows = sys.argv[1].split(",")
if hows != ["actors"]:  # whose workers import it
    import torch
    import torch.distributed as dist
address = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"
port = int(sys.argv[3]) if len(sys.argv) > 3 else 23456
limit = datetime.timedelta(seconds=SECONDS)


def rank(name="RANK"):
    return int(os.environ[name])


def size(name="WORLD_SIZE"):
    return int(os.environ[name])


def check(label, group=None):
    total = torch.tensor([dist.get_rank() + 1])
    dist.all_reduce(total, group=group)
    n = dist.get_world_size()
    assert int(total) == n * (n + 1) // 2, total
    # print() would write the line end by itself, between other ranks' lines.
    os.write(1, b"rank %d of %d: %s ok\n" % (dist.get_rank(), n, label.encode()))


def set_all(at, which, me, all_of_them):
    os.environ.update(MASTER_ADDR=at, MASTER_PORT=str(which), RANK=str(me), WORLD_SIZE=str(all_of_them))


def env(label="env"):
    set_all(address, port, rank("SLURM_PROCID"), size("SLURM_NTASKS"))
    dist.init_process_group("gloo", timeout=limit)
    check(label)


def late():
    if rank() == 0:
        time.sleep(9)
    env("late")


def plain():
    dist.init_process_group("gloo", timeout=limit)
    check("plain")


def tcp():
    dist.init_process_group("gloo", init_method="tcp://%s:%d" % (address, port), rank=rank(), world_size=size(),
                            timeout=limit)
    check("tcp")


def spawned(local, which):
    set_all("localhost", which, local, 2)
    dist.init_process_group("gloo", timeout=limit)
    check("spawn")
    dist.destroy_process_group()


def spawn():
    import torch.multiprocessing
    torch.multiprocessing.spawn(spawned, args=(port + rank(),), nprocs=2)


def actors():
    workers = [subprocess.Popen([sys.executable, __file__, "actor", address, str(port), str(2 * rank() + n), str(2 * size())])
               for n in range(2)]
    if any([worker.wait() for worker in workers]):
        sys.exit(1)


def actor():
    set_all(address, port, int(sys.argv[4]), int(sys.argv[5]))
    dist.init_process_group("gloo", init_method="env://", timeout=limit)
    check("actors")


def second():
    from torch.distributed.rendezvous import _create_c10d_store
    dist.init_process_group("gloo", timeout=limit)
    store = _create_c10d_store(address, port + 1, dist.get_rank(), dist.get_world_size(), limit)
    store.set("second/%d" % dist.get_rank(), "x")
    store.wait(["second/%d" % n for n in range(dist.get_world_size())])
    check("second")


def by_hand():
    dist.init_process_group("gloo", timeout=limit)
    there = [None]
    if dist.get_rank() == 0:
        store = dist.TCPStore(os.environ["MASTER_ADDR"], 0, is_master=True, wait_for_workers=False, timeout=limit)
        there = [(os.environ["MASTER_ADDR"], store.port)]
    dist.broadcast_object_list(there)
    if dist.get_rank() > 0:
        store = dist.TCPStore(there[0][0], there[0][1], is_master=False, wait_for_workers=False, timeout=limit)
    store.set("by_hand/%d" % dist.get_rank(), "x")
    store.wait(["by_hand/%d" % n for n in range(dist.get_world_size())])
    check("by_hand")


if __name__ == "__main__":
    print("rank %d on %s" % (int(os.environ.get("RANK", "-1")), socket.gethostname()), flush=True)
    for how in hows:
        found = dict(os.environ)
        {"env": env, "late": late, "tcp": tcp, "spawn": spawn, "actors": actors, "actor": actor, "second": second,
         "by_hand": by_hand, "plain": plain}[how]()
        if hows != ["actors"] and dist.is_initialized():
            dist.destroy_process_group()
        os.environ.update(found)
