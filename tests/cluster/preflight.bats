#!/usr/bin/env bats
# What is looked at before ranks start (--preflight), and hosts that are left out (--spares): of launches by ssh.
# layout.bats has those by srun.

load helpers
load launch
load preflight

ALL=hvdn1:2,hvdn2:2,hvdn3:2,hvdn4:2,hvdn5:2

setup_file() {
    hosts_up --ssh --nodes 5
}
teardown_file() { cluster_down; }
setup() { site_program; }
teardown() {
    fast hvdn3 2>/dev/null || true
    cluster_mend
}

over_ssh() { on_login hvdrun --hosts "$ALL" --preflight-hook="$(home)/hook" "$@"; }

@test "ssh: without spares a bad host fails the start, and is named with what the site's program said" {
    bad hvdn3
    run over_ssh --preflight=quick true
    exits 1
    has "hvdn3: the site's program reports: no licence on hvdn3"
    bad hvdn2 hvdn3
    run over_ssh --preflight=quick true
    exits 1
    has "hvdn2: the site's program reports: no licence on hvdn2" "hvdn3: the site's program reports: no licence on hvdn3"
    run over_ssh --preflight=off bash -c "$RANKS"
    exits 0
}

@test "ssh: a bad host is left out, and the ranks are numbered anew" {
    bad hvdn3
    run over_ssh --preflight=quick --spares=1 bash -c "$RANKS"
    exits 0
    has "hvdn3 left out: the site's program reports: no licence on hvdn3"
    eight_without hvdn3
    bad hvdn1
    run over_ssh --preflight=quick --spares=1 hvd-selftest --quick
    selftest_ok 8 4
    bad
    run over_ssh --preflight=quick --spares=1 bash -c "$RANKS"
    exits 0
    eight_without hvdn5
}

@test "ssh: with --preflight=off a host that cannot be reached is left out" {
    fault silence hvdn4
    run on_login hvdrun --hosts "$ALL" --preflight=off --spares=1 --start-timeout=20 bash -c "$RANKS"
    exits 0
    has "hvdn4 left out"
    eight_without hvdn4
}

# slow HOST [MBIT]: the links of a host become slow, both ways.
slow() {
    as_root "$1" tc qdisc add dev ib0 root tbf rate "${2:-50}mbit" burst 64kb latency 200ms
    as_root "$1" tc qdisc add dev eth0 root tbf rate "${2:-50}mbit" burst 64kb latency 200ms
}
fast() {
    as_root "$1" tc qdisc del dev ib0 root
    as_root "$1" tc qdisc del dev eth0 root
}

@test "full: a slow host is found, and not its neighbours; it is left out, or fails the start" {
    slow hvdn3
    run on_login hvdrun --hosts "$ALL" --preflight=full --verbose bash -c "$RANKS"
    exits 1
    grep -E "hvdn3: [0-9.]+ Mbit/s to its neighbours, median [0-9.]+ [MG]bit/s" <<<"$output"
    has_not "error: hvdn1" "error: hvdn2" "error: hvdn4" "error: hvdn5"
    run on_login hvdrun --hosts "$ALL" --preflight=full --spares=1 bash -c "$RANKS"
    fast hvdn3
    exits 0
    grep -E "hvdn3 left out: [0-9.]+ Mbit/s to its neighbours, median [0-9.]+ [MG]bit/s" <<<"$output"
    eight_without hvdn3
}

@test "full: an elastic job measures its first hosts, and goes on without a slow one" {
    slow hvdn3
    run on_login hvdrun --hosts "$ALL" --preflight=full --max-restarts=1 --min-np=8 -np 8 bash -c "$RANKS"
    fast hvdn3
    exits 0
    grep -E "hvdn3 is left out: [0-9.]+ Mbit/s to its neighbours, median [0-9.]+ [MG]bit/s" <<<"$output"
    has_not "hvdn1 is left out" "hvdn2 is left out" "hvdn4 is left out" "hvdn5 is left out"
    grep -E "preflight: all checks passed on 4 hosts; slowest: hvdn" <<<"$output"
    eight_without hvdn3
}

