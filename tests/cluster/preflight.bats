#!/usr/bin/env bats
# What is looked at before ranks start (--preflight), and hosts that are left out (--spares).

load helpers
load launch
load sshd

ALL=hvdn1:2,hvdn2:2,hvdn3:2,hvdn4:2,hvdn5:2

setup_file() {
    if ! sshd_can; then skip "OpenSSH is not installed"; fi
    suite_up --nodes 5
    sshd_prepare hvdn1 hvdn2 hvdn3 hvdn4 hvdn5
}
teardown_file() { cluster_down; }
setup() {
    # The site's program: hosts of this list are bad ones.
    cat >"$(home)/hook" <<'END'
#!/bin/sh
case " $(cat "$HOME/bad" 2>/dev/null) " in
*" $(hostname) "*) echo looking; echo "no licence on $(hostname)"; exit 3 ;;
esac
END
    chmod 755 "$(home)/hook"
    rm -f "$(home)/bad"
}
teardown() {
    local host
    for host in hvdlogin hvdn1 hvdn2 hvdn3 hvdn4 hvdn5; do as_root "$host" pkill -KILL -u alice || true; done
    fast hvdn3 2>/dev/null || true
    cluster_mend
}

bad() { echo "$*" >"$(home)/bad"; }
over_ssh() { on_login hvdrun --hosts "$ALL" --preflight-hook="$(hook)" "$@"; }
hook() { on_login bash -c 'echo $HOME/hook'; }
RANKS='echo "$HOROVOD_RANK $HOROVOD_SIZE $HOROVOD_LOCAL_RANK $HOROVOD_CROSS_RANK $HOROVOD_CROSS_SIZE $RANK $(hostname)"'

# Ranks 0 to 7 are on all hosts but the named one.
eight_without() {
    local host rank=0 want=""
    for host in hvdn1 hvdn2 hvdn3 hvdn4 hvdn5; do
        [[ $host != "$1" ]] || continue
        want+="$rank 8 0 $((rank / 2)) 4 $rank $host"$'\n'
        want+="$((rank + 1)) 8 1 $((rank / 2)) 4 $((rank + 1)) $host"$'\n'
        rank=$((rank + 2))
    done
    [[ $(grep -E '^[0-9]' <<<"$output" | sort -n) == "${want%$'\n'}" ]] || { echo "$output" && return 1; }
}

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

@test "srun --hvd and hvdrun's srun: a bad host's tasks end with 0, and the ranks are numbered anew" {
    bad hvdn2
    run on_login env HVD_PREFLIGHT_HOOK="$(hook)" srun -N5 -n10 --ntasks-per-node=2 --hvd --hvd-preflight=quick --hvd-spares=1 bash -c "$RANKS"
    exits 0
    has "hvdn2 left out: the site's program reports: no licence on hvdn2"
    eight_without hvdn2
    run on_login env HVD_PREFLIGHT_HOOK="$(hook)" hvdrun --preflight=quick --spares=1 -N5 -n10 --ntasks-per-node=2 bash -c "$RANKS"
    exits 0
    has "hvdn2 left out: the site's program reports: no licence on hvdn2"
    eight_without hvdn2
    bad hvdn2 hvdn4
    # --hvd-spares implies --hvd-preflight=quick.
    run on_login env HVD_PREFLIGHT_HOOK="$(hook)" srun -N5 -n10 --ntasks-per-node=2 --hvd --hvd-spares=1 bash -c "$RANKS"
    exits 1
    has "2 hosts are not fit for the job, but it has 1 spare" "no licence on hvdn2" "no licence on hvdn4"
}

@test "ssh: with --preflight=off a host that cannot be reached is left out" {
    fault block hvdn4 eth0
    run on_login hvdrun --hosts "$ALL" --preflight=off --spares=1 --start-timeout=20 bash -c "$RANKS"
    exits 0
    has "hvdn4 left out"
    eight_without hvdn4
}

