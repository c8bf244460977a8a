# SPDX-License-Identifier: Apache-2.0
"""Prints what PyTorch finds in its process, sums over all ranks, loads data by workers, and ends by an exception."""
import os
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    total = torch.full((4,), float(dist.get_rank()))
    dist.all_reduce(total)
    print("sum", total.tolist(), "random", torch.rand(2).tolist())
    print("threads", torch.get_num_threads(), torch.get_num_interop_threads())
    print("product", (torch.ones(300, 300) @ torch.ones(300, 300)).sum().item())
    print(torch.__config__.parallel_info())
    print("workers", sum(batch.sum().item() for batch in DataLoader(torch.arange(100.0), batch_size=10, num_workers=2)))
    print("environ", sorted(name for name in os.environ if name.startswith(("TORCH", "OMP", "KMP", "MKL"))))
    dist.destroy_process_group()
    sys.stdout.write("not flushed\n")
    torch.zeros(2) @ torch.zeros(3)


if __name__ == "__main__":
    main()
