#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the Chrome trace that --trace has written, fails unless it is one, and prints it for tests: a line for each event,
in the order of time, of its row, its generation ("-": none) and its name.

usage: trace.py FILE
"""
import json
import sys

with open(sys.argv[1]) as file:
    trace = json.load(file)
rows, events = {}, []
for event in trace["traceEvents"]:
    if event["ph"] == "M":
        assert event["name"] == "process_name" and event["pid"] not in rows, event
        rows[event["pid"]] = event["args"]["name"]
    else:
        assert event["ph"] == "X" and event["ts"] >= 0 and event["dur"] >= 0 and event["name"], event
        events.append(event)
events.sort(key=lambda event: event["ts"])
for event in events:
    args = event.get("args", {})
    print(rows[event["pid"]], args.get("generation", "-"), event["name"] + "".join(
        ": " + args[key] for key in ("why",) if key in args))
