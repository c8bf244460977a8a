#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2054,SC2154,SC2016 # what other files read; lists with commas; what run sets; what shells on the cluster evaluate
# Jobs of several roles, in Slurm, under LSF's launchers and over ssh: who runs where, what every rank is told, in which
# order roles start and end. roles_ends.bats has what follows when one of them fails.

load launch
load lsf
load sshd

ROLE=$BATS_TEST_DIRNAME/lib/role.py
THREE=(--role=trainer -N2 --ntasks-per-node=2 --after=rollout,judge "$ROLE" ask :
    --role=rollout -N2 --ntasks-per-node=1 --replicas=2 --service --ready=http:8000/health "$ROLE" serve 8000 3 :
    --role=judge --with=trainer --ntasks-per-node=1 --service --ready=tcp:9000 "$ROLE" serve 9000 1)

setup_file() { suite_up --nodes 6 --cpus 16; }

# three FIRST: $output is that of these roles on six hosts, the trainer's first.
three() {
    local rank replica host
    for rank in 0 1 2 3; do
        has "trainer/0 rank $rank of 4: on hvdn$((1 + rank / 2)) local $((rank % 2)) store $(cluster addr hvdn1 ib0):"
        # Each of the trainer's ranks has found all servers at its first try.
        for replica in 0 1; do
            for host in 0 1; do
                has "trainer/0 rank $rank of 4: was answered by rollout/$replica rank $host of 2 on hvdn$((3 + 2 * replica + host)) at try 1"
            done
        done
        for host in 0 1; do
            has "trainer/0 rank $rank of 4: was answered by judge/0 rank $host of 2 on hvdn$((1 + host)) at try 1"
        done
    done
    for host in 0 1; do
        has "rollout/0 rank $host of 2: on hvdn$((3 + host)) local 0 store $(cluster addr hvdn3 ib0):" \
            "rollout/1 rank $host of 2: on hvdn$((5 + host)) local 0 store $(cluster addr hvdn5 ib0):" \
            "judge/0 rank $host of 2: on hvdn$((1 + host)) local 0 store $(cluster addr hvdn1 ib0):"
    done
    # All ranks are told the same of each role, and each world has a store of its own.
    [[ $(grep -c ": knows trainer hosts=hvdn1,hvdn2 size=4 ports=-$" <<<"$output") -eq 10 ]]
    [[ $(grep -c ": knows rollout hosts=hvdn3,hvdn4;hvdn5,hvdn6 size=2;2 ports=8000$" <<<"$output") -eq 10 ]]
    [[ $(grep -c ": knows judge hosts=hvdn1,hvdn2 size=2 ports=9000$" <<<"$output") -eq 10 ]]
    [[ $(grep -oE "store [0-9.:]+$" <<<"$output" | sort -u | wc -l) -eq 4 ]]
}

@test "trainer, two inference servers and a judge: places, variables, order, and an end that leaves nothing" {
    gives 0 on_login hvdrun "${THREE[@]}"
    three
    assert_no_leftovers
}

@test "a file says the same, and --dry-run shows it without starting anything" {
    script three.yaml <<END
roles:
  trainer: {nodes: 2, ntasks-per-node: 2, after: [rollout, judge], command: $ROLE ask}
  rollout: {nodes: 2, ntasks-per-node: 1, replicas: 2, service: yes, ready: "http:8000/health", command: [$ROLE, serve, 8000, 3]}
  judge: {with: trainer, ntasks-per-node: 1, service: yes, ready: "tcp:9000", command: $ROLE serve 9000 1}
END
    script both.sh <<'END'
#!/bin/bash
hvdrun --dry-run --roles=three.yaml >file.txt && hvdrun --dry-run "$@" >line.txt && cat line.txt
END
    gives 0 on_login salloc -Q -N6 --ntasks-per-node=3 ./both.sh "${THREE[@]}"
    has "role trainer/0: hvdn1*2, hvdn2*2" "role rollout/0: hvdn3*1, hvdn4*1" \
        "role rollout/1: hvdn5*1, hvdn6*1" "role judge/0: hvdn1*1, hvdn2*1"
    diff <(grep '^# ' "$(home)/file.txt") <(grep '^# ' "$(home)/line.txt")
}

@test "the same in an LSF job and over ssh" {
    JOB_HOSTS="hvdn1 3 hvdn2 3 hvdn3 1 hvdn4 1 hvdn5 1 hvdn6 1"
    standins_up hvdn{1,2,3,4,5,6}
    installed blaunch
    gives 0 in_job hvdrun "${THREE[@]}"
    three
    nothing_left
    for each in hvdn{1,2,3,4,5,6}; do as_root "$each" pkill -KILL -f standins/resd; done
    if ! sshd_can; then skip "OpenSSH is not installed"; fi
    sshd_prepare hvdn{1,2,3,4,5,6}
    gives 0 on_login hvdrun --hosts hvdn1:3,hvdn2:3,hvdn3:1,hvdn4:1,hvdn5:1,hvdn6:1 "${THREE[@]}"
    three
    nobody_left
    for each in hvdn{1,2,3,4,5,6}; do sshd_down "$each"; done
}

# refused TEXT… -- ARG…: before anything is started.
refused() {
    local texts=()
    while [[ $1 != -- ]]; do texts+=("$1") && shift; done
    gives 2 on_login hvdrun "${@:2}"
    has "${texts[@]}"
}

@test "roles that cannot be are refused with status 2" {
    refused "two roles are named a" -- --role=a -n1 true : --role=a -n1 true
    refused "--after goes round in a circle: a after b after a" -- --role=a -n1 --after=b true : --role=b -n1 --after=a true
    refused "role a: there is no role \"c\" (--after)" -- --role=a -n1 --after=c true : --role=b -n1 true
    refused "the part behind colon number 1 has no command" -- --role=a -n1 true : --role=b -n1
    refused "cannot be used with roles" -- --launcher=jsrun --role=a -n1 true : --role=b -n1 true
    refused "roles need 5: a 2, b 3" "ask for more hosts" -- --hosts hvdn1,hvdn2,hvdn3,hvdn4 --role=a -N2 true : --role=b -N3 true
}
