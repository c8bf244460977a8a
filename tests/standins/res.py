# SPDX-License-Identifier: Apache-2.0
"""What the stand-ins of LSF's launchers share: the way to a host (resd), what was called, and refusals.

STANDIN_DIR   folder with a socket HOST.sock per host; each call appends a line of JSON to calls.NAME there,
              readable by its user only: argv and environment
"""
import array
import json
import os
import select
import signal
import socket
import struct
import sys

DIR = os.environ.get("STANDIN_DIR", "/nonexistent")
NAME = os.path.basename(sys.argv[0])


def refuse(text):
    print(f"{NAME} (stand-in): {text}", file=sys.stderr)
    sys.exit(64)


def record():
    fd = os.open(f"{DIR}/calls.{NAME}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, (json.dumps({"argv": sys.argv, "env": dict(os.environ)}) + "\n").encode())
    os.close(fd)


def job_hosts():
    """The hosts of the LSF job that this runs in."""
    if "LSB_JOBID" not in os.environ:
        refuse("not within a job")
    path = os.environ.get("LSB_DJOB_HOSTFILE")
    if path and os.path.exists(path) and os.path.getsize(path):
        with open(path, encoding="ascii") as lines:
            return lines.read().split()
    return os.environ.get("LSB_MCPU_HOSTS", "").split()[::2] or os.environ.get("LSB_HOSTS", "").split()


class Task:
    """A command that runs on a host."""

    def __init__(self, host, argv, env, cwd=None, more=None, **request):
        self.host, self.status = host, None
        self.conn = socket.socket(socket.AF_UNIX)
        self.conn.connect(f"{DIR}/{host}.sock")
        mask = os.umask(0)
        os.umask(mask)
        request.update(argv=argv, env=env, more=more or {}, cwd=cwd or os.getcwd(), umask=mask)
        body = json.dumps(request).encode()
        fds = array.array("i", request.pop("fds", [0, 1, 2]))
        self.conn.sendmsg([struct.pack("!I", len(body))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        self.conn.sendall(body)

    def fileno(self):
        return self.conn.fileno()

    def kill(self, number):
        try:
            self.conn.send(bytes([number]))
        except OSError:
            pass

    def finish(self):
        """Its wait status; None when the host has gone."""
        status = self.conn.recv(4, socket.MSG_WAITALL)
        self.status = struct.unpack("!I", status)[0] if len(status) == 4 else None
        self.conn.close()
        return self.status


def wait_all(tasks, on_end=None, forward=(signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)):
    """Until all have ended; signals go to them all, but for those that this process was started to ignore."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in forward:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    left = list(tasks)
    while left:
        ready, _, _ = select.select(left + [reader], [], [])
        if reader in ready:
            for number in os.read(reader, 64):
                for task in left:
                    task.kill(number)
        for task in [t for t in left if t in ready]:
            task.finish()
            left.remove(task)
            if on_end:
                on_end(task)


def code(status):
    """A wait status as an exit status."""
    if status is None:
        return 255
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
