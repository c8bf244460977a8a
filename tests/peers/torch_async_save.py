# SPDX-License-Identifier: Apache-2.0
"""torch_async_save.py FOLDER: DCP saves a checkpoint in FOLDER, in a process of its own.

The ranks of that process rendezvous at MASTER_ADDR, which they take for an address of rank 0's host, and another port, or
with DCP_USE_PREFIX_STORE=1 at MASTER_PORT. Each rank prints "rank R: async_save ok".
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType


def main():
    dist.init_process_group("gloo")
    saved = dcp.async_save({"weight": torch.full((4,), 7.0)}, checkpoint_id=sys.argv[1],
                           async_checkpointer_type=AsyncCheckpointerType.PROCESS)
    saved.result(timeout=60)
    read = {"weight": torch.zeros(4)}
    dcp.load(read, checkpoint_id=sys.argv[1])
    assert read["weight"].tolist() == [7.0] * 4, read
    os.write(1, b"rank %d: async_save ok\n" % dist.get_rank())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
