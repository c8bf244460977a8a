#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""report_events.py HOSTS [URL] - a file of --events, as docs/events.md has it: a job with restarts on so many hosts of 8
ranks, of which one fails, one is lost, one is slow, and which hangs. With a URL, all texts of programs and hosts try to leave
their place in a page, to run scripts, and to load the URL."""

import json
import random
import sys

hosts = int(sys.argv[1])

HOSTILE = """</script><script>throw 1</script><img src=URL onerror=throw(2)><link rel=stylesheet href=URL><base href=URL>
<style>@import url(URL);</style><meta http-equiv=refresh content=0;url=URL>'"&lt;&#x3c;\\x1b[1m\u2028\u2029`${0}--><!--\u00e9]]>"""
hostile = HOSTILE.replace("URL", sys.argv[2]) if len(sys.argv) > 2 else ""
dice = random.Random(hosts)
now = 1795900000.25


def event(name, **context):
    print(json.dumps({"timestamp": round(now, 6), "name": name,
                      "context": {"launch": "4711.0" + hostile, **context}}, ensure_ascii=False))


def name(h):
    return f"node{h:04d}" + hostile


def start():
    """All hosts that are there come, a few of them late."""
    global now
    began = now
    events = []
    for h in range(hosts):
        late = 20 if h % 97 == 13 else 0
        at = began + 0.3 + dice.expovariate(1) * 0.7 + late
        events += [(began + 0.01, "host-coming", h), (at, "host-registered", h)]
    last = max(t for t, _, _ in events)
    for h in range(hosts):
        probed = last + 0.1 + dice.random() * 0.4
        events += [(last + 0.02, "host-probing", h), (probed, "host-reported", h)]
    last = max(t for t, _, _ in events) + 0.05
    events += [(last + h * 1e-4, "host-here", h) for h in range(hosts)]
    for now, what, h in sorted(events, key=lambda e: e[0]):
        event(what, host=name(h))
    now += 0.1


def generation(number, minutes, away=()):
    global now
    event("generation-began", hosts=f"node[0000-{hosts - 1:04d}]", generation=number, ranks=8 * (hosts - len(away)),
          restarts=number - 1)
    now += 3
    event("init-began", generation=number)
    now += 12
    event("init-done", generation=number)
    for minute in range(minutes):
        now += 60
        for h in range(hosts):
            if h not in away and (minute + h) % max(1, hosts // 60) == 0:
                event("host-usage", host=name(h), cpu=int(dice.gauss(9000, 400)) if h != 3 else 31000,
                      memory=int((90 + minute * (2 if h == 5 else 0.1) + dice.random()) * (1 << 30)),
                      gpu=max(0, int(dice.gauss(7600, 300))), ranks=8)


event("launch-began", version="0.1.0", backend="srun", job=4711,
      command="hvdrun -N%d --max-restarts=3 python train.py --data /data/imagenet%s" % (hosts, hostile))
now += 2
start()
event("networks-chosen", networks="ib0 (InfiniBand, 200000 Mb/s), eth0 (Ethernet, 25000 Mb/s)",
      why="docker0: the same address on all hosts" + hostile)
generation(1, 20)
event("rank-slow", host=name(3 % hosts), why="its peers wait for it 92 % of the time" + hostile, generation=1, rank=27)
now += 5
event("rank-ended", host=name(hosts // 2), how="exit code 1", cause="exception", error="RuntimeError: CUDA error" + hostile,
      generation=1, rank=8 * (hosts // 2), status=1)
event("generation-failed", host=name(hosts // 2), how="exit code 1", error="RuntimeError: CUDA error" + hostile,
      generation=1, rank=8 * (hosts // 2))
for r in range(8 * hosts):
    if r != 8 * (hosts // 2):
        event("rank-ended", host=name(r // 8), how="killed by signal 15 (SIGTERM)", generation=1, rank=r, status=143)
event("first-failure", host=name(hosts // 2), why="rank %d on node failed first: exit code 1\n  RuntimeError: CUDA error%s" % (8 * (hosts // 2), hostile),
      lines='Traceback (most recent call last):\n  File "train.py", line 41, in <module>\n    step()\nRuntimeError: CUDA error' + hostile,
      generation=1)
now += 8
event("restart", why="rank failed" + hostile, generation=1, restarts=1)
event("generation-ended", generation=1)
now += 1
generation(2, 30)
if hosts > 1:
    event("host-lost", host=name(1), why="the connection to its node agent was lost" + hostile)
    event("generation-ending", host=name(1), why="the connection was lost" + hostile, generation=2)
    now += 30
    event("generation-ended", generation=2)
    generation(3, 10, away=(1,))
now += 600
event("hang", why="no rank has made progress for 600 s" + hostile, generation=3, seconds=600)
now += 3
event("stack-group", hosts=name(0), members="7", where="read (loader.py:88)" + hostile, stack="read (loader.py:88)\nmain (train.py:60)" + hostile,
      generation=3, count=1)
event("stack-group", members="0-6, 8-%d" % (8 * hosts - 1), where="all_reduce (train.py:41)", stack="all_reduce (train.py:41)\nmain (train.py:60)",
      generation=3, count=8 * hosts - 1)
event("hang-action", why="ending the job", generation=3)
event("launch-ending")
now += 4
for r in range(8 * hosts):
    if hosts == 1 or r // 8 != 1:
        event("rank-ended", host=name(r // 8), how="killed by signal 15 (SIGTERM)", generation=3, rank=r, status=143)
event("launch-ended", status=1)
