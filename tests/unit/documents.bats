#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the documents name is there.

setup() { cd "$BATS_TEST_DIRNAME/../.." || return 1; }

# named DOCUMENT: the paths in backticks that begin with a folder of this repository.
named() {
    local folders
    folders=$(git ls-files 2>/dev/null | sed -n 's|/.*||p' | sort -u | paste -sd'|')
    [[ $folders ]] || skip "this is no clone"
    grep -oE "\`($folders)/[A-Za-z0-9_./-]*\`" "$1" | tr -d '`' | sort -u
}

@test "every file and folder that CONTRIBUTING.md and README.md name exists" {
    local document path missing=()
    for document in CONTRIBUTING.md README.md; do
        while IFS= read -r path; do
            [[ -e $path ]] || missing+=("$document: $path")
        done < <(named "$document")
    done
    ((${#missing[@]} == 0)) || { printf '%s\n' "${missing[@]}" && return 1; }
}

@test "every page that a document links to exists" {
    local document link missing=()
    for document in *.md docs/*.md; do
        while IFS= read -r link; do
            [[ -e $(dirname "$document")/$link ]] || missing+=("$document: $link")
        done < <(grep -oE '\]\([^):# ]+' "$document" | sed 's/^](//' | sort -u)
    done
    ((${#missing[@]} == 0)) || { printf '%s\n' "${missing[@]}" && return 1; }
}
