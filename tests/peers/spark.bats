#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2030,SC2031,SC2154 # what run sets, for functions that look at it
# hvdrun.spark.run() with real Spark: a cluster of two executors on this machine, made for each test.

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
    # Short lives are not worth what Java's second compiler takes.
    export HVD_TEST_DEADLINE=600 JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    export SPARK_LOCAL_IP=127.0.0.1 SPARK_LOCAL_DIRS=$BATS_FILE_TMPDIR/local
}
setup() { needs_peers; }

# spark WHAT FOLDER: that part of spark.py, with its files in FOLDER; what it says is in FOLDER/out.
spark() {
    mkdir -p "$2/tmp"
    TMPDIR=$2/tmp on_this "$PY" "$HERE/spark.py" "$@" >"$2/out" 2>&1
}

# runs: what spark.py has said in the first test of those that look at it, which ran it.
runs() {
    local folder=$BATS_FILE_TMPDIR/runs
    if [[ ! -e $folder ]]; then
        spark runs "$folder" || { cat "$folder/out" && return 1; }
    fi
    output=$(<"$folder/out")
}

# nothing_left FOLDER: of ranks, agents, executors, and files for a launch.
nothing_left() {
    all_gone 20 "$SPARK_HOME"
    all_gone 5 "$B/libexec/hvd/hvd-agent"
    all_gone 5 HVD_RUN_FUNC_WORKER
    ! compgen -G "$1/tmp/hvdrun-*"
}

# gone FILE...: no process whose number a file has.
gone() {
    local file
    for file in "$@"; do
        ! kill -0 "$(<"$file")" 2>/dev/null || return 1
    done
}

@test "results come by rank from two executors, with local ranks in each" {
    runs
    [[ $(grep -oE "rank [0-9] [01] 2 4 [^ ]+-executor-[01] red" <<<"$output" | cut -d " " -f 2,3 | paste -sd,) == "0 0,1 1,2 0,3 1" ]]
    [[ $(grep -oE "rank [01] [01] 2 4 [^ ]+" <<<"$output" | cut -d " " -f 6 | sort -u | wc -l) -eq 1 ]]
    [[ $(grep -oE "rank [0-3] [01] 2 4 [^ ]+" <<<"$output" | cut -d " " -f 6 | sort -u | wc -l) -eq 2 ]]
}

@test "the key of the launch is in no environment and on no command line" {
    runs
    has "a key in an environment is seen: True" "the key is seen: False"
}

@test "Horovod's ranks in two executors reduce" {
    runs
    has "Horovod: [(0, 2, 3.0), (1, 2, 3.0)]"
}

@test "a rank that raises is told with its executor" {
    runs
    grep -E "rank 1 on [^ ]+-executor-[01] has raised ZeroDivisionError" <<<"$output"
}

@test "run_elastic(): Horovod's ranks go on without one that has died, and its results are those of the others" {
    runs
    has "elastic: [(0, 2, 30), (1, 2, 30)]" "generation 2: 2 ranks on 2 hosts"
}

@test "a function that fails or is interrupted costs no executor and nothing that Spark has cached" {
    runs
    has "cached: 4" "executors live on: True" "still cached: 4"
}

@test "too few executors within the deadline, and executors without hvd-agent" {
    runs
    has "LaunchError: Spark's executors have room for 4 of 5 tasks at once" "in time: True"
    grep -E "LaunchError: [^ ]+-executor-[01]: there is no /nonesuch/hvd-agent" <<<"$output"
}

@test "an executor that is killed is named, nothing runs a second time, and nothing is left" {
    runs
    has "runs: 1 1" "the killed executor is named: True"
    nothing_left "$BATS_FILE_TMPDIR/runs"
}

@test "interrupted, ranks end and the next launch is none the worse; killed, nothing is left; an open network is warned of" {
    local folder=$BATS_TEST_TMPDIR/stays pid
    spark stays "$folder" &
    wait_for 120 test -s "$folder/first-1"
    pid=$(pgrep -f "^$PY $HERE/spark.py stays $folder")
    kill -INT "$pid"
    wait_for 120 test -s "$folder/second-1" || { cat "$folder/out" && return 1; }
    output=$(<"$folder/out")
    has "RuntimeWarning: Spark does not authenticate its connections" "interrupted" "and again: ['0']"
    gone "$folder"/first-*
    kill -KILL "$pid"
    wait_for 20 gone "$folder"/second-*
    nothing_left "$folder"
}
