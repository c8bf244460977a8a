#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2030,SC2031,SC2154 # what run sets, for functions that look at it
# The Python module hvdrun runs a function in the ranks of real Horovod.

load ../cluster/launch
load peers

setup_file() {
    peers
    suite --nodes 2
    PYTHONPATH=$(cd "$BATS_TEST_DIRNAME/../../python" && pwd)
    export PYTHONPATH PYTHONDONTWRITEBYTECODE=1
}
setup() {
    needs_cluster
    cat >"$(home)/work.py" <<'END'
import os, sys, time
import hvdrun

def train(scale):
    import torch
    import horovod.torch as hvd
    hvd.init()
    total = hvd.allreduce(torch.full((1000,), scale * (hvd.rank() + 1)), op=hvd.Sum)
    return hvd.rank(), hvd.size(), hvd.local_rank(), os.environ["HOROVOD_HOSTNAME"], total[7].item()

def fails(how):
    import torch
    import horovod.torch as hvd
    hvd.init()
    for step in range(100000):
        hvd.allreduce(torch.ones(10), name="x")
        if step == 5 and hvd.rank() == 1: how()
        time.sleep(0.001)

def error(how, **options):
    try:
        hvdrun.run(fails, (how,), **options)
    except hvdrun.RankError as e:
        print("RankError: rank", e.rank, "on", e.host, e.how, repr(e.__cause__))

def divide(): 1 // 0
def die(): os.kill(os.getpid(), 9)
END
}
teardown() { mend --clean; }

# job <TEXT: submits a Python script for two nodes, with hvdrun and work imported.
job() {
    { echo 'import hvdrun, work' && cat; } >"$(home)/job.py"
    submit -N2 --ntasks-per-node=2 --wrap "exec env PYTHONPATH='$PYTHONPATH' '$PY' job.py"
    exits 0
}

@test "hvdrun.run() in a batch job runs over several nodes" {
    job <<<'for line in hvdrun.run(lambda: work.train(0.5), num_proc=4): print(line)'
    has "(0, 4, 0, 'hvdn1', 5.0)"$'\n'"(1, 4, 1, 'hvdn1', 5.0)"$'\n'"(2, 4, 0, 'hvdn2', 5.0)"$'\n'"(3, 4, 1, 'hvdn2', 5.0)"
}

@test "a rank that raises in a batch job is told from those that fail because of it" {
    job <<<'work.error(work.divide, np=2, hosts="hvdn1:1,hvdn2:1")'
    has "RankError: rank 1 on hvdn2 None ZeroDivisionError("
}

@test "a rank that is killed in a batch job is told from those that fail because of it" {
    job <<<'work.error(work.die, np=2, hosts="hvdn1:1,hvdn2:1")'
    has "RankError: rank 1 on hvdn2 killed by signal 9 (SIGKILL) None"
}

@test "hvdrun.run() as an elastic job: results are those of the ranks that are left, by their last numbers" {
    cat >>"$(home)/work.py" <<'END'

def elastic(killed):
    import torch
    import horovod.torch as hvd
    hvd.init()
    began = hvd.rank()
    state = hvd.elastic.TorchState(step=0)

    @hvd.elastic.run
    def train(state):
        while state.step < 30:
            hvd.allreduce(torch.ones(10), name="x")
            if state.step == 5 and hvd.rank() == killed and hvd.size() == 4: os.kill(os.getpid(), 9)
            state.step += 1
            state.commit()
            time.sleep(0.05)

    train(state)
    return began, hvd.rank(), hvd.size(), os.environ["HOROVOD_HOSTNAME"], state.step
END
    job <<<'print(hvdrun.run(work.elastic, (0,), num_proc=4, min_np=2))'
    has "[(2, 0, 2, 'hvdn2', 30), (3, 1, 2, 'hvdn2', 30)]" "generation 2: 2 ranks on 1 host"
}

@test "hvdrun.run() from the login host runs over several nodes" {
    cat >"$(home)/far.py" <<'END'
import hvdrun, work
print(hvdrun.run(work.train, (1.0,), extra_args=["-N2", "-n2", "--ntasks-per-node=1"]))
END
    gives 0 on_login env PYTHONPATH="$PYTHONPATH" "$PY" far.py
    has "[(0, 2, 0, 'hvdn1', 3.0), (1, 2, 0, 'hvdn2', 3.0)]"
}
