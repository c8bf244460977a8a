# shellcheck shell=bash
# What tests of elastic training share. LOG is elastic.py's log.

# reference DIR: the loss of an undisturbed training of three epochs, in DIR/alone.
reference() {
    on_this "$HVDRUN" --launcher=fork --min-np 1 "$PY" "$HERE/elastic.py" "$1/log" --pause 0 2>"$1/said" ||
        { cat "$1/said" >&2 && return 1; }
    grep '^loss' "$1/log" >"$1/alone"
}

# loss_as_alone [DIR OF reference]
loss_as_alone() {
    paste "${1-$BATS_FILE_TMPDIR}/alone" <(grep '^loss' "$LOG") | awk '
        { off = $2 > $4 ? $2 - $4 : $4 - $2; if ($4 == "" || off > 1e-9 * $2) { print; exit 1 } }'
}

# sizes N…: of the job, one after the other.
sizes() {
    local seen
    seen=$(awk '/^epoch/ { print $6 }' "$LOG" | uniq | paste -sd' ')
    [[ $seen == "$*" ]] || { echo "sizes were $seen, not $*" && return 1; }
}

# every_batch_once EPOCHS: rank 0 has been through all batches in order; one that was under way when a rank failed
# may be there twice.
every_batch_once() {
    awk -v epochs="$1" '
        /^epoch/ && $8 == 0 {
            at = $2 * 10 + $4
            if (at != next_at && at != next_at - 1) { print "after " next_at - 1 ": " $0; bad = 1 }
            next_at = at + 1
        }
        END { if (next_at != epochs * 10) { print "ended at " next_at; bad = 1 } exit bad }' "$LOG"
}

# recovered N: seconds from event N to the first batch after it by a process that was not there before or in a larger
# or smaller job.
recovered() {
    awk -v n="$1" '
        /^epoch/ && !at { was[$10 " " $6] = 1 }
        /^event/ && $2 == n { at = $4 }
        /^epoch/ && at && !(($10 " " $6) in was) { printf "%.2f", $12 - at; exit }' "$LOG"
}
