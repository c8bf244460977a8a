# SPDX-License-Identifier: Apache-2.0
"""One hvdrun: how it is started, listened to, and ended.

Its results come through a pipe. hvdrun ends the ranks when nobody has that open for reading any more, so nothing goes
on when this process is gone, however it ended.
"""

import errno
import io
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

# Seconds that hvdrun may take to end the ranks before it is killed itself; it allows them five.
END_SECONDS = 20
# Lines of messages that are kept for an exception's text.
KEEP_LINES = 40


def find_hvdrun(name=None):
    """The program: as given, as $HVDRUN has it, where this package was installed with it, or in PATH."""
    name = name or os.environ.get("HVDRUN")
    here = os.path.dirname(os.path.abspath(__file__))
    if name:
        found = shutil.which(name)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such program (hvdrun=, or $HVDRUN)", name)
        return found
    # PREFIX/lib/hvd/python/hvdrun/_launch.py
    found = shutil.which(os.path.join(here, "..", "..", "..", "..", "bin", "hvdrun")) or shutil.which("hvdrun")
    if found is None:
        raise FileNotFoundError(
            errno.ENOENT, "hvdrun is not in PATH: install it, or name it by hvdrun=… or in $HVDRUN", "hvdrun"
        )
    return os.path.normpath(found)


def memory_file(data):
    """A file without a name that holds `data`."""
    try:
        f = os.fdopen(os.memfd_create("hvdrun-function"), "w+b")
    except (AttributeError, OSError):  # before Python 3.8, or no such call
        f = tempfile.TemporaryFile()
    try:
        f.write(data)
        f.flush()
    except OSError:
        f.close()
        raise
    return f


def descriptor_of(stream):
    try:
        stream.flush()
        return stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None


class Relay(threading.Thread):
    """Passes on what comes through pipes, and keeps the launcher's own messages.

    A rank's orphan may hold a pipe open for ever: finish() ends it with what has come so far.
    """

    def __init__(self):
        threading.Thread.__init__(self, name="hvdrun-output", daemon=True)
        self._pipes = {}  # descriptor: stream
        self._ends = []  # of ours, for the child
        self._rest = b""
        self._wake = os.pipe()
        self.messages = []

    def pipe(self, stream):
        """A descriptor for the child, what it writes to which goes to `stream`."""
        r, w = os.pipe()
        os.set_blocking(r, False)
        self._pipes[r] = stream
        self._ends.append(w)
        return w

    def begin(self):
        self._close_ends()
        self.start()

    def _close_ends(self):
        while self._ends:
            os.close(self._ends.pop())

    def _pass(self, stream, data):
        if stream is sys.stderr:
            self._keep(data)
        try:
            fd = descriptor_of(stream)
            if fd is None:
                stream.write(data.decode("utf-8", "replace"))
                return
            while data:
                data = data[os.write(fd, data) :]
        except (OSError, ValueError):  # nobody reads it: the job is not to fail for that
            pass

    def _keep(self, data):
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()[-4096:]
        for line in lines:
            # "hvdrun: error: …", or with the time: "hvdrun 14:05:09.123: …"
            if line.partition(b":")[0].partition(b" ")[0] in (b"hvdrun", b"horovodrun", b"srun", b"hvd-task"):
                self.messages.append(line.decode("utf-8", "replace"))
        del self.messages[:-KEEP_LINES]

    def _read(self, fd):
        """False at the end, or when there is nothing."""
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return False
        if data:
            self._pass(self._pipes[fd], data)
        else:
            os.close(fd)
            del self._pipes[fd]
        return bool(data)

    def run(self):
        wake = self._wake[0]
        while self._pipes:
            ready = select.select([wake] + list(self._pipes), [], [])[0]
            if wake in ready:
                break
            for fd in ready:
                self._read(fd)
        for fd in list(self._pipes):
            while self._read(fd):
                pass

    def finish(self):
        self._close_ends()
        os.close(self._wake[1])
        if self.ident is not None:
            self.join()
        for fd in list(self._pipes):
            os.close(fd)
        os.close(self._wake[0])


def read_records(stream):
    """Yields (head, data) as launcher/run/runfunc.h tells; ends early when hvdrun does."""
    while True:
        line = stream.readline()
        if not line.endswith(b"\n"):
            return
        head = json.loads(line.decode("utf-8"))
        data = stream.read(head["length"])
        if len(data) < head["length"]:
            return
        yield head, data


class Launch(object):
    """A running hvdrun. `with` ends it, if it has not ended by itself."""

    def __init__(self, program, func, arguments, command, environ):
        self.relay = Relay()
        results, written = os.pipe()
        self.results = io.open(results, "rb", buffering=1 << 20)
        try:
            with memory_file(func) as f:
                streams = {"stderr": self.relay.pipe(sys.stderr)}
                if descriptor_of(sys.stdout) != 1:  # a notebook's, a test's
                    streams["stdout"] = self.relay.pipe(sys.stdout)
                # A session of its own: what the terminal sends comes here, and hvdrun is told once.
                self.process = subprocess.Popen(
                    [program, "--run-func=%d" % f.fileno(), "--results=%d" % written] + arguments + ["--"] + command,
                    stdin=subprocess.DEVNULL,
                    env=environ,
                    pass_fds=(f.fileno(), written),
                    start_new_session=True,
                    **streams
                )
        except BaseException:
            self.results.close()
            self.relay.finish()
            raise
        finally:
            os.close(written)
        self.relay.begin()

    def __enter__(self):
        return self

    def wait(self):
        """After the last record. hvdrun ends at once then."""
        return self.process.wait(END_SECONDS)

    def _drain(self):
        """Until hvdrun has closed its end; for some time."""
        alarm = threading.Timer(END_SECONDS, self.process.kill)
        alarm.start()
        try:
            while self.results.read1(1 << 20):
                pass
            self.process.wait()
        finally:
            alarm.cancel()

    def __exit__(self, *error):
        try:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
                self._drain()
        finally:
            if self.process.poll() is None:  # interrupted once more
                self.process.kill()
                self.process.wait()
            self.results.close()
            self.relay.finish()
