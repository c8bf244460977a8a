# SPDX-License-Identifier: Apache-2.0
"""The command of `hvdrun --ray`: says what it sees of the cluster, then waits as long as it is told.

    ray_driver.py HOSTS [SECONDS]
"""

import os
import subprocess
import sys
import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

WITHOUT_TOKEN = """
import os, sys
from ray._raylet import GcsClient
try:
    GcsClient(address=sys.argv[1]).check_alive([], timeout=5)
    print("answered")
except Exception as error:
    print("refused" if "auth" in str(error).lower() else error)
"""


def say(text):
    print(text, flush=True)


@ray.remote(num_cpus=1)
def of_worker():
    return " ".join(name for name in ("RANK", "WORLD_SIZE", "MASTER_PORT") if name in os.environ) or "none"


ray.init(logging_level="error")
nodes = [node for node in ray.nodes() if node["Alive"]]
say(f"sees {len(nodes)} of {sys.argv[1]} hosts")
say(f"head {os.environ['RAY_ADDRESS'].rpartition(':')[0]}")
for node in nodes:
    say(f"node {node['NodeManagerHostname']} {node['NodeManagerAddress']} cpus {int(node['Resources']['CPU'])}")
ranks = ray.get(
    [
        of_worker.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote()
        for node in nodes
    ]
)
say(f"ran on {len(ranks)}; variables of ranks: {' '.join(set(ranks))}")
strangers = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
answer = subprocess.run(
    [sys.executable, "-c", WITHOUT_TOKEN, os.environ["RAY_ADDRESS"]], env=strangers, stdout=subprocess.PIPE, text=True
)
say(f"without the token: {answer.stdout.strip()}")
if len(sys.argv) > 2:
    say("waits")
    time.sleep(float(sys.argv[2]))
