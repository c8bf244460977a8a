#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2016 # what run sets; what a shell on the cluster reads
# --events: the file of each kind of job, and files that cannot be written.

load helpers
load launch
load restart_ranks

setup_file() {
    suite_up --nodes 3 --slurm-conf AuthInfo=cred_expire=5 # how long a requeued job waits
    bring_worker
    cp "$BATS_TEST_DIRNAME/elastic_worker.py" "$(home)/"
}
setup() {
    fresh_work
    rm -f "$(home)"/{events,all,report.html}
}
teardown() {
    cluster_mend
    assert_no_leftovers
}

# events LINE…: the file is lines of JSON, and has these among others, in this order: "NAME FIELD=VALUE…", the fields in
# the order of the alphabet and some of them left out.
events() {
    "$BATS_TEST_DIRNAME/lib/events.py" "$(home)/events" "$@"
}

@test "a job of fixed size has its hosts, ranks, failure and end in the file, by srun and by hvdrun" {
    for with in srun hvdrun; do
        run launch "$with" --hvd-events=events -N2 -n4 --ntasks-per-node=2 sh -c '[ $RANK = 2 ] || exit 0; sleep 1; exit 3'
        exits 3
        events launch-began "host-registered host=hvdn2" "host-here host=hvdn2" \
            "generation-began generation=1 hosts=hvdn[1-2] ranks=4 restarts=0" \
            "rank-ended host=hvdn2 rank=2 status=3" "first-failure host=hvdn2" "launch-ended status=3"
        events "generation-failed host=hvdn2 how=exit code 3 rank=2"
        rm "$(home)/events"
    done
    on_login env HVD_EVENTS=events HVD_REPORT=report.html sh -c 'srun --hvd -N2 -n2 true && hvdrun -N2 -n2 true'
    events launch-began "generation-began ranks=2" "launch-ended status=0" launch-began "generation-began ranks=2" "launch-ended status=0"
    [[ $(grep -cE '^,?\{"launch":"' "$(home)/report.html") -eq 2 ]]
    launch hvdrun --events=events --spares=1 -N3 -np 2 --ntasks-per-node=1 true
    events "host-spare why=it is not needed" "launch-ended status=0"
}

@test "a job with restarts has each generation, and why it ended" {
    fails_twice --events events
    run grep -c '"generation-ending".*"generation":1,' "$(home)/events"
    [[ $output == 0 ]] # it has failed
    events "host-coming host=hvdn1" "host-registered host=hvdn1" "host-here host=hvdn1" \
        "generation-began generation=1 hosts=hvdn[1-2] ranks=4 restarts=0" "init-began generation=1" "init-done generation=1" \
        "rank-ended generation=1 host=hvdn2 rank=3 status=137" "generation-failed host=hvdn2 rank=3" \
        "restart restarts=1 why=rank 3 failed" "generation-ended generation=1" "first-failure generation=1 host=hvdn2" \
        "generation-began generation=2 hosts=hvdn[1-2] restarts=1" "host-lost host=hvdn1" \
        "generation-ending generation=2 host=hvdn1" "restart restarts=2" \
        "generation-began generation=3 hosts=hvdn[2-3] restarts=2" "launch-ended status=0"
}

@test "an elastic job of Horovod's kind has its hosts and generations" {
    begin on_login salloc -Q -N2 --ntasks-per-node=1 --no-kill hvdrun --min-np 1 --events events ./elastic_worker.py work
    wait_for 30 grep -q "size 2 rank 1" "$WORK/log"
    ends_well 30
    events "host-here host=hvdn2" "generation-began generation=1 hosts=hvdn[1-2] ranks=2" "init-began generation=1" \
        "init-done generation=1" "rank-ended rank=1 status=0" "launch-ended status=0"
}

@test "a file that cannot be written never holds the launch up, and a warning counts what is missing" {
    for with in srun hvdrun; do
        gives 0 launch "$with" --hvd-events=/dev/full -N2 -n2 true
        has "events could not be written to /dev/full (--events): No space left on device"
        on_login mkfifo events
        gives 0 launch "$with" --hvd-events=events -N2 -n2 true
        has "events could not be written to events (--events)"
        on_login rm events
        run launch "$with" --hvd-events=nowhere/events -N2 -n2 true
        exits 2
        has "--events nowhere/events cannot be written: No such file or directory"
        # A file system whose server has gone: the launch waits a second for the file to open, and two at its end.
        hung_fs hvdlogin hung
        begin launch "$with" --hvd-events=hung/events -N2 -n2 true
        ended 20 0
        has "the last events may be missing in hung/events"
        hung_fs_end hvdlogin
        wait_for 10 no_writer
    done
}
no_writer() { ! as_root hvdlogin pgrep -u alice -f 'hvd-driver|hvdrun' >/dev/null; }

@test "HVD_EVENTS of a batch job: all launches of both cycles share the file, which says why it began again" {
    script job.sh <<'END'
#!/bin/bash
export HVD_EVENTS=events
if [[ ! ${SLURM_RESTART_COUNT-} ]]; then
    hvdrun -N2 -n2 --hang-timeout=2 --hang-action=kill sleep 50
    srun --hvd -N2 -n2 --hvd-requeue-on=ask sh -c 'exit 85'
    sleep 20
fi
srun --hvd -N2 -n2 true
END
    submit -N2 --ntasks-per-node=1 --requeue job.sh
    exits 0
    events "launch-began backend=srun" "hang why=no rank has made progress" launch-ending "launch-ended status=1" \
        "launch-began backend=plugin" "rank-ended status=85" "requeue job=$JOB why=a rank asks for it" "launch-ended status=85" \
        "launch-began backend=plugin" "launch-ended status=0"
}

@test "killed, hvdrun leaves whole lines, and its last events" {
    begin launch hvdrun --events=events -N2 -n2 sleep 60
    wait_for 20 grep -q generation-began "$(home)/events"
    as_root hvdlogin pkill -KILL -x hvdrun
    ended 30
    wait_for 30 none_completing
    events launch-began "generation-began ranks=2"
    run grep -q launch-ended "$(home)/events"
    exits 1
}

@test "the report of srun and of hvdrun: command, networks, the stacks of a hang, and nobody else reads it" {
    for with in srun hvdrun; do
        run launch "$with" --hvd-report=report.html --hvd-events=events --hvd-hang-timeout=2 --hvd-hang-action=kill -N2 -n2 \
            sh -c 'exec sleep 50' --token=hf_secret
        exits "$([[ $with == srun ]] && echo 143 || echo 1)" # srun's own status is the ranks'
        events "networks-chosen networks=ib0 (veth, IPv4, 100000 Mb" "generation-began hosts=hvdn[1-2]" "hang why=no rank has made progress" \
            "stack-group count=2 members=0-1" "hang-action why=the job is ended" launch-ended
        run grep -c 'hf_secret' "$(home)/events" "$(home)/report.html"
        exits 1
        grep -q -- "\"command\":\"$with .*'--token=\*\*\*'\"" "$(home)/events"
        [[ $(on_login stat -c '%a %U' report.html) == '600 alice' ]]
        on_login sh -c 'cat events >>all; rm events; exec hvdrun --report-of all --report=again.html'
        cmp "$(home)/report.html" "$(home)/again.html" # which has the launches of both
    done
}
