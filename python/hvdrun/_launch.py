# SPDX-License-Identifier: Apache-2.0
"""One process of hvdrun: starting it, reading what it prints and records, ending it.

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
    """The path of hvdrun: the given one, that in $HVDRUN, the one installed with this package, or the one in PATH."""
    name = name or os.environ.get("HVDRUN")
    here = os.path.dirname(os.path.abspath(__file__))
    if name:
        found = shutil.which(name)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such program (hvdrun=, or $HVDRUN)", name)
        return found
    # PREFIX/lib/hvd/python/hvdrun/_launch.py, or PREFIX/lib/python3.x/site-packages/…; pip install --target has DIR/hvdrun.
    found = (
        shutil.which(os.path.join(here, "..", "..", "..", "..", "bin", "hvdrun"))
        or shutil.which(os.path.join(here, "..", "bin", "hvdrun"))
        or shutil.which("hvdrun")
    )
    if found is None:
        raise FileNotFoundError(
            errno.ENOENT, "hvdrun is not in PATH: install it, or give its path by hvdrun=… or in $HVDRUN", "hvdrun"
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


class OutputForward(threading.Thread):
    """Passes hvdrun's output on to streams of this program, and keeps hvdrun's own messages.

    A process that a rank has left behind may keep a pipe open for ever: finish() ends with the output so far.
    """

    def __init__(self):
        threading.Thread.__init__(self, name="hvdrun-output", daemon=True)
        self._pipes = {}  # descriptor: stream
        self._errors = -1  # the one of them that hvdrun's own messages come from
        self._ends = []  # the ends of the pipes that hvdrun inherits
        self._rest = b""
        self._wake = os.pipe()
        self.messages = []

    def pipe(self, stream, errors=False):
        """Returns a descriptor for the child. What the child writes to it goes to `stream`."""
        r, w = os.pipe()
        if errors:
            self._errors = r
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
        try:
            fd = descriptor_of(stream)
            if fd is None:
                stream.write(data.decode("utf-8", "replace"))
                return
            while data:
                data = data[os.write(fd, data) :]
        except (OSError, ValueError):  # nobody reads the stream, which must not make the job fail
            pass

    def _keep(self, data):
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()[-4096:]
        for line in lines:
            # "hvdrun: error: …", or with the time: "hvdrun 14:05:09.123: …"
            if line.partition(b":")[0].partition(b" ")[0] in (b"hvdrun", b"horovodrun", b"srun", b"hvd-agent"):
                self.messages.append(line.decode("utf-8", "replace"))
        del self.messages[:-KEEP_LINES]

    def _read(self, fd):
        """Passes on what can be read. Returns False at the end, or when there is nothing to read."""
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return False
        if data:
            if fd == self._errors:
                self._keep(data)
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
    """Yields (head, data) of each record, as launcher/job/runfunc.h describes them; ends early when hvdrun does."""
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
    """A running hvdrun. Leaving a `with` block ends it, if it has not ended by itself."""

    def __init__(self, program, func, arguments, command, environ, stdout=None, stderr=None):
        self.forward = OutputForward()
        results, written = os.pipe()
        self.results = io.open(results, "rb", buffering=1 << 20)
        try:
            with memory_file(func) as f:
                streams = {"stderr": self.forward.pipe(stderr or sys.stderr, errors=True)}
                stdout = stdout or sys.stdout
                if descriptor_of(stdout) != 1:  # a notebook's, a test's
                    streams["stdout"] = self.forward.pipe(stdout)
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
            self.forward.finish()
            raise
        finally:
            os.close(written)
        self.forward.begin()

    def __enter__(self):
        return self

    def wait(self):
        """To be called after the last record, when hvdrun ends at once."""
        return self.process.wait(END_SECONDS)

    def _drain(self):
        """Reads until hvdrun has closed its end, but only for some time."""
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
            self.forward.finish()
