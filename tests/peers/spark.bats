#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2030,SC2031,SC2154 # what run sets, for functions that look at it
# hvdrun.spark.run() with real Spark: a cluster of two executors on this machine, made for each test.

load ../cluster/helpers
load ../cluster/launch
load peers

setup_file() {
    local site
    peers
    if [[ ! $PEERS_WHY ]]; then HOROVOD_PYTHON=$PY; fi
    peers --spark
    if [[ $PEERS_WHY ]]; then return 0; fi
    built
    # Executors work in folders below SPARK_HOME: one of links, so that those are not in what is installed.
    site=$("$PY" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
    SPARK_HOME=$BATS_FILE_TMPDIR/spark
    mkdir -p "$SPARK_HOME" "$BATS_FILE_TMPDIR/local"
    ln -s "$site"/* "$SPARK_HOME/"
    PYTHONPATH=$(cd "$BATS_TEST_DIRNAME/../../python" && pwd):${site%/*}
    export HOROVOD_PYTHON PYTHONPATH PYTHONDONTWRITEBYTECODE=1 SPARK_HOME PYSPARK_PYTHON=$PY
    export SPARK_LOCAL_IP=127.0.0.1 SPARK_LOCAL_DIRS=$BATS_FILE_TMPDIR/local
}
setup() {
    needs_peers
    export TMPDIR=$BATS_TEST_TMPDIR/tmp
    mkdir "$TMPDIR"
}

# spark WHAT [ARGUMENT...]: that part of spark.py.
spark() { on_this "$PY" "$HERE/spark.py" "$@" 2>&1; }

# nothing_left: of ranks, agents, executors and files for a launch.
nothing_left() {
    all_gone 20 "$SPARK_HOME"
    all_gone 5 "$B/libexec/hvd/hvd-task"
    all_gone 5 HVD_RUN_FUNC_WORKER
    wait_for 5 no_folder
}
no_folder() { ! compgen -G "$TMPDIR/hvdrun-*" >/dev/null; }

@test "results by rank from two executors; the key is in no environment and on no command line; Horovod" {
    run spark works
    exits 0
    has "rank 0 0 2 4 "; has "rank 1 1 2 4 "; has "rank 2 0 2 4 "; has "rank 3 1 2 4 "
    [[ $(grep -oE "[^ ]+-executor-[01] red" <<<"$output" | sort | uniq -c | grep -c "^ *2 ") -eq 2 ]]
    has "a key in an environment is seen: True"
    has "the key is seen: False"
    has "Horovod: [(0, 2, 3.0), (1, 2, 3.0)]"
    nothing_left
}

@test "a rank that raises, too few executors, no hvd-task there; a killed executor is named, and nothing runs twice" {
    run spark fails "$BATS_TEST_TMPDIR"
    exits 0
    has "rank 2 on "
    has "ZeroDivisionError"
    has "warning: Spark does not authenticate its connections"
    has "LaunchError: Spark's executors have room for 4 of 5 tasks at once"
    has "in time: True"
    has "there is no /nonesuch/hvd-task"
    grep -E "LaunchError: .*-executor-[01]" <<<"$output"
    has "runs: 1 1 1 1"
    nothing_left
}

@test "interrupted, ranks end and the next launch is none the worse; killed, nothing is left" {
    local pid
    spark stays "$BATS_TEST_TMPDIR" >"$BATS_TEST_TMPDIR/out" &
    wait_for 60 test -s "$BATS_TEST_TMPDIR/first-3"
    pid=$(pgrep -f "^$PY $HERE/spark.py stays $BATS_TEST_TMPDIR")
    kill -INT "$pid"
    wait_for 60 test -s "$BATS_TEST_TMPDIR/second-3" || { cat "$BATS_TEST_TMPDIR/out" && return 1; }
    grep -F "interrupted" "$BATS_TEST_TMPDIR/out"
    grep -F "and again: [0, 1, 2, 3]" "$BATS_TEST_TMPDIR/out"
    gone "$BATS_TEST_TMPDIR"/first-*
    kill -KILL "$pid"
    wait_for 20 gone "$BATS_TEST_TMPDIR"/second-*
    nothing_left
}

# gone FILE...: no process whose number a file has.
gone() {
    local file
    for file in "$@"; do
        ! kill -0 "$(<"$file")" 2>/dev/null || return 1
    done
}
