# SPDX-License-Identifier: Apache-2.0
"""For Horovod's tests of elastic training, besides in_place.py. Which hosts there are is found out when such a job runs, so
hvdrun cannot be asked before what it makes of the words for workers: horovodrun's own parser reads them. A test has
horovodrun look for hosts a hundred times a second, where hvdrun does so ten times at most. And its training program has
three seconds' patience with the news that hosts have changed, which hvdrun has for it when the new ranks have imported what
they need: on a busy machine that takes longer, so it is told to have a minute's."""

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
