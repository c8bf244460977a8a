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

# train NODES [OPTION OF hvdrun…] [-- OPTION OF restart_worker.py…]: begins a job with two slots on each node, in an
# allocation, or by ssh where there is no Slurm.
train() {
    local how=(salloc -Q -N"$1" --ntasks-per-node=2 --no-kill hvdrun) options=()
    if [[ ! ${HVD_TEST_SLURM-} ]]; then how=(hvdrun --hosts "$(seq -s, -f 'hvdn%g:2' "$1")"); fi
    shift
    while (($#)) && [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    begin on_login "${how[@]}" "${TRAIN_OPTIONS[@]}" "${options[@]}" ./restart_worker.py work "${@:2}"
}

# trains RESTARTS HOST…: soon the ranks of the generation after so many restarts are two on each of these hosts.
trains() {
    local want
    want=$(for host in "${@:2}"; do printf '%s\n%s\n' "$host" "$host"; done)
    wait_for 30 trains_so "$1" "$want" || { echo "not after $1 restarts: $want" && cat "$WORK/log" "$OUT" && return 1; }
}
trains_so() { [[ $(sed -nE "s/.* on (\S+) .* restarts $1 .*/\1/p" "$WORK/log" 2>/dev/null | sort) == "$2" ]]; }

# rank R: its process in the last generation; kill_rank HOST R: it is killed there.
rank() { sed -nE "s/.* rank $1 .* pid ([0-9]+)$/\1/p" "$WORK/log" | tail -1; }
kill_rank() { as_root "$1" kill -KILL "$(rank "$2")"; }

# fails_twice [OPTION OF hvdrun…]: a job on hvdn1 and hvdn2 with one spare host, which a rank's death restarts, and then the
# loss of hvdn1.
fails_twice() {
    train 3 -np 4 --max-restarts 2 "$@"
    trains 0 hvdn{1,2}
    kill_rank hvdn2 3
    trains 1 hvdn{1,2}
    as_root hvdn1 pkill -KILL -u alice
    trains 2 hvdn{2,3}
    ends_well 30
}

# A node agent, for pkill -f.
AGENT='[h]vd-agent host .*--host='

# waits_for_fourth [OPTION OF hvdrun…]: a job of eight ranks, at least four, whose fourth host is not there yet when the
# agent of the second one has come.
waits_for_fourth() {
    fault node-freeze hvdn4
    train 4 -np 8 --min-np 4 --max-restarts 1 "$@"
    wait_for 10 agent_has_come
}
agent_has_come() { [[ $(as_root hvdn2 ss -Htnp state established) == *'"hvd-agent"'* ]]; }

# before_first [OPTION OF hvdrun…]: the same, and the agent of the second one is killed.
before_first() {
    waits_for_fourth "$@"
    as_root hvdn2 pkill -KILL -f "$AGENT"
    says 5 "hvdn2"
}
