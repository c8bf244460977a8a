#!/usr/bin/env bats
# hvdrun without a scheduler starts ranks on this machine.  Here that is the login host of a
# cluster, so that processes that are left are seen.

load launch

setup_file() { suite_up --nodes 1; }
teardown() {
    as_root hvdlogin pkill -KILL -u alice || true
    cluster_mend
}

TTY=$BATS_TEST_DIRNAME/on_tty

forked() { on_login hvdrun --launcher fork -np 4 "$@"; }
four() { [[ $(grep -c "$1" <<<"$output") -eq 4 ]] || { echo "$output" && return 1; }; }

# history FILTER: what jq makes of the line of --json.
history() { jq -r "$1" <<<"$(tail -n 1 <<<"$output")"; }

# fed SCRIPT CMD…: CMD on the login host with the script on its standard input.
fed() { on_login "${@:2}" <<<"$1"; }

# nobody_left SECONDS: alice has no process within that time.
nobody_left() {
    wait_for "$1" nobody || { as_root hvdlogin ps -u alice -f && return 1; }
}
nobody() { ! as_root hvdlogin pgrep -u alice >/dev/null; }

@test "-np 4 runs four ranks on this machine" {
    selftest 4 1 on_login hvdrun -np 4 --selftest -- --quick
    gives 0 on_login hvdrun -np 4 bash -c 'echo "$HOROVOD_RANK/$HOROVOD_SIZE $HOROVOD_LOCAL_RANK/$HOROVOD_LOCAL_SIZE $HOROVOD_CROSS_RANK/$HOROVOD_CROSS_SIZE"'
    for rank in 0 1 2 3; do has "$rank/4 $rank/4 0/1"; done
    nobody_left 2
    assert_no_leftovers
}

@test "without an option of srun's ranks run here, and a line says so where there is a Slurm" {
    local here="the ranks run on hvdlogin, outside of Slurm" how
    for how in "-np 2" "-np 2 -v" "-np 2 --min-np 2" ""; do
        # shellcheck disable=SC2086
        gives 0 on_login hvdrun $how hostname
        has hvdlogin "$here" "--launcher=srun"
    done
    for how in "--launcher=fork -np 2" "--hosts localhost:2" "-np 2 -Q"; do
        # shellcheck disable=SC2086
        gives 0 on_login hvdrun $how hostname
        [ "$output" = $'hvdlogin\nhvdlogin' ]
    done
    gives 0 on_login env PATH=/nowhere "$B/bin/hvdrun" -np 2 /usr/bin/hostname
    [ "$output" = $'hvdlogin\nhvdlogin' ]
    nobody_left 2
}

@test "training begins when all ranks have called init_process_group(), not with their imports" {
    cp "$BATS_TEST_DIRNAME/lib/tcpstore_client.py" "$(home)/"
    run on_login hvdrun --launcher=fork -np 2 --max-restarts=1 --json \
        sh -c 'sleep 1; exec python3 tcpstore_client.py --exit $((1 - TORCHELASTIC_RESTART_COUNT))'
    exits 0
    has "% of " " were training; starting took " "ranks until init_process_group() "
    [[ $(history '[.history[].init >= 1, .goodput.init >= 2, .goodput.training < 1, .goodput.goodput < 0.5] | all') == true ]]
    # Whoever calls it in no generation may have trained all the time.
    run on_login hvdrun --launcher=fork -np 2 --max-restarts=1 --json sh -c 'sleep 1; exit $((1 - TORCHELASTIC_RESTART_COUNT))'
    exits 0
    has "ranks ran in "
    [[ $(history '.goodput.init == 0 and .goodput.training >= 2') == true ]]
    rm "$(home)/tcpstore_client.py"
    nobody_left 2
}

