#!/usr/bin/env bats
# shellcheck disable=SC2154,SC2030,SC2031 # what run sets
# What ranks print and read, much of it, with every backend: nothing is lost, no line is broken, no byte is changed.

load launch
load sshd

TTY=$BATS_TEST_DIRNAME/on_tty
FLOOD=$BATS_TEST_DIRNAME/lib/flood.py
EIGHT=hvdn1:2,hvdn2:2,hvdn3:2,hvdn4:2

setup_file() {
    suite_up --nodes 4
    if sshd_can; then sshd_prepare hvdn1 hvdn2 hvdn3 hvdn4; fi
}

# horovodrun ARG…: on the login host.
horovodrun() { on_login bash -c 'exec -a horovodrun hvdrun "$@"' - "$@"; }

# How eight ranks are started with each backend: fork on one host, the others on four.
with() {
    case $1 in
    fork) horovodrun --launcher fork -np 8 "${@:2}" ;;
    srun) horovodrun -N4 -n8 --ntasks-per-node=2 "${@:2}" ;;
    ssh) horovodrun -np 8 -H "$EIGHT" "${@:2}" ;;
    esac
}

needs_ssh() { if ! sshd_can; then skip "OpenSSH is not installed"; fi; }

# whole BACKEND BYTES MAX ARG…: each rank prints BYTES in lines of MAX at most, and nothing of it is lost.
whole() {
    local out=$BATS_TEST_TMPDIR/out
    with "$1" "${@:4}" python3 "$FLOOD" write "$2" "$3" >"$out"
    gives 0 python3 "$FLOOD" check "$2" "$3" 8 '[%d]<stdout>:' <"$out"
    has "of 8 ranks"
    rm "$out"
}

@test "eight ranks on one machine lose nothing of 100 MB and lines of 3 MB, on the terminal and in files" {
    whole fork 12500000 3000000 --output-filename out
    local rank
    for rank in 0 3 7; do
        gives 0 python3 "$FLOOD" check 12500000 3000000 $rank "[$rank]<stdout>:" "$(home)/out/rank.$rank/stdout"
    done
    as_root hvdlogin rm -rf "$(home)/out"
}

@test "eight ranks through srun lose nothing of short lines and lines of 1.5 MB" {
    whole srun 300000 200
    whole srun 2000000 1500000
}

@test "eight ranks through ssh lose nothing of short lines and lines of 1.5 MB" {
    needs_ssh
    whole ssh 1000000 200
    whole ssh 2000000 1500000
}

@test "a last line without an end, and a rank's last words, come out on both streams" {
    local backend rank
    for backend in fork srun ssh; do
        if [[ $backend == ssh ]] && ! sshd_can; then continue; fi
        gives 0 with $backend bash -c 'printf "out\nthe end" && printf "err\nthe END" >&2'
        [[ $(wc -l <<<"$output") -eq 32 ]] || { echo "$output" && return 1; }
        for rank in {0..7}; do
            has "[$rank]<stdout>:out"$'\n' "[$rank]<stdout>:the end" "[$rank]<stderr>:err"$'\n' "[$rank]<stderr>:the END"
        done
        # shellcheck disable=SC2016
        gives 7 with $backend bash -c 'if [ $HOROVOD_RANK = 5 ]; then echo "last words" >&2; exit 7; fi; sleep 50'
        has "[5]<stderr>:last words" "rank 5 on " "exit code 7"
    done
    run -127 with srun nosuchcommand
    has "cannot run nosuchcommand"
}

@test "a progress bar is seen as it moves" {
    local backend
    for backend in fork srun ssh; do
        if [[ $backend == ssh ]] && ! sshd_can; then continue; fi
        begin with $backend bash -c 'printf "10 percent\r"; sleep 50'
        wait_for 20 eight_bars || { cat -A "$OUT" && return 1; }
        on_host hvdlogin pkill -TERM -o -x hvdrun
        ended 20
    done
}

eight_bars() { [[ $(grep -oF ":10 percent" "$OUT" | wc -l) -eq 8 ]]; }

@test "without labels, too, lines of ranks on several hosts stay whole, and a question is seen at once" {
    needs_ssh
    local pieces='import os
for i in range(500):
    for piece in "rank", " ", os.environ["RANK"], " line ", str(i), " of", " pieces", "\n":
        os.write(1, piece.encode())'
    on_login hvdrun --hosts hvdn1:2,hvdn2:2 python3 -c "$pieces" >"$BATS_TEST_TMPDIR/lines"
    run -1 grep -vE '^rank [0-3] line [0-9]+ of pieces$' "$BATS_TEST_TMPDIR/lines"
    [[ $(sort -u "$BATS_TEST_TMPDIR/lines" | wc -l) -eq 2000 ]]
    begin on_login hvdrun --hosts hvdn1:1,hvdn2:1 sh -c 'case $RANK in 1) printf "question? " ;; esac; sleep 5'
    says 4 "question? "
    ended 10 0
    [[ $output == "question? " ]]
}

