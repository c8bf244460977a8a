#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2086,SC2154 # what other shells evaluate, lists of words, what run sets
# The launch's TCPStore: who is named when not all ranks call init_process_group(), on which host it is, how long it
# stays. (strangers.bats and relay.bats: who may use it.) Ranks are light ones (lib/tcpstore_client.py).

load helpers
load launch

LIB=$BATS_TEST_DIRNAME/lib

setup_file() { suite_up --ssh --nodes 4 --cpus 4; }
teardown_file() { cluster_down; }
teardown() {
    cluster kill-users
    cluster_mend
}

# absent RANK…: a script for ranks, of which these do not call init_process_group().
absent() {
    script absent.sh <<END
#!/bin/bash
if [[ " $* " == *" \$RANK "* ]]; then exec sleep 60; fi
exec python3 $LIB/tcpstore_client.py 2>/dev/null
END
}

@test "ranks that have not called init_process_group in time are named, with what the others wait for" {
    absent 6 7
    run on_login srun --hvd --hvd-verbose --hvd-init-timeout=2 -N4 -n8 --ntasks-per-node=2 ./absent.sh
    exits 143
    has "error: ranks 6, 7 on hvdn4 have not called init_process_group within 2 s of the first rank that did; ending" \
        "waits for default_pg/0//value/6 and 1 more"
    absent 1 2 3
    run on_login hvdrun --init-timeout=2 -N2 -n4 --ntasks-per-node=2 ./absent.sh
    exits 1
    has "error: ranks 2, 3 on hvdn2, and 1 of ranks 0, 1 on hvdn1 have not called init_process_group within 2 s"
    absent 3
    run on_login hvdrun --init-timeout=2 -np 4 ./absent.sh
    exits 1
    has "error: 1 of ranks 0-3 on localhost has not called init_process_group within 2 s"
    assert_no_leftovers
}

@test "nothing is said when all ranks come, or none" {
    absent none
    run on_login srun --hvd --hvd-verbose --hvd-init-timeout=2 -N2 -n4 bash -c './absent.sh; sleep 3'
    exits 0
    has "all 4 ranks have called init_process_group, the last "
    has_not "have not called"
    run on_login srun --hvd --hvd-verbose --hvd-init-timeout=1 -N2 sleep 2
    exits 0
    has_not init_process_group
}

# The host of rank 0 says whether MASTER_ADDR is one of its addresses, and whether other hosts could reach it.
WHERE='((RANK)) || { [[ $MASTER_ADDR == 127.0.0.1 ]] && echo "on loopback"; } ||
    { ip -o addr | grep -qF " $MASTER_ADDR/" && echo "on $(hostname)"; }'

@test "MASTER_ADDR is an address of rank 0's host, wherever the launcher is" {
    local with
    printf 'hvdn3\nhvdn1\nhvdn2\n' >"$(home)/hosts.txt"
    script where.sh <<END
#!/bin/bash
export SLURM_HOSTFILE=hosts.txt
\$1 -m arbitrary -n3 bash -c '$WHERE'
END
    for with in "srun --hvd" hvdrun; do
        # In the job on hvdn1, and on the login host.
        submit -w "hvdn[1-3]" -N3 where.sh "$with"
        exits 0
        has "on hvdn3"
        run on_login env SLURM_HOSTFILE=hosts.txt $with -m arbitrary -n3 bash -c "$WHERE"
        exits 0
        has "on hvdn3"
    done
    # One host has no need of a network.
    run on_login srun --hvd -N1 -n2 bash -c "$WHERE"
    exits 0
    has "on loopback"
    run on_login hvdrun --hosts hvdn2:2,hvdn1:1 bash -c "$WHERE"
    exits 0
    has "on hvdn2"
    assert_no_leftovers
}

# Rank 0 leaves as soon as all have met. The others use the store when it has gone.
stay() {
    script stay.py <<END
#!/usr/bin/env python3
import os, sys, time
sys.path.insert(0, "$LIB")
import tcpstore_client
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = tcpstore_client.Store()
store.set("met/%d" % rank, "x")
store.wait(["met/%d" % each for each in range(world)])
if rank == 0:
    sys.exit()
time.sleep(1.5)
store.set("stayed", "x")
again = tcpstore_client.Store(init=False)
os.write(1, b"rank %d: %s\n" % (rank, again.get("stayed")))
again.set("read/%d" % rank, "x")
if rank == 1:  # the last of rank 0's host: the store ends with it
    again.wait(["read/%d" % each for each in range(1, world)])
END
}

@test "the store stays when rank 0 has gone, as long as another rank of its host is there" {
    local with
    stay
    for with in "srun --hvd -N2 -n4 --ntasks-per-node=2" "hvdrun --hosts hvdn1:2,hvdn2:2"; do
        run on_login $with ./stay.py
        exits 0
        [[ $(sort <<<"$output") == $'rank 1: x\nrank 2: x\nrank 3: x' ]] || { echo "$output" && return 1; }
    done
    assert_no_leftovers
}