@test "a script on standard input, which not all ranks get: a line says so, and what to write" {
    local only="from standard input, which only rank 0 gets: all others run nothing"
    gives 0 fed 'echo "of $RANK"' hvdrun --launcher=fork -np 2 bash -s
    has "of 0" "hvdrun: warning: bash reads its program $only" "write bash FILE"
    has_not "of 1" --input
    gives 0 fed 'import os; print("of", os.environ["RANK"])' hvdrun --launcher=fork -np 2 python3 -u -
    has "of 0" "warning: python3 reads its program $only" "write python3 FILE"
    gives 0 fed 'echo "of $RANK"' hvdrun --launcher=fork -np 2 --max-restarts=0 bash
    has "warning: bash reads its program from standard input, which ranks of an elastic job do not get"
    has_not "of 0"
    gives 0 fed 'echo "of $HOROVOD_RANK"' bash -c 'exec -a horovodrun hvdrun --launcher=srun -N1 -np 2 bash -s'
    has "of 0" "warning: bash reads its program $only" "--input=all"
    # One rank, all ranks by srun, and a script that is a file.
    gives 0 fed 'echo "of $RANK"' hvdrun --launcher=fork -np 1 bash -s
    [ "$output" = "of 0" ]
    for with in "srun --hvd" hvdrun; do
        # shellcheck disable=SC2086
        gives 0 fed 'echo "of $RANK"' $with -N1 -n2 bash -s
        has "of 0" "of 1"
        has_not warning
    done
    gives 0 fed 'no program' hvdrun --launcher=fork -np 2 bash -c cat
    [ "$output" = "no program" ]
    nobody_left 2
}

@test "--requeue-on outside of a batch job warns" {
    gives 0 on_login hvdrun --launcher=fork -np 2 --requeue-on=node hostname
    has "hvdrun: warning: --requeue-on has no effect outside of a batch job" hvdlogin
    # A site's default is no mistake of the user's.
    gives 0 on_login env HVD_REQUEUE_ON=node hvdrun --launcher=fork -np 2 hostname
    [ "$output" = $'hvdlogin\nhvdlogin' ]
}

@test "the reader of the output ends, as head does: that is named as the cause" {
    script chatter <<'END'
import sys
while True:
    print("said", flush=True)
END
    gives 0 on_login bash -c 'hvdrun --launcher=fork -np 2 python3 chatter 2>err | head -n 3; cat err'
    has said "BrokenPipeError" "the program that read the output has ended (| head"
    has_not "did a host or the network fail"
    gives 0 on_login bash -c 'hvdrun --launcher=fork -np 2 yes said 2>err | head -n 3; cat err'
    has "signal 13" "the program that read the output has ended"
    nobody_left 2
}

own_address() { cluster exec -- getent ahostsv4 hvdlogin | awk 'NR == 1 { print $1 }'; }

# with_hosts LINE… -- CMD…: runs CMD with these lines in everybody's /etc/hosts, and sets $status and $output as run does.
with_hosts() {
    local hosts before lines=()
    hosts=$(cluster path)/etc/hosts
    before=$(<"$hosts")
    while [[ $1 != -- ]]; do lines+=("$1") && shift; done
    printf '%s\n' "${lines[@]}" >>"$hosts"
    run "${@:2}"
    echo "$before" >"$hosts"
}

@test "a listed address of this machine is this machine, and so is a name that leads to it" {
    local own own6 host place='echo "$HOROVOD_RANK/$HOROVOD_SIZE $HOROVOD_LOCAL_RANK on $(hostname)"'
    own=$(own_address)
    own6=$(on_login ip -6 -o addr show dev eth0 scope global | awk 'NR == 1 { sub("/.*", "", $4); print $4 }')
    for host in "$own" "[$own6]" 127.0.1.1 "[::1]" localhost; do
        gives 0 on_login hvdrun --hosts "$host:2" sh -c "$place"
        has "0/2 0 on hvdlogin" "1/2 1 on hvdlogin"
    done
    with_hosts "$own alias.example.org" -- on_login hvdrun --hosts alias.example.org:2 sh -c "$place"
    exits 0
    has "0/2 0 on hvdlogin" "1/2 1 on hvdlogin"
    # A discovery script may print addresses, too.
    echo "echo $own:2" >"$(home)/discover"
    chmod +x "$(home)/discover"
    gives 0 on_login hvdrun -np 2 --min-np 2 --host-discovery-script ./discover --max-restarts=0 sh -c "$place"
    has "0/2 0 on hvdlogin" "1/2 1 on hvdlogin"
    nobody_left 2
    assert_no_leftovers
}

