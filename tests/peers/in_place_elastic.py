# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest for Horovod's tests of elastic training, besides in_place.py.

The hosts of such a job are known only when it runs, so hvdrun cannot be asked beforehand how it reads the command line:
horovodrun's own parser reads it. A test has horovodrun look for hosts a hundred times a second; hvdrun looks ten times a
second at most. The training program of the tests waits three seconds to be told that hosts have changed. hvdrun
tells it when the new ranks have imported what they need, which takes longer on a busy machine; so the program is told to
wait a minute."""

import sys

import pytest

import in_place
from horovod.runner import launch
from horovod.runner.elastic import driver

PARSE_ARGS = launch.parse_args


def run_elastic(_):
    words = sys.argv[1:] + ["--discovery-wait", "60"]
    in_place.start(["--elastic-timeout", str(driver.ELASTIC_TIMEOUT_SECS),
                    "--discovery-interval", str(max(driver.DISCOVER_HOSTS_FREQUENCY_SECS, 0.1))] + words)


@pytest.hookimpl(trylast=True)
def pytest_configure():
    launch.parse_args = PARSE_ARGS
    if in_place.HVDRUN:
        launch._run_elastic = run_elastic
