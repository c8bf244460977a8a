# SPDX-License-Identifier: Apache-2.0
"""A rank: gets the function, calls it, and hands back what it returns or raises.

Run by its path, so that the package need not be where this Python looks for modules. The values are those of
horovod.runner.run_task: a pickle in base64, the function at /runfunc/func, the result at /runfunc_result/<rank>. What
that does not have is /runfunc_error/<rank>: a JSON object with rank, host, type, text, traceback, python, and the
pickled exception where it can be pickled.

Other users' processes on the hosts of the job can write to the rendezvous, and to read a pickle is to execute it. So a
MAC of this launch stands in front of each value, and nothing without it is looked at.
"""

import base64
import ctypes
import hashlib
import hmac
import http.client
import importlib
import json
import os
import pickle
import struct
import sys
import time
import traceback

# Seconds: for a connection that does not move; for a server that is there but has no room just now.
STALLED = 60
NO_ROOM = 120
# Characters of an error that are told; a traceback of more says nothing more.
TEXT_MAX = 1 << 20


# Bytes of the launch's key, and of a MAC, which is in hexadecimal.
KEY_LEN = 32
MAC_LEN = 64


def take_key(environ):
    """Reads the launch's key from a descriptor that hvd-agent has handed down; no child of this process inherits it."""
    number = environ.pop("HVD_RUN_FUNC_KEY_FD", "")
    key = b""
    if number.isdigit():
        try:
            key = os.pread(int(number), KEY_LEN + 1, 0)
            os.close(int(number))
        except OSError:
            pass
    if len(key) != KEY_LEN:
        sys.exit(
            "hvdrun worker: the launch's key cannot be read from descriptor {}: a program between hvd-agent and this "
            "Python must not close descriptors".format(number or "?")
        )
    return key


class Rendezvous(object):
    """The launch's key-value server, which is reached without a proxy, whatever http_proxy says."""

    def __init__(self, environ):
        self.addr = environ["HVD_RUN_FUNC_ADDR"]
        self.port = int(environ["HVD_RUN_FUNC_PORT"])
        self._key = take_key(environ)

    def _mac(self, kind, number, data):
        """As in lib/protocol/func_key.h: no value can stand for one of another kind, rank or launch."""
        mac = hmac.new(self._key, digestmod=hashlib.sha256)
        for piece in (kind.encode("ascii"), number.encode("ascii"), data):
            mac.update(struct.pack(">Q", len(piece)))
            mac.update(piece)
        return mac.hexdigest().encode("ascii")

    def _ask(self, method, path, body):
        conn = http.client.HTTPConnection(self.addr, self.port, timeout=STALLED)
        try:
            conn.request(method, path, body)
            answer = conn.getresponse()
            return answer.status, answer.read()
        finally:
            conn.close()

    def ask(self, method, path, body=None):
        """Returns status and value. Tries again for a while after a failure that may pass (lost connection, no room)."""
        patience = time.time() + NO_ROOM
        tries = 0
        while True:
            try:
                status, value = self._ask(method, path, body)
                if status not in (503, 507) or time.time() > patience:
                    return status, value
            except (OSError, http.client.HTTPException) as e:
                tries += 1
                if tries == 3:
                    raise RuntimeError(
                        "the rendezvous at {} port {} does not answer ({}: {}): has hvdrun ended?".format(
                            self.addr, self.port, type(e).__name__, e
                        )
                    )
            time.sleep(0.5)

    def function(self):
        status, value = self.ask("GET", "/runfunc/func")
        if status != 200:
            raise RuntimeError("the rendezvous has no function (status {})".format(status))
        if not hmac.compare_digest(value[:MAC_LEN], self._mac("func", "", value[MAC_LEN:])):
            raise RuntimeError(
                "the function in the rendezvous at {} port {} is not from this launch, and is not "
                "executed".format(self.addr, self.port)
            )
        return value[MAC_LEN:]

    def put(self, kind, rank, value):
        path = "/runfunc_{}/{}".format(kind, rank)
        status, _ = self.ask("PUT", path, self._mac(kind, str(rank), value) + value)
        if status != 200:
            raise RuntimeError(
                "the rendezvous refuses {} bytes at {} (status {})".format(len(value), path, status)
            )