@test "a name is not this machine's for its first label" {
    local own
    own=$(own_address)
    gives 0 on_login hvdrun --dry-run --hosts hvdlogin.any.domain:2 true
    has "backend: ssh" "-- hvdlogin.any.domain "
    with_hosts "${own%.*}.250 hvdlogin.any.domain" -- on_login hvdrun --dry-run --hosts hvdlogin.any.domain:2 true
    has "backend: ssh" "-- hvdlogin.any.domain "
    with_hosts "$own hvdlogin.any.domain" -- on_login hvdrun --dry-run --hosts hvdlogin.any.domain:2 true
    exits 0
    has "backend: fork"
    # One of several hosts that share a name, as login hosts do.
    with_hosts "$own login.any.domain" "${own%.*}.250 login.any.domain" -- \
        on_login hvdrun --dry-run --hosts login.any.domain:2 true
    has "backend: ssh"
}

@test "name servers that do not answer delay a launch by two seconds, not by each name" {
    local etc late=''
    etc=$(cluster path)/etc
    as_root hvdn1 python3 -c '
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 53))
time.sleep(60)' 3>&- &
    wait_for 10 as_root hvdn1 sh -c 'ss -Hlun sport = :53 | grep -q .'
    sed -i 's/^hosts:.*/hosts: files dns/' "$etc/nsswitch.conf"
    echo "nameserver $(cluster exec -- getent ahostsv4 hvdn1 | awk 'NR == 1 { print $1 }')" >"$etc/resolv.conf"
    begin on_login hvdrun --dry-run --hosts "$(printf 'n%d.example.org:1,' {1..100})localhost:1" true
    ended 5 || late=1
    sed -i 's/^hosts:.*/hosts: files/' "$etc/nsswitch.conf"
    echo '# no name servers here' >"$etc/resolv.conf"
    as_root hvdn1 pkill -KILL -x python3
    [[ ! $late ]]
    exits 0
    has "backend: ssh" "-- n100.example.org "
}

@test "any option of srun's has srun start the ranks" {
    for how in "-n 2" "-np 2 -l" "-np 2 --kill-on-bad-exit=0" "-np 2 -J name" "-np 2 --export=ALL" "-np 2 --output=none" \
        "-np 2 -u" "-np 2 -N 1" "--launcher=srun -np 2"; do
        # shellcheck disable=SC2086
        gives 0 on_login hvdrun $how sh -c 'test "$SLURMD_NODENAME" = hvdn1'
        has_not "outside of Slurm"
    done
    # With listed hosts, options that are not for srun alone change nothing, and those for srun alone are refused.
    gives 0 on_login hvdrun --hosts localhost:2 -l hostname
    has "0: hvdlogin" "1: hvdlogin"
    gives 2 on_login hvdrun --hosts localhost:2 -J name hostname
    has "hosts are listed"
    gives 2 on_login hvdrun --launcher=fork -np 2 -J name hostname
    has "--job-name is an option of srun, but srun does not start the ranks"
    gives 0 on_login hvdrun -n 2 --min-np 1 hostname
    has "salloc: Granted job allocation"
    gives 2 on_login env PATH=/nowhere "$B/bin/hvdrun" -np 2 -J name hostname
    has "--job-name is an option of srun, but srun is not in PATH"
    nobody_left 2
    assert_no_leftovers
}

@test "--keep-going lets the other ranks go on" {
    gives 7 forked --keep-going bash -c '[ $HOROVOD_RANK = 2 ] && exit 7; sleep 1; echo went on'
    [[ $(grep -c "went on" <<<"$output") -eq 3 ]]
    nobody_left 2
}

