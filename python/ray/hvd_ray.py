# SPDX-License-Identifier: Apache-2.0
"""What `hvdrun --ray` runs on its hosts: two roles, which hvdrun starts and ends.

    hvd-ray host [OPTION OF ray start]...   one on each host: Ray's processes there, until SIGTERM
    hvd-ray run COMMAND...                  on the first host, when all hosts are ready: the command

Rank 0 of the hosts is Ray's head. It listens at the host's address in the network that the launch has probed, and at
ports that the kernel chooses, so that it meets no Ray of another user or job. Its address and a token travel through the
store that the roles share; nobody else has the token, without which Ray refuses requests.

Each host has a directory of its own for Ray's files, which only this user can enter, and which is removed at the end. If
that was not possible, the next launch on this host removes it.

Ray's processes, on each host:

    hvd-ray host ── ray start --block ──┬─ gcs_server (head)
                                        └─ raylet ── workers

hvd-ray waits for their ends. It adopts the processes that outlive `ray start`, and ends them.
"""

import ctypes
import fcntl
import glob
import http.client
import importlib.util
import json
import os
import re
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

STARTED = "will now block forever"  # `ray start --block`, when the GCS knows the node
SIGNALS = (signal.SIGTERM, signal.SIGINT)
COMPONENTS = ("gcs_server", "raylet")
FIGURES = re.compile(r"\[state-dump\]|debug dump")
HEAD_ONLY = ("--port", "--include-dashboard", "--redis-shard-ports")  # workers refuse them
LOG_LINES = 8
OUTPUT_LINES = 40
GRACE = 1.0  # seconds for `ray start` to end its processes; Slurm may give hvd-ray few more

# The numbers of a rank of this launch, which Ray's workers are not.
RANK_VARIABLES = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "NODE_RANK",
)


class Failed(Exception):
    """The message, for stderr, and the exit status."""

    def __init__(self, message, status=1):
        super().__init__(message)
        self.status = status


def say(text):
    print(f"hvd-ray: {text}", file=sys.stderr, flush=True)


class JobStore:
    """Keys and values that all roles of the launch share. Only this user's processes can reach it."""

    def __init__(self):
        host, _, port = os.environ.get("HVD_JOB_STORE", "").rpartition(":")
        if not port:
            raise Failed("hvdrun --ray starts this program", 2)
        self.connection = http.client.HTTPConnection(host.strip("[]"), int(port))

    def _ask(self, method, key, body=None):
        self.connection.request(method, f"/ray/{key}", body=body)
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def put(self, key, value):
        status, _ = self._ask("PUT", key, json.dumps(value).encode())
        if status != 200:
            raise Failed(f"the launch's store refused Ray's address, with status {status}")

    def get(self, key):
        """Wait for the value: the server holds the request for some time. The launch limits how long a role may take
        to get ready."""
        while True:
            began = time.monotonic()
            status, body = self._ask("GET", key)
            if status == 200:
                return json.loads(body)
            if status != 404:
                raise Failed(f"the launch's store did not give Ray's address, but status {status}")
            if time.monotonic() - began < 0.1:
                time.sleep(0.1)  # it holds no more requests


