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

@test "every file and folder that ARCHITECTURE.md, CONTRIBUTING.md and README.md name exists" {
    local document path missing=()
    for document in ARCHITECTURE.md CONTRIBUTING.md README.md; do
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

# A header or source that ARCHITECTURE.md names without its folder, as in a drawing, is that of some folder.
@test "every source that ARCHITECTURE.md and CONTRIBUTING.md name by itself exists" {
    local document name missing=() known
    known=$(git ls-files 2>/dev/null | sed 's|.*/||' | sort -u)
    [[ $known ]] || skip "this is no clone"
    for document in ARCHITECTURE.md CONTRIBUTING.md; do
        while IFS= read -r name; do
            grep -qxF -- "$name" <<<"$known" || missing+=("$document: $name")
        done < <(grep -oE '\b[a-z_0-9]+\.(c|h|cc|bats)\b' "$document" | sort -u)
    done
    ((${#missing[@]} == 0)) || { printf '%s\n' "${missing[@]}" && return 1; }
}

# tests/run looks at the lines for the files that it is to run only.
@test "every line of tests/first-tier names a file, and a test in it, that is there" {
    local line file test missing=()
    while IFS= read -r line; do
        line=${line#- } file=${line%%: *} test=
        if [[ $line == *": "* ]]; then test=${line#*: }; fi
        case $file in
        test_*) [[ $(find tests/unit -name "$file.c") ]] || missing+=("$line") ;;
        *)
            if [[ ! $(compgen -G "tests/$file") ]] || { [[ $test ]] && ! grep -qF "@test \"$test\" {" "tests/$file"; }; then
                missing+=("$line")
            fi
            ;;
        esac
    done < <(grep -vE '^(#|$)' tests/first-tier)
    ((${#missing[@]} == 0)) || { printf 'not there: %s\n' "${missing[@]}" && return 1; }
}

# A folder of sources that ARCHITECTURE.md does not have in its table is one that nobody finds.
@test "ARCHITECTURE.md has every folder of sources" {
    local folder missing=()
    git rev-parse >/dev/null 2>&1 || skip "this is no clone"
    while IFS= read -r folder; do
        grep -qE "^\| .*\`$folder/\`.* \|" ARCHITECTURE.md || missing+=("$folder")
    done < <(git ls-files '*.c' '*.cc' | grep -vE '^(tests|scripts)/' | sed 's|/[^/]*$||' | sort -u)
    ((${#missing[@]} == 0)) || { printf 'not in the table: %s\n' "${missing[@]}" && return 1; }
}