@test "ranks that do not end by SIGTERM are killed after --kill-wait" {
    local saves='trap "sleep 3; echo saved; exit 1" TERM; [ $HOROVOD_RANK != 0 ] || { sleep 0.5; exit 7; }
        while :; do sleep 0.1; done'
    begin forked --kill-wait 1 bash -c "$saves"
    ended 6 7
    has_not saved
    nobody_left 2
    begin on_login env HVD_KILL_WAIT=100 hvdrun --launcher fork -np 4 bash -c "$saves"
    ended 8 7
    [[ $(grep -c saved <<<"$output") -eq 3 ]]
    nobody_left 2
}

@test "a rank that SIGKILL does not end is named, and the launch ends without it" {
    hung_fs hvdlogin hung
    begin forked --kill-wait 1 bash -c 'case $HOROVOD_RANK in 0) sleep 1; exit 7 ;; 1) exec stat hung/file ;; esac; exec sleep 60'
    ended 20 7
    has "localhost: rank 1 cannot be killed: process" "has not ended 5 s after SIGKILL (state D)" \
        "rank 0 on localhost failed first: exit code 7"
    has_not "rank 2 cannot" GPUs
    begin forked bash -c 'if [ $HOROVOD_RANK = 1 ]; then stat hung/file & fi; sleep 0.5'
    ended 20
    exits 0
    has "localhost: a process of rank 1 cannot be killed: process"
    hung_fs_end hvdlogin
    nobody_left 2
}

@test "a second Ctrl-C kills the ranks at once" {
    begin timeout 60 "$TTY" --wait ready --sleep 0.5 --type ^C --sleep 0.3 --type ^C -- "$HVD_CLUSTER_CMD" exec -- \
        hvdrun --launcher fork -np 4 bash -c 'trap "" INT TERM; echo ready; while :; do sleep 1; done'
    ended 4 130
    nobody_left 2
}

# at_prompt STEP…: the steps of on_tty in an interactive shell on the login host, which then ends.
at_prompt() {
    begin timeout 60 "$TTY" --wait '>> ' "$@" --wait '>> ' --type $'exit\r' -- "$HVD_CLUSTER_CMD" exec -- \
        env 'PS1=>> ' bash --norc --noediting -i
    ended 30 || { as_root hvdlogin ps -u alice -f && return 1; }
}
enter() { printf '%s\r' "$*"; }

@test "at a terminal rank 0 reads what is typed, and the shell stops and continues all ranks" {
    script job <<'END'
echo "up $RANK"
[ "$RANK" = 0 ] || exec sleep 50
sleep 51 &
read -r line && echo "got:$line"
END
    at_prompt --type "$(enter hvdrun -Q --launcher=fork -np 2 bash ./job)" --wait "up 0" --sleep 0.3 \
        --type ^Z --wait Stopped --type "$(enter ps -o comm=,stat= -u alice)" --wait "ps " \
        --type "$(enter fg)" --sleep 0.3 --type "$(enter hello)" --wait got:hello --type ^C --wait '>> ' --type "$(enter 'echo status $?')"
    has got:hello "interrupted: ending the ranks" "status 130"
    [ "$(grep -cE '^sleep +T' <<<"$output")" -eq 2 ]
    nobody_left 2
    # In the background it is stopped, with the whole job, when it reads.
    at_prompt --type "$(enter 'hvdrun -Q --launcher=fork -np 2 bash ./job &')" --wait "up 0" --sleep 0.8 --type $'\r' --wait Stopped \
        --type "$(enter fg)" --sleep 0.3 --type "$(enter hi)" --wait got:hi --type ^C
    has got:hi
    nobody_left 2
}

@test "at a terminal a debugger and a shell can be rank 0, and a rank that is killed leaves the terminal usable" {
    script debugged.py <<'END'
import os
if os.environ["RANK"] == "0":
    breakpoint()
print("after", os.environ["RANK"])
END
    at_prompt --type "$(enter hvdrun -Q --launcher=fork -np 2 python3 debugged.py)" --wait '(Pdb)' --type "$(enter p 6*7)" --wait 42 \
        --type "$(enter c)" --wait "after 0" --wait '>> ' --type "$(enter 'echo status $?')"
    has "after 1" "status 0"
    script shell <<'END'
[ "$RANK" = 0 ] || exec sleep 50
PS1='in>> ' exec bash --norc --noediting -i
END
    # The shell has a process group of its own in the foreground, and Ctrl-C is for that.
    at_prompt --type "$(enter hvdrun -Q --launcher=fork -np 2 bash ./shell)" --wait 'in>> ' --type "$(enter sleep 50)" --sleep 0.3 --type ^C \
        --wait 'in>> ' --type "$(enter 'echo rank "$RANK"')" --wait "rank 0" --type "$(enter 'stty -echo -icanon; kill -KILL $$')" \
        --wait '>> ' --type "$(enter 'stty -a | tr " " "\n" | grep -xE -e "-?(echo|icanon);?" | tr "\n" .; tty -s && echo tty')"
    has "rank 0" "rank 0 on localhost failed first: killed by signal 9" "icanon.echo.tty"
    nobody_left 2
}

