#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the file of --events, fails unless each line is an event, and looks for events in it, in their order.

usage: events.py FILE ["NAME FIELD=VALUE FIELD=VALUE…"…]

The fields of a wanted event are in the order of the alphabet; a value ends where the next field begins, and is the begin
of the real one.
"""
import json
import re
import sys

with open(sys.argv[1]) as file:
    text = file.read()
assert text.endswith("\n"), text[-200:]
events = [json.loads(line) for line in text.splitlines()]
for event in events:
    assert set(event) == {"timestamp", "name", "context"} and event["context"]["launch"], event
    assert isinstance(event["timestamp"], float) and event["timestamp"] > 1e9, event
at = 0
for wanted in sys.argv[2:]:
    name, *rest = re.split(r" (?=\w+=)", wanted)
    fields = dict(field.split("=", 1) for field in rest)
    while at < len(events) and not (
            events[at]["name"] == name
            and all(str(events[at]["context"].get(key, "")).startswith(value) for key, value in fields.items())):
        at += 1
    if at == len(events):
        sys.exit(f"not, or not in this order: {wanted}\n{text}")
    at += 1
