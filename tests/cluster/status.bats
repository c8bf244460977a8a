#!/usr/bin/env bats
# shellcheck disable=SC2154 # what run sets
# shellcheck disable=SC2016 # for the shell that runs the command
# hvdrun --status: what a running job does, asked from outside.

load launch
load asked

# knows ARG… TEXT: hvdrun --status answers, with this text.
knows() {
    local text=${*: -1}
    output=$(on_login hvdrun --status "${@:1:$#-1}" 2>&1) && [[ $output == *"$text"* ]]
}

@test "a step says what it does, as text and as JSON, and on a screen" {
    local with job
    cp "$BATS_TEST_DIRNAME/lib/tcpstore_client.py" "$(home)/"
    for with in "srun --hvd" "hvdrun"; do
        # Rank 3 waits in the store, in a process below its own.
        # shellcheck disable=SC2086 # a command and its options
        begin on_login $with -N2 -n4 bash -c 'echo here; echo "last of $RANK" >&2; (((RANK == 3))) || exec sleep 1000
            python3 -c "import tcpstore_client as t; t.Store(timeout=1000).wait([\"never\"])"; exit 1'
        job=$(job_of 4)
        wait_for 10 knows "$job" "store: rank 3 waits for never"
        has "job $job, process " "on hvdlogin: running, begun" "hosts: 2 here" "ranks: 4 running" "  rank 3 on hvdn2 waits"
        # The first figures come some seconds later.
        wait_for 20 knows "$job" " CPU DELAY   MEM "
        gives 0 on_login hvdrun --status "$job" --json
        [[ $(jq -c '.launches[] | [.state, .generation, .restarts, (.hosts | length), [.ranks[].state], .ranks[3].waits, .store]' \
            <<<"$output") == '["running",1,0,2,["running","running","running","running"],"never",[]]' ]] || { echo "$output" && return 1; }
        wait_for 20 knows "$job" --rank=2 "    2 hvdn1 "
        has "its last lines (stderr; its stdout does not pass through hvd):" "last of 2"
        has_not "    1 hvdn1 "
        gives 2 on_login hvdrun --status "$job" --rank=4
        has "no launch of job $job has a rank 4 now"
        gives 0 on_login python3 "$BATS_TEST_DIRNAME/../unit/watch_pty.py" "$(on_login bash -c "command -v hvdrun")" "$job" waits
        gives 1 as_user bob hvdrun --status "$job"
        has "no launch of job $job answers on its hosts" "as its user"
        # From a host that is none of the job's: the launch runs on the login host.
        gives 1 as_root hvdn3 runuser -u alice -- hvdrun --status "$job"
        has "no launch of job $job answers on its hosts" "ask on hvdlogin"
        on_login scancel "$job"
        ended 20
        wait_for 20 no_jobs
    done
    gives 2 on_login hvdrun --status 99999
    gives 2 on_login hvdrun --status nonsense
    has "--status: 'nonsense' is not a job"
}

@test "a batch job is asked from the login host, also with several launches" {
    local job
    script job.sh <<'EOS'
#!/bin/bash
hvdrun --overlap -N1 -n1 bash -c 'echo one; exec sleep 1000' &
hvdrun --overlap -N2 -n2 bash -c 'echo two; exec sleep 1000' &
wait
EOS
    job=$(on_login sbatch --parsable -N2 --ntasks-per-node=2 -o "$(home)/out" "$(home)/job.sh")
    wait_for 30 knows "$job" "ranks: 2 running"
    wait_for 30 knows "$job" "ranks: 1 running"
    has "on hvdn" "ranks: 2 running"
    gives 0 on_login hvdrun --json --status "$job"
    [[ $(jq -c '[.launches[].ranks | length] | sort' <<<"$output") == "[1,2]" ]] || { echo "$output" && return 1; }
    on_login scancel -u alice
}

@test "a restart is seen, with what ended the last generation" {
    local pid
    begin on_login hvdrun --launcher=fork -np 3 --max-restarts=1 bash -c \
        'echo here; [[ $RANK != 1 || $TORCHELASTIC_RESTART_COUNT != 0 ]] || exit 7; exec sleep 1000'
    says_times 20 5 here
    pid=$(as_root hvdlogin pgrep -u alice -x hvdrun)
    wait_for 20 knows "pid:$pid" "generation: 2, for"
    has "after 1 restart; the last one: rank 1 on" "exit code 7" "goodput:" "ranks: 3 running"
    gives 0 on_login hvdrun --status "pid:$pid" --json
    [[ $(jq -c '.launches[0] | [.generation, .restarts, .goodput.goodput > 0]' <<<"$output") == "[2,1,true]" ]] || { echo "$output" && return 1; }
    gives 2 as_user bob hvdrun --status "pid:$pid"
    has "process $pid is not an hvdrun"
    gives 2 on_login hvdrun --status "pid:1"
    as_root hvdlogin kill -INT "$pid"
    ended 20
}

@test "a job with a spare host is seen from its first to its third generation" {
    local generation pid
    # A rank fails when the test says so.
    begin on_login hvdrun -N3 --ntasks-per-node=2 --spares=1 --max-restarts=2 bash -c \
        'echo here; until [[ $RANK == 1 && -e ~/fail$TORCHELASTIC_RESTART_COUNT ]]; do sleep 0.2; done; exit 3'
    for generation in 1 2 3; do
        says_times 30 $((generation * 4)) here
        pid=$(as_root hvdlogin pgrep -u alice -x hvdrun)
        wait_for 20 generation_is "$pid" "$generation" "hosts: 2 here, 1 spare (hvdn" || { echo "$output" && tail "$OUT" && return 1; }
        has "ranks: 4 running"
        as_user alice touch "$(home)/fail$((generation - 1))"
    done
    has "after 2 restarts; the last one: rank 1 on hvdn"
    ended 30 3
    gives 2 on_login hvdrun --status "pid:$pid"
}
generation_is() {
    output=$(on_login hvdrun --status "pid:$1" 2>&1) &&
        [[ $output == *"$3"* && ($2 == 1 || $output == *"generation: $2, for"*) ]]
}
