#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Horovod's ends of the notification of elastic workers, put against tests/bench/worker_wire.

usage: worker_wire.py worker PROGRAM    real notification services are notified by PROGRAM
       worker_wire.py driver PROGRAM    PROGRAM is notified by a real notification client

Ends with a line that says how many exchanges were made; anything wrong is an exception.
"""
import subprocess
import sys
import time

from horovod.runner.common.util import codec, secret
from horovod.runner.elastic.worker import (HostUpdateResult, WorkerNotificationClient, WorkerNotificationManager,
                                           WorkerNotificationService)

RESULTS = [HostUpdateResult.removed, HostUpdateResult.added, HostUpdateResult.mixed]


class Listener:
    """What horovod.common.elastic.State is for the manager."""

    def __init__(self):
        self.heard = []

    def on_hosts_updated(self, timestamp, update_res):
        self.heard.append((timestamp, update_res))


def service(nic):
    """A worker's service, what it would PUT, and what it hears."""
    manager = WorkerNotificationManager()
    listener = Listener()
    manager.register_listener(listener)
    key = secret.make_secret_key()
    made = WorkerNotificationService(key, nic, manager)
    put = codec.dumps_base64((made.addresses(), key), to_ascii=False).decode()
    return made, put, listener.heard


def send(program, put, timestamp, change):
    return subprocess.run([program, "send", put, str(timestamp), str(int(change))], capture_output=True, text=True,
                          timeout=60, check=False)


def be_worker(program):
    done = 0
    # One interface, and all there are, loopback first.
    for nic in ("lo", None):
        made, put, heard = service(nic)
        for number, change in enumerate(RESULTS):
            # Seconds since 1970, and numbers that need one, two, four and eight bytes.
            for timestamp in (int(time.time()) + number, 7 + number, 300 + number, 2 ** 40 + number):
                heard.clear()
                ran = send(program, put, timestamp, change)
                assert ran.returncode == 0, ran
                assert heard == [(timestamp, change)], heard
                # As State.check_host_updates() goes on with it.
                assert (HostUpdateResult.no_update | heard[0][1]) == change
                assert (heard[0][1] == HostUpdateResult.removed) == (change == HostUpdateResult.removed)
                done += 1
        made.shutdown()
    made, put, heard = service("lo")
    addresses, _ = codec.loads_base64(put)
    wrong = codec.dumps_base64((addresses, secret.make_secret_key()), to_ascii=False).decode()
    ran = send(program, wrong, 1, 1)
    assert ran.returncode == 1 and "closed the connection without an answer" in ran.stderr and not heard, ran
    made.shutdown()
    ran = send(program, put, 1, 1)
    assert ran.returncode == 1 and "cannot be reached" in ran.stderr, ran
    print("%d exchanges" % (done + 2))


def be_driver(program):
    done = 0
    for change in RESULTS:
        with subprocess.Popen([program, "listen"], stdout=subprocess.PIPE, text=True) as worker:
            addresses, key = codec.loads_base64(worker.stdout.readline().strip())
            assert list(addresses) == ["lo"] and addresses["lo"][0][0] == "127.0.0.1", addresses
            client = WorkerNotificationClient(addresses, key, 2)
            timestamp = int(time.time())
            client.notify_hosts_updated(timestamp, change)
            rest = worker.stdout.read().split("\n")
            assert worker.wait(60) == 0
        assert rest == ["ping", "hosts_updated %d %d" % (timestamp, change), ""], rest
        done += 1
    print("%d exchanges" % done)


if __name__ == "__main__":
    {"worker": be_worker, "driver": be_driver}[sys.argv[1]](sys.argv[2])
