#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Hosts without Slurm: are they, and the stand-in for ssh, what other tests take them for?

# shellcheck disable=SC2016,SC2154 # for shells on the hosts; what run sets

load helpers
load launch
load sshd

setup_file() { hosts_up --ssh --nodes 2; }
teardown_file() { cluster_down; }
teardown() { cluster_mend; }

@test "there is nothing of Slurm's or munge's; users log in to each node as themselves, and a launch works" {
    local host
    for host in hvdlogin hvdn1 hvdn2; do
        run as_root "$host" pgrep -l 'slurm|munge|sackd'
        exits 1
        run as_root "$host" ls /etc/slurm /run/munge
        has_not slurm.conf munge.socket
    done
    run cluster exec --host hvdctl true
    exits 2
    for host in hvdn1 hvdn2; do
        [[ $(on_login ssh "$host" 'hostname; id -un; pwd') == "$host"$'\nalice\n'"$(home)" ]]
        [[ $(as_user bob ssh "$host" 'hostname; id -un') == "$host"$'\nbob' ]]
    done
    [[ $(on_host hvdn1 ssh hvdn2 hostname) == hvdn2 ]]
    run on_login hvdrun --hosts hvdn1:2,hvdn2:1 hvd-selftest --quick
    selftest_ok 3 2
    assert_no_leftovers
}

# Who has not alice's word is not alice; to bob it is not readable.
@test "nobody logs in as another user" {
    local words
    words=$(cluster path)/ssh
    run as_user bob cat "$words/alice"
    exits 1
    mv "$words/alice" "$words/kept"
    run on_login ssh hvdn1 true
    mv "$words/kept" "$words/alice"
    exits 255
    has "alice@hvdn1: Permission denied (publickey)."
}

# what_becomes SSH… -- TAIL…: on the login host, its status and what it prints on both streams.
what_becomes() {
    local script='"$@" >out 2>err <input; echo "status $?"; md5sum <out; sed "s/\r$//; s/port 2222/port 22/" err; [ $(wc -c <out) -gt 200 ] || cat out'
    on_login bash -c "$script" - "$@"
}

# needs_ssh: there is a real sshd on hvdn1.
needs_ssh() {
    if ! sshd_can; then skip "OpenSSH is not installed"; fi
    SSHD_PORT=2222 sshd_prepare hvdn1
}

# alike WORD…: ssh and its stand-in do the same.
REAL=(/usr/bin/ssh -p 2222 -oStrictHostKeyChecking=no -oUserKnownHostsFile=/dev/null -oLogLevel=ERROR)
QUIET=(-T -a -x -oBatchMode=yes -oClearAllForwardings=yes -oControlMaster=no -oRemoteCommand=none -oConnectTimeout=3)
alike() {
    local real standin
    standin=$(what_becomes ssh "${QUIET[@]}" "$@")
    real=$(what_becomes "${REAL[@]}" "${QUIET[@]}" "$@")
    [[ $standin == "$real" ]] || { printf '%s\n' "$*" "ssh:" "$real" "its stand-in:" "$standin" && return 1; }
}

@test "the stand-in behaves as ssh does" {
    needs_ssh
    head -c 3000000 /dev/urandom >"$(home)/input"
    chmod 644 "$(home)/input"
    alike hvdn1 'exit 7'
    alike hvdn1 'exit 255'
    alike hvdn1 'kill -KILL $$'
    alike hvdn1 'no-such-command'
    alike -- hvdn1 echo "a  b" '$USER' '"c  d"' "it's"
    alike hvdn1 'pwd; echo "$USER $LOGNAME $HOME $SHELL $0 $#"; umask; ulimit -c'
    alike hvdn1 '[[ $(ps -o sid= -p $$) -eq $$ ]] && echo leads a session; [ -t 0 ] || echo no terminal; ls -l /proc/self/fd | grep -c pipe:'
    alike hvdn1 'md5sum; echo told >&2'
    alike hvdn1 'cat; echo and more >&2'
    alike hvdn1 'head -c 10 >/dev/null; echo rest unread'
    alike hvdn1 'exec >&- 2>&- <&-; sleep 0.5; exit 3'
    # It lasts until nobody holds the pipes.
    alike hvdn1 '{ sleep 1; echo late; } & echo early'
    alike hvdn1 'sleep 50 >/dev/null 2>&1 </dev/null & echo done'
    on_host hvdn1 pkill -f 'sleep 50'
    alike no-such-host true
    run what_becomes ssh hvdn2 -Z
    has "status 255" "hvdrun does not say -Z"
    run what_becomes ssh -Z hvdn2 true
    has "status 255" "hvdrun does not say -Z"
    fault sshd-kill hvdn2
    run what_becomes ssh hvdn2 true
    has "status 255" "ssh: connect to host hvdn2 port 22: Connection refused"
}

# ended_by SIGNAL SSH…: prints its status, and what became of the command: its input ends, and what it prints has no
# reader.
ended_by() {
    local status=0
    rm -f "$(home)"/{pid,input-ended,output-ended}
    on_login "${@:2}" hvdn1 'echo $$ >pid; cat >/dev/null; : >input-ended; trap "" PIPE; until ! echo x; do sleep 0.1; done; : >output-ended' \
        < <(sleep 20 3>&-) >/dev/null 2>&1 3>&- &
    wait_for 5 test -s "$(home)/pid"
    as_root hvdlogin pkill "-$1" -u alice -x ssh
    wait $! || status=$?
    wait_for 5 test -e "$(home)/output-ended"
    echo "$status $(cd "$(home)" && ls input-ended output-ended)"
}

@test "when ssh ends the command's pipes are closed, and nothing else happens to it" {
    needs_ssh
    local signal real standin
    for signal in TERM INT HUP KILL; do
        standin=$(ended_by "$signal" ssh)
        real=$(ended_by "$signal" "${REAL[@]}")
        [[ $standin == "$real" ]] || { echo "$signal: ssh: $real; its stand-in: $standin" && return 1; }
    done
}