def look_where_the_caller_does(environ):
    """Lets this rank import the caller's modules: the caller's own folder comes first, missing folders last."""
    sys.path.pop(0)  # this file's
    paths = json.loads(environ.pop("HVD_RUN_FUNC_PATH", '[""]'))
    sys.path[:0] = paths[:1]
    sys.path.extend(path for path in paths[1:] if path not in sys.path)


def load(data):
    return pickle.loads(base64.b64decode(data))


def dump(value):
    """Returns the pickle of a value: by the module that the function came by, or by cloudpickle if it is installed,
    which can pickle more than pickle."""
    try:
        dumps = importlib.import_module(os.environ.get("HVD_RUN_FUNC_PICKLE", "cloudpickle")).dumps
    except ImportError:
        dumps = pickle.dumps
    return base64.b64encode(dumps(value))


def dump_result(value, most):
    try:
        data = dump(value)
    except Exception as e:
        raise TypeError(
            "the function's result, of type {}, cannot be pickled ({}: {}); return plain values, or "
            "write it to a file".format(type(value).__name__, type(e).__name__, e)
        ) from e
    if most and len(data) > most:
        raise ValueError(
            "the function's result has {} bytes (pickled, in base64), and the rendezvous takes {} at "
            "most; write it to a file and return its name".format(len(data), most)
        )
    return data


def describe(error, rank, host):
    """Returns the error as a JSON object."""
    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename == describe.__code__.co_filename:
        tb = tb.tb_next
    try:
        text = str(error)
    except Exception:  # of the exception's own making
        text = "?"
    about = {
        "rank": rank,
        "host": host,
        "type": type(error).__name__,
        "text": text[:TEXT_MAX],
        "traceback": "".join(traceback.format_exception(type(error), error, tb))[-TEXT_MAX:],
        "python": "%d.%d.%d" % sys.version_info[:3],
    }
    try:
        pickled = dump(error).decode("ascii")
        load(pickled)  # some can be pickled only
        if len(pickled) <= TEXT_MAX:
            about["pickled"] = pickled
    except Exception:
        pass
    return about


def exit_code(error):
    """Returns the exit status of a program that raises this; never 0, for there is no result."""
    if isinstance(error, SystemExit) and isinstance(error.code, int):
        return error.code & 255 or 1
    return 1


def rank_now(environ):
    """Returns this process's rank, which may change in elastic jobs of Horovod. Horovod sets its variable from C++ then,
    which os.environ does not see."""
    rank = environ["HVD_RUN_FUNC_RANK"]
    if environ.get("HOROVOD_ELASTIC") == "1":
        getenv = ctypes.CDLL(None).getenv
        getenv.restype = ctypes.c_char_p
        rank = (getenv(b"HOROVOD_RANK") or b"").decode("ascii", "replace") or rank
    return int(rank)


def main():
    environ = os.environ
    if "HVD_RUN_FUNC_ADDR" not in environ:
        sys.exit("this is a part of the Python module hvdrun, and is started by hvdrun --run-func")
    rendezvous = Rendezvous(environ)
    host = environ["HVD_RUN_FUNC_HOST"]
    look_where_the_caller_does(environ)
    try:
        func = load(rendezvous.function())
        result = dump_result(func(), int(environ.get("HVD_RUN_FUNC_MAX", "0")))
        rendezvous.put("result", rank_now(environ), result)
    except BaseException as e:  # sys.exit() has no result either
        rank = rank_now(environ)
        about = describe(e, rank, host)
        sys.stdout.flush()
        sys.stderr.write(about["traceback"])
        sys.stderr.flush()
        try:
            rendezvous.put("error", rank, json.dumps(about).encode("ascii"))
        except RuntimeError as lost:
            sys.stderr.write("hvdrun worker of rank {} on {}: {}\n".format(rank, host, lost))
        sys.exit(exit_code(e))


if __name__ == "__main__":
    main()
