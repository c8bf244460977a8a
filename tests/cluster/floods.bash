# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # what tests set
# Loaded behind helpers.bash: what a peer that breaks the rules sends, many times over, and what it costs a process.

# flood HOST ADDRESS PORT WHAT [HOW] --count N --seconds N [OPTION…]: bob, or $FLOODER, opens many connections; succeeds when
# the other side ends them all within these seconds, with HVD_TEST_PATIENCE.
flood() {
    local host=$1 words=()
    shift
    while (($#)); do
        words+=("$1")
        if [[ $1 == --seconds ]]; then words+=($(($2 * HVD_TEST_PATIENCE))) && shift; fi
        shift
    done
    peer "${FLOODER-bob}" "$host" flood "${words[@]}" || {
        echo "not all were ended: ${words[*]}"
        return 1
    }
}

# process HOST NAME: prints the id of the oldest process of that name.
process() { as_root "$1" pgrep -x -o "$2"; }

# state HOST PID: prints its peak of memory in kB, and the number of its open descriptors.
state() { as_root "$1" bash -c "echo \$(sed -n 's/VmHWM:[^0-9]*\([0-9]*\).*/\1/p' /proc/$2/status) \$(ls /proc/$2/fd | wc -l)"; }

# bounded HOST PID KB: its peak is at most KB above $peak, and soon it has $fds descriptors again.
bounded() {
    local now_peak now_fds end=$((SECONDS + 5))
    while read -r now_peak now_fds < <(state "$1" "$2"); [[ $now_fds ]]; do
        echo "$1: peak $now_peak kB (was $peak), $now_fds descriptors (were $fds)"
        ((now_peak <= peak + $3)) || return 1
        # An agent may have connected or left meanwhile; a leak shows by the hundred.
        if ((now_fds <= fds + 8)); then return 0; fi
        if ((SECONDS >= end)); then return 1; fi
        sleep 0.5
    done
    return 1
}
