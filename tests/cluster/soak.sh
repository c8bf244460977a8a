#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# soak.sh [N] - N launches in a row (1000) on a cluster of its own; then look
# for what they left behind.
#
# In turns: srun --hvd and hvdrun, from the login host, where each is a job of
# its own, and from within an allocation, where driver and rendezvous are on its
# first node.  Four nodes, eight ranks, which meet and check collectives.
#
# Environment: B, the build folder (build).  SOAK_LOG, where failed launches'
# output goes (default: shown).  Exit status: 0, or 1 when a launch failed or
# anything is left.
set -u

n=${1:-1000}
if [[ ! $n =~ ^[1-9][0-9]{0,6}$ ]]; then
    echo "usage: soak.sh [N]" >&2
    exit 2
fi
# shellcheck source=tests/cluster/soak.bash
source "$(dirname "${BASH_SOURCE[0]}")/soak.bash"
hosts=(hvdlogin hvdctl hvdn1 hvdn2 hvdn3 hvdn4)
soak_up --nodes 4

# An allocation that stays, and what its batch script's environment is.
# shellcheck disable=SC2016
on hvdlogin alice sbatch -Q -N4 --ntasks-per-node=2 -o /dev/null --wrap 'env -0 >environment.new
mv environment.new environment
exec sleep 86400' || exit 1
for ((i = 0; i < 100; i++)); do
    if on hvdlogin alice test -s environment; then break; fi
    sleep 0.1
done
# shellcheck disable=SC2016
on hvdlogin alice bash -c '{
    while IFS= read -r -d "" v; do printf "export %q\n" "$v"; done <environment
    echo "exec \"\$@\""
} >inside && rm environment' || exit 1

# launch I: the I-th one.
launch() {
    local kind=$(($1 % 4)) began=$EPOCHREALTIME status=0 out=$work/out
    case $kind in
    0) on hvdlogin alice srun --hvd -N4 -n8 --ntasks-per-node=2 hvd-selftest --quick ;;
    1) on hvdn1 alice bash inside "$B/bin/hvdrun" -N4 -n8 --overlap --selftest -- --quick ;;
    2) on hvdlogin alice hvdrun -N4 -n8 --ntasks-per-node=2 --selftest -- --quick ;;
    3) on hvdn1 alice bash inside srun --hvd -N4 -n8 --overlap "$B/bin/hvd-selftest" --quick ;;
    esac >"$out" 2>&1 || status=$?
    if ((status)) || ! grep -q "hvd-selftest: 8 ranks on 4 hosts: OK" "$out"; then
        echo "launch $1 failed, status $status:"
        cat "$out"
        return 1
    fi
    echo "$kind $began $EPOCHREALTIME" >>"$work/times"
}

# /tmp is the machine's own: there only the user's files count, to whom all that a launch starts belongs.
# One line for each thing that is counted: HOST WHAT NUMBER.
# shellcheck disable=SC2016
count='
echo processes $(($(ps -e --no-headers | wc -l) - 3))
echo TCP-sockets $(ss -Htan | grep -vc TIME-WAIT)
echo unix-sockets $(ss -Hxa | wc -l)
for dir in /dev/shm /run; do echo files-in-$dir $(find $dir -xdev 2>/dev/null | wc -l); done
for dir in /tmp /var/tmp; do echo alices-files-in-$dir $(find $dir -xdev -path "*/hvd-cluster-*" -prune -o -user alice -print 2>/dev/null | wc -l); done
for name in slurmctld slurmd munged; do
    for pid in $(pgrep -x $name); do
        echo descriptors-of-$name $(ls /proc/$pid/fd | wc -l)
        echo threads-of-$name $(ls /proc/$pid/task | wc -l)
        echo kB-of-$name $(sed -n "s/VmRSS:[^0-9]*\([0-9]*\).*/\1/p" /proc/$pid/status)
    done
done'
snapshot() {
    local host
    for host in "${hosts[@]}"; do
        on "$host" root bash -c "$count" | sed "s/^/$host /"
    done
    # shellcheck disable=SC2016
    echo "all files-at-home $(on hvdlogin alice bash -c 'find . | wc -l')"
}

# What must be as it was: all that is counted but memory and threads, which the daemons keep pools of.
leaks() {
    awk '/ (kB|threads)-of-/ { next }
    { key = $1 " " $2; value = $3 + 0 }
    FNR == NR { before[key] = value; next }
    value > before[key] { print "  " key ": " before[key] + 0 " before, " value " after" }' "$1" "$2"
}

failed=0
for ((i = 0; i < 8; i++)); do launch $i || exit 1; done
: >"$work/times"
sleep 1
snapshot >"$work/before"
began=$EPOCHREALTIME
for ((i = 0; i < n; i++)); do
    launch $i >"$work/report" || {
        failed=$((failed + 1))
        tee -a "${SOAK_LOG:-/dev/null}" <"$work/report"
    }
    if ((i % 100 == 99 && i + 1 < n)); then echo "$((i + 1)) launches, $failed failed"; fi
done
ended=$EPOCHREALTIME
# What ends of itself may take a while.
for ((i = 0; i < 15; i++)); do
    sleep 1
    snapshot >"$work/after"
    leaks "$work/before" "$work/after" >"$work/leaks"
    if [[ ! -s $work/leaks ]]; then break; fi
done

awk -v n="$n" -v failed="$failed" -v s="$began" -v e="$ended" 'BEGIN {
    printf "%d launches in %.1f s, %d failed\n", n, e - s, failed
    split("srun --hvd, from the login host|hvdrun, inside an allocation|hvdrun, from the login host|srun --hvd, inside an allocation", name, "|")
}
{ t[$1, ++c[$1]] = $3 - $2 }
END {
    for (k = 0; k < 4; k++) {
        m = c[k]
        for (i = 2; i <= m; i++)
            for (j = i; j > 1 && t[k, j] < t[k, j - 1]; j--) { x = t[k, j]; t[k, j] = t[k, j - 1]; t[k, j - 1] = x }
        if (m) printf "  %-34s %5d   fastest %.3f s   median %.3f s   slowest %.3f s\n", name[k + 1], m, t[k, 1], t[k, int((m + 1) / 2)], t[k, m]
    }
}' "$work/times"
echo "memory of the daemons before and after, kB:"
join -j 1 <(awk '/ kB-of-/ { print $1 "/" $2, $3 }' "$work/before" | sort) \
    <(awk '/ kB-of-/ { print $1 "/" $2, $3 }' "$work/after" | sort) |
    awk '{ sub(/kB-of-/, "", $1); printf "  %-34s %7d %7d\n", $1, $2, $3 }'
if [[ -s $work/leaks ]]; then
    echo "left behind:"
    cat "$work/leaks"
else
    echo "nothing is left: processes, sockets, descriptors of the daemons, files in /tmp, /dev/shm, /run, /var/tmp and at home"
fi
[[ $failed -eq 0 && ! -s $work/leaks ]]
