# shellcheck shell=bash
# What the files share that run Horovod's own tests with hvdrun in horovodrun's place (in_place.py); for bats files that
# have loaded ../cluster/helpers, ../cluster/launch and peers. Horovod's tests are in its repository only, not in a
# release: they come from the checkout that HVD_PEERS_SOURCE names. Where Horovod was not built from that, the release's
# runs them.

# in_place_file [OPTION OF hvd-cluster up…]: in setup_file, instead of peers and suite. Sets PEERS_WHY if the tests
# cannot run.
in_place_file() {
    local test=${HVD_PEERS_SOURCE-}/test/integration/test_static_run.py
    if [[ ! ${HVD_PEERS_SOURCE-} ]]; then
        export PEERS_WHY="HVD_PEERS_SOURCE names no checkout of Horovod, which has these tests" CLUSTER_WHY=''
        return 0
    fi
    [[ -e $test ]] || { echo "there is no $test" >&2 && return 1; }
    TESTS=$(cd "$HVD_PEERS_SOURCE/test" && pwd)
    export TESTS
    if ! "$BATS_TEST_DIRNAME/install.sh" --check; then unset HVD_PEERS_SOURCE; fi
    peers || return 1
    if [[ $PEERS_WHY ]]; then return 0; fi
    in_place_modules || return 0
    suite "$@" || return 1
    # The copy is where the cluster's users can read it.
    if [[ ! $CLUSTER_WHY ]]; then cp -r "$MODULES" "$(home)/modules" && MODULES=$(home)/modules; fi
}

# What the tests import besides Horovod and PyTorch, where this Python has it, or PyPI.
in_place_modules() {
    export MODULES=$BATS_FILE_TMPDIR/modules
    mkdir -p "$MODULES"
    if "$PY" -c 'import pytest, mock, parameterized, psutil' 2>/dev/null; then return 0; fi
    timeout 300 "$PY" -m pip install -q --disable-pip-version-check --no-input --target "$MODULES" pytest mock parameterized \
        >"$BATS_FILE_TMPDIR/pip.log" 2>&1 </dev/null && return 0
    export PEERS_WHY="pytest, mock and parameterized are not here, and cannot be had from PyPI"
    return 1
}

# horovods_own FILE [WORD OF pytest…]: run that file below the checkout's folder test; as `run` does. $PASSED, $FAILED
# and $SKIPPED are the names of tests. IN_PLACE is the command that runs them: on_login or on_this.
horovods_own() {
    local file=$1 python=${PEERS_PY-$PY}
    shift
    run "${IN_PLACE[@]}" env PATH="$(dirname "$python"):$PATH" HVDRUN="${HVDRUN:-hvdrun}" PYTHONDONTWRITEBYTECODE=1 \
        PYTHONPATH="$BATS_TEST_DIRNAME:$BATS_TEST_DIRNAME/../../python:$MODULES" \
        HVD_IN_PLACE_HOSTS="${HVD_IN_PLACE_HOSTS-}" bash -c 'cd "$1" && shift && exec "$@"' - "$TESTS/${file%/*}" \
        "$python" -m pytest -q -p no:cacheprovider -p in_place "$TESTS/$file" "$@"
    # shellcheck disable=SC2154 # what run sets
    PASSED=$(sed -n 's/^result: passed //p' <<<"$output")
    FAILED=$(sed -n 's/^result: failed //p' <<<"$output")
    SKIPPED=$(sed -n 's/^result: skipped //p' <<<"$output")
}

# all_passed COUNT: at least COUNT tests passed, and none failed.
all_passed() {
    local n
    n=$(grep -c . <<<"$PASSED") || true
    if [[ $FAILED ]] || ((n < $1)); then
        echo "$output"
        echo "$n passed, not $1; failed: $FAILED; skipped: $SKIPPED"
        return 1
    fi
}
