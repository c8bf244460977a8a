#!/usr/bin/env bats
# hvdrun on listed hosts, without a scheduler, through a real sshd on each of them.

load launch
load sshd

TTY=$BATS_TEST_DIRNAME/on_tty
EIGHT=hvdn1:2,hvdn2:2,hvdn3:2,hvdn4:2

setup_file() {
    if ! sshd_can; then skip "OpenSSH is not installed"; fi
    hosts_up --auth munge --nodes 4
    sshd_prepare hvdn1 hvdn2 hvdn3 hvdn4
}
setup() { KNOWN="$(home)/.ssh/known_hosts"; }
teardown() {
    local host
    cluster_mend
    login_shells_back
    as_root hvdlogin rm -f "$(home)/.bashrc"
    if [[ -e $KNOWN.good ]]; then as_root hvdlogin mv "$KNOWN.good" "$KNOWN"; fi
    for host in hvdn1 hvdn2 hvdn3 hvdn4; do sshd_up "$host"; done
}

over_ssh() { on_login hvdrun --hosts "$@"; }

# What the ranks print, in their order.
ranks_say() { sort -n <<<"$output"; }

@test "four hosts with two ranks each pass the self-test, and every rank is where it belongs" {
    selftest 8 4 over_ssh "$EIGHT" hvd-selftest
    gives 0 over_ssh "$EIGHT" bash -c 'echo "$HOROVOD_RANK $HOROVOD_LOCAL_RANK $HOROVOD_CROSS_RANK $HOROVOD_HOSTNAME $(hostname)"'
    ranks_said "0 0 0 hvdn1 hvdn1" "1 1 0 hvdn1 hvdn1" "2 0 1 hvdn2 hvdn2" "3 1 1 hvdn2 hvdn2" "4 0 2 hvdn3 hvdn3" \
        "5 1 2 hvdn3 hvdn3" "6 0 3 hvdn4 hvdn4" "7 1 3 hvdn4 hvdn4"
    nobody_left
}

@test "uneven hosts, fewer ranks than slots, a start on one of the hosts, a hostfile, and the name horovodrun" {
    selftest 6 3 over_ssh hvdn1:1,hvdn2:3,hvdn3:2 hvd-selftest --quick
    gives 0 over_ssh "$EIGHT" -np 5 bash -c 'echo "$HOROVOD_RANK $HOROVOD_HOSTNAME $HOROVOD_SIZE"'
    ranks_said "0 hvdn1 5" "1 hvdn1 5" "2 hvdn2 5" "3 hvdn2 5" "4 hvdn3 5"
    selftest 4 2 on_host hvdn2 hvdrun --hosts hvdn1:2,hvdn2:2 hvd-selftest --quick
    printf 'hvdn3 slots=2\nhvdn4 slots=1\n' >"$(home)/hosts"
    selftest 3 2 on_login bash -c 'exec -a horovodrun hvdrun -np 3 -hostfile hosts hvd-selftest --quick'
    nobody_left
}

