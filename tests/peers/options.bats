#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# The command line of hvdrun, called as horovodrun, next to horovodrun's own parser.

load ../cluster/helpers
load ../cluster/launch
load peers

setup_file() {
    peers
    built
}
setup() {
    needs_peers
    ln -s "$HVDRUN" "$BATS_TEST_TMPDIR/horovodrun"
}

# alike CHECK LEAST: no difference in that many lines at least.
alike() {
    local lines
    run on_this "$PY" "$HERE/options.py" "$BATS_TEST_TMPDIR/horovodrun" "$1"
    exits 0
    lines=$(sed -n 's/ lines compared, 0 differ$//p' <<<"$output")
    ((lines >= $2)) || { echo "$output" && return 1; }
}

@test "every option, in every spelling" { alike spellings 80; }

@test "values, and what comes to nothing without another option" { alike values 50; }

@test "shortened names" { alike abbreviations 40; }

@test "what horovodrun refuses" { alike refusals 60; }

@test "options that exclude each other" { alike conflicts 10; }

@test "every key of the configuration file; the command line wins" { alike config 100; }

@test "defaults" { alike defaults 4; }

@test "--check-build has all lines of horovodrun's" {
    local line theirs
    run on_this "$HORUN" --check-build
    exits 0
    theirs=$(printf '%s' "$output" | sed 's/ *$//')
    run on_this env PATH="${PY%/*}:$PATH" "$BATS_TEST_TMPDIR/horovodrun" --check-build
    exits 0
    while IFS= read -r line; do
        grep -qxF -e "$line" <<<"$output" || { echo "missing: $line" && echo "$output" && return 1; }
    done <<<"$theirs"
    [[ $theirs == *"[X] PyTorch"* ]]
}
