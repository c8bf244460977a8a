#!/usr/bin/env bats
# A few of the launches of soak.sh, so that the script itself keeps working and
# what leaks at every launch shows at once.  make soak runs a thousand.

load helpers

@test "25 launches in a row leave nothing" {
    cluster_can
    run timeout 120 "$BATS_TEST_DIRNAME/soak.sh" 25
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"25 launches in "*" s, 0 failed"* ]]
    [[ $output == *"nothing is left"* ]]
}
