#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # what is for the ranks' shells
# hvdrun under volclava, a real scheduler of the OpenLava family, on the test hosts. HVD_VOLCLAVA names the folder that
# it is installed in:
#
#   ./bootstrap.sh --prefix=DIR CFLAGS='-g -fcommon -w -std=gnu89' && make && make install
#
# in the sources of 2.2 (github.com/bytedance/volclava), with Debian's automake, tcl-dev, libncurses-dev, libtirpc-dev
# and libnsl-dev. A cluster takes some minutes, for LSF looks for a job's processes every half minute only.

load launch

setup_file() {
    if [[ ! ${HVD_VOLCLAVA-} ]]; then return 0; fi
    suite_up --nodes 3
    V=$(cluster path)/volclava
    export V HVD_PATH=$HVD_PATH:$HVD_VOLCLAVA/bin
    mkdir -p "$V/etc" "$V/log" "$V/work/logdir"
    cp "$HVD_VOLCLAVA"/etc/* "$V/etc"
    sed -i -E "s#^(LSB_SHAREDIR)=.*#\1=$V/work#; s#^(LSF_ENVDIR|LSF_CONFDIR|LSB_CONFDIR)=.*#\1=$V/etc#
        s#^(LSF_LOGDIR)=.*#\1=$V/log#" "$V/etc/lsf.conf"
    {
        printf '%s\n' 'Begin ClusterAdmins' 'Administrators = bob' 'End ClusterAdmins' 'Begin Host' \
            'HOSTNAME model type server r1m RESOURCES' 'hvdn'{1..3}' IntelI5 linux 1 - (cs)' 'End Host'
    } >"$V"/etc/lsf.cluster.volclava
    printf '%s\n' 'Begin Host' 'HOST_NAME MXJ JL/U r1m pg ls tmp DISPATCH_WINDOW' 'default 16 () () () () () ()' \
        'End Host' >"$V/etc/lsb.hosts"
    printf '%s\n' 'Begin Parameters' 'DEFAULT_QUEUE = normal' 'MBD_SLEEP_TIME = 1' 'SBD_SLEEP_TIME = 1' \
        'JOB_ACCEPT_INTERVAL = 0' 'End Parameters' >"$V/etc/lsb.params"
    chown -R "$(awk -F: '$1 == "bob" { print $3 }' "$(cluster path)/etc/passwd")" "$V/work" "$V/log"
    local host daemon
    for host in hvdn{1..3}; do
        for daemon in lim res sbatchd; do
            as_root "$host" env LSF_ENVDIR="$V/etc" LSF_SERVERDIR="$HVD_VOLCLAVA/sbin" "$HVD_VOLCLAVA/sbin/$daemon" \
                </dev/null >>"$V/log/start" 2>&1 3>&-
        done
    done
    wait_for 120 hosts_ok
}
setup() { [[ ${HVD_VOLCLAVA-} ]] || skip "HVD_VOLCLAVA does not name an installation of volclava"; }
teardown() {
    if [[ ! ${HVD_VOLCLAVA-} ]]; then return 0; fi
    lsf bkill 0 >/dev/null 2>&1 || true
}

lsf() { on_host hvdn1 env LSF_ENVDIR="$V/etc" LSF_SERVERDIR="$HVD_VOLCLAVA/sbin" timeout 20 "$@"; }
hosts_ok() { [[ $(lsf bhosts 2>/dev/null | grep -c ' ok ') -eq 3 ]]; }

# job CMD: six slots on three hosts; what it prints is in $OUT, and its status behind that.
job() {
    OUT=$(home)/out.$BATS_TEST_NUMBER
    lsf bsub -n 6 -R 'span[ptile=2]' -o /dev/null "{ $1; } >$OUT 2>&1; printf '\nstatus %d\n' \$? >>$OUT"
}
over() { grep -q '^status ' "$OUT" 2>/dev/null; }
# job_ends SECONDS: $output and $status.
job_ends() {
    wait_for "$1" over || { cat "$OUT" && return 1; }
    output=$(<"$OUT")
    status=${output##*status }
}

# Logs what it gets, and takes two seconds to save.
rank_program() {
    script rank.py <<'END'
import os, signal, sys, time
def say(what): os.write(1, f"{what} {os.environ['HOROVOD_RANK']}\n".encode())
def term(*_):
    time.sleep(2)
    say("saved")
    os._exit(0)
for name in ("INT", "USR1", "USR2"):
    signal.signal(getattr(signal, "SIG" + name), lambda n, _: say(signal.Signals(n).name))
signal.signal(signal.SIGTERM, term)
say("ready")
while True: time.sleep(0.1)
END
}
every_rank() { wait_for "$1" all_said "$2" || { cat "$OUT" && return 1; }; }
all_said() { [[ $(grep -oP "^$1 \K\d" "$OUT" | sort -u | xargs) == "0 1 2 3 4 5" ]]; }

@test "a hundred starts succeed, and nothing of the last output is lost" {
    job 'for i in $(seq 100); do
        hvdrun --start-timeout 25 bash -c "echo out; echo err >&2; printf end >&2" || echo "start $i failed"; done'
    job_ends 400
    has_not "failed" "in time"
    [[ $(grep -o out <<<"$output" | wc -l) -eq 600 && $(grep -o err <<<"$output" | wc -l) -eq 600 &&
        $(grep -o end <<<"$output" | wc -l) -eq 600 ]] || { echo "$output" && return 1; }
}

@test "nice value and limit of locked memory reach other hosts, and a directory that they lack is named" {
    job 'ulimit -S -l 40; nice -n 3 hvdrun bash -c "echo \$(nice) \$(ulimit -l)"; mkdir -p /dev/shm/here; cd /dev/shm/here
        hvdrun echo unlikely'
    job_ends 60
    [[ $(sort -u <(head -n 6 "$OUT") | wc -l) -eq 1 ]] || { echo "$output" && return 1; }
    [[ $(head -n 1 "$OUT") == *" 40" ]]
    has ": cannot change to the directory /dev/shm/here: No such file or directory"
    has_not unlikely "installed"
    [[ $status -eq 1 ]]
}

@test "signals reach the ranks of a job that has run for a while, and its end leaves nothing" {
    rank_program
    job 'hvdrun python3 rank.py'
    every_rank 60 ready
    sleep 50
    lsf bkill -s USR1 0
    every_rank 20 SIGUSR1
    lsf bkill -s USR2 0
    every_rank 20 SIGUSR2
    lsf bkill 0
    job_ends 30
    every_rank 0 saved
    [[ $status -eq 130 ]]
    has_not "failed first" "ended before"
}