@test "SIGTERM and SIGHUP to hvdrun end the ranks" {
    for signal in TERM:143 HUP:129; do
        begin forked bash -c 'echo ready; sleep 50'
        says_times 10 4 ready
        on_host hvdlogin pkill "-${signal%:*}" -o -x hvdrun
        ended 8
        exits "${signal#*:}"
        nobody_left 2
    done
}

@test "USR1 reaches the ranks" {
    begin forked bash -c 'trap "echo got it; exit 0" USR1; echo ready; while :; do sleep 0.2; done'
    says_times 10 4 ready
    sleep 0.3
    on_host hvdlogin pkill -USR1 -o -x hvdrun
    ended 8
    [[ $(grep -c "got it" <<<"$output") -eq 4 ]]
    nobody_left 2
}

@test "what ranks leave in the background ends with them" {
    gives 0 forked bash -c 'setsid sleep 50 >/dev/null 2>&1 & sleep 60 >/dev/null 2>&1 & echo done'
    four 'done'
    nobody_left 2
}

@test "labelled output loses nothing: long lines, and last lines without an end" {
    run forked --label bash -c 'echo out; echo err >&2'
    for rank in 0 1 2 3; do has "$rank: out" "$rank: err"; done
    run forked --label bash -c 'printf "no newline"'
    four '^[0-3]: no newline$'
    run forked --label seq 5000
    [[ $(grep -c '^[0-3]: [0-9]*$' <<<"$output") -eq 20000 ]]
    nobody_left 2
}

@test "a command that begins a session of its own is waited for, and ended" {
    gives 0 on_login hvdrun --launcher fork -np 2 setsid sh -c 'sleep 0.5; echo "rank $HOROVOD_RANK went on"'
    has "rank 0 went on" "rank 1 went on"
    gives 7 on_login hvdrun --launcher fork -np 2 setsid sh -c 'sleep 0.5; exit $((HOROVOD_RANK * 7))'
    # The command gets the signals, and so does what it has started.
    begin forked setsid bash -c 'trap "echo got it; exit 0" USR1; echo ready; while :; do sleep 0.2; done'
    says_times 10 4 ready
    sleep 0.3
    on_host hvdlogin pkill -USR1 -o -x hvdrun
    ended 8
    [[ $(grep -c "got it" <<<"$output") -eq 4 ]]
    nobody_left 2
    begin forked setsid bash -c 'sleep 50 & echo ready; wait'
    says_times 10 4 ready
    on_host hvdlogin pkill -TERM -o -x hvdrun
    ended 8 143
    nobody_left 2
    # A descendant that keeps the output open does not delay the end of its rank.
    gives 0 forked --label setsid sh -c 'sleep 50 & echo done'
    [[ $(grep -c ': done$' <<<"$output") -eq 4 ]]
    nobody_left 2
}

# limited ULIMIT… -- ARG…: runs hvdrun with these limits.
limited() {
    local limits=()
    while [[ $1 != -- ]]; do limits+=("$1") && shift; done
    on_login bash -c 'ulimit "$1" "$2" && shift 2 && exec hvdrun "$@"' - "${limits[@]}" --launcher fork "${@:2}"
}

