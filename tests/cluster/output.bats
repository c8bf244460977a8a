#!/usr/bin/env bats
bats_require_minimum_version 1.5.0
# shellcheck disable=SC2154 # what run sets
# What ranks print and read, much of it, with every backend: nothing is lost, no line is broken, no byte is changed.

load helpers
load launch
load sshd

TTY=$BATS_TEST_DIRNAME/on_tty
FLOOD=$BATS_TEST_DIRNAME/lib/flood.py
EIGHT=hvdn1:2,hvdn2:2,hvdn3:2,hvdn4:2

setup_file() {
    suite_up --nodes 4
    if sshd_can; then sshd_prepare hvdn1 hvdn2 hvdn3 hvdn4; fi
}
teardown_file() { cluster_down; }
teardown() { cluster_mend; }

# horovodrun ARG…: on the login host.
horovodrun() { on_login bash -c 'exec -a horovodrun hvdrun "$@"' - "$@"; }

# How eight ranks are started with each backend, four hosts but for the first.
with() {
    case $1 in
    fork) horovodrun --launcher fork -np 8 "${@:2}" ;;
    srun) horovodrun -N4 -n8 --ntasks-per-node=2 "${@:2}" ;;
    ssh) horovodrun -np 8 -H "$EIGHT" "${@:2}" ;;
    esac
}

needs_ssh() { if ! sshd_can; then skip "OpenSSH is not installed"; fi; }

# whole BACKEND BYTES MAX ARG…: so many bytes of each rank, in lines of MAX at most.
whole() {
    local out=$BATS_TEST_TMPDIR/out
    with "$1" "${@:4}" python3 "$FLOOD" write "$2" "$3" >"$out"
    run python3 "$FLOOD" check "$2" "$3" 8 '[%d]<stdout>:' <"$out"
    exits 0
    has "of 8 ranks"
    rm "$out"
}

@test "eight ranks on one machine: 100 MB, lines of 3 MB; the same in files" {
    whole fork 12500000 3000000 --output-filename out
    local rank
    for rank in 0 3 7; do
        run python3 "$FLOOD" check 12500000 3000000 $rank "[$rank]<stdout>:" "$(home)/out/rank.$rank/stdout"
        exits 0
    done
    as_root hvdlogin rm -rf "$(home)/out"
}

@test "eight ranks through srun: short lines, lines of 1.5 MB" {
    whole srun 300000 200
    whole srun 2000000 1500000
}

@test "eight ranks through ssh: short lines, lines of 1.5 MB" {
    needs_ssh
    whole ssh 1000000 200
    whole ssh 2000000 1500000
}

@test "a last line without an end, on both streams, and a rank's last words" {
    local backend rank
    for backend in fork srun ssh; do
        if [[ $backend == ssh ]] && ! sshd_can; then continue; fi
        run with $backend bash -c 'printf "out\nthe end" && printf "err\nthe END" >&2'
        exits 0
        [[ $(wc -l <<<"$output") -eq 32 ]] || { echo "$output" && return 1; }
        for rank in {0..7}; do
            has "[$rank]<stdout>:out"$'\n' "[$rank]<stdout>:the end" "[$rank]<stderr>:err"$'\n' "[$rank]<stderr>:the END"
        done
        # shellcheck disable=SC2016
        run with $backend bash -c 'if [ $HOROVOD_RANK = 5 ]; then echo "last words" >&2; exit 7; fi; sleep 50'
        exits 7
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

@test "without labels, no byte is changed" {
    local sum
    head -c 3000000 /dev/urandom >"$(home)/bytes"
    sum=$(sha256sum <"$(home)/bytes")
    [[ $(on_login hvdrun --launcher fork -np 1 cat bytes | sha256sum) == "$sum" ]]
    [[ $(on_login hvdrun -N1 -n1 cat bytes | sha256sum) == "$sum" ]]
    if sshd_can; then [[ $(on_login hvdrun -np 1 --hosts hvdn2:1 cat bytes | sha256sum) == "$sum" ]]; fi
}

@test "input goes to rank 0, all of it; the others are at its end" {
    local backend
    head -c 5000000 /dev/urandom >"$(home)/bytes"
    for backend in fork srun ssh; do
        if [[ $backend == ssh ]] && ! sshd_can; then continue; fi
        # From a pipe, from a file, and nothing at all.
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

@test "a rank that does not read its input, and input that does not end" {
    local backend
    mkfifo "$BATS_TEST_TMPDIR/endless"
    for backend in fork srun ssh; do
        if [[ $backend == ssh ]] && ! sshd_can; then continue; fi
        run with $backend true <>"$BATS_TEST_TMPDIR/endless"
        exits 0
    done
}

@test "a start that takes a while says on a terminal whom it waits for, and nothing elsewhere" {
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
