#!/usr/bin/env bats
# A few of the launches of soak.sh, so that the script itself keeps working and
# what leaks at every launch shows at once.  make soak runs a thousand.  And half a minute of soak_busy.sh, of which make
# soak-busy runs an hour.

load helpers

@test "25 launches in a row leave nothing" {
    cluster_can
    run timeout 120 "$BATS_TEST_DIRNAME/soak.sh" 25
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"25 launches in "*" s, 0 failed"* ]]
    [[ $output == *"nothing is left"* ]]
}

@test "half a minute on busy processors, with agents that are stopped for seconds: no host is lost" {
    cluster_can
    run timeout 300 "$BATS_TEST_DIRNAME/soak_busy.sh" 30
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"; generations: 1; lost: 0; status 0"* ]]
}