@test "environment, directory and input arrive exactly" {
    local value=$'two\nlines, \'single\' "double" $(x) `y` \\ \t!* end'
    as_root hvdlogin mkdir -p "$(home)/a dir 'q'"
    export HVD_T_VALUE="$value" CUDA_VISIBLE_DEVICES=3 X_CUDA_VISIBLE_DEVICES=4 SSH_HVD_T=5
    HVD_T_BIG=$(head -c 100000 /dev/zero | tr '\0' x)
    export HVD_T_BIG
    gives 0 cluster exec --cwd "$(home)/a dir 'q'" -- hvdrun --hosts hvdn1:1,hvdn2:1 python3 -c '
import os, sys
if os.environ["HOROVOD_RANK"] == "1":
    print(repr(os.environ["HVD_T_VALUE"]))
    print(os.getcwd())
    print(len(os.environ["HVD_T_BIG"]), set(os.environ["HVD_T_BIG"]))
    print([n for n in os.environ if "CUDA" in n or n in ("SSH_HVD_T", "OLDPWD") or n.startswith(("BASH_FUNC", "SLURM_HVD"))])
    print(sys.argv[1:])' "a b" '*' '$HOME' "it's" ''
    unset HVD_T_BIG
    [[ $output == "$(python3 -c 'import sys; print(repr(sys.argv[1]))' "$value")
$(home)/a dir 'q'
100000 {'x'}
[]
['a b', '*', '\$HOME', \"it's\", '']" ]] || { echo "$output" && return 1; }
    output=$(seq 100000 | over_ssh hvdn1:2,hvdn2:1 bash -c 'wc -l | sed "s/^/$HOROVOD_RANK /"')
    ranks_said "0 100000" "1 0" "2 0"
    seq 50000 >"$(home)/numbers"
    output=$(over_ssh hvdn1:1,hvdn2:1 bash -c 'wc -l | sed "s/^/$HOROVOD_RANK /"' <"$(home)/numbers")
    ranks_said "0 50000" "1 0"
    nobody_left
}

@test "no secret is on a command line, or in the environment of ssh, node agents or ranks" {
    begin over_ssh hvdn1:1,hvdn2:1 bash -c 'echo ready; sleep 50'
    says_times 10 2 ready
    for host in hvdlogin hvdn1 hvdn2; do
        run as_root "$host" bash -c 'cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr "\0" "\n" | grep -E "[S]LURM_HVD_BOOT|;[s]ession=|[0-9a-f]{64}"'
        [ -z "$output" ] || { echo "$host: $output" && return 1; }
    done
    on_host hvdlogin pkill -TERM -o -x hvdrun
    ended 10 143
    nobody_left
}

@test "a rank that exits with 255 is not taken for an ssh that failed" {
    begin over_ssh hvdn1:1,hvdn2:1 bash -c '[ $HOROVOD_RANK = 1 ] && exit 255; sleep 50'
    ended 15 255
    has "rank 1 on hvdn2 failed first: exit code 255"
    has_not "ended before" "connection to it has ended"
    nobody_left
}

@test "one ssh killed: the launch ends, with the host's name" {
    begin over_ssh "$EIGHT" "${HANG_PAGE[@]}" bash -c 'echo ready; setsid sleep 49 & sleep 50'
    says_times 15 8 ready
    hang_page 8
    on_host hvdlogin pkill -KILL -f 'ssh .* hvdn3 '
    ended 15
    [ "$status" -ne 0 ]
    has "hvdn3: its ssh ended before its ranks did: killed by signal 9"
    end_page
    nobody_left 10
}

# Rank 0 fails as Gloo does when rank 1, on another host, has gone.
PAIR='import os, socket, sys, time
if os.environ["HOROVOD_RANK"] == "0":
    server = socket.create_server(("", 7099))
    peer = server.accept()[0]
    print("ready", flush=True)
    peer.recv(1)
    sys.exit("RuntimeError: Connection closed by peer [10.77.0.12]:7099")
while True:
    try:
        peer = socket.create_connection(("hvdn1", 7099))
        break
    except OSError:
        time.sleep(0.1)
peer.recv(1)'

@test "a node agent is killed: it is named, and not a rank that has lost its peer there, although its ssh is still there" {
    begin over_ssh hvdn1:1,hvdn2:1 python3 -c "$PAIR"
    says 15 ready
    on_host hvdlogin pkill -STOP -f 'ssh .* hvdn2 '
    as_root hvdn2 pkill -KILL -u alice -x hvd-agent
    ended 30 1
    has "hvd-agent on hvdn2 failed first" "it had started the ranks there, which ended with it" \
        "the first rank to fail was rank 0 on hvdn1"
    nobody_left
}

@test "a wrong host key and a refused login are named" {
    as_root hvdlogin cp "$KNOWN" "$KNOWN.good"
    as_root hvdlogin sed -i "s|^hvdn3 .*|hvdn3 $(cut -d' ' -f1,2 "$SSHD/other.pub")|" "$KNOWN"
    begin over_ssh "$EIGHT" bash -c 'echo ready; sleep 50'
    ended 10 1
    has "Host key verification failed" "hvdrun: error: hvdn3: ssh cannot reach it" "ssh -oBatchMode=yes hvdn3 true"
    has_not ready
    nobody_left
    # horovodrun goes to hosts that it has never seen, and to those that have another key.
    gives 0 on_login bash -c 'exec -a horovodrun hvdrun -np 2 -H hvdn2:1,hvdn3:1 echo came'
    has "[0]<stdout>:came" "[1]<stdout>:came"
    as_root hvdlogin sed -i "/^hvdn3 /d" "$KNOWN"
    gives 1 over_ssh hvdn3:1 true
    has "Host key verification failed"
    gives 0 on_login bash -c 'exec -a horovodrun hvdrun -np 1 -H hvdn3:1 echo came'
    has "[0]<stdout>:came"
    nobody_left
    as_root hvdlogin mv "$KNOWN.good" "$KNOWN"
    sshd_down hvdn2
    sshd_up hvdn2 "$SSHD/other.pub"
    begin over_ssh "$EIGHT" true
    ended 10
    sshd_down hvdn2
    exits 1
    has "Permission denied" "hvdrun: error: hvdn2: ssh cannot reach it"
    nobody_left
}

# ranks_are STATE HOST: both ranks there, with the first letter of ps's state.
ranks_are() {
    # A child that has not become sleep yet looks like its rank, and is of the same group.
    [[ $(as_root "$2" ps -u alice -o stat=,pgid=,args= |
        awk '$3 == "bash" && $5 == "trap" { print substr($1, 1, 1), $2 }' |
        sort -u | cut -d ' ' -f 1 | uniq -c | tr -d ' ') == "2$1" ]]
}

@test "SIGTSTP stops the ranks on all hosts, SIGCONT continues them" {
    # A shell in between, as the program that enters the host stops when its child does.
    begin on_login bash -c 'hvdrun --hosts "$@"; exit' - "$EIGHT" \
        bash -c 'trap "exit 0" TERM; echo ready; while :; do sleep 0.2; done'
    says_times 20 8 ready
    gives 0 on_login hvdrun --status "pid:$(on_host hvdlogin pgrep -x hvdrun)" --rank=7
    has "hosts: 4 here" "ranks: 1 running" "its last lines (" "ready"
    on_host hvdlogin pkill -TSTP -x hvdrun
    for host in hvdn1 hvdn2 hvdn3 hvdn4; do wait_for 10 ranks_are T "$host"; done
    wait_for 10 is_stopped
    on_host hvdlogin pkill -CONT -x hvdrun
    for host in hvdn1 hvdn2 hvdn3 hvdn4; do wait_for 10 ranks_are S "$host"; done
    on_host hvdlogin pkill -TERM -x hvdrun
    ended 15 143
    nobody_left
}
is_stopped() { [[ $(on_host hvdlogin ps -C hvdrun -o stat=) == T* ]]; }

@test "a host that refuses ssh, and one that does not answer, are named" {
    sshd_down hvdn4
    begin over_ssh "$EIGHT" true
    ended 10 1
    has "hvdrun: error: hvdn4: ssh cannot reach it"
    fault silence hvdn3
    sshd_up hvdn4
    begin on_login hvdrun --start-timeout 4 --hosts "$EIGHT" true
    ended 9 1
    has "hvdrun: error: hvdn3: ssh cannot reach it"
    has_not "hvdn1" "hvdn2" "hvdn4"
    # In an elastic job, too, a person sees what is waited for before the time is over.
    run timeout 30 "$BATS_TEST_DIRNAME/on_tty" --wait "still starting" --wait "no registration from hvdn3" -- \
        "$HVD_CLUSTER_CMD" exec -- hvdrun --start-timeout 4 --elastic-timeout 5 -np 2 --min-np 2 --max-restarts 1 --hosts hvdn3,hvdn4 true
    [[ $status -eq 1 ]]
    fault clear
    nobody_left
}

@test "a host without hvd-agent, and one without the current directory, are named" {
    as_root hvdn2 mount -t tmpfs none "$B/libexec/hvd"
    begin over_ssh hvdn1:2,hvdn2:2 true
    ended 10
    as_root hvdn2 umount "$B/libexec/hvd"
    exits 1
    has "hvdrun: error: hvdn2: $B/bin/../libexec/hvd/hvd-agent cannot be run there" "same path on all hosts"
    nobody_left
    as_root hvdlogin mkdir -p /dev/shm/here
    begin cluster exec --cwd /dev/shm/here -- hvdrun --hosts hvdn1:2,hvdn2:2 true
    ended 10
    as_root hvdlogin rmdir /dev/shm/here
    exits 1
    has ": cannot change to the directory /dev/shm/here: No such file or directory" \
        "the current directory does not exist there" "that exists under the same path on all hosts"
    nobody_left
}

@test "--dry-run shows each ssh, and options that ssh cannot honour are refused" {
    gives 0 over_ssh hvdlogin:1,hvdn1:2 --dry-run -np 3 --ssh-port 2222 --ssh-identity-file key echo "a b"
    has "# backend: ssh" "ssh -T -a -x -oBatchMode=yes" " -oConnectTimeout=29 -p2222 -i key -- hvdn1 'exec " \
        "--stdin --host=1:2:hvdn1 --ranks=1:2" "--host=0:2:hvdlogin --ranks=0:1"
    [[ $(grep -c "ssh -T" <<<"$output") -eq 1 ]]
    [[ $(grep -cx "# and on its stdin, .*: hvd-agent host .*-- echo 'a b'" <<<"$output") -eq 2 ]]
    gives 2 on_login hvdrun --launcher ssh true
    has "needs a list of hosts"
    gives 0 on_login hvdrun --hosts localhost:2 --dry-run true
    has "# backend: fork"
    run on_login hvdrun --check-build
    has "[X] ssh"
    gives 1 on_login env HVD_SSH=/no/such/ssh hvdrun --hosts hvdn1:1 true
    has "cannot run /no/such/ssh"
    nobody_left
}

@test "this machine among the hosts needs no ssh; HVD_SSH names another ssh" {
    script myssh <<'END'
#!/bin/sh
echo "for: $*" >>~/used
exec ssh "$@"
END
    selftest 3 2 on_login env HVD_SSH="$(home)/myssh" hvdrun --hosts hvdlogin:1,hvdn2:2 hvd-selftest --quick
    [[ $(grep -c '^for: .* -- hvdn2 exec' "$(home)/used") -eq 1 ]]
    [[ $(wc -l <"$(home)/used") -eq 1 ]]
    nobody_left
}

# pods: makes ~/kubectl, whose pods are the hosts.
pods() {
    script kubectl <<'END'
#!/bin/bash
[[ "$1 $2 $4 $5 $6 $#" == "exec -i -- /bin/sh -c 7" ]] || { echo "kubectl: $*" >&2 && exit 9; }
echo "$3" >>~/used-pods
exec ssh "$3" "exec /bin/sh -c $(printf %q "$7")"
END
}

@test "ranks in pods: by kubectl exec -i in ssh's place, and by Kubeflow's kubexec.sh under mpirun" {
    pods
    cp "$BATS_TEST_DIRNAME/../../scripts/examples/kubectl-ssh.sh" "$(home)/"
    selftest 4 2 on_login env HVD_SSH="$(home)/kubectl-ssh.sh" KUBECTL="$(home)/kubectl" \
        hvdrun --hosts hvdn1:2,hvdn2.ns.svc:2 hvd-selftest --quick
    [[ $(sort "$(home)/used-pods" | xargs) == "hvdn1 hvdn2" ]]
    # As Kubeflow's MPI operator of before v2 has it: no options, no stdin.
    script kubexec.sh <<'END'
#!/bin/bash
echo "$1" >>~/used-by-mpirun
exec ssh -n "$1" "exec /bin/sh -c $(printf %q "${*:2}")"
END
    if ! command -v mpirun.openmpi >/dev/null; then return 0; fi
    # Open MPI 5 reads the second variable, and earlier ones the first.
    selftest 4 2 on_login env HVD_MPIRUN=mpirun.openmpi OMPI_MCA_plm_rsh_agent="$(home)/kubexec.sh" PRTE_MCA_plm_ssh_agent="$(home)/kubexec.sh" \
        hvdrun --launcher=mpirun --hosts hvdn1:2,hvdn2:2 hvd-selftest --quick
    [[ $(sort "$(home)/used-by-mpirun" | xargs) == "hvdn1 hvdn2" ]]
    nobody_left
}

# Forty hosts: copies of a stand-in for ssh that never connects, or that runs the node agent on this machine.
FORTY=$(seq -f 'h%g:1' -s, 40)

@test "at most 32 ssh connect at a time, and the next one follows" {
    script stand_in <<'END'
#!/bin/bash
exec sleep 47
END
    begin on_login env HVD_SSH="$(home)/stand_in" hvdrun --hosts "$FORTY" true
    wait_for 10 thirty_two
    sleep 0.5
    thirty_two
    on_host hvdlogin pkill -TERM -o -x hvdrun
    ended 10 143
    nobody_left
    script stand_in <<'END'
#!/bin/bash
exec sh -c "${@: -1}"
END
    gives 0 on_login env HVD_SSH="$(home)/stand_in" hvdrun --hosts "$FORTY" bash -c 'echo "$HOROVOD_RANK $HOROVOD_HOSTNAME"'
    [[ $(ranks_say) == "$(for i in {1..40}; do echo "$((i - 1)) h$i"; done)" ]] || { echo "$output" && return 1; }
    nobody_left
}
thirty_two() { [[ $(on_host hvdlogin pgrep -c -f '^sleep 47') -eq 32 ]]; }

@test "Ctrl-C, or hvdrun killed, while a host does not answer leaves nothing" {
    fault silence hvdn3
    begin timeout 60 "$TTY" --sleep 2 --type ^C -- "$HVD_CLUSTER_CMD" exec -- hvdrun --hosts "$EIGHT" echo ready
    ended 10 130
    has_not ready
    begin over_ssh "$EIGHT" echo ready
    wait_for 10 runs_on hvdn4 hvd-agent
    on_host hvdlogin pkill -KILL -x hvdrun
    ended 10
    fault clear
    nobody_left
}

@test "ssh's port and key can be named; lines are labelled; output goes to files" {
    sshd_down hvdn1
    as_root hvdn1 /usr/sbin/sshd -f "$SSHD/hvdn1.conf" -E "$SSHD/hvdn1.log" -p 2222 3>&-
    as_root hvdlogin mv "$(home)/.ssh/id_ed25519" "$(home)/key"
    run over_ssh hvdn1:2 --ssh-port 2222 echo unlikely
    local refused=$output
    run on_login bash -c 'exec -a horovodrun hvdrun -np 2 -H hvdn1:2 -p 2222 -i key --output-filename out \
        bash -c "echo said; echo told >&2"'
    as_root hvdlogin mv "$(home)/key" "$(home)/.ssh/id_ed25519"
    sshd_down hvdn1
    exits 0
    has "[0]<stdout>:said" "[1]<stdout>:said" "[0]<stderr>:told" "[1]<stderr>:told"
    [[ $(cat "$(home)"/out/rank.*/stdout) == *said* ]] || { head "$(home)"/out/rank.*/* && return 1; }
    output=$refused
    has "ssh -oBatchMode=yes -p2222 hvdn1 true" "does its sshd listen on that port"
    has "Permission denied" "hvdn1: ssh cannot reach it"
    has_not unlikely
    nobody_left
}

# login_shell HOST PATH: alice's login shell there.
login_shell() {
    as_root "$1" bash -c "sed '/^alice:/s|[^:]*\$|$2|' /etc/passwd >$SSHD/passwd-$1 && mount --bind $SSHD/passwd-$1 /etc/passwd"
}
login_shells_back() {
    local host=hvdn2
    # The cluster has its own file there, below this one.
    if as_root "$host" grep -q "/passwd-$host /etc/passwd " /proc/self/mountinfo; then as_root "$host" umount /etc/passwd; fi
}

# Words that no two of these shells would read in the same way.
HARD=($'two\nlines' 'a\\b' 'a\b' "it's" 'wow!' '!!' '$HOME' '`x`' '%self' '~' '*' '' '"' $'tab\t' '^a^b' '{a,b}' \\)
TELL='import os, sys
if os.environ["HOROVOD_RANK"] == "1": print(sys.argv[1:] == eval(os.environ["HVD_T_WORDS"]) or sys.argv[1:])'

@test "tcsh, fish, zsh and dash as login shells: the words of the command arrive as they were given" {
    local shell missing=()
    HVD_T_WORDS=$(python3 -c 'import sys; print(sys.argv[1:])' "${HARD[@]}")
    export HVD_T_WORDS
    for shell in tcsh fish zsh dash; do
        if [[ ! -x /usr/bin/$shell ]]; then missing+=("$shell") && continue; fi
        login_shell hvdn2 "/usr/bin/$shell"
        run over_ssh hvdn1:1,hvdn2:1 python3 -c "$TELL" "${HARD[@]}"
        login_shells_back
        [[ $status -eq 0 && $output == True ]] || { echo "$shell: $output" && return 1; }
    done
    nobody_left
    if ((${#missing[@]})); then skip "not installed: ${missing[*]}; the others passed"; fi
}

@test "a .bashrc that starts another shell: named, and that shell runs and shows nothing of the launch's data" {
    local shell missing=() rc
    rc="$(home)/.bashrc"
    export HVD_T_SHELL=$'x\ntouch ~/was-run; echo was-shown\n'
    for shell in fish zsh tcsh dash "fish -l" "zsh -i"; do
        if [[ ! -x /usr/bin/${shell% *} ]]; then missing+=("$shell") && continue; fi
        as_root hvdlogin bash -c "echo 'exec /usr/bin/$shell' >'$rc' && chmod 644 '$rc'"
        run over_ssh hvdn1:1,hvdn2:1 echo ready </dev/null
        as_root hvdlogin rm "$rc"
        [[ $status -eq 1 ]] || { echo "$shell: status $status: $output" && return 1; }
        has "a start file of the login shell there starts another shell in place of hvd-agent" "exec fish; or make"
        has_not ready was-shown HVDP "exit 122"
        [[ ! -e $(home)/was-run ]]
        nobody_left
    done
    if ((${#missing[@]})); then skip "not installed: ${missing[*]}; the others passed"; fi
}
