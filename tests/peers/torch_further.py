# SPDX-License-Identifier: Apache-2.0
"""A rank of a program that takes MASTER_ADDR for an address of rank 0's host, and opens further ports there.

  torch_further.py store|async_save FOLDER

store: a TCPStore of its own at MASTER_ADDR and another port. async_save: DCP saves a checkpoint in FOLDER, in a process of
its own, whose ranks rendezvous at MASTER_ADDR and another port, or with DCP_USE_PREFIX_STORE=1 at MASTER_PORT. Each rank
prints "rank R: WHAT ok".
"""

import datetime
import os
import socket
import sys

import torch
import torch.distributed as dist


def store():
    port = [0]
    if dist.get_rank() == 0:
        with socket.create_server(("", 0)) as server:
            port = [server.getsockname()[1]]
    dist.broadcast_object_list(port, src=0)
    own = dist.TCPStore(os.environ["MASTER_ADDR"], port[0], dist.get_world_size(), dist.get_rank() == 0,
                        timeout=datetime.timedelta(seconds=15))
    own.set("of/%d" % dist.get_rank(), "x")
    own.wait(["of/%d" % rank for rank in range(dist.get_world_size())])
    dist.barrier()


def async_save(folder):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
    saved = dcp.async_save({"weight": torch.full((4,), 7.0)}, checkpoint_id=folder,
                           async_checkpointer_type=AsyncCheckpointerType.PROCESS)
    saved.result(timeout=60)
    read = {"weight": torch.zeros(4)}
    dcp.load(read, checkpoint_id=folder)
    assert read["weight"].tolist() == [7.0] * 4, read


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if sys.argv[1] == "store":
        store()
    else:
        async_save(sys.argv[2])
    os.write(1, b"rank %d: %s ok\n" % (rank, sys.argv[1].encode()))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
