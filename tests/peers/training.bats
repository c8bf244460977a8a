#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# A training by real Horovod goes as it goes in one process.

load ../cluster/launch
load peers

setup_file() {
    peers
    if [[ $PEERS_WHY ]]; then return 0; fi
    timeout 60 "$PY" "$HERE/train.py" --alone >"$BATS_FILE_TMPDIR/alone"
    suite --nodes 4
}
setup() { needs_peers; }

# as_alone: the losses in $output are those of one process, up to rounding.
as_alone() {
    paste "$BATS_FILE_TMPDIR/alone" <(grep '^epoch' <<<"$output") | awk '
        { print }
        $2 != $6 || $8 == "" { bad = 1 }
        { off = $4 > $8 ? $4 - $8 : $8 - $4; if (off > 1e-9 * $4) bad = 1 }
        NR == 1 { first = $8 }
        END { if (bad || NR != 5 || $8 >= first / 2) exit 1 }'
}

@test "a training on one machine goes as in one process, with two and four ranks" {
    local np
    for np in 2 4; do
        gives 0 on_this "$HVDRUN" -np "$np" "$PY" "$HERE/train.py" "$BATS_TEST_TMPDIR"
        as_alone
    done
}

@test "the comparison notices ranks that keep to their own gradients" {
    gives 0 on_this "$HVDRUN" -np 2 "$PY" "$HERE/train.py" --apart
    if as_alone; then return 1; fi
}

@test "a training of four ranks on two hosts goes as in one process" {
    needs_cluster
    for with in srun hvdrun; do
        gives 0 launch "$with" -N2 -n4 --ntasks-per-node=2 "$PY" "$HERE/train.py"
        as_alone
    done
    assert_no_leftovers
}

@test "a training of three ranks on one host and one on another goes as in one process" {
    needs_cluster
    gives 0 launch srun -n4 --distribution=arbitrary -w hvdn1,hvdn1,hvdn1,hvdn2 "$PY" "$HERE/train.py"
    as_alone
    assert_no_leftovers
}

# traces TIMELINE LOG: Horovod has written both files; the timeline is JSON and has the collectives of the ranks.
traces() {
    python3 - "$1" <<-'END'
	import json, sys
	seen = {event.get("name") for event in json.load(open(sys.argv[1]))}
	missing = {"NEGOTIATE_ALLREDUCE", "GLOO_ALLREDUCE", "GLOO_BCAST", "CYCLE_START"} - seen
	sys.exit("not in the timeline: %s" % missing if missing else 0)
	END
    [[ $(head -n 1 "$2") == hierarchical_allreduce,*,score && $(wc -l <"$2") -gt 2 ]] || { cat "$2" && return 1; }
}

@test "options switch on hierarchical allreduce, a timeline and autotuning" {
    local to=$BATS_TEST_TMPDIR
    gives 0 on_this "$HVDRUN" -np 4 --hierarchical-allreduce --hierarchical-allgather \
        --timeline-filename "$to/timeline.json" --timeline-mark-cycles --autotune --autotune-log-file "$to/tune.csv" \
        --autotune-warmup-samples 1 --autotune-steps-per-sample 2 --autotune-bayes-opt-max-samples 4 \
        "$PY" "$HERE/train.py" "$to"
    as_alone
    traces "$to/timeline.json" "$to/tune.csv"
}

@test "a configuration file does the same in an sbatch script, with srun --hvd and with hvdrun" {
    local with all
    needs_cluster
    for with in srun hvdrun; do
        script "$with.yaml" <<-END
		params:
		  hierarchical_allreduce: true
		  hierarchical_allgather: true
		timeline: {filename: $with.json, mark_cycles: true}
		autotune: {enabled: true, log_file: $with.csv, warmup_samples: 1, steps_per_sample: 2, bayes_opt_max_samples: 4}
		END
    done
    script job.sh <<-END
	#!/bin/bash
	srun --hvd --hvd-config=srun.yaml $PY $HERE/train.py && echo next && hvdrun --config-file hvdrun.yaml $PY $HERE/train.py
	END
    submit -N2 -n4 --ntasks-per-node=2 job.sh
    exits 0
    all=$output
    has next
    for with in "${all%%next*}" "${all##*next}"; do
        output=$with
        as_alone
    done
    traces "$(home)/srun.json" "$(home)/srun.csv"
    traces "$(home)/hvdrun.json" "$(home)/hvdrun.csv"
    assert_no_leftovers
}