@test "limits of processes, files and ranks are told at once, by name" {
    gives 1 limited -u 500 -- -np 501 true
    has "501 ranks on one host need as many processes" "ulimit -u is 500" "start fewer ranks"
    # All processes of the user count, so a limit may be met only when a rank is started.
    run limited -u 2 -- -np 2 true
    [[ $status == @(1|127) ]] # of the node agent or of a rank: whichever could not be started
    has "ulimit -u is 2"
    has_not "is the suite installed" "same path"
    run -127 limited -n 100 -- --label -np 60 true
    has "60 ranks with output by lines need" "open files, but ulimit -n is 100"
    # The node agent raises its own limit as far as it may; the ranks keep theirs.
    gives 0 on_login bash -c 'ulimit -Sn 64; exec hvdrun --launcher fork -np 60 --label bash -c "ulimit -Sn"'
    [[ $(grep -c '^[0-9]*: 64$' <<<"$output") -eq 60 ]]
    begin on_login hvdrun --launcher fork -np 9000 true
    ended 5 1
    has "9000 ranks on "
    nobody_left 2
}

@test "input goes to rank 0" {
    output=$(echo hello | forked --label cat)
    [ "$output" = "0: hello" ]
    nobody_left 2
}

@test "a command that does not exist is 127, and is named" {
    begin forked nosuchcommand
    ended 8 127
    has "cannot run nosuchcommand: No such file or directory"
    nobody_left 2
}

@test "ranks may use all cores unless --cpu-bind says otherwise" {
    local all
    allowed() { sort -u <<<"$output"; }
    all=$(on_login sed -n 's/^Cpus_allowed_list:\s*//p' /proc/self/status)
    cpus=(sed -n 's/^Cpus_allowed_list:\s*//p' /proc/self/status)
    [[ $(on_login bash -c 'cat /sys/devices/system/node/online') == 0 ]] || skip "this machine has several NUMA domains"
    # As many ranks as cores: data loaders and OpenMP's threads would have one core with each of them.
    gives 0 on_login hvdrun --launcher fork -np "$(nproc)" "${cpus[@]}"
    [[ $(allowed) == "$all" ]] || { echo "$output" && return 1; }
    gives 0 on_login env SLURM_CPU_BIND=quiet,mask_cpu:0x1 hvdrun --launcher fork -np "$(nproc)" "${cpus[@]}"
    [[ $(allowed) == "$all" ]]
    gives 0 on_login hvdrun --launcher fork --cpu-bind=none -np "$(nproc)" "${cpus[@]}"
    [[ $(allowed) == "$all" ]]
    gives 2 on_login hvdrun --launcher fork --cpu-bind=map_cpu:0 -np 2 true
    has "--cpu-bind=map_cpu:0 needs srun" "none, cores and ldoms"
    (($(on_login nproc) > 1)) || return 0
    gives 0 on_login hvdrun --launcher fork --cpu-bind=verbose,cores -np 2 "${cpus[@]}"
    [[ $(allowed | wc -l) -eq 2 && $(allowed) != *"$all"* ]] || { echo "$output" && return 1; }
}

@test "roles on one host have CPUs and GPUs of their own" {
    local a b all
    local tell='echo "$HVD_ROLE on $(sed -n "s/^Cpus_allowed_list:.//p" /proc/self/status) with $CUDA_VISIBLE_DEVICES"'
    on() { gives 0 on_login env CUDA_VISIBLE_DEVICES=4,GPU-5a,6 hvdrun --launcher fork --hosts=localhost:2 "$@"; }
    # place ROLE GPUS: the CPUs that it has, with these GPUs.
    place() { sed -n "s/.*$1 on \([0-9,-]*\) with $2\$/\1/p" <<<"$output"; }
    all=$(on_login sed -n 's/^Cpus_allowed_list:\s*//p' /proc/self/status)
    (($(on_login nproc) > 1)) || skip "this machine has one CPU"
    on --role=a --ntasks-per-node=1 -N1 --cpus-per-task=1 --gpus-per-task=2 sh -c "$tell" : --role=b --with=a -n1 sh -c "$tell"
    a=$(place a 4,GPU-5a)
    b=$(place b 6)
    echo "a on $a, b on $b of $all"
    [[ $a =~ ^[0-9]+$ && -n $b && $b != "$a" && $b != "$all" ]]
    # The ranks of a role are bound as it says.
    on --role=a --ntasks-per-node=1 -N1 --cpus-per-task=1 --cpu-bind=none sh -c "$tell" : --role=b --with=a -n1 sh -c "$tell"
    [[ $(place a 4,GPU-5a,6) == "$all" ]]
}

