#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small elastic training, whose result does not depend on how many ranks there were when.

Fits a network to made-up data in double precision. Every rank computes the
gradient of its share of a batch, and the shares are summed, so that every
batch is the same whoever takes part. Each line of the log says what a rank
does: "epoch E batch B size N rank R pid P time T"; the last line of rank 0 is
"loss X" over all data. Every process begins with "worker P start T init T rank R host H": when it began, when what it
imports was there, and the rank and the host's name that it was started with.

usage: elastic.py LOG [--epochs N] [--batches N] [--pause SECONDS] [--at E:B:RANK:COMMAND]... [--quit FILE]
                  [--hold E:FILE] [--on-reset RANK:COMMAND]... [--say]

--at   before this batch, that rank (by its number then; "any": rank 0 does it once) runs this shell command, in which
       $PID is its own process. Once for each job: LOG.N is left behind as a mark. Where E is N*, in any epoch with N
       ranks, when the commands before this one have been run, and a batch with so many ranks.
--quit the training ends after the batch in which a rank has seen this file.
--hold before epoch E nothing but hosts may change, until a rank has seen this file: "hold epoch E size N"
--on-reset
       as --at, the first time that this rank (by its last number) is about to ask for its place in the next generation.
--say  the log is printed, too.
"""
import argparse
import functools
import os
import subprocess
import time

import torch

import horovod.torch as hvd

SAMPLES, BATCH = 480, 48


def data():
    torch.manual_seed(11)
    x = torch.rand(SAMPLES, 4, dtype=torch.float64) * 2 - 1
    y = (torch.sin(3 * x[:, :1]) + x[:, 1:2] * x[:, 2:3] - 0.5 * x[:, 3:] ** 2) * 2
    return x, y


def once(path):
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False


def began():
    """The time at which this process was started: field 22 of its stat, in ticks since the machine's start."""
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rsplit(")", 1)[1].split()[19])
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("log")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--pause", type=float, default=0.02)
    parser.add_argument("--at", action="append", default=[])
    parser.add_argument("--quit")
    parser.add_argument("--hold", default=":")
    parser.add_argument("--on-reset", action="append", default=[])
    parser.add_argument("--say", action="store_true")
    args = parser.parse_args()
    hold_epoch, hold_file = args.hold.split(":", 1)
    torch.set_num_threads(1)
    # Horovod's ranks agree each millisecond, also on nothing: what waits for a host then takes a processor. Each operation
    # of this waits for one of these times.
    os.environ.setdefault("HOROVOD_CYCLE_TIME", "5")

    def log(text):
        with open(args.log, "a") as f:
            f.write(text + "\n")
        if args.say:
            print(text, flush=True)

    def run(command):
        subprocess.run(command, shell=True, env=dict(os.environ, PID=str(os.getpid())))

    log("worker %d start %.3f init %.3f rank %s host %s" % (os.getpid(), began(), time.time(),
        os.environ.get("HOROVOD_RANK"), os.environ.get("HOROVOD_HOSTNAME")))
    hvd.init()

    x, y = data()
    torch.manual_seed(100 + hvd.rank())
    model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_of = torch.nn.MSELoss(reduction="sum")

    def seen(path):
        here = torch.tensor([float(os.path.exists(path))])
        return hvd.allreduce(here, op=hvd.Sum, name="seen").item() > 0

    last_size = [0]  # of the batch that this rank has logged last

    def disturb(epoch, batch):
        for i, entry in enumerate(args.at):
            e, b, rank, command = entry.split(":", 3)
            mine = hvd.rank() == (0 if rank == "any" else int(rank))
            if e.endswith("*"):
                now = hvd.size() == int(e[:-1]) == last_size[0] and (i == 0 or os.path.exists("%s.%d" % (args.log, i - 1)))
            else:
                now = int(e) == epoch
            if mine and now and int(b) == batch and once("%s.%d" % (args.log, i)):
                log("event %d time %.3f" % (i, time.time()))
                run(command)

    def init_again(init, was, *rest, **options):
        for i, entry in enumerate(args.on_reset):
            rank, command = entry.split(":", 1)
            if int(rank) == was[0] and once("%s.reset.%d" % (args.log, i)):
                run(command)
        init(*rest, **options)
        was[0] = hvd.rank()

    # hvd.elastic.run calls this between two generations.
    hvd.elastic.init = functools.partial(init_again, hvd.elastic.init, [hvd.rank()])

    @hvd.elastic.run
    def train(state):
        while state.epoch < args.epochs:
            while str(state.epoch) == hold_epoch and state.batch == 0 and not seen(hold_file):
                log("hold epoch %d size %d rank %d" % (state.epoch, hvd.size(), hvd.rank()))
                time.sleep(args.pause)
                state.commit()
            torch.manual_seed(1000 + state.epoch)
            order = torch.randperm(SAMPLES)
            while state.batch < args.batches:
                disturb(state.epoch, state.batch)
                at = (state.batch * BATCH) % SAMPLES
                mine = order[at:at + BATCH][hvd.rank()::hvd.size()]
                optimizer.zero_grad()
                loss = loss_of(model(x[mine]), y[mine]) / BATCH
                loss.backward()
                for i, p in enumerate(model.parameters()):
                    p.grad = hvd.allreduce(p.grad, op=hvd.Sum, name="grad.%d" % i)
                optimizer.step()
                log("epoch %d batch %d size %d rank %d pid %d time %.3f" %
                    (state.epoch, state.batch, hvd.size(), hvd.rank(), os.getpid(), time.time()))
                last_size[0] = hvd.size()
                time.sleep(args.pause)
                state.batch += 1
                if args.quit and seen(args.quit):
                    state.epoch, state.batch = args.epochs, args.batches
                state.commit()
            state.epoch += 1
            state.batch = 0
            state.commit()

    train(hvd.elastic.TorchState(model=model, optimizer=optimizer, epoch=0, batch=0))
    if hvd.rank() == 0:
        with torch.no_grad():
            log("loss %.12f" % (loss_of(model(x), y).item() / SAMPLES))


main()
