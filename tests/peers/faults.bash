# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Faults of a training by real PyTorch: scripts/examples/elastic-torch.py, one rank on each of five hosts at most, hvdn1 and
# so on, but for one, which is the spare. For what has loaded ../cluster/helpers and ../cluster/launch. PY is its Python; AGENT
# a pattern that the launcher's process on each host fits, and nothing else of alice's.

# do_fault KIND HOST, undo_fault KIND HOST, and repaired HOST: what a person would do about it afterwards.
#   rank      the rank there is killed
#   agent     the launcher's process there is killed
#   stopped   … is stopped
#   link      the host's links are cut
#   stepd     its slurmstepd is killed
#   slurmd    … and its slurmd
#   frozen    all processes of the host are stopped
do_fault() {
    case $1 in
    rank) as_root "$2" pkill -KILL -o -u alice -f "^$PY .*elastic-torch" ;;
    agent) as_root "$2" pkill -KILL -u alice -f "$AGENT" ;;
    stopped) as_root "$2" pkill -STOP -u alice -f "$AGENT" ;;
    link) fault silence "$2" ;;
    stepd) as_root "$2" pkill -KILL -x slurmstepd ;;
    slurmd) fault slurmd-kill "$2" && as_root "$2" pkill -KILL -x slurmstepd ;;
    frozen) fault node-freeze "$2" ;;
    esac
}
undo_fault() {
    case $1 in
    link | slurmd | frozen) fault clear ;;
    stopped) as_root "$2" pkill -KILL -u alice -f "$AGENT" || true ;;
    esac
}
# The host is taken out of the job, and comes back: so nobody waits until it is tried again.
repaired() {
    local state
    for state in drain resume; do
        as_root hvdctl scontrol update nodename="$1" state=$state reason=repair
        if [[ $state == drain ]]; then sleep 3; fi
    done
}

has_ranks() { as_root "$1" pgrep -u alice -f "^$PY .*elastic-torch" >/dev/null; }

# The host after the last victim, in their order, that has ranks.
next_victim() {
    local i
    for ((i = 0; i < 5; i++)); do
        victim=hvdn$((number % 5 + 1))
        number=$((number + 1))
        has_ranks "$victim" && return
    done
    return 1
}

last_loss() { grep -o '^epoch [0-9]* loss [^ ]*' "$1" | sort -u | sort -s -k2n,2 | tail -n 1; }
# same_loss FILE FILE: but for what sums in another order differ in.
same_loss() {
    paste -d' ' <(last_loss "$1") <(last_loss "$2") |
        awk '{ off = $4 > $8 ? $4 - $8 : $8 - $4; exit !($2 == $6 && off <= 1e-12 * $4) }'
}