# Horovod's own tests have no other hosts than these.
NAMES=localhost:2,127.0.0.1:2
# shellcheck disable=SC2016 # for the ranks
PLACE='echo "at $HOROVOD_RANK/$HOROVOD_SIZE $HOROVOD_LOCAL_RANK/$HOROVOD_LOCAL_SIZE $HOROVOD_CROSS_RANK/$HOROVOD_CROSS_SIZE $HOROVOD_HOSTNAME"'

@test "two names of this machine are two hosts, but one host to mpirun" {
    printf 'localhost slots=2\n127.0.0.1 slots=2\n' | script hosts
    for args in "hvdrun --hosts $NAMES" "hvdrun --launcher=fork --hostfile hosts" "horovodrun -H $NAMES"; do
        # shellcheck disable=SC2086 # several words
        gives 0 on_login bash -c 'exec -a "$1" hvdrun -np 4 "${@:2}"' - $args bash -c "$PLACE; cat; echo in \$(hostname)" <<<input
        has "at 0/4 0/2 0/2 localhost" "at 1/4 1/2 0/2 localhost" "at 2/4 0/2 1/2 127.0.0.1" "at 3/4 1/2 1/2 127.0.0.1"
        four "in hvdlogin"
        [[ $(grep -c "input" <<<"$output") -eq 1 ]]
    done
    # Labelled lines are whole, though two node agents write them.
    long=$(head -c 3000 /dev/zero | tr '\0' x)
    gives 0 on_login bash -c 'exec -a horovodrun hvdrun -np 4 -H "$@"' - "$NAMES" \
        bash -c 'for i in {1..200}; do printf "%s" "$1"; echo; done' - "$long"
    # As a pattern such a line would take grep ten seconds.
    for rank in 0 1 2 3; do [[ $(grep -cxF "[$rank]<stdout>:$long" <<<"$output") -eq 200 ]]; done
    gives 0 on_login hvdrun --hosts "$NAMES" -np 3 --selftest -- --quick
    has "3 ranks on 2 hosts"
    if command -v mpirun >/dev/null; then
        gives 0 on_login hvdrun --mpi -np 4 --hosts "$NAMES" bash -c 'echo "at $OMPI_COMM_WORLD_RANK on"'
        four "at [0-3] on"
    fi
    nobody_left 2
    assert_no_leftovers
}

as_horovodrun() { on_login bash -c 'exec -a horovodrun hvdrun "$@"' - "$@"; }

@test "horovodrun on two names has the statuses and last messages that Horovod's tests expect" {
    gives 0 as_horovodrun -np 4 -H "$NAMES" true
    has_not "Horovod" "failed"
    gives 7 as_horovodrun -np 4 -H "$NAMES" bash -c '[ $HOROVOD_RANK != 3 ] || exit 7; sleep 50'
    [[ $output == *"Horovod detected that one or more processes exited with non-zero status, thus causing the job to be \
terminated. The first process to do so was:"$'\n'"Process name: 3"$'\n'"Exit code: 7" ]] || { echo "$output" && return 1; }
    # An elastic job with hosts that stay, of a command that knows nothing of elastic jobs.
    gives 0 as_horovodrun -np 2 --min-np 2 -H "$NAMES" true
    gives 1 as_horovodrun -np 2 --min-np 2 -H "$NAMES" false
    has "Horovod detected that one or more processes exited with non-zero status"
    # One that fails before all have come to the rendezvous; horovodrun names a worker by host and slot.
    gives 7 as_horovodrun -np 2 --min-np 2 -H localhost:2 bash -c '[ $HOROVOD_RANK != 1 ] || exit 7; sleep 50'
    [[ $output == *"Horovod detected that one or more processes exited with non-zero status, thus causing the job to be \
terminated. The first process to do so was:"$'\n'"Process name: localhost[1]"$'\n'"Exit code: 7" ]] || { echo "$output" && return 1; }
    gives 1 on_login hvdrun -np 2 --hosts "$NAMES" false
    has_not "Horovod detected"
    # A job that a signal to hvdrun ends has no process that failed.
    begin as_horovodrun -np 2 -H "$NAMES" bash -c 'echo ready; sleep 50'
    says_times 10 2 ready
    on_host hvdlogin pkill -TERM -o -x hvdrun
    ended 8 143
    has_not "Horovod detected"
    if command -v mpirun >/dev/null; then
        gives 0 as_horovodrun --mpi -np 4 -H "$NAMES" true
        gives 1 as_horovodrun --mpi -np 4 -H "$NAMES" false
        has "mpirun failed with exit code $status"
    fi
    nobody_left 2
}