@test "full: the slowest of good hosts is the spare, in a job of fixed size and in an elastic one" {
    local h how slowest="the slowest, [0-9.]+ Mbit/s to its neighbours, median [0-9.]+ Mbit/s"
    for h in 1 2 3 4 5; do slow "hvdn$h" $((h == 2 ? 60 : 90)); done
    for how in "" --max-restarts=1; do
        run on_login hvdrun --hosts "$ALL" --preflight=full --spares=1 ${how:+"$how"} bash -c "$RANKS"
        exits 0
        grep -E "hvdn2 is a spare host(, and is not needed)?: $slowest" <<<"$output"
        eight_without hvdn2
    done
    for h in 1 2 3 4 5; do fast "hvdn$h"; done
}

@test "full: all hosts are good: one line says so, with the slowest" {
    run on_login hvdrun --hosts "$ALL" --preflight=full true
    exits 0
    [[ $output =~ ^"hvdrun: preflight: all checks passed on 5 hosts; slowest: hvdn"[1-5]", "[0-9.]+" "[MG]"bit/s and "[0-9]+" us to its neighbours (median "[0-9.]+" "[MG]"bit/s)"$ ]] ||
        { echo "$output" && return 1; }
    run on_login hvdrun --hosts "$ALL" --preflight=quick true
    [[ $status -eq 0 && ! $output ]]
}

@test "quick: a full /dev/shm, and an option that cannot be done" {
    as_root hvdn2 mount -t tmpfs -o size=16m tmpfs /dev/shm
    run on_login hvdrun --hosts "$ALL" --preflight=quick --spares=1 bash -c "$RANKS"
    as_root hvdn2 umount /dev/shm
    exits 0
    has "hvdn2 left out: 16 MiB are free in /dev/shm, and 64 MiB are needed"
    eight_without hvdn2
    run on_login hvdrun --hosts hvdn1,hvdn2 -np 2 --spares=1 true
    exits 2
    has "the job has 2 hosts, but needs 2 and 1 spare"
    run on_login hvdrun --mpi --hosts "$ALL" --spares=1 true
    exits 2
    has "--spares cannot be used with"
}

@test "-np: so many hosts as its ranks need, and the spares, are taken; the last host may have fewer ranks" {
    bad hvdn1
    run over_ssh --preflight=quick --spares=2 -np 5 bash -c "$RANKS"
    exits 0
    has "hvdn1 left out"
    [[ $(grep -E '^[0-9]' <<<"$output" | sort -n) == "0 5 0 0 3 0 hvdn2
1 5 1 0 2 1 hvdn2
2 5 0 1 3 2 hvdn3
3 5 1 1 2 3 hvdn3
4 5 0 2 3 4 hvdn4" ]] || { echo "$output" && return 1; }
}

@test "ranks that the hosts without the spares do not hold are refused" {
    local how
    for how in "--hosts hvdn1:2,hvdn2:2" --launcher=fork; do
        # shellcheck disable=SC2086
        run on_login hvdrun $how -np 4 --spares=1 sh -c 'echo "started on $(hostname)"'
        exits 2
        has_not "started on"
        has "hosts, but needs "
    done
}

@test "a spare host that is as good as the others is called a spare, and has no fault" {
    run over_ssh --preflight=full --spares=1 bash -c "$RANKS"
    exits 0
    [[ $(grep -cE "^hvdrun: hvdn[1-5] is a spare host, and is not needed" <<<"$output") -eq 1 ]] || { echo "$output" && return 1; }
    has_not "left out"
}

@test "ssh: a host that sshd does not answer on is left out, and its failure is not that of the job" {
    fault sshd-kill hvdn2
    run over_ssh --spares=1 bash -c "$RANKS"
    exits 0
    has "hvdn2 left out"
    eight_without hvdn2
    assert_no_leftovers
}
