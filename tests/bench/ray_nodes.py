# SPDX-License-Identifier: Apache-2.0
"""The driver of bench_ray.sh: waits until ray.nodes() has as many live nodes as its first argument says, and writes the
time to the file of the second."""

import sys
import time

import ray

ray.init(logging_level="error")
while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[1]):
    time.sleep(0.05)
with open(sys.argv[2], "w") as out:
    out.write(f"{time.time():.3f}\n")
