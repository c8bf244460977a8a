# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Loaded behind launch.bash, by tests of jobs whose ranks are restart_worker.py. They work in ~/work, which is $WORK.

# Options of hvdrun that all jobs of a file have.
TRAIN_OPTIONS=()

# bring_worker: puts the program into alice's home.
bring_worker() {
    mkdir -p "$(home)/lib"
    cp "$BATS_TEST_DIRNAME/restart_worker.py" "$(home)/"
    cp "$BATS_TEST_DIRNAME/lib/tcpstore_client.py" "$(home)/lib/"
}

# train NODES [OPTION OF hvdrun…] [-- OPTION OF restart_worker.py…]: begins a job with two slots on each node.
train() {
    local nodes=$1 options=()
    shift
    while (($#)) && [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    begin on_login salloc -Q -N"$nodes" --ntasks-per-node=2 --no-kill hvdrun "${TRAIN_OPTIONS[@]}" "${options[@]}" \
        ./restart_worker.py work "${@:2}"
}

# rank R: its process in the last generation; kill_rank HOST R: it is killed there.
rank() { sed -nE "s/.* rank $1 .* pid ([0-9]+)$/\1/p" "$WORK/log" | tail -1; }
kill_rank() { as_root "$1" kill -KILL "$(rank "$2")"; }
# stop: the ranks end well.
stop() { on_login touch work/stop; }
