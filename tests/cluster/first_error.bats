#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2016 # what run sets; what the ranks read
# One rank fails, and others die of that: the report names the one. The ranks are first_error.py.

load launch
setup_file() {
    suite_up --nodes 4
    cp "$BATS_TEST_DIRNAME/first_error.py" "$(home)/"
}
teardown() {
    cluster_mend
    assert_no_leftovers
}

# pipes: new ones for a launch, whose folder is the first argument of the ranks.
pipes() { on_login sh -c 'rm -rf pipes; mkdir pipes; mkfifo pipes/alive pipes/ready'; }

# fails HOW WAY [OPTION OF hvdrun…]: eight ranks on four hosts, of which rank 5 fails.
fails() {
    local how=$1 way=$2
    pipes
    shift 2
    case $how in
    srun) begin launch srun -N4 --ntasks-per-node=2 "$@" python3 -S ./first_error.py pipes "$way" ;;
    hvdrun) begin launch hvdrun -N4 --ntasks-per-node=2 "$@" python3 -S ./first_error.py pipes "$way" ;;
    fork) begin on_login hvdrun --launcher fork -np 8 "$@" python3 -S ./first_error.py pipes "$way" ;;
    elastic) begin on_login salloc -Q -N4 --ntasks-per-node=2 hvdrun "$@" python3 -S ./first_error.py pipes "$way" ;;
    esac
    ended 30
}

# names HOW WHAT: the report is of rank 5, and there is one.
names() {
    local host=hvdn3
    if [[ $1 == fork ]]; then host=localhost; fi
    has "rank 5 on $host failed first: $2"
    [[ $(grep -c "failed first" <<<"$output") -eq 1 ]] || { echo "$output" && return 1; }
}

@test "the rank that raised an exception is named, though others die of it, by each kind of launch" {
    for how in hvdrun fork srun; do
        for _ in 1 2; do
            fails "$how" raise
            names "$how" "exit code 1"
            has "  ValueError: bad batch" "  local rank " "  | a line before it" "  | Traceback (most recent call last):" \
                'raise ValueError("bad batch")'
        done
    done
}

@test "a rank is killed by a signal: it is named, not those that lost their connection" {
    fails hvdrun segv
    exits 139
    names hvdrun "killed by signal 11 (SIGSEGV)"
    has "PYTHONFAULTHANDLER=1"
    fails fork kill
    exits 137
    names fork "killed by signal 9 (SIGKILL)"
    fails hvdrun kill
    exits 137
    names hvdrun "killed by signal 9 (SIGKILL)"
}

@test "a rank ends with 0 too early: it is named, and the status is that of one that died of it" {
    fails fork 0
    exits 1
    has "rank 5 on localhost ended too early: exit code 0, while others still needed it" \
        "do all ranks take the same number of steps?"
    has_not "failed first"
    fails hvdrun 0
    exits 1
    has "rank 5 on hvdn3 ended too early: exit code 0"
}

@test "a program or a module is missing on one host: the host is named" {
    begin launch hvdrun -N4 --ntasks-per-node=1 sh -c 'if [ "$(hostname)" = hvdn2 ]; then exec ./missing; else sleep 30; fi'
    ended 10 127
    has "rank 1 on hvdn2 failed first: exit code 127"
    begin launch hvdrun -N4 --ntasks-per-node=1 \
        sh -c 'if [ "$(hostname)" = hvdn2 ]; then exec python3 -S -c "import nothing_like_this"; else sleep 30; fi'
    ended 10 1
    has "rank 1 on hvdn2 failed first: exit code 1" "  ModuleNotFoundError: No module named 'nothing_like_this'" \
        "is the module installed on that host"
}

@test "srun -o FILE.%t: the report has the end of the rank's file, or says which file it is" {
    local shown=("rank 5 on hvdn3 failed first: exit code 1" "  ValueError: bad batch" "  | a line before it"
        'raise ValueError("bad batch")')
    for option in "-o out.%t" "-e out.%t" "-o out.%t --open-mode=append"; do
        # shellcheck disable=SC2086
        fails srun raise $option
        has "${shown[@]}" "  | (the end of $(home)/out.5)"
        on_login grep -q "a line before it" out.5
    done
    # The file before that is not this launch's.
    on_login sh -c 'rm -f out.*; echo "RuntimeError: of yesterday" >out.5'
    fails srun 7 -o out.%t --open-mode=append
    has "rank 5 on hvdn3 failed first: exit code 7" "  | (its output is in $(home)/out.5)"
    has_not "of yesterday"
    on_login sh -c 'rm -f out.*'
    begin on_login sh -c 'umask 444; rm -rf pipes; mkdir -m 777 pipes; mkfifo -m 666 pipes/alive pipes/ready
        exec srun --hvd -o out.%t -N4 --ntasks-per-node=2 python3 -S ./first_error.py pipes raise'
    ended 30
    # Who has died of the other is not known then.
    has "failed first: exit code 1" "  | (its output is in $(home)/out."
    # Two ranks write to each of these.
    fails srun raise -o out.%N
    has "failed first: exit code 1" "  | (its output, and that of other ranks, is in $(home)/out.hvdn"
    on_login sh -c 'rm -f out.*'
}

@test "--json has the first failure; --keep-going tells of it in the end" {
    fails fork raise --json
    json=$(tail -n 1 <<<"$output")
    [[ $(jq -r '.first_failure | "\(.rank) \(.host) \(.how) \(.status) \(.error)"' <<<"$json") == \
        "5 localhost exit code 1 1 ValueError: bad batch" ]]
    [[ $(jq '.failures | .failed + .connection_errors + .ended' <<<"$json") -eq 8 ]]
    fails fork raise --keep-going
    names fork "exit code 1"
    has "the others go on (--keep-going)" "7 ranks ended with connection errors"
}

@test "200 MB of output: the report has the last lines, and the exception" {
    pipes
    run -0 on_login sh -c \
        'timeout 60 hvdrun --launcher fork -np 8 python3 -S ./first_error.py pipes flood 2>&1 >/dev/null | tail -n 60 | cut -c 1-200'
    has "rank 5 on localhost failed first: exit code 1" "  ValueError: bad batch" "  | xxxxxxxx"
}

@test "each generation of an elastic job says which rank failed first, and the end has the report" {
    fails elastic raise --max-restarts 1 --min-np 8 -np 8
    exits 1
    has "before generation 2: rank 5 on hvdn3 failed first: exit code 1" "  ValueError: bad batch"
    has "error: rank 5 on hvdn3 failed first: exit code 1" "  | Traceback (most recent call last):"
}
