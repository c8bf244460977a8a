#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # what run sets
# Elastic jobs on hosts that a script finds, through a real sshd on each of them, without a scheduler. Their workers are
# elastic_worker.py, or restart_worker.py where all are started anew.

load helpers
load launch
load sshd

setup_file() {
    if ! sshd_can; then return 0; fi
    hosts_up --nodes 3
    sshd_prepare hvdn1 hvdn2 hvdn3
    mkdir -p "$(home)/lib"
    cp "$BATS_TEST_DIRNAME"/{elastic,restart}_worker.py "$(home)/"
    cp "$BATS_TEST_DIRNAME/lib/tcpstore_client.py" "$(home)/lib/"
    discover_script
}
teardown_file() { if sshd_can; then cluster_down; fi; }
setup() {
    sshd_can || skip "OpenSSH is not installed"
    fresh_work
    on_login chmod 777 work
}
teardown() {
    sshd_can || return 0
    local host
    cluster_mend
    for host in hvdn1 hvdn2 hvdn3; do sshd_up "$host"; done
}

# elastic [OPTION OF hvdrun…]: on the hosts that the script finds.
elastic() {
    begin on_login hvdrun --launcher=ssh --host-discovery-script ./discover --discovery-interval 0.2 --min-np 1 "$@" \
        ./elastic_worker.py work
}

# works_as LINE…: the ranks of the last generation are these, in their order: "size S rank R on HOST … was R0".
last_generation() { tail -n "$1" "$WORK/log" | sed 's/ pid .*//' | sort -k4n; }
works_as() {
    local want
    want=$(printf '%s\n' "$@")
    wait_for 30 works_so "$#" "$want" || { echo "not: $want" && cat "$WORK/log" "$OUT" && return 1; }
}
works_so() { [[ $(last_generation "$1" 2>/dev/null) == "$2" ]]; }

@test "hosts are added and removed" {
    hosts hvdn1:2
    elastic -np 2 --trace trace.json
    works_as "size 2 rank 0 on hvdn1 local 0/2 cross 0/1 was 0" "size 2 rank 1 on hvdn1 local 1/2 cross 0/1 was 1"
    hosts hvdn1:2 hvdn2:1
    works_as "size 3 rank 0 on hvdn1 local 0/2 cross 0/2 was 0" "size 3 rank 1 on hvdn1 local 1/2 cross 0/1 was 1" \
        "size 3 rank 2 on hvdn2 local 0/1 cross 1/2 was 2"
    hosts hvdn2:1 hvdn3:1
    works_as "size 2 rank 0 on hvdn2 local 0/1 cross 0/2 was 2" "size 2 rank 1 on hvdn3 local 0/1 cross 1/2 was 1"
    wait_for 20 gone hvdn1 elastic_worker
    ends_well 30
    has "generation 2: 3 ranks on 2 hosts (hvdn2 added)" "hvdn1 removed" "hvdn3 added"
    has_not "error" "warning"
    traced "launch - start" "launch 1 ranks run" "launch 1 ranks end, or wait for the next generation: hosts have changed" \
        "launch 2 ranks run" "launch 2 ranks end, or wait for the next generation: hosts have changed" "launch 3 ranks run"
    grep -q "^launch .*next generation: the job ends" "$BATS_TEST_TMPDIR/trace"
    traced "hvdn1 - part of the job" "hvdn2 - part of the job" "hvdn3 - part of the job"
    nobody_left
}

@test "a host is lost: the others go on, and it is used again when it returns" {
    hosts hvdn1:1 hvdn2:1
    elastic -np 2
    works_as "size 2 rank 0 on hvdn1 local 0/1 cross 0/2 was 0" "size 2 rank 1 on hvdn2 local 0/1 cross 1/2 was 1"
    # A process that an ssh of its own keeps alive ends, and the node agent with it.
    as_root hvdn2 pkill -KILL -u alice
    says 20 "hvdn2 is left out"
    hosts hvdn1:1
    on_login touch work/again.1
    works_as "size 1 rank 0 on hvdn1 local 0/1 cross 0/1 was 0"
    hosts hvdn1:1 hvdn2:1
    works_as "size 2 rank 0 on hvdn1 local 0/1 cross 0/2 was 0" "size 2 rank 1 on hvdn2 local 0/1 cross 1/2 was 1"
    ends_well 30
    nobody_left
}

# restarts LINE…: soon the ranks of the last generation are these, started anew so many times: "rank R on HOST N".
restarts() {
    local want
    want=$(printf '%s\n' "$@")
    wait_for 30 restarted "$#" "$want" || { echo "not: $want" && cat "$WORK/log" "$OUT" && return 1; }
}
restarted() { [[ $(started "$1" | sort) == "$2" ]]; }
started() { tail -n "$1" "$WORK/log" 2>/dev/null | sed -E 's/.*(rank .*) local .* restarts ([0-9]+) .*/\1 \2/'; }

@test "all ranks are started anew when a host is lost, and when it returns; of fixed hosts none returns" {
    hosts hvdn1:1 hvdn2:1
    begin on_login hvdrun --launcher=ssh --host-discovery-script ./discover --discovery-interval 0.2 -np 2 --min-np 1 \
        --max-np 2 --max-restarts 3 ./restart_worker.py work
    restarts "rank 0 on hvdn1 0" "rank 1 on hvdn2 0"
    as_root hvdn1 pkill -KILL -u alice
    restarts "rank 0 on hvdn2 1"
    hosts hvdn2:1
    sleep 1
    hosts hvdn1:1 hvdn2:1
    restarts "rank 0 on hvdn2 1" "rank 1 on hvdn1 1"
    ends_well 30
    on_login rm -f work/log work/stop
    begin on_login hvdrun --launcher=ssh --hosts hvdn1:1,hvdn2:1 -np 2 --max-restarts 3 ./restart_worker.py work
    restarts "rank 0 on hvdn1 0" "rank 1 on hvdn2 0"
    as_root hvdn2 pkill -KILL -u alice
    ended 20
    exits 137
    has "rank 1 was lost with its host" "1 slot is left, but 2 ranks are needed"
    nobody_left
}

@test "hosts that ssh does not reach are left out, and named" {
    sshd_down hvdn2
    hosts hvdn1:1 hvdn2:1 nowhere:1
    elastic -np 1
    works_as "size 1 rank 0 on hvdn1 local 0/1 cross 0/1 was 0"
    ends_well 30
    has "hvdn2: ssh cannot reach it, or may not log in there" "nowhere: its name does not resolve on this host"
    nobody_left
}

@test "labelled output is complete and each line its worker's; a signal ends all workers" {
    hosts hvdn1:1 hvdn2:1
    elastic -np 2 --label
    works_as "size 2 rank 0 on hvdn1 local 0/1 cross 0/2 was 0" "size 2 rank 1 on hvdn2 local 0/1 cross 1/2 was 1"
    as_root hvdlogin pkill -INT -x hvdrun
    ended 20
    exits 130
    has "0: size 2 rank 0 on hvdn1" "1: size 2 rank 1 on hvdn2"
    nobody_left
}

@test "hosts that a program finds are reached through ssh, whichever option names it" {
    local how
    for how in "--discover script:./discover" "--host-discovery-script ./discover"; do
        on_login rm -f work/log work/stop
        hosts hvdn1:1
        # shellcheck disable=SC2086
        begin on_login hvdrun $how --discovery-interval 0.2 --min-np 1 -np 1 ./elastic_worker.py work
        works_as "size 1 rank 0 on hvdn1 local 0/1 cross 0/1 was 0"
        ends_well 30
    done
    nobody_left
}
