#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# shellcheck disable=SC2016 # $PID and $HOSTS are for the shell that runs the command
# Hosts that come and go are names of this machine, as in Horovod's own tests of elastic training. hvdrun cannot know
# that no other machine will come.

load ../cluster/launch
load peers
load elastic

setup_file() { elastic_file; }
setup() {
    elastic_here
    TRAIN=("$PY" "$HERE/elastic.py" "$LOG" --pause 0.1 --epochs 1000)
}
teardown() { all_gone 10 "$BATS_TEST_TMPDIR"; }

# rank_0_began_as RANK HOST: the process that was rank 0 in the last batch was started with that rank, on that host.
rank_0_began_as() {
    local as
    as=$(awk '/^worker/ { as[$2] = $8 " " $10 } /^epoch/ && $8 == 0 { last = $10 } END { print as[last] }' "$LOG")
    [[ $as == "$1 $2" ]] || { echo "rank 0 began as $as, not $1 $2" && return 1; }
}

# moves SLOTS [OPTION OF hvdrun…]: the job moves from one name of this machine to both, and then to the other.
moves() {
    local slots=$1
    echo "localhost:$slots" >"$HOSTS"
    run on_this "${ELASTIC[@]}" -np "$slots" --min-np "$slots" --max-np $((2 * slots)) "${@:2}" "${TRAIN[@]}" \
        --quit "$LOG.2" --at "1:0:any:echo 127.0.0.1:$slots >>\$HOSTS" \
        --at "$((2 * slots))*:0:any:echo 127.0.0.1:$slots >\$HOSTS; echo \$HOROVOD_GLOO_IFACE >$LOG.iface" \
        --at "$slots*:5:any:true"
}

@test "a second name of this machine comes, and then the first one goes" {
    local slots
    for slots in 2 1; do
        rm -f "$LOG"*
        moves "$slots"
        exits 0
        has "generation 2: $((2 * slots)) ranks on 2 hosts (127.0.0.1 added)" "(localhost removed)"
        has_not "is left out"
        sizes "$slots" $((2 * slots)) "$slots"
        rank_0_began_as "$slots" 127.0.0.1
        every_batch_once
    done
}

@test "two names of this machine work over loopback when --network-interfaces names it" {
    moves 1 --network-interfaces lo
    exits 0
    sizes 1 2 1
    [[ $(<"$LOG.iface") == lo ]]
}

# --elastic-timeout is for waiting for slots, as with horovodrun. A program may take longer to import its modules.
@test "--elastic-timeout does not end ranks that take long to begin" {
    echo "localhost:2" >"$HOSTS"
    gives 0 on_this "${ELASTIC[@]}" -np 2 --min-np 2 --elastic-timeout 2 sh -c 'sleep 5; exec "$@"' sh "${TRAIN[@]}" \
        --at '0:3:any:true' --quit "$LOG.0"
    sizes 2
}

@test "the reset limit: two changes of hosts are one too many, or just enough" {
    moves 1 --reset-limit 1
    exits 1
    has "generation 2: 2 ranks on 2 hosts" "the ranks have changed 1 time, as often as --reset-limit allows"
    has_not "generation 3"
    rm -f "$LOG"*
    moves 1 --reset-limit 2
    exits 0
    sizes 1 2 1
}

@test "all ranks are killed at once: the job has failed with them" {
    printf 'localhost:2\n127.0.0.1:2\n' >"$HOSTS"
    gives 137 on_this "${ELASTIC[@]}" -np 4 --min-np 2 --max-np 4 "${TRAIN[@]}" --at '1:0:0:kill -9 $PID' \
        --at '1:0:1:kill -9 $PID' --at '1:0:2:kill -9 $PID' --at '1:0:3:kill -9 $PID'
    has "failed first: killed by signal 9 (SIGKILL)"
    has_not "generation 2"
    sizes 4
}

@test "a host on which a rank has failed is used again after a while, and after a longer one when one fails again" {
    printf 'localhost:2\n127.0.0.1:2\n' >"$HOSTS"
    gives 0 on_this "${ELASTIC[@]}" -np 4 --min-np 2 --max-np 4 --blacklist-cooldown-range 1 2 "${TRAIN[@]}" --quit "$LOG.4" \
        --at '1:3:3:kill -9 $PID' --at '2*:5:any:true' --at '4*:5:3:kill -9 $PID' --at '2*:5:any:true' --at '4*:5:any:true'
    has "127.0.0.1: a rank failed there; the host is not used for 1 s" "127.0.0.1: a rank failed there; the host is not used for 2 s"
    sizes 4 2 4 2 4
    every_batch_once
}
