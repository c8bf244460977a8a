#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# The command line of hvdrun, called as horovodrun, next to horovodrun's own parser.

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

# alike CHECK LEAST: CHECK compares at least LEAST command lines and finds no difference.
alike() {
    local lines
    gives 0 on_this "$PY" "$HERE/options.py" "$BATS_TEST_TMPDIR/horovodrun" "$1"
    lines=$(sed -n 's/ lines compared, 0 differ$//p' <<<"$output")
    ((lines >= $2)) || { echo "$output" && return 1; }
}

@test "every option of horovodrun is read the same in every spelling" { alike spellings 80; }

@test "values are read the same, and options that need another one have no effect alone" { alike values 50; }

@test "shortened names are read the same" { alike abbreviations 40; }

@test "what horovodrun refuses is refused" { alike refusals 60; }

@test "options that exclude each other are refused" { alike conflicts 10; }

@test "every key of the configuration file is read the same; the command line wins" { alike config 100; }

@test "defaults are the same" { alike defaults 4; }

@test "--check-build has all lines of horovodrun's" {
    local line theirs
    gives 0 on_this "$HORUN" --check-build
    theirs=$(printf '%s' "$output" | sed 's/ *$//')
    gives 0 on_this env PATH="${PY%/*}:$PATH" "$BATS_TEST_TMPDIR/horovodrun" --check-build
    while IFS= read -r line; do
        grep -qxF -e "$line" <<<"$output" || { echo "missing: $line" && echo "$output" && return 1; }
    done <<<"$theirs"
    [[ $theirs == *"[X] PyTorch"* ]]
}