@test "without labels, no byte is changed" {
    local sum
    head -c 3000000 /dev/urandom >"$(home)/bytes"
    sum=$(sha256sum <"$(home)/bytes")
    [[ $(on_login hvdrun --launcher fork -np 1 cat bytes | sha256sum) == "$sum" ]]
    [[ $(on_login hvdrun -N1 -n1 cat bytes | sha256sum) == "$sum" ]]
    if sshd_can; then [[ $(on_login hvdrun -np 1 --hosts hvdn2:1 cat bytes | sha256sum) == "$sum" ]]; fi
}

@test "input goes to rank 0, all of it; the others read its end at once" {
    local backend
    head -c 5000000 /dev/urandom >"$(home)/bytes"
    for backend in fork srun ssh; do
        if [[ $backend == ssh ]] && ! sshd_can; then continue; fi
        # Input from a pipe, from a file, and none.
        # shellcheck disable=SC2002
        output=$(cat "$(home)/bytes" | with $backend wc -c | sort)
        [[ $output == "$(inputs 5000000)" ]] || { echo "$backend: $output" && return 1; }
        output=$(with $backend wc -c <"$(home)/bytes" | sort)
        [[ $output == "$(inputs 5000000)" ]] || { echo "$backend: $output" && return 1; }
        output=$(with $backend wc -c </dev/null | sort)
        [[ $output == "$(inputs 0)" ]] || { echo "$backend: $output" && return 1; }
    done
}
inputs() {
    local rank
    echo "[0]<stdout>:$1"
    for rank in {1..7}; do echo "[$rank]<stdout>:0"; done
}

@test "a rank that does not read its input, and input that does not end, hinder nothing" {
    local backend
    mkfifo "$BATS_TEST_TMPDIR/endless"
    for backend in fork srun ssh; do
        if [[ $backend == ssh ]] && ! sshd_can; then continue; fi
        gives 0 with $backend true <>"$BATS_TEST_TMPDIR/endless"
    done
}

@test "a start that takes a while says on a terminal which hosts it waits for, and nothing elsewhere" {
    fault node-freeze hvdn3
    begin timeout 60 "$TTY" --wait "still starting" --wait hvdn3 -- \
        "$HVD_CLUSTER_CMD" exec -- hvdrun --start-timeout 3 -N4 -n4 true
    ended 40
    has "still starting" "hvdn3"
    fault clear
    fault node-freeze hvdn3
    run on_login srun --hvd --hvd-start-timeout=3 -N4 -n4 true
    has_not "still starting"
    has "hvdn3"
    fault clear
}

# full HOST: a folder of alice's that has no room on that host, as $room in her home; roomy HOST undoes it.
room=full
full() { as_root "$1" sh -c "mkdir -p '$(home)/$room' && chmod 777 '$(home)/$room' && mount -t tmpfs -o size=16k,mode=777 none '$(home)/$room'"; }
roomy() { as_root "$1" umount "$(home)/$room"; }

# files_lost HOST N: $output tells of so many files of that host that could not be written, each once.
files_lost() {
    local said
    said=$(grep -F "$1: output of a rank is lost: cannot write to " <<<"$output" | grep -F "No space left on device") || true
    [[ $(sort -u <<<"$said" | grep -c .) -eq $2 && $(wc -l <<<"$said") -eq $2 ]] || { echo "$output" && return 1; }
}

@test "--output-filename where the disk is full: told once for each file, and the status is not 0" {
    local flood='for i in 1 2 3 4 5; do head -c 100000 /dev/zero | tr "\\0" x; echo; sleep 0.1; done'
    full hvdlogin
    run -1 told on_login hvdrun --launcher fork -np 2 --output-filename "$room" sh -c "$flood"
    files_lost localhost 2
    has "df, quota"
    # The status of a rank that fails is kept.
    run -7 told on_login hvdrun --launcher fork -np 2 --output-filename "$room" sh -c "$flood; exit 7"
    files_lost localhost 2
    run -1 told on_login hvdrun --launcher fork -np 2 --min-np 2 --output-filename "$room" sh -c "$flood"
    files_lost localhost 2
    roomy hvdlogin
    full hvdn2
    # Ranks that go on are not ended because of it.
    run -1 told on_login hvdrun -N2 -n4 --ntasks-per-node=2 --output-filename "$room" \
        sh -c "if [ \$SLURM_NODEID = 1 ]; then $flood; else sleep 3; echo whole >survived; fi"
    files_lost hvdn2 2
    [ "$(cat "$(home)/survived")" = whole ]
    if sshd_can; then
        run -1 told on_login hvdrun -np 4 --hosts hvdn1:2,hvdn2:2 --output-filename "$room" sh -c "$flood"
        files_lost hvdn2 2
    fi
    run -0 told on_login hvdrun -N1 -n2 -w hvdn1 --output-filename "$room" sh -c "$flood"
    roomy hvdn2
    as_root hvdlogin rm -rf "$(home)/$room" "$(home)/survived"
}

