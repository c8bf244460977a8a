#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""roles.py - the programs of roles.sbatch: a trainer that asks inference servers for samples and a judge for their scores.

    roles.py serve --port P   an inference server: POST of weights to /weights, GET of a sample from /sample
    roles.py judge --port P   a judge: POST of a sample to /score
    roles.py train            trains by torch.distributed, each rank with an inference server and the judge of its host

The model is a list of numbers, and a sample that number plus noise; the judge prefers what is near to a goal that only it
knows. Where the others are is in the variables that hvdrun sets for each rank.
"""
import argparse
import json
import os
import random
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GOAL = [1.0, -2.0, 3.0]


def serve(port, answers):
    """Serve functions by method and path: answers["GET /health"](body) -> body."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            function = answers.get(f"{self.command} {self.path}")
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            text = json.dumps(function(json.loads(body or "null")) if function else None).encode()
            self.send_response(200 if function else 404)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = answer

        def log_message(self, *args):
            pass

    ThreadingHTTPServer(("", port), Handler).serve_forever()


def ask(address, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(f"http://{address}{path}", data), timeout=30) as answer:
        return json.load(answer)


def inference(port):
    weights, lock = [0.0] * len(GOAL), threading.Lock()

    def take(new):
        with lock:
            weights[:] = new

    def sample(_):
        with lock:
            return [w + random.gauss(0, 0.5) for w in weights]

    print("inference server", os.environ.get("HVD_ROLE_REPLICA"), "begins", flush=True)
    serve(port, {"GET /health": lambda _: "ok", "POST /weights": take, "GET /sample": sample})


def judge(port):
    serve(port, {"POST /score": lambda sample: -sum((s - g) ** 2 for s, g in zip(sample, GOAL))})


def addresses(role):
    """Of all hosts of a role, with its port: the first host of each replica serves."""
    port = os.environ[f"HVD_ROLE_{role}_PORTS"]
    return [f"{replica.split(',')[0]}:{port}" for replica in os.environ[f"HVD_ROLE_{role}_ADDRS"].split(";")]


def train(steps):
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    servers = addresses("ROLLOUT")
    number = rank % len(servers)
    mine, judge_here = servers[number], "127.0.0.1:" + os.environ["HVD_ROLE_JUDGE_PORTS"]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, len(GOAL), bias=False))
    torch.nn.init.zeros_(model.module.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for step in range(steps):
        samples = [ask(mine, "/sample") for _ in range(8)]
        scores = [ask(judge_here, "/score", sample) for sample in samples]
        best = torch.tensor(samples[scores.index(max(scores))])
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(torch.ones(1)), best, reduction="sum").backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step} score {max(scores):.3f}", flush=True)
            for server in servers:
                ask(server, "/weights", model.module.weight.flatten().tolist())
        dist.barrier()  # all servers have the new weights
    error = max(abs(w - g) for w, g in zip(model.module.weight.flatten().tolist(), GOAL))
    print(f"rank {rank} of {world}: server {number}, off by {error:.2f}", flush=True)
    dist.destroy_process_group()


parser = argparse.ArgumentParser()
parser.add_argument("role", choices=["serve", "judge", "train"])
parser.add_argument("--port", type=int)
parser.add_argument("--steps", type=int, default=40)
options = parser.parse_args()
if options.role == "train":
    train(options.steps)
else:
    {"serve": inference, "judge": judge}[options.role](options.port)