# The links of a host become slow, both ways.
slow() {
    as_root "$1" tc qdisc add dev ib0 root tbf rate 50mbit burst 64kb latency 200ms
    as_root "$1" tc qdisc add dev eth0 root tbf rate 50mbit burst 64kb latency 200ms
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
    run on_login srun -N5 -n10 --ntasks-per-node=2 --hvd --hvd-preflight=full --hvd-spares=1 bash -c "$RANKS"
    fast hvdn3
    exits 0
    grep -E "hvdn3 left out: [0-9.]+ Mbit/s to its neighbours, median [0-9.]+ [MG]bit/s" <<<"$output"
    eight_without hvdn3
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
    run on_login env HVD_PREFLIGHT_HOOK="$(hook)" salloc -Q -N5 --ntasks-per-node=2 hvdrun --preflight=quick --spares=1 -np 8 bash -c "$RANKS"
    exits 0
    has "hvdn1 left out"
    eight_without hvdn1
}

# refused CMD…: with status 2, and no rank was started.
refused() {
    run on_login "$@" sh -c 'echo "started on $(hostname)"'
    exits 2
    has_not "started on"
}

@test "ranks that the hosts without the spares do not hold are refused, whoever starts them" {
    refused srun -N2 -n4 --hvd --hvd-spares=1
    has "without 1 spare host there are " " slots, but the job has 4 ranks" "srun's -n counts the tasks of spare hosts as well"
    refused hvdrun -N2 -n4 --preflight=full --spares=1
    has "without 1 spare host there are " " slots, but the job has 4 ranks" "srun's -n counts the tasks of spare hosts as well"
    refused hvdrun -N5 -np 8 --ntasks-per-node=2 --spares=1
    has "without 1 spare host there are 7 slots, but the job has 8 ranks"
    refused salloc -Q -N2 -n4 srun -n4 --hvd --hvd-spares=1
    has "without 1 spare host there are " " slots, but the job has 4 ranks"
    refused salloc -Q -N2 --ntasks-per-node=2 hvdrun -np 4 --spares=1
    has "the job has 2 hosts, but needs 2 and 1 spare"
    refused hvdrun --hosts hvdn1:2,hvdn2:2 -np 4 --spares=1
    has "the job has 2 hosts, but needs 2 and 1 spare"
    refused hvdrun --launcher=fork -np 4 --spares=1
    has "the job has 1 hosts, but needs 1 and 1 spare"
    # The number of the job's tasks counts the spares, and so does one that says no more than --ntasks-per-node.
    run on_login salloc -Q -N2 -n4 srun --hvd --hvd-spares=1 true
    exits 0
    run on_login srun -N2 -n4 --ntasks-per-node=2 --hvd --hvd-spares=1 bash -c "$RANKS"
    exits 0
    has "0 2 0 0 1 0 " "1 2 1 0 1 1 "
    run on_login hvdrun -N2 -n4 --ntasks-per-node=2 --spares=1 bash -c "$RANKS"
    exits 0
    has "0 2 0 0 1 0 " "1 2 1 0 1 1 "
}

@test "a spare host that is as good as the others is called a spare, and has no fault" {
    run over_ssh --preflight=full --spares=1 bash -c "$RANKS"
    exits 0
    [[ $(grep -cE "^hvdrun: hvdn[1-5] is a spare host, and is not needed" <<<"$output") -eq 1 ]] || { echo "$output" && return 1; }
    has_not "left out"
    run on_login srun -N5 --ntasks-per-node=2 --hvd --hvd-spares=1 bash -c "$RANKS"
    exits 0
    has "hvdn5 is a spare host, and is not needed"
    has_not "left out"
    eight_without hvdn5
}

@test "ssh: a host that sshd does not answer on is left out, and its failure is not that of the job" {
    sshd_down hvdn2
    run over_ssh --spares=1 bash -c "$RANKS"
    sshd_up hvdn2
    exits 0
    has "hvdn2 left out"
    eight_without hvdn2
    nobody_left
}

# Slurm cannot start tasks there either, and srun ends the step for it when its own time limit has passed.
@test "srun --hvd: a host whose munged has stopped is left out and named" {
    fault munged-stop hvdn4
    run on_login srun -N5 -n10 --ntasks-per-node=2 --hvd --hvd-spares=1 --hvd-start-timeout=20 bash -c "$RANKS"
    has "hvdn4 left out: its node agent did not register in time"
    eight_without hvdn4
}