# trap WHAT: bob makes the folder $evil, in which alice may write, with WHAT where rank 0 is to have its output.
trap_of() {
    as_root hvdlogin rm -rf "$evil"
    as_user bob sh -ec "umask 0; mkdir $evil; test $1 = folder || mkdir $evil/rank.0
        case $1 in
        link) ln -s $(home)/precious $evil/rank.0/stdout ;;
        pipe) mkfifo $evil/rank.0/stdout ;;
        file) : >$evil/rank.0/stdout ;;
        folder) ln -s $(home)/own $evil/rank.0 ;;
        esac"
}

@test "files of a launch in a folder that another user made first: links, pipes and files of his are refused at once" {
    local evil what how began
    evil=$(cluster path)/home/bob
    evil+=/out
    as_root hvdlogin chmod 755 "$(cluster path)/home/bob"
    on_login sh -c 'umask 077; mkdir own; echo precious >precious'
    for what in link pipe file folder; do
        for how in "--launcher=fork -np 2" "--launcher=fork -np 2 --max-restarts=1" "-N1 -n2 -w hvdn1"; do
            trap_of $what
            began=$SECONDS
            # shellcheck disable=SC2086
            run -127 on_login hvdrun $how --start-timeout=20 --output-filename "$evil" true
            echo "$what, $how: $output"
            ((SECONDS - began < 10 * HVD_TEST_PATIENCE))
            case $what in
            link) has "cannot write the rank's output to $evil/rank.0/stdout: it is a symbolic link" ;;
            pipe) has "cannot write the rank's output to $evil/rank.0/stdout: it is a pipe or a socket that nobody reads" ;;
            file) has "cannot write the rank's output to $evil/rank.0/stdout: it belongs to another user" ;;
            folder) has "cannot make the folder $evil/rank.0 for the ranks' output: Not a directory" ;;
            esac
            [[ $(on_login cat precious) == precious && -z $(on_login ls own) ]]
        done
    done
    # A folder of somebody else's is fine as such.
    as_root hvdlogin rm -rf "$evil"
    as_user bob mkdir -m 777 "$evil"
    gives 0 on_login hvdrun --launcher=fork -np 2 --output-filename "$evil" echo here
    [[ $(cat "$evil/rank.1/stdout") == here ]]
    # The trace of a launch, and a file of results.
    as_user bob sh -ec "ln -s $(home)/precious $evil/trace; mkfifo -m 666 $evil/pipe"
    run on_login timeout 20 hvdrun --launcher=fork -np 2 --trace "$evil/trace" true
    has "cannot write the launch trace $evil/trace: it is a symbolic link"
    run on_login timeout 20 hvdrun --launcher=fork -np 2 --trace "$evil/pipe" true
    has "cannot write the launch trace $evil/pipe: it is a pipe or a socket that nobody reads"
    [[ $(on_login cat precious) == precious ]]
    as_root hvdlogin rm -rf "$evil" "$(home)/own" "$(home)/precious"
}

@test "standard output that cannot be written: told, and the status is not 0; a reader that has gone is no error" {
    local backend
    run -1 --separate-stderr to_full on_login hvdrun -N2 -n2 sh -c 'echo a; sleep 0.2; echo b'
    [[ $(grep -c "cannot write to standard output: No space left on device" <<<"$stderr") -eq 1 ]]
    for backend in fork srun ssh; do
        if [[ $backend == ssh ]] && ! sshd_can; then continue; fi
        run -1 --separate-stderr to_full with $backend sh -c 'echo a; sleep 0.2; echo b'
        # shellcheck disable=SC2154
        [[ $(grep -c "cannot write to standard output: No space left on device" <<<"$stderr") -eq 1 ]] ||
            { echo "$backend: $stderr" && return 1; }
        run -0 --separate-stderr to_nobody with $backend sh -c 'sleep 0.5; echo a; sleep 0.2; echo b'
        [[ $stderr != *"cannot write"* ]] || { echo "$backend: $stderr" && return 1; }
    done
}
told() { "$@" 3>&1 >/dev/null 2>&3 3>&-; }
to_full() { "$@" >/dev/full; }
to_nobody() { "$@" > >(:); }
