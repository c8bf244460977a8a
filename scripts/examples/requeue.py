#!/usr/bin/env python3
"""A program that can be ended and started again at any time: see requeue.sbatch.

The checkpoint is the number of the last step and the state, here a sum. Rank 0 writes it, under another name first, so
that there is a whole one at any time. A real program has its model and its optimizer in it, and where the ranks do not
take steps together by themselves they have to agree on the one after which they end (torch.distributed.all_reduce of
`told`).
"""

import os
import pickle
import signal
import sys
import time

PATH = os.environ.get("CHECKPOINT", "checkpoint")
STEPS = int(os.environ.get("STEPS", "100000"))
RANK = int(os.environ.get("RANK", "0"))
told = False


def on_signal(_number, _frame):
    global told
    told = True  # the step that runs is finished first


def load():
    try:
        with open(PATH, "rb") as file:
            return pickle.load(file)
    except FileNotFoundError:
        return {"step": 0, "sum": 0}


def save(state):
    if RANK == 0:
        with open(PATH + ".new", "wb") as file:
            pickle.dump(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(PATH + ".new", PATH)


def main():
    signal.signal(signal.SIGUSR1, on_signal)
    state = load()
    while state["step"] < STEPS:
        state["step"] += 1
        state["sum"] += state["step"]
        time.sleep(0.1)  # the work
        if told or state["step"] % 100 == 0:
            save(state)
        if told:
            print(f"rank {RANK}: ending at step {state['step']} of {STEPS}", flush=True)
            return 0
    save(state)
    print(f"rank {RANK}: done after {state['step']} steps: {state['sum']}", flush=True)
    return 0


sys.exit(main())
