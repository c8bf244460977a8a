#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a stranger can do at a listening port of a launch: the whole interface of the rendezvous, and its signed ports.

  relay_attack.py ADDRESS PORT [--flood CONNECTIONS]

Prints "signed" if the port greets as the launch's signed ports do, "silent" if it closes or refuses all that was tried;
and a line that begins with BREACH for each thing that was answered as it is for the launch's own processes. The exit
status is then 1.
"""

import argparse
import concurrent.futures
import json
import os
import socket
import struct
import sys
import time

from peer import context, frame, read_frame, signature
from tcpstore_client import ADD, CHECK, GET, MAGIC, MULTI_GET, PING, SET, VALIDATE, WAIT, keys, text

DELETE_KEY, APPEND, QUEUE_PUSH, LIST_KEYS, BARRIER = 8, 9, 14, 17, 18
HELLO = struct.pack("=BI", VALIDATE, MAGIC)


def exchange(address, data, seconds=1.5):
    """What comes back for these bytes until the other side closes, or the time is over. None: no connection."""
    heard, end = b"", time.monotonic() + seconds
    try:
        with socket.create_connection(address, 3) as sock:
            sock.settimeout(seconds)
            if data:
                sock.sendall(data)
            while time.monotonic() < end:
                more = sock.recv(65536)
                if not more:
                    break
                heard += more
    except (socket.timeout, BrokenPipeError, ConnectionResetError):
        pass
    except OSError:
        return None
    return heard


def without_greeting(heard):
    """A signed port greets at once, whatever it is sent: that is no answer."""
    if heard[:3] != b"HV\x04" or len(heard) < 8:
        return heard
    size = struct.unpack(">I", heard[4:8])[0]
    greeting, rest = heard[8:8 + size], heard[8 + size:]
    return rest if json.loads(greeting).get("t") == "hello" else heard


def http(method, path, body=b""):
    return ("%s %s HTTP/1.1\r\nHost: store\r\nContent-Length: %d\r\n\r\n" % (method, path, len(body))).encode() + body


# An answer of the store's to any of these is one too many. 403 is a refusal.
REFUSAL = (b"HTTP/1.1 403", b"HTTP/1.0 403")
REQUESTS = [
    ("HTTP PUT", http("PUT", "/scope/0", b"evil")),
    ("HTTP PUT of another key", http("PUT", "/evil/0", b"evil")),
    ("HTTP GET", http("GET", "/scope/0")),
    ("HTTP HEAD", http("HEAD", "/scope/0")),
    ("HTTP DELETE", http("DELETE", "/scope/0")),
    ("PING", HELLO + struct.pack("=BI", PING, 7)),
    ("SET", HELLO + struct.pack("=B", SET) + text("/own/0") + text("evil") + struct.pack("=BI", PING, 7)),
    ("SET of another key", HELLO + struct.pack("=B", SET) + text("/evil") + text("evil") + struct.pack("=BI", PING, 7)),
    ("APPEND", HELLO + struct.pack("=B", APPEND) + text("/own/0") + text("evil") + struct.pack("=BI", PING, 7)),
    ("GET", HELLO + struct.pack("=B", GET) + text("/own/0")),
    ("MULTI_GET", HELLO + struct.pack("=B", MULTI_GET) + keys(["own/0"])),
    ("ADD", HELLO + struct.pack("=B", ADD) + text("/count/0") + struct.pack("=q", 1)),
    ("ADD to init/", HELLO + struct.pack("=B", ADD) + text("init/") + struct.pack("=q", 1)),
    ("CHECK", HELLO + struct.pack("=B", CHECK) + keys(["own/0"])),
    ("WAIT", HELLO + struct.pack("=B", WAIT) + keys(["own/0"])),
    ("DELETE_KEY", HELLO + struct.pack("=B", DELETE_KEY) + text("/own/0")),
    ("QUEUE_PUSH", HELLO + struct.pack("=B", QUEUE_PUSH) + text("/evil") + text("evil") + struct.pack("=BI", PING, 7)),
    ("LIST_KEYS", HELLO + struct.pack("=B", LIST_KEYS)),
    ("BARRIER", HELLO + struct.pack("=B", BARRIER) + text("/evil") + struct.pack("=q", 1)),
]

# What a relay says, without having proven anything: BEGIN, a watch of a key, and a call that deletes it.
GENERATION = b"\x01" + bytes(4)
RELAYS_OWN = [
    b"\x01\x01" + struct.pack(">I", 1) + struct.pack(">I", 9) + b"127.0.0.1",
    b"\x02" + struct.pack(">I", 1) + GENERATION + struct.pack(">I", 6) + b"/own/0" + b"\x01",
    b"\x05" + struct.pack(">IQQI", 1, 1, 1, 0) + b"\x06" + GENERATION + struct.pack(">I", 6) + b"/own/0" +
    struct.pack(">I", 0) + bytes(8) + b"\0",
]


STORE = struct.pack(">H", 16)  # its channel


def bytes_frame(body, flags, mac=b""):
    return b"HV\x04" + bytes([flags]) + struct.pack(">I", len(body)) + mac + body


def proofs(hello, nonce):
    """Credentials of one who has not the key."""
    bound = context(hello["launch"], hello["nonce"], nonce)
    yield "no credential", None
    yield "an empty credential", ""
    yield "a credential of no key", signature(bytes(32), b"hvd-client-1", bound).hex()
    yield "a credential of another key", signature(os.urandom(32), bound).hex()
    yield "the nonce", hello["nonce"] * 2


def prove(address, which):
    """Be greeted, prove oneself with credential number `which`, and say what a relay says. Returns what came of it."""
    with socket.create_connection(address, 3) as sock:
        sock.settimeout(3)
        _, hello, _ = read_frame(sock)
        nonce = os.urandom(16).hex()
        name, cred = list(proofs(hello, nonce))[which]
        message = {"t": "auth", "release": hello["release"], "launch": hello["launch"], "nonce": nonce}
        if cred is not None:
            message["cred"] = cred
        key = os.urandom(32)
        try:
            sock.sendall(frame(message))
            for number, body in enumerate(STORE + own for own in RELAYS_OWN):
                sock.sendall(bytes_frame(body, 3, signature(key, b"c", struct.pack(">Q", number), body)))
            _, answer, signed = read_frame(sock)
        except (EOFError, OSError, ValueError):
            return None
        return None if answer.get("t") == "refused" and not signed else "%s: answered %s" % (name, answer.get("t"))


def flood(address, count):
    """Connections that say nothing, half of a request, or a request, for three seconds."""
    socks, said = [], [b"", b"GET /scope/0 HT", HELLO, http("GET", "/scope/0")]
    end = time.monotonic() + 3
    while time.monotonic() < end:
        if len(socks) < count:
            try:
                sock = socket.create_connection(address, 1)
                sock.sendall(said[len(socks) % len(said)])
                socks.append(sock)
            except OSError:
                time.sleep(0.01)
        else:
            socks.pop(0).close()
    for sock in socks:
        sock.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    parser.add_argument("--flood", type=int, default=0)
    options = parser.parse_args()
    address, breaches = (options.address, options.port), []
    greeting = exchange(address, b"", 1.5)
    signed = bool(greeting) and greeting != without_greeting(greeting)
    if greeting and not signed and not greeting.startswith(REFUSAL):
        breaches.append("it says %r at once" % greeting[:60])
    with concurrent.futures.ThreadPoolExecutor(len(REQUESTS)) as pool:
        answers = list(pool.map(lambda request: exchange(address, request[1]), REQUESTS))
    for (name, _), heard in zip(REQUESTS, answers):
        heard = without_greeting(heard or b"")
        # A signed port may say why it refuses.
        if heard and not heard.startswith(REFUSAL) and not (signed and b"refused" in heard):
            breaches.append("%s: %r" % (name, heard[:60]))
    if signed:
        unsigned = [bytes_frame(STORE + body, flags) for body in RELAYS_OWN for flags in (2, 3, 6)] + [os.urandom(300)]
        with concurrent.futures.ThreadPoolExecutor(len(unsigned)) as pool:
            answers = list(pool.map(lambda data: exchange(address, data), unsigned))
        for heard in answers:
            heard = without_greeting(heard or b"")
            if heard and b"refused" not in heard:
                breaches.append("unsigned bytes: %r" % heard[:60])
        breaches += [found for which in range(5) if (found := prove(address, which))]
    if options.flood:
        flood(address, options.flood)
    for line in breaches:
        print("BREACH at %s:%d: %s" % (*address, line))
    print("signed" if signed else "silent")
    return bool(breaches)


if __name__ == "__main__":
    sys.exit(main())
