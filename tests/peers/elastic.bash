# shellcheck shell=bash
# What tests of elastic training share. LOG is elastic.py's log.

# elastic_file [OPTION OF hvd-cluster up…]: in setup_file; brings a cluster up if there are options.
elastic_file() {
    peers
    built
    if [[ $PEERS_WHY ]]; then return 0; fi
    reference "$BATS_FILE_TMPDIR"
    if (($#)); then suite "$@"; fi
}

# elastic_here [OPTION OF hvdrun…]: in setup of tests on this machine. ELASTIC is hvdrun with these options and with a
# discovery script that finds what the file HOSTS says.
elastic_here() {
    needs_peers
    LOG=$BATS_TEST_TMPDIR/log HOSTS=$BATS_TEST_TMPDIR/hosts
    export HOSTS
    printf '#!/bin/sh\ncat "%s"\n' "$HOSTS" >"$BATS_TEST_TMPDIR/discover"
    chmod +x "$BATS_TEST_TMPDIR/discover"
    # shellcheck disable=SC2034 # for the tests
    ELASTIC=("$HVDRUN" "$@" --host-discovery-script "$BATS_TEST_TMPDIR/discover")
}

# elastic_begin: in setup of tests on a cluster. ~/discover is a discovery script that finds what hosts has written.
elastic_begin() {
    needs_cluster
    LOG=$(home)/log
    rm -rf "$(home)"/log* "$(home)/failed-once" "$(home)/train.out"
    discover_script
}

# elastic_end: in teardown of tests on a cluster.
elastic_end() {
    mend
    if [[ ! $PEERS_WHY$CLUSTER_WHY ]]; then assert_no_leftovers; fi
}

# elastic [OPTION OF hvdrun…]: runs hvdrun in an allocation of all four nodes.
elastic() { on_login env OMP_NUM_THREADS=1 salloc -Q -N4 --no-kill hvdrun "$@"; }

# reference DIR: writes the losses of an undisturbed training of three epochs to DIR/alone.
reference() {
    on_this "$HVDRUN" --launcher=fork --min-np 1 "$PY" "$HERE/elastic.py" "$1/log" --pause 0 2>"$1/said" ||
        { cat "$1/said" >&2 && return 1; }
    grep '^loss' "$1/log" >"$1/alone"
}

# loss_as_alone [DIR]: the losses in LOG are those that reference has written, up to rounding.
loss_as_alone() {
    paste "${1-$BATS_FILE_TMPDIR}/alone" <(grep '^loss' "$LOG") | awk '
        { off = $2 > $4 ? $2 - $4 : $4 - $2; if ($4 == "" || off > 1e-9 * $2) { print; exit 1 } }'
}

# sizes N…: the job had these sizes, one after the other.
sizes() {
    local seen
    seen=$(sed -nE 's/.* size ([0-9]+) .*/\1/p' "$LOG" | uniq | paste -sd' ')
    [[ $seen == "$*" ]] || { echo "sizes were $seen, not $*" && return 1; }
}

# every_batch_once [EPOCHS]: rank 0 has done all batches in order, up to the last of EPOCHS. A batch that was under way
# when a rank failed may be in LOG twice.
every_batch_once() {
    awk -v epochs="${1-}" '
        /^epoch/ && $8 == 0 {
            at = $2 * 10 + $4
            if (at != next_at && at != next_at - 1) { print "after " next_at - 1 ": " $0; bad = 1 }
            next_at = at + 1
        }
        END { if (epochs && next_at != epochs * 10) { print "ended at " next_at; bad = 1 } exit bad }' "$LOG"
}

# survived N NEW: when event N killed a rank no other process was ended; the job went on with the rest and NEW
# processes.
survived() {
    local new
    has "breaking the connections of generation" " connections of its ranks broken"
    has_not "is silent while others wait" "connections of its ranks broken:"
    new=$(awk -v n="$1" '
        /^event/ && $2 == n { after = 1 }
        /^epoch/ && !after { was[$10] = 1 }
        /^epoch/ && after && !($10 in was) { new[$10] = 1 }
        END { print length(new) }' "$LOG")
    [[ $new == "$2" ]] || { echo "$new processes are new, not $2" && return 1; }
}

# recovered N: prints the seconds from event N to the first batch after it of a new process, or of a job of another
# size.
recovered() {
    awk -v n="$1" '
        /^epoch/ && !at { was[$10 " " $6] = 1 }
        /^event/ && $2 == n { at = $4 }
        /^epoch/ && at && !(($10 " " $6) in was) { printf "%.2f", $12 - at; exit }' "$LOG"
}