# A rank with a child, and a grandchild in a session of its own.
FAMILY='setsid bash -c "sleep 50 & sleep 51" & echo ready; sleep 52'

@test "two names of this machine: a failed rank, Ctrl-C and a killed hvdrun end all ranks" {
    begin forked --hosts "$NAMES" bash -c '[ $HOROVOD_RANK = 3 ] && exit 7; sleep 50'
    ended 8 7
    has "rank 3 on 127.0.0.1 failed first: exit code 7"
    nobody_left 2
    begin forked --hosts "$NAMES" bash -c 'echo ready; sleep 50'
    says_times 10 4 ready
    on_host hvdlogin pkill -INT -o -x hvdrun
    ended 8 130
    nobody_left 2
    begin forked --hosts "$NAMES" bash -c "$FAMILY"
    says_times 10 4 ready
    sleep 0.3
    on_host hvdlogin pkill -KILL -x hvdrun
    ended 10
    nobody_left 8
}

@test "listed hosts: this one can be named, others and more ranks than slots are refused" {
    gives 0 on_login hvdrun --launcher fork --hosts localhost:2 bash -c 'echo "rank $HOROVOD_RANK"'
    [[ $(grep -c rank <<<"$output") -eq 2 ]]
    gives 2 on_login hvdrun --launcher fork --hosts hvdn1:2 true
    has "hvdn1 is another machine"
    gives 2 on_login hvdrun --launcher fork -np 3 --hosts localhost:2 true
    has "3 processes were asked for" "2 slots"
    nobody_left 2
}

@test "a reader of labelled lines that stops for a while holds up the ranks alone" {
    local out="$BATS_TEST_TMPDIR/out" err="$BATS_TEST_TMPDIR/err" pid reader reader_pid
    mkfifo "$BATS_TEST_TMPDIR/fifo"
    exec {reader}<>"$BATS_TEST_TMPDIR/fifo"
    on_login hvdrun --launcher=fork -np 2 --label --start-timeout 3 bash -c 'seq -f "%.0f of $RANK" 100000; exit 7' \
        >"$BATS_TEST_TMPDIR/fifo" 2>"$err" 3>&- {reader}>&- &
    pid=$!
    sleep 7 # the agent has time to answer twice
    running "$pid"
    timeout 30 cat <&"$reader" >"$out" &
    reader_pid=$!
    status=0
    wait "$pid" || status=$?
    exec {reader}>&-
    kill "$reader_pid" || true
    [[ $status -eq 7 && $(<"$err") != *"has not answered"* ]] || { echo "status $status" && cat "$err" && return 1; }
    nobody_left 2
}

@test "SLURM_STEP_ID of another step: ranks of a restart job get HUP, INT and TERM all the same" {
    gives 0 on_login env SLURM_STEP_ID=0 hvdrun --launcher=fork -np 1 --max-restarts=0 grep SigIgn /proc/self/status
    # HUP, INT and TERM are the bits 0, 1 and 14. What the C library uses itself may be ignored here.
    [[ $output =~ SigIgn:[[:space:]]*([0-9a-f]+) ]]
    ((("0x${BASH_REMATCH[1]}" & 0x4003) == 0))
    nobody_left 2
}
