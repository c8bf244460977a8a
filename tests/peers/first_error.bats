#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# A rank of a training with real PyTorch raises an exception, and Gloo ends the others within milliseconds.

load ../cluster/launch
load peers

setup_file() {
    peers --torch
    suite --nodes 2
}
setup() { needs_cluster; }

# names HOST: the report is of rank 2, and the others died of it. Python's end while Gloo's threads go on may be an abort.
names() {
    info "$output"
    grep -qE "rank 2 on $1 failed first: (exit code 1|killed by signal 6 \(SIGABRT\))$" <<<"$output"
    has "  ValueError: bad batch" 'raise ValueError("bad batch")'
    # On a busy machine they may be ended before they have said a word.
    grep -qE '^  [12] ranks? (ended with (a )?connection error|w(as|ere) ended by the launch)' <<<"$output"
    [ "$(grep -c "failed first:" <<<"$output")" -eq 1 ]
}

@test "the rank that raised an exception is named first, and those that Gloo ended are counted" {
    run on_login srun --hvd -N2 -n3 "$PY" "$HERE/first_error.py"
    [ "$status" -ne 0 ]
    names hvdn2
}

@test "the exception that @record has written is the first error, too" {
    run on_login hvdrun --launcher fork -np 3 "$PY" "$HERE/first_error.py" record
    exits_one_of 1 134
    names localhost
}
