#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2016 # what run sets; what shells on the cluster evaluate
# What follows when a role of a launch fails, one of its replicas, or a host of it: each --on-failure. The roles of a launch
# that goes well are in roles.bats.

load launch

# A rank that stays until ~/work/stop exists.
STAYS='echo "began $TORCHELASTIC_RESTART_COUNT on $(hostname)"; until [ -e ~/work/stop ]; do sleep 0.1; done; echo "has ended"'

setup_file() { hosts_up --ssh --nodes 5; }
setup() { fresh_work; }
teardown() { cluster_mend --clean; }

# roles ARG…: on four hosts, of which the first two have two slots; ONE: options of a role with a rank.
roles() { on_login hvdrun --hosts "${HOSTS:-hvdn1:2,hvdn2:2,hvdn3,hvdn4}" "$@"; }
TWO=(-N2 --ntasks-per-node=1) ONE=(-N1 --ntasks-per-node=1)

@test "a role fails, or a service dies: the launch ends with its status, and names it" {
    gives 7 roles --role=a "${TWO[@]}" sh -c "$STAYS" : --role=b "${ONE[@]}" --after=a sh -c 'exit 7'
    has "error: rank b:0 on hvdn3 failed first: exit code 7" "2 ranks were ended by the launch"
    gives 137 roles --role=a "${TWO[@]}" sh -c "$STAYS" : \
        --role=b "${ONE[@]}" --replicas=2 --after=a --service sh -c '[ $HVD_ROLE_REPLICA = 0 ] || kill -9 $$; exec sleep 60'
    has "error: rank b/1:0 on hvdn4 failed first: killed by signal 9 (SIGKILL)" "3 ranks were ended by the launch"
    has_not "has ended"
}

@test "--on-failure=ignore: the others go on, and only a service's failure does not count at the end" {
    local service status_then=3
    for service in "" --service; do
        rm -f "$WORK/stop"
        # shellcheck disable=SC2086
        begin roles --role=a "${TWO[@]}" sh -c "$STAYS" : \
            --role=b "${ONE[@]}" --replicas=2 --after=a --on-failure=ignore $service sh -c 'exit $((HVD_ROLE_REPLICA * 3))'
        says 10 "b/1: rank 0 on hvdn4 failed: exit code 3"
        stop
        ended 10 $status_then
        status_then=0
        [[ $(grep -c "^\[a:[01]\] has ended$" <<<"$output") -eq 2 ]]
    done
}

@test "--on-failure=restart: one replica is killed and comes back, as often as it may; the others never restart" {
    begin roles --role=a "${TWO[@]}" sh -c "$STAYS" : \
        --role=b "${ONE[@]}" --replicas=2 --on-failure=restart --max-restarts=1 sh -c "$STAYS"
    says_times 10 4 "began 0"
    as_root hvdn4 pkill -KILL -u alice -f 'work/stop'
    says 10 "[b/1:0] began 1 on hvdn4"
    stop
    ended 10 0
    has "b/1: restarting all ranks, restart 1 of 1" "before generation 2: rank b/1:0 on hvdn4 failed first: killed by signal 9"
    [[ $(grep -c "began 0" <<<"$output") -eq 4 && $(grep -c "began 1" <<<"$output") -eq 1 ]]
    gives 7 roles --role=a "${TWO[@]}" sleep 60 : \
        --role=b "${ONE[@]}" --after=a --on-failure=restart --max-restarts=1 sh -c 'echo "began $TORCHELASTIC_RESTART_COUNT"; exit 7'
    has "[b:0] began 1" "all ranks were restarted 1 time, as often as --max-restarts allows"
    has_not "began 2"
}

@test "a host is lost: its roles end the launch, or restart on a spare host, and no other role restarts" {
    begin roles --role=a "${TWO[@]}" sh -c "$STAYS" : --role=b "${ONE[@]}" sh -c "$STAYS"
    says_times 10 3 "began 0"
    fault node-kill hvdn3
    ended 20 137
    has "hvdn3 is left out" "error: hvdn3: b: rank 0 was lost with its host"
    has_not "has ended"
    cluster fault clear
    HOSTS=hvdn1,hvdn2,hvdn3,hvdn4 begin roles --spares=1 --role=a "${TWO[@]}" sh -c "$STAYS" : \
        --role=b "${ONE[@]}" --on-failure=restart sh -c "$STAYS"
    says_times 10 3 "began 0"
    fault node-kill hvdn3
    says 20 "[b:0] began 1 on hvdn4"
    stop
    ended 10 0
    [[ $(grep -c "began 0" <<<"$output") -eq 3 && $(grep -c "began 1" <<<"$output") -eq 1 ]]
    cluster fault clear
}

@test "a service is not ready in time, or ends before: the launch ends, and says what was asked on which host, with its last lines" {
    gives 1 roles --role=a "${TWO[@]}" --after=b sh -c 'echo a has begun' : \
        --role=b "${ONE[@]}" --service --ready=tcp:7999 --ready-timeout=1 sh -c 'echo it loads >&2; exec sleep 60'
    has "hvdn3" "7999" "it loads"
    has_not "a has begun"
    gives 1 roles --role=a "${TWO[@]}" --after=b sh -c 'echo a has begun' : \
        --role=b "${ONE[@]}" --service --ready=tcp:7999 true
    has "role b has ended before it was ready, and role a waits for it"
    has_not "a has begun"
}
