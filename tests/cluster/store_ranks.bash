# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Loaded behind launch.bash, by tests of jobs whose ranks are lib/relay_rank.py: they meet through the store, and use it
# until `stop`. They work in ~/work, which is $WORK.

# shellcheck disable=SC2034 # for tests
RANK="python3 $BATS_TEST_DIRNAME/lib/relay_rank.py work"

# met N: so many ranks have met.
met() { [[ $(find "$WORK" -name 'alive.*' ! -name '*.new' | wc -l) -eq $1 ]]; }
# begin_ranks RANKS CMD…: begins a job with what CMD begins, and returns when its ranks have met.
begin_ranks() {
    begin "${@:2}"
    wait_for 30 met "$1" || { cat "$OUT" && return 1; }
}
