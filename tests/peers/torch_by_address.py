# SPDX-License-Identifier: Apache-2.0
"""A rank as programs for plain srun have it: torch_by_address.py HOST PORT SECONDS

All that it needs to know is said in the program, and it knows its rank of Slurm. Rank 0 listens on that port of its host.
"""

import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

host, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
rank = int(os.environ.get("SLURM_PROCID", os.environ.get("RANK")))
size = int(os.environ.get("SLURM_NTASKS", os.environ.get("WORLD_SIZE")))
began = time.monotonic()
try:
    dist.init_process_group("gloo", init_method="tcp://%s:%d" % (host, port), rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=seconds))
except (RuntimeError, TimeoutError):
    print("rank %d: no server after %.1f s" % (rank, time.monotonic() - began), flush=True)
    sys.exit(3)
total = torch.tensor([rank + 1])
dist.all_reduce(total)
print("rank %d: by address ok %d" % (rank, int(total)), flush=True)
dist.destroy_process_group()