class PrivateDir:
    """A directory for this host's files of one launch. Its file "lock" is locked as long as hvd-ray lives."""

    PREFIX = "hvd-ray-"

    def __init__(self):
        base = tempfile.gettempdir()
        if len(base) > 16:  # the paths of Ray's sockets have 107 bytes
            base = "/tmp"
        self._remove_stale(base)
        self.path = tempfile.mkdtemp(prefix=self.PREFIX, dir=base)
        self._lock = open(os.path.join(self.path, "new"), "w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.rename(self._lock.name, os.path.join(self.path, "lock"))

    def file(self, name):
        return os.path.join(self.path, name)

    def write(self, name, text):
        with open(os.open(self.file(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(text)
        return self.file(name)

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)

    def _remove_stale(self, base):
        """Remove what a launch could not remove, because its hvd-ray was killed."""
        for path in glob.glob(os.path.join(glob.escape(base), self.PREFIX + "????????")):
            try:
                status = os.lstat(path)
                if status.st_uid != os.geteuid() or not os.path.isdir(path) or os.path.islink(path):
                    continue
                with open(os.path.join(path, "lock"), "w") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            except OSError:
                continue


def notify_ready():
    """As sd_notify(3)."""
    path = os.environ.pop("NOTIFY_SOCKET", "")
    if path:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.connect("\0" + path[1:] if path[0] == "@" else path)
            to.send(b"READY=1")


# --- processes ---


def children_of(pid):
    try:
        pids = []
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as children:
                pids += [int(child) for child in children.read().split()]
        return pids
    except OSError:
        return []


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as comm:
            return comm.read().strip()
    except OSError:
        return ""


def end_of(pid):
    """None if the process lives. Else its end, as os.waitstatus_to_exitcode() says it; 0 if that is no longer known."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return os.waitstatus_to_exitcode(int(fields[-1])) if fields[0] in "ZX" else None


def end_in_words(code):
    if code < 0:
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"has ended with status {code}" if code else "has ended"


def adopt_orphans():
    PR_SET_CHILD_SUBREAPER = 36
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans():
    """Kill the processes that `ray start` has left."""
    while True:
        for pid in children_of(os.getpid()):
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def log_end(directory, name):
    """The last lines of a component's log, without the figures that it logs from time to time."""
    lines = []
    for kind in (".out", ".err"):
        try:
            with open(os.path.join(directory, "session_latest", "logs", name + kind), errors="replace") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - 65536))
                for line in log.read().splitlines():
                    if kind == ".err" and line.strip() or line[:1] == "[" and not FIGURES.search(line):
                        lines.append(line[:300])
        except OSError:
            pass
    return lines[-LOG_LINES:]


# --- hvd-ray host ---


class Options:
    """The command line of `ray start`. Those of the user come last, and win."""

    def __init__(self, of_user, rank, address, directory):
        self.temp_dir = os.path.join(directory, "ray")
        for i, word in enumerate(of_user):
            if word.startswith("--temp-dir"):
                self.temp_dir = word.partition("=")[2] or (of_user[i + 1 : i + 2] or [self.temp_dir])[0]
        self.words = ["start", "--block", f"--temp-dir={self.temp_dir}"]
        self.words += [f"--num-cpus={len(os.sched_getaffinity(0))}"]
        self.words += ["--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0"]
        if address:
            self.words += [f"--node-ip-address={address}"]
        if rank == 0:
            self.words += ["--head", "--port=0", "--dashboard-port=0", *of_user]
        else:
            self.words += self._for_worker(of_user)

    @staticmethod
    def _for_worker(of_user):
        words, skip = [], False
        for word in of_user:
            name, equals, _ = word.partition("=")
            if not skip and name not in HEAD_ONLY:
                words.append(word)
            skip = not skip and name in HEAD_ONLY and not equals
        return words


class Node:
    """`ray start` of this host. It begins at once to import Ray, and waits for its command line, which in a worker has
    the head's address."""

    def __init__(self, environment):
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "start"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        self.output = []
        self.started = False
        self.watched = []  # pairs of a name and a pid; `ray start`, which ends after a component, is the last
        self.poll = select.poll()
        self.descriptors = []
        self._rest = b""
        os.set_blocking(self.process.stdout.fileno(), False)
        self.poll.register(self.process.stdout, select.POLLIN)
        self._watch("ray start", self.process.pid)

    def start(self, words):
        stdin, self.process.stdin = self.process.stdin, None
        try:
            with stdin:
                stdin.write(json.dumps(words).encode() + b"\n")
        except BrokenPipeError:
            pass  # its output says why it has ended

    def wake_by(self, descriptor):
        self.poll.register(descriptor, select.POLLIN)

    def read_output(self):
        data = self.process.stdout.read()
        if data == b"":
            self.poll.unregister(self.process.stdout)
        lines = (self._rest + (data or b"")).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            text = line.decode(errors="replace")
            self.output = self.output[-OUTPUT_LINES:] + [text]
            if STARTED in text and not self.started:
                self.started = True
                for pid in children_of(self.process.pid):
                    if name_of(pid) in COMPONENTS:
                        self._watch(name_of(pid), pid)

    def _watch(self, name, pid):
        self.watched.insert(0, (name, pid))
        try:
            self.descriptors.append(os.pidfd_open(pid))
            self.poll.register(self.descriptors[-1], select.POLLIN)
        except (AttributeError, OSError):
            pass  # Linux before 5.3; then turn() looks again and again

    def turn(self):
        """Wait until something has happened. Returns the name and the end of a process that has ended, or None."""
        blind = len(self.descriptors) < len(self.watched)
        ready = [descriptor for descriptor, _ in self.poll.poll(500 if blind else None)]
        if self.process.stdout.fileno() in ready:
            self.read_output()
        for name, pid in self.watched:
            code = end_of(pid)
            if code is not None:
                return name, code
        return None

    def end(self):
        """Ask it to end its processes, then end what is left."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.communicate(timeout=GRACE)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self):
        """The kernel kills Ray's processes with their parent."""
        self.process.kill()
        self.process.wait()


def explain(node, directory, name, code):
    """What has ended, for stderr, with the end of its log."""
    where = socket.gethostname()
    lines = log_end(directory, name) if name in COMPONENTS else node.output[-OUTPUT_LINES:]
    if not node.started:
        text = f"Ray did not start on {where}: {name} {end_in_words(code)}"
    else:
        text = f"{name} {end_in_words(code)} on {where}"
    if lines:
        text += ". Its last lines:\n" + "\n".join("  " + line for line in lines)
    return Failed(text, 128 - code if code < 0 else code or 1)


def has_tokens():
    ray = importlib.util.find_spec("ray")
    if not ray:
        raise Failed(
            f"{sys.executable} on {socket.gethostname()} has no module ray; activate the environment that has it, or "
            "begin the command with its python"
        )
    return os.path.isdir(os.path.join(ray.submodule_search_locations[0], "_private", "authentication"))


def environment_of_ray(directory, tokens):
    environment = {name: value for name, value in os.environ.items() if name not in RANK_VARIABLES}
    environment.pop("RAY_ADDRESS", None)
    environment.setdefault("RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", "0")
    environment["PYTHONUNBUFFERED"] = "1"
    if tokens:
        use_token(environment, directory.file("token"))
    return environment


def use_token(environment, path):
    environment.pop("RAY_AUTH_TOKEN", None)
    environment["RAY_AUTH_MODE"] = "token"
    environment["RAY_AUTH_TOKEN_PATH"] = path


def serve(node, options, rank, directory, tokens, stop):
    """Start this host's Ray, and wait for its end or a signal."""
    store = JobStore()
    head = {}
    if rank == 0 and tokens:
        head = {"token": secrets.token_hex(32), "token_file": directory.file("token")}
    elif rank > 0:
        head = store.get("head")
        options.words.append(f"--address={head['address']}")
    if "token" in head:
        directory.write("token", head["token"])
    node.start(options.words)
    ready = False
    while not stop:
        end = node.turn()
        if end and not stop:
            raise explain(node, options.temp_dir, *end)
        if node.started and not ready:
            if rank == 0:
                with open(os.path.join(options.temp_dir, "ray_current_cluster")) as file:
                    store.put("head", {"address": file.read().strip(), **head})
            notify_ready()
            ready = True


class Ended(Exception):
    """By a signal, before Ray has been started."""


def host(of_user):
    rank = int(os.environ["RANK"])
    addresses = os.environ.get("HVD_ROLE_RAY_ADDRS", "").split(",")
    tokens = has_tokens() and os.environ.get("RAY_AUTH_MODE", "token") == "token"
    stop = []
    adopt_orphans()
    wake, on_signal = os.pipe()
    for descriptor in (wake, on_signal):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(on_signal)

    def end(number, _):
        stop.append(number)
        if not node or node.process.stdin:
            raise Ended

    node = None
    directory = PrivateDir()
    for number in SIGNALS:
        signal.signal(number, end)
    try:
        if rank == 0 and not tokens:
            say("this Ray asks for no token: any user who reaches its ports can use it")
        options = Options(of_user, rank, addresses[rank] if rank < len(addresses) else "", directory.path)
        node = Node(environment_of_ray(directory, tokens))
        node.wake_by(wake)
        serve(node, options, rank, directory, tokens, stop)
    except Ended:
        pass
    except Failed:
        if node:
            node.kill()
        raise
    finally:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        if node:
            node.end()
        end_orphans()
        directory.remove()


def start():
    """Become `ray start` when the command line comes."""
    from ray.scripts import scripts

    line = sys.stdin.readline()
    if line:
        scripts.cli(args=json.loads(line), prog_name="ray")


# --- hvd-ray run ---


def run(command):
    head = JobStore().get("head")
    os.environ["RAY_ADDRESS"] = head["address"]
    if "token_file" in head:
        use_token(os.environ, head["token_file"])
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise Failed(f"cannot run {command[0]}: {error.strerror}", 127 if error.errno == 2 else 126) from None


def main(words):
    if words[:1] == ["start"]:
        return start()
    try:
        if words[:1] == ["host"]:
            host(words[1:])
        elif words[:1] == ["run"] and words[1:]:
            run(words[1:])
        else:
            raise Failed("hvdrun --ray starts this program", 2)
    except Failed as failed:
        say(failed)
        sys.exit(failed.status)
    except OSError as error:
        say(f"{socket.gethostname()}: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
