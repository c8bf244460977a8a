#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank, or a task of plain srun, that writes its environment to FOLDER/RANK.json.

usage: environ.py FOLDER
"""
import json
import os
import sys

rank = os.environ.get("HOROVOD_RANK") or os.environ["SLURM_PROCID"]
with open("%s/%s.json" % (sys.argv[1], rank), "w", encoding="utf-8") as out:
    json.dump(dict(os.environ), out)
