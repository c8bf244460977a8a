#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Discovery of an elastic job's hosts on a real Slurm: tests/bench/discovery_watch prints what such a job would be told.

load launch

setup_file() {
    suite_up --nodes 4 --cpus 4
    printf '#!/bin/bash\nsleep 300\n' >"$(home)/wait.sh"
}

setup() {
    watch=$B/tests/bench/discovery_watch
    [[ -x $watch ]] || skip "there is no $watch: make benches"
    told=$BATS_TEST_TMPDIR/told
}

teardown() {
    if [[ ${watcher-} ]]; then kill "$watcher" || true; fi
    local node
    for node in hvdn1 hvdn2 hvdn3 hvdn4; do
        as_root hvdctl scontrol update node="$node" state=resume >/dev/null 2>&1 || true
    done
    cluster_mend
}

# follow CMD…: starts discovery_watch in the background, which prints to $told.
follow() {
    on_login "$@" >"$told" 2>&1 3>&- &
    watcher=$!
}

# tells LINE: soon this is the last line that discovery_watch has printed.
last_is() { [[ $(grep -E '^(hosts|leaving|failed)' "$told" | tail -1) =~ ^($1)$ ]]; }
tells() {
    wait_for 30 last_is "$1" || {
        cat "$told"
        return 1
    }
}

# told_once LINE: discovery_watch has printed this line at any time.
told_once() { grep -qE "^($1)$" "$told"; }

node() { as_root hvdctl scontrol update node="$1" state="$2" reason=test; }

submit() { on_login sbatch --parsable -o /dev/null "$@" wait.sh; }

@test "nodes of the job that drain are left, and used again when they come back" {
    follow salloc --no-kill -N3 --ntasks-per-node=2 "$watch" --discover slurm 120
    tells 'hosts hvdn1:2@[0-9]+ hvdn2:2@[0-9]+ hvdn3:2@[0-9]+'
    node hvdn2 drain
    tells 'hosts hvdn1:2@[0-9]+ hvdn3:2@[0-9]+'
    node hvdn2 resume
    # It stands behind those that stayed.
    tells 'hosts hvdn1:2@[0-9]+ hvdn3:2@[0-9]+ hvdn2:2@[0-9]+'
    node hvdn3 down
    tells 'hosts hvdn1:2@[0-9]+ hvdn2:2@[0-9]+'
    # Slurm took the node out of the job; by now it may be up again by itself, which makes this an error.
    node hvdn3 resume || true
    node hvdn1 fail
    tells 'hosts hvdn2:2@[0-9]+'
}

@test "a job script without --no-kill is told" {
    cat >"$(home)/two.sh" <<-EOF
	#!/bin/bash
	#SBATCH -N2 -o two.out
	$watch --discover slurm 1
	EOF
    sed 's/-N2 -o two/-N2 --no-kill -o three/' "$(home)/two.sh" >"$(home)/three.sh"
    on_login sbatch -W two.sh
    on_login sbatch -W three.sh
    run cat "$(home)/two.out"
    [[ $output == *'submitted with --no-kill'* && $output == *'hosts hvdn'* ]]
    run cat "$(home)/three.out"
    [[ $output != *'--no-kill'* && $output == *'hosts hvdn'* ]]
}

@test "the nodes of a companion job are used until it is scancelled" {
    first=$(submit -J train -N1 -w hvdn1 -n2)
    follow "$watch" --discover jobs:train 120
    tells "hosts hvdn1:2@$first"
    # By name or by comment; of this user only.
    second=$(submit -J other --comment train -N1 -w hvdn2)
    tells "hosts hvdn1:2@$first hvdn2:1@$second"
    as_user bob --cwd / sbatch -J train -w hvdn3 -o /dev/null --wrap 'sleep 60' || true
    on_login scancel "$second"
    tells "hosts hvdn1:2@$first"
    on_login scancel "$first"
    tells "hosts"
    run told_once '.*hvdn3.*'
    ((status != 0))
}

@test "a companion job that is preempted is left while it has time" {
    first=$(submit -J train -N1 -w hvdn1)
    second=$(submit -J train -p preempt --exclusive -w hvdn2)
    follow "$watch" --discover jobs:train 120
    tells "hosts hvdn1:1@$first hvdn2:1@$second"
    submit -J urgent --exclusive -w hvdn2
    tells "hosts hvdn1:1@$first"
    told_once 'leaving hvdn2 [1-5]'
    # It was still there when that was said.
    [[ $(grep -c . "$told") -ge 3 ]]
}

@test "bad values of --discover are refused" {
    run on_login "$watch" --discover nodes 1
    ((status == 2))
    run on_login "$watch" --discover slurm 1
    ((status == 2))
    [[ $output == *'there is none'* ]]
}
