# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # what run sets
# Loaded behind launch.bash and store_ranks.bash: what other users, and hosts outside of a job, get at where a launch of
# alice's listens. The attacker is lib/relay_attack.py.

ATTACK=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/lib/relay_attack.py

# ports HOST: where alice's processes listen there: "ADDRESS PORT PID". Those of Slurm's commands and of an MPI's own
# launcher are left out.
ports() {
    as_root "$1" ss -Htlnpe | awk -v uid="uid:$(as_user alice id -u)" '
        index($0 " ", uid " ") && !/"(srun|salloc|mpirun[^"]*|prterun|orted|prted)"/ {
            pid = $0; sub(/.*pid=/, "", pid); sub(/,.*/, "", pid)
            where = $4; port = where; sub(/.*:/, "", port); sub(/:[0-9]*$/, "", where); gsub(/[][]/, "", where)
            print where, port, pid }'
}

# attack USER FROM ADDRESS PORT [ARG…]: what it says; fails if it gets at anything.
attack() {
    cluster exec --user "$1" --host "$2" -- python3 "$ATTACK" "${@:3}"
}

on_loopback() { [[ $1 == 127.* || $1 == ::1 ]]; }

# gets_nothing USER FROM HOST PORT ANSWER…: that user, at this port of HOST, which is of one of these kinds.
gets_nothing() {
    local said
    said=$(attack "$1" "$2" "$(cluster addr "$3" eth0)" "$4") || { echo "$2: $said" && return 1; }
    [[ " ${*:5} " == *" $said "* ]] || { echo "port $4 of $3 is $said for $1 on $2, not ${*:5}" && return 1; }
}

# strangers_get_nothing HOST…: bob tries all that listens on these hosts: from the host itself, from other hosts of the
# job and from hosts that are not. Only ports with signed messages are open to the network, and $open, if there is one: the
# port of rank 0's relay for the job's hosts, which tells neither him on that host nor anybody on hvdn4 or hvdlogin
# anything.
strangers_get_nothing() {
    local host where port pid from user said tried=0
    for host in "$@"; do
        while read -r -u 7 where port pid; do
            echo "$host: $where $port, process $pid"
            tried=$((tried + 1))
            if on_loopback "$where"; then
                said=$(attack bob "$host" "$where" "$port" --flood 200) || { echo "$said" && return 1; }
            elif [[ ${open-} == "$port" ]]; then
                gets_nothing bob "$host" "$host" "$port" silent || return 1
                for from in hvdn4 hvdlogin; do
                    for user in bob alice; do
                        gets_nothing "$user" "$from" "$host" "$port" silent || return 1
                    done
                done
            else
                for from in $(printf '%s\n' "$host" hvdn1 hvdn2 hvdn3 hvdlogin | sort -u); do
                    gets_nothing bob "$from" "$host" "$port" "signed${quiet:+ $quiet}" || return 1
                done
            fi
        done 7< <(ports "$host")
    done
    echo "$tried ports"
    ((tried > 0))
}

# intact RANKS: all of these ranks have found what they left.
intact() {
    [[ $(grep -o 'intact, never slow' <<<"$output" | wc -l) -eq $1 ]] || { echo "not $1 ranks are intact: $output" && return 1; }
}
