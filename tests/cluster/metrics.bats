#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2016 # what run sets; what a shell on the cluster reads
# --metrics of each kind of job on several hosts, and what other users get of it. tests/unit/metrics.bats has what needs no
# cluster.

load helpers
load launch
load restart_ranks

setup_file() {
    suite_up --nodes 3
    bring_worker
}
setup() {
    command -v curl >/dev/null || skip "curl is not installed"
    fresh_work
    rm -f "$(home)"/{stop,hvd.prom,token}
}
teardown() {
    cluster_mend
    assert_no_leftovers
}

# begins srun|hvdrun OPTION…: a launch of two ranks on two hosts, which end when ~/stop is there.
begins() {
    begin launch "$1" --hvd-metrics=0 --hvd-sample=1 "${@:2}" -N2 -n2 sh -c 'until test -e stop; do sleep 0.2; done'
    wait_for 20 has_port
}
has_port() { port=$(sed -nE 's|.*metrics: http://127\.0\.0\.1:([0-9]+)/metrics$|\1|p' "$OUT") && [[ $port ]]; }
# status USER HOST ADDRESS OPTION…: the status of an answer; 000: there was none.
status() { cluster exec --user "$1" --host "$2" -- curl -s -o /dev/null -w '%{http_code}' --max-time 20 "${@:4}" "http://$3:$port/metrics"; }
page() { as_user alice curl -fsS --max-time 20 "http://127.0.0.1:$port/metrics" >"$BATS_TEST_TMPDIR/page"; }
# shows FILE PATTERN…
shows() {
    local pattern
    for pattern in "${@:2}"; do grep -qE "^$pattern" "$1" || return 1; done
}
page_shows() { page && shows "$BATS_TEST_TMPDIR/page" "$@"; }

@test "srun and hvdrun serve the figures of all ranks and hosts to their user's processes, and to nobody else" {
    for with in srun hvdrun; do
        begins "$with"
        wait_for 20 page_shows 'hvd_launch_state\{.*"running"\} 1' 'hvd_launch_hosts\{.*"here"\} 2' 'hvd_launch_ranks\{.*\} 2'
        wait_for 20 page_shows 'hvd_rank_memory_bytes\{.*host="hvdn1",rank="0"\} [0-9]+' \
            'hvd_rank_cpu_ratio\{.*host="hvdn2",rank="1"\} [0-9]+' 'hvd_host_memory_bytes\{.*host="hvdn2"\} [0-9]+' \
            'hvd_ranks_memory_bytes\{.*at="max"\} [0-9]+' 'hvd_launch_ranks_sampled\{.*\} 2'
        [[ $(status alice hvdlogin 127.0.0.1) == 200 ]]
        [[ $(status bob hvdlogin 127.0.0.1) == 403 ]]
        [[ $(status root hvdlogin 127.0.0.1) == 403 ]]
        [[ $(status alice hvdn1 "$(cluster addr hvdlogin eth0)") == 000 ]]
        on_login touch stop
        ended 30 0
        [[ $(status alice hvdlogin 127.0.0.1) == 000 ]]
        on_login rm stop
    done
}

@test "with a token other hosts and other users are served" {
    local login token=(-H 'Authorization: Bearer 0123456789abcdef-secret')
    login=$(cluster addr hvdlogin eth0)
    on_login sh -c 'umask 077; echo 0123456789abcdef-secret >token'
    begin launch srun --hvd-metrics=0.0.0.0:9411 --hvd-metrics-token-file=token -N2 -n2 sh -c 'until test -e stop; do sleep 0.2; done'
    port=9411
    served() { [[ $(status alice hvdlogin 127.0.0.1 "${token[@]}") == 200 ]]; }
    wait_for 20 served
    [[ $(status bob hvdn1 "$login" "${token[@]}") == 200 ]]
    [[ $(status bob hvdn1 "$login") == 401 ]]
    [[ $(status alice hvdlogin 127.0.0.1) == 401 ]]
    on_login touch stop
    ended 30 0
    run launch srun --hvd-metrics=0.0.0.0:9411 -N1 true
    exits_one_of 1 2
    has "--metrics=0.0.0.0:9411 needs --metrics-token-file"
}

@test "the file of a job with restarts has what has happened" {
    local file
    file=$(home)/hvd.prom
    fails_twice --metrics file:hvd.prom
    shows "$file" 'hvd_launch_state\{.*"ended"\} 1' 'hvd_launch_exit_status\{.*\} 0' 'hvd_generations_total\{.*\} 3' \
        'hvd_generation\{.*\} 3' 'hvd_restarts_total\{.*\} 2' 'hvd_failures_total\{.*\} 1' 'hvd_hosts_lost_total\{.*\} 1' \
        'hvd_rank_ends_total\{.*"signal"\} [1-9]' 'hvd_launch_phase_seconds\{.*"training"\} [0-9]*\.[0-9]' ||
        { cat "$file" && false; }
}

@test "a file system that does not answer holds up no launch" {
    hung_fs hvdlogin hung
    begin launch srun --hvd-metrics=file:hung/hvd.prom -N2 -n2 true
    ended 20 0
    has "the last figures may be missing in hung/hvd.prom"
    hung_fs_end hvdlogin
    wait_for 10 no_writer
}
no_writer() { ! as_root hvdlogin pgrep -u alice -f 'hvd-driver|hvdrun' >/dev/null; }
