# SPDX-License-Identifier: Apache-2.0
"""Forks the ranks of hvdrun --preload from a Python that has imported their modules.

hvd-agent starts the ranks' own command with this folder in front of PYTHONPATH. Python imports this file before it looks
at the program that it is to run. Here it imports the modules, and then waits on a socket for hvd-agent's requests. Each
forks a rank, in which the import of this file ends; Python then goes on to the program by itself, as in any other start.
So the program's arguments, sys.path, tracebacks and exit need no help from here.

Twice forked, a rank is a child of hvd-agent, which is a subreaper, and not of this process. It is a member of a process
group without a leader (lib/process/spawn.h), and waits until hvd-agent has found it among its children.

If Python does not import this file (python -E, -I or -S, or a wrapper that changes PYTHONPATH), it would run the program
as one more rank. So hvd-agent first has it run `-c ""` with the command as arguments, and this file executes that.

Messages are described in agent/preload_python.h.
"""

import sys


class _Preloader(object):
    """All names are in here, since the program must not find any of them."""

    # prctl(2)
    PR_SET_PDEATHSIG = 1
    PR_SET_NAME = 15
    PR_SET_MM = 35
    PR_SET_MM_MAP = 14

    TEXT_MAX = 3500  # bytes of a message's text
    REQUEST_MAX = 16 << 20

    def __init__(self):
        import os

        self.os = os
        self.fd = int(os.environ.pop("HVD_PRELOAD_FD"))
        os.set_inheritable(self.fd, False)
        self._connect()
        try:
            self._begin()
        except BaseException as e:
            self._refuse("Python cannot fork ranks: {!r}".format(e))

    def _begin(self):
        os = self.os
        self._remove_cache()
        self.modules = os.environ.pop("HVD_PRELOAD_MODULES")
        block = int(os.environ.pop("HVD_PRELOAD_ENVIRON_FD"))
        self.started_with = self._parse(os.pread(block, self.REQUEST_MAX, 0))
        here = os.path.dirname(os.path.abspath(__file__))
        if os.environ.pop("HVD_PRELOAD_CHECKED", None) is None:
            self._run_the_command(here, block)
        os.close(block)
        sys.path[:] = [path for path in sys.path if path != here]
        sys.path_importer_cache.pop(here, None)
        paths = os.environ["PYTHONPATH"].split(":")
        if here in paths:
            paths.remove(here)
        if paths or b"PYTHONPATH" in self.started_with:
            os.environ["PYTHONPATH"] = ":".join(paths)
        else:
            del os.environ["PYTHONPATH"]
        # What the interpreter, or a wrapper around it, has made of the environment; then, what the modules do.
        self.changes = {}
        self._note_changes(self.started_with)

    def _connect(self):
        import socket
        import struct

        self.socket = socket.socket(fileno=self.fd)
        if sys.version_info < (3, 8):
            self._refuse("this Python is %d.%d, and 3.8 is needed" % sys.version_info[:2])
        self.agent = struct.unpack("3i", self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]

    def _remove_cache(self):
        """The folder belongs to a package, which does not know of files that root's Python has written there."""
        cached = getattr(__spec__, "cached", None)
        try:
            self.os.unlink(cached or "")
            self.os.rmdir(self.os.path.dirname(cached))
        except OSError:
            pass

    def _run_the_command(self, here, block):
        self.os.set_inheritable(self.fd, True)
        environ = dict(self.started_with)
        path = environ.get(b"PYTHONPATH")
        environ[b"PYTHONPATH"] = self.os.fsencode(here) + (b":" + path if path else b"")
        environ[b"HVD_PRELOAD_FD"] = b"%d" % self.fd
        environ[b"HVD_PRELOAD_ENVIRON_FD"] = b"%d" % block
        environ[b"HVD_PRELOAD_MODULES"] = self.os.fsencode(self.modules)
        environ[b"HVD_PRELOAD_CHECKED"] = b"1"
        self.os.execvpe(sys.argv[1], sys.argv[1:], environ)

    @staticmethod
    def _parse(block):
        return dict(entry.partition(b"=")[::2] for entry in block.split(b"\0") if entry)

    def _note_changes(self, before):
        now = self.os.environb
        for name in list(before) + [name for name in now if name not in before]:
            if before.get(name) != now.get(name):
                self.changes[name] = (self.started_with.get(name), now.get(name))

    # ---- messages ----

    def _tell(self, text):
        try:
            self.socket.send(text.encode("utf-8", "backslashreplace")[: self.TEXT_MAX])
        except OSError:
            self.os._exit(1)  # hvd-agent has ended

    def _refuse(self, why):
        self._tell("refused " + why)
        self.os._exit(0)

    # ---- the modules ----

    def _find_others(self):
        """Runs the sitecustomize that this file has hidden. Returns what its import raises; None: nothing."""
        from importlib.machinery import PathFinder
        from importlib.util import module_from_spec

        del sys.modules["sitecustomize"]
        spec = PathFinder.find_spec("sitecustomize")
        if spec is None or spec.loader is None:
            return ImportError("there is no sitecustomize", name="sitecustomize")
        sys.modules["sitecustomize"] = module_from_spec(spec)
        try:
            spec.loader.exec_module(sys.modules["sitecustomize"])
        except BaseException as e:
            sys.modules.pop("sitecustomize", None)
            return e
        return None

    def _programs_folder(self):
        """Where the program will look for modules first."""
        if getattr(sys.flags, "safe_path", False):
            return None
        program = sys.argv[0]
        if program in ("-c", "-m", ""):
            return self.os.getcwd()
        program = self.os.path.realpath(program)
        return program if self.os.path.isdir(program) else self.os.path.dirname(program)

    def _count_threads(self):
        """How many threads go on beside a fork. A library that ends its own at a fork, as OpenBLAS, has none then."""
        from time import sleep

        for pause in 0, 0.02, 0.1, 0.4:  # a thread that ends may be seen for some time after that
            sleep(pause)
            if len(self.os.listdir("/proc/self/task")) == 1:
                return 0
            pid = self.os.fork()
            if pid == 0:
                self.os._exit(0)
            self.os.waitpid(pid, 0)
        return len(self.os.listdir("/proc/self/task")) - 1

    def _uses_gpu(self):
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
            return True
        for fd in self.os.listdir("/proc/self/fd"):
            try:
                target = self.os.readlink("/proc/self/fd/" + fd)
            except OSError:
                continue
            if target.startswith(("/dev/nvidia", "/dev/kfd", "/dev/dri/")):
                return True
        return False

    def _import(self, name):
        try:
            __import__(name)
        except BaseException as e:
            import traceback

            text = "".join(traceback.format_exception(type(e), e, e.__traceback__.tb_next))
            room = self.TEXT_MAX - len(name) - 100
            cut = text.encode("utf-8", "backslashreplace")[-room:].decode("utf-8", "ignore")
            self._refuse("importing {} failed:\n{}".format(name, cut.rstrip()))
        threads = self._count_threads()
        if threads:
            self._refuse(
                "importing {} starts {}, and a process with threads cannot be forked safely".format(
                    name, "a thread" if threads == 1 else "%d threads" % threads
                )
            )
        if self._uses_gpu():
            self._refuse("importing {} initializes the GPU, which a forked process cannot use".format(name))

    def _import_all(self):
        folder = self._programs_folder()
        if folder is not None:
            sys.path.insert(0, folder)
        before = dict(self.os.environb)
        for name in self.modules.split(","):
            self._import(name)
        if folder is not None and folder in sys.path:
            sys.path.remove(folder)
        self._note_changes(before)

    # ---- what others see of the process ----

    def _libc(self):
        import ctypes

        self.ctypes = ctypes
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.sbrk.restype = self.libc.malloc.restype = ctypes.c_void_p
        self.libc.malloc.argtypes = [ctypes.c_size_t]
        with open("/proc/self/comm", "rb") as f:
            self.name = f.read().rstrip(b"\n")

    def _stat(self):
        with open("/proc/self/stat", "rb") as f:
            fields = f.read().rpartition(b")")[2].split()
        return lambda number: int(fields[number - 3])  # as proc(5) counts them

    def _show(self, command, environ):
        """Sets what /proc has as command line (None: that which the process was started with) and as environment. Where
        the kernel cannot do that, they stay as they are."""
        from struct import pack

        stat = self._stat()
        if not hasattr(self, "argv"):
            self.argv = stat(48), stat(49)
        text = (command or b"") + environ
        # Never freed: the kernel reads it as long as the process lives.
        at = self.libc.malloc(len(text) + 1)
        if not at:
            return
        self.ctypes.memmove(at, text, len(text))
        begin, end = self.argv if command is None else (at, at + len(command))
        areas = [stat(n) for n in (26, 27, 45, 46, 47)]
        areas += [self.libc.sbrk(self.ctypes.c_long(0)), stat(28), begin, end]
        areas += [at + len(text) - len(environ), at + len(text)]
        record = pack("=12QIi", *(areas + [0, 0, -1]))
        self.libc.prctl(
            self.PR_SET_MM,
            self.ctypes.c_ulong(self.PR_SET_MM_MAP),
            self.ctypes.c_char_p(record),
            self.ctypes.c_ulong(len(record)),
            self.ctypes.c_ulong(0),
        )

    def _oom_first(self):
        """Has the kernel kill this process before any rank, where it can be undone in a rank."""
        self.oom = None
        try:
            with open("/proc/self/oom_score_adj", "r+") as f:
                old = int(f.read())
                for value in (min(old + 1, 1000), old, 1000):
                    f.seek(0)
                    f.write("%d\n" % value)
                    f.flush()
            self.oom = old
        except (OSError, ValueError):
            pass

    # ---- ranks ----

    def _serve(self):
        """Returns in each rank."""
        import array
        import socket

        while True:
            data, ancillary, flags, _ = self.socket.recvmsg(16, socket.CMSG_SPACE(5 * 4))
            fds = array.array("i")
            for level, kind, body in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    fds.frombytes(body[: len(body) - len(body) % fds.itemsize])
            if not data:
                self.os._exit(1)  # hvd-agent has ended
            if len(fds) != 5:
                self._refuse("a request came without its descriptors")
            try:
                if self._fork(list(fds)):
                    return
            except OSError as e:
                self._tell("failed cannot fork: {}".format(e.strerror))
            for fd in fds:
                self.os.close(fd)

    def _fork(self, fds):
        """Returns True in the rank, False here."""
        os = self.os
        request = os.pread(fds[0], self.REQUEST_MAX, 0)
        back, forth = os.pipe()
        try:
            between = os.fork()
        except OSError:
            os.close(back)
            os.close(forth)
            raise
        if between == 0:
            try:
                os.setpgid(0, 0)
                pid = os.fork()
                if pid:
                    os.write(forth, b"%d" % pid)
            except OSError as e:
                os.write(forth, b"-%d" % e.errno)
                pid = -1
            if pid:
                os._exit(0)
            os.close(back)
            os.close(forth)
            self._become_rank(request, fds)
            return True
        os.close(forth)
        answer = os.read(back, 32)
        os.close(back)
        os.waitpid(between, 0)
        pid = int(answer or b"-%d" % 11)
        if pid < 0:
            raise OSError(-pid, os.strerror(-pid))
        self._tell("started {} {}".format(pid, between))
        return False

    def _become_rank(self, request, fds):
        os = self.os
        try:
            if os.read(fds[1], 1) != b"g":
                os._exit(0)  # hvd-agent no longer wants this rank
            self.libc.prctl(self.PR_SET_PDEATHSIG, self.ctypes.c_ulong(9))
            if os.getppid() != self.agent:
                os._exit(0)
            self.socket.close()
            for number in range(3):
                os.dup2(fds[2 + number], number)
            for fd in fds:
                os.close(fd)
            cpus, _, environ = request.partition(b"\0")
            if cpus:
                os.sched_setaffinity(0, [int(cpu) for cpu in cpus.split(b",")])
            self._restore_process(environ)
            self._restore_environ(environ)
            self._restore_streams()
            self._seed()
        except BaseException as e:
            os.write(2, "hvd-agent: error: a forked rank cannot begin: {!r}\n".format(e).encode("utf-8", "replace"))
            os._exit(127)

    def _restore_process(self, environ):
        import signal

        for number in signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2:
            if signal.getsignal(number) == signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        if self.oom is not None:
            with open("/proc/self/oom_score_adj", "w") as f:
                f.write("%d\n" % self.oom)
        self._show(None, environ)
        self.libc.prctl(self.PR_SET_NAME, self.ctypes.c_char_p(self.name))

    def _restore_environ(self, environ):
        own = self.os.environb
        own.clear()
        for entry in environ.split(b"\0"):
            name, equals, value = entry.partition(b"=")
            if equals and name:
                own[name] = value
        for name, (before, after) in self.changes.items():
            if own.get(name) != before:
                continue
            if after is not None:
                own[name] = after
            else:
                own.pop(name, None)

    def _restore_streams(self):
        for number, stream in (1, sys.__stdout__), (2, sys.__stderr__):
            if stream is None or getattr(stream, "write_through", False):
                continue
            by_lines = self.os.isatty(number) or (number == 2 and sys.version_info >= (3, 9))
            stream.reconfigure(line_buffering=by_lines)

    def _seed(self):
        """Gives generators that were seeded in the import, by chance, another seed. Python's own does that itself."""
        process = sys.modules.get("multiprocessing.process")
        if process is not None:
            process.current_process().authkey = self.os.urandom(32)
        if "numpy.random" in sys.modules:
            sys.modules["numpy.random"].seed()
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "default_generator"):
            torch.default_generator.seed()

    def _preload(self):
        try:
            self._libc()
        except ImportError as e:
            self._refuse("this Python has no ctypes: {}".format(e))
        self._oom_first()
        self._show(b"hvd-preload\0" + self.os.fsencode(self.modules) + b"\0", b"")
        self.libc.prctl(self.PR_SET_NAME, self.ctypes.c_char_p(b"hvd-preload"))
        raised = self._find_others()
        self._import_all()
        sys.stdout.flush()
        sys.stderr.flush()
        self._tell("ready")
        return raised

    def run(self):
        """Returns in each rank; what the import of the user's or the site's sitecustomize raises, or None."""
        try:
            raised = self._preload()
            self._serve()
        except BaseException as e:
            # Python would go on to the program here, too.
            self._refuse("Python cannot fork ranks: {!r}".format(e))
        return raised


if "HVD_PRELOAD_FD" in __import__("os").environ:
    _raised = _Preloader().run()
    if _raised is not None:
        raise _raised
