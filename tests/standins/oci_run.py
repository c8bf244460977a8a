#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""oci_run.py run BUNDLE | state ID | kill ID | delete ID - an OCI runtime for Slurm's --container, as far as tests need
it: the process of BUNDLE/config.json with the environment written there, in rootfs, in a user namespace of its own."""
import json
import os
import sys

if sys.argv[1] == "state":
    print(json.dumps({"ociVersion": "1.0.2", "id": sys.argv[2], "status": "stopped", "bundle": "/"}))
if sys.argv[1] != "run":
    sys.exit(0)
bundle = sys.argv[2]
with open(os.path.join(bundle, "config.json"), encoding="utf-8") as file:
    config = json.load(file)
process = config["process"]
root = os.path.join(bundle, config["root"]["path"])
environment = dict(entry.split("=", 1) for entry in process["env"])
os.execve("/usr/bin/unshare", ["unshare", "--user", "--map-current-user", "--keep-caps", "chroot", root]
          + process["args"], environment | {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
