#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""role.py - a rank of a launch with roles. It prints who and where it is, and what it was told of the others, then does
one of these:

    serve PORT SECONDS   be a server after so many seconds: GET of /health answers with the name of the role and its host
    ask                  ask each server of the other roles, and print how many tries it took
    sleep                stay
"""
import http.server
import os
import socket
import sys
import time
import urllib.request


def told(role, what):
    """What the variables say of a role: a list for each of its replicas."""
    text = os.environ.get("HVD_ROLE_%s_%s" % (role.upper().replace("-", "_"), what), "")
    return [replica.split(",") for replica in text.split(";")] if text else []


me = "%s/%s rank %s of %s" % tuple(os.environ[name] for name in ("HVD_ROLE", "HVD_ROLE_REPLICA", "RANK", "WORLD_SIZE"))
host = socket.gethostname()


def say(*words):
    sys.stdout.write("%s: %s\n" % (me, " ".join(words)))
    sys.stdout.flush()


def ask(url):
    for tries in range(1, 100):
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return say("was answered by", answer.read().decode(), "at try", str(tries))
        except OSError:
            time.sleep(0.1)
    sys.exit("%s does not answer" % url)


class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
        self.wfile.write(("%s on %s" % (me, host)).encode())

    def log_message(self, *args):
        pass


say("on", host, "local", os.environ["LOCAL_RANK"], "store", os.environ["MASTER_ADDR"] + ":" + os.environ["MASTER_PORT"])
for role in os.environ["HVD_ROLES"].split(","):
    say("knows", role, *("%s=%s" % (what.lower(), os.environ.get("HVD_ROLE_%s_%s" % (role.upper(), what), "-"))
                         for what in ("HOSTS", "SIZE", "PORTS")))
if sys.argv[1] == "serve":
    time.sleep(float(sys.argv[3]))
    http.server.ThreadingHTTPServer(("", int(sys.argv[2])), Health).serve_forever()
elif sys.argv[1] == "ask":
    for role in os.environ["HVD_ROLES"].split(","):
        for address in [a for replica in told(role, "ADDRS") for a in replica]:
            for port in [p for replica in told(role, "PORTS")[:1] for p in replica]:
                ask("http://%s:%s/health" % (address, port))
else:
    time.sleep(100)
