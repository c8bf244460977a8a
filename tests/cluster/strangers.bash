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

# all_get_nothing HOST PORT ANSWER… <"USER FROM"…: gets_nothing for each line, side by side: mostly they wait for an
# answer that does not come.
all_get_nothing() {
    local user from pids=() outs=() i status=0
    while read -r user from; do
        outs+=("$BATS_TEST_TMPDIR/attack.$2.${#pids[@]}")
        gets_nothing "$user" "$from" "$@" >"${outs[-1]}" </dev/null 7<&- &
        pids+=($!)
    done
    for i in "${!pids[@]}"; do
        wait "${pids[i]}" || { status=1 && cat "${outs[i]}"; }
    done
    ((${#pids[@]} > 0)) && return $status
}

# strangers_get_nothing HOST…: bob tries all that listens on these hosts: from the host itself, from other hosts of the
# job and from hosts that are not. Only ports with signed messages are open to the network, and in a job of several hosts
# that at which the ranks of PyTorch have met: it tells him nothing anywhere, nor alice on hosts that are not of the job. The
# ports of a host are tried side by side.
strangers_get_nothing() {
    local host where port pid tries=() tried=0 open
    open=$(cat "$WORK"/at.? | awk '$2 != "127.0.0.1" { print $3 }' | sort -u)
    [[ $open == *$'\n'* ]] && echo "not one port: $open" && return 1
    for host in "$@"; do
        tries=()
        while read -r -u 7 where port pid; do
            echo "$host: $where $port, process $pid"
            tried=$((tried + 1))
            try_port "$host" "$where" "$port" >"$BATS_TEST_TMPDIR/port.$port" 2>&1 7<&- &
            tries+=("$! $port")
        done 7< <(ports "$host")
        for pid in "${tries[@]}"; do
            wait "${pid% *}" || { cat "$BATS_TEST_TMPDIR/port.${pid#* }" && return 1; }
        done
    done
    echo "$tried ports"
    ((tried > 0))
}

try_port() {
    local host=$1 where=$2 port=$3
    if on_loopback "$where"; then
        attack bob "$host" "$where" "$port" --flood 200
    elif [[ ${open-} == "$port" ]]; then
        { printf 'bob %s\n' hvdn{1,2,3,4} hvdlogin && no_hosts_of_alice; } | all_get_nothing "$host" "$port" silent
    else
        printf 'bob %s\n' "$host" hvdn1 hvdn2 hvdn3 hvdlogin | sort -u |
            all_get_nothing "$host" "$port" "signed${quiet:+ $quiet}"
    fi
}

# no_hosts_of_alice: "alice HOST" for each host that has no rank.
no_hosts_of_alice() {
    printf 'alice %s\n' hvdn{1,2,3,4} hvdlogin | grep -vwFf <(awk '{ print $1 }' "$WORK"/at.?)
}

# intact RANKS: all of these ranks have found what they left.
intact() {
    [[ $(grep -o 'intact, never slow' <<<"$output" | wc -l) -eq $1 ]] || { echo "not $1 ranks are intact: $output" && return 1; }
}

# left_alone RANKS HOST…: strangers have tried all that listens on these hosts, and the ranks have noticed nothing.
left_alone() {
    local host where port
    # The places at which ranks are on loopback are among these.
    while read -r host where port; do
        if [[ $where == 127.0.0.1 ]]; then ports "$host" | grep -q "^127.0.0.1 $port " || return 1; fi
    done < <(cat "$WORK"/at.?)
    strangers_get_nothing "${@:2}" || return 1
    ends_well 30 && intact "$1"
}
