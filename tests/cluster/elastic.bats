#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# shellcheck disable=SC2016 # $HOROVOD_RANK and the like are for the shell that runs the command
# Elastic jobs of programs that do no training: what they print, and how they end.

load launch

setup_file() { suite_up --nodes 4; }
teardown() {
    cluster_mend
    assert_no_leftovers
}

# elastic [OPTION OF hvdrun…]: two ranks on each of four hosts.
elastic() { on_login salloc -Q -N4 --ntasks-per-node=2 --no-kill hvdrun --min-np 2 "$@"; }

# all_said [LABEL…]: each rank's line is in $output once.
all_said() {
    diff <(grep hello <<<"$output" | sort) <(for rank in {0..7}; do echo "${1:+$rank: }hello $rank"; done)
}

@test "a command that ends at once loses none of its output" {
    for how in "" "" "" --label -lv; do
        # shellcheck disable=SC2086
        gives 0 elastic $how sh -c 'echo "hello $HOROVOD_RANK"'
        has_not "Killed" "cpu binding"
        if [[ $how ]]; then all_said labelled; else all_said; fi
    done
}

# Node agents and srun have ten seconds to end, when nothing keeps them. Lines without labels may mix.
@test "a reader of the output that comes late finds everything, and the job waits for it" {
    on_login salloc -Q -N2 --ntasks-per-node=2 --no-kill hvdrun --min-np 2 \
        sh -c 'for i in 0 1 2 3 4 5 6 7 8 9; do printf "%20000d\n" "$i"; done' 2>"$BATS_TEST_TMPDIR/said" |
        (sleep 14 && tr -cd '0-9' | fold -w 1 | sort | uniq -c | awk '{ print $2 " " $1 }') >"$BATS_TEST_TMPDIR/read" 3>&-
    cat "$BATS_TEST_TMPDIR/said"
    diff "$BATS_TEST_TMPDIR/read" <(for i in {0..9}; do echo "$i 4"; done)
    [[ ! -s $BATS_TEST_TMPDIR/said ]] || ! grep error "$BATS_TEST_TMPDIR/said"
}

@test "a host that comes later does not truncate the output file" {
    local out
    out=$(home)/o.txt
    discover_script
    rm -f "$(home)/go" "$out"
    hosts hvdn1:2
    begin on_login salloc -Q -N2 --no-kill hvdrun --hvd-verbose --min-np 2 -np 2 --host-discovery-script ./discover -o o.txt \
        sh -c 'echo "hello $HOROVOD_RANK"; n=0; until [ -e ~/go ] || [ $((n += 1)) -gt 600 ]; do sleep 0.1; done'
    wait_for 30 grep -q "hello 0" "$out"
    wait_for 30 grep -q "hello 1" "$out"
    echo hvdn2:2 >>"$(home)/hosts"
    says 30 "hvdn2 can be used"
    : >"$(home)/go"
    ended 30 0
    grep "hello 0" "$out"
    grep "hello 1" "$out"
}

# relay_port HOST: the port at which the relay of that host listens on loopback.
relay_port() { as_root "$1" ss -Htlnp | sed -nE '/"hvd-agent"/ s/.* 127\.0\.0\.1:([0-9]+) .*/\1/p'; }
no_relay() { [[ ! $(relay_port "$1") ]]; }
# at_relay HOST WORD...: alice sends the relay of that host a request from there.
at_relay() { peer alice "$1" http 127.0.0.1 "$(relay_port "$1")" "${@:2}"; }

@test "a host that has left the job cannot use its rendezvous any longer, and may come again" {
    local port
    discover_script
    rm -f "$(home)"/{go,begun}
    hosts hvdn1:1 hvdn2:1
    # The second host is there, and has no rank.
    begin on_login salloc -Q -N2 --no-kill hvdrun --hvd-verbose --min-np 1 -np 1 --max-np 1 --discovery-interval 0.2 \
        --host-discovery-script ./discover \
        sh -c 'echo begun >begun; n=0; until [ -e go ] || [ $((n += 1)) -gt 600 ]; do sleep 0.1; done'
    says 30 "hvdn2 can be used"
    wait_for 30 test -s "$(home)/begun"
    [[ $(at_relay hvdn2 PUT /scope/key hello) == 200* ]]
    port=$(relay_port hvdn2)
    hosts hvdn1:1
    says 30 "hvdn2: ending its node agent"
    wait_for 5 no_relay hvdn2
    [[ $(peer alice hvdn2 http 127.0.0.1 "$port" GET /scope/key) == "Connection refused" ]]
    [[ $(at_relay hvdn1 GET /scope/key) == "200 hello" ]]
    echo hvdn2:1 >>"$(home)/hosts"
    says_times 30 2 "hvdn2 can be used"
    [[ $(at_relay hvdn2 GET /scope/key) == "200 hello" ]]
    : >"$(home)/go"
    ended 30 0
}

@test "a host that has left the job is shut out of the relay of rank 0's host, and may come again" {
    local addr port
    discover_script
    rm -f "$(home)"/{go,rendezvous.*}
    hosts hvdn1:1 hvdn2:1
    begin on_login salloc -Q -N2 --no-kill hvdrun --min-np 1 -np 2 --max-np 2 --max-restarts 3 \
        --discovery-interval 0.2 --host-discovery-script ./discover \
        sh -c 'echo $MASTER_ADDR $MASTER_PORT >rendezvous.$RANK; echo "rank $RANK of $WORLD_SIZE"; n=0
            until [ -e go ] || [ $((n += 1)) -gt 600 ]; do sleep 0.1; done'
    says_times 30 2 "of 2"
    read -r addr port <"$(home)/rendezvous.0"
    [[ $addr == "$(cluster addr hvdn1 ib0)" && $(<"$(home)/rendezvous.1") == "$addr $port" ]]
    [[ $(peer alice hvdn2 http "$addr" "$port" PUT /scope/key hello) == 200* ]]
    hosts hvdn1:1
    says 30 "rank 0 of 1"
    [[ $(<"$(home)/rendezvous.0") == "$addr $port" ]]
    [[ $(peer alice hvdn2 http "$addr" "$port" GET /scope/key) == 403* ]]
    [[ $(peer alice hvdn2 http "$addr" "$port" PUT /scope/key evil) == 403* ]]
    [[ $(peer alice hvdn2 http "$addr" "$port" DELETE /scope/key) == 403* ]]
    # What ranks had stored went with them.
    [[ $(peer alice hvdn1 http "$addr" "$port" GET /scope/key) == 404* ]]
    hosts hvdn1:1 hvdn2:1
    says_times 30 4 "of 2"
    [[ $(peer alice hvdn2 http "$addr" "$port" PUT /scope/key again) == 200* ]]
    [[ $(peer alice hvdn1 http "$addr" "$port" GET /scope/key) == "200 again" ]]
    : >"$(home)/go"
    ended 30 0
}
