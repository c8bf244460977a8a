#!/usr/bin/env bats
# hvdrun as people know srun: its options, files, input and output.

load launch

setup_file() { suite_up --nodes 4; }
teardown() { cluster_mend --clean; }

HOSTS='echo "$SLURMD_NODENAME $HOROVOD_RANK/$HOROVOD_SIZE"'

lines() { [[ $(grep -c "$2" <<<"$output") -eq $1 ]] || { echo "not $1 times '$2': $output" && return 1; }; }

@test "-N, --ntasks-per-node, -w and -x decide how many ranks are where" {
    gives 0 launch hvdrun -N4 --ntasks-per-node=2 bash -c "$HOSTS"
    lines 8 /8
    for host in 1 2 3 4; do lines 2 "hvdn$host"; done
    run launch hvdrun -w hvdn2,hvdn4 -N2 -n2 bash -c "$HOSTS"
    lines 1 "hvdn2 0/2"
    lines 1 "hvdn4 1/2"
    run launch hvdrun -x 'hvdn[1-3]' -N1 -n2 bash -c "$HOSTS"
    lines 2 hvdn4
}

@test "hosts of a job may be listed by address, or with their domain" {
    local of2
    of2=$(cluster exec -- getent ahostsv4 hvdn2 | awk 'NR == 1 { print $1 }')
    script inner.sh <<END
#!/bin/sh
hvdrun --hosts hvdn3.any.domain:1,$of2:2 bash -c '$HOSTS'
hvdrun --hosts 10.77.0.99:1 true
END
    submit -N3 --ntasks-per-node=2 inner.sh
    lines 1 "hvdn3 0/3"
    lines 1 "hvdn2 1/3"
    lines 1 "hvdn2 2/3"
    has "host 10.77.0.99 is not in this allocation, which has"
    [[ $output != *$'\n\n'* && $status -eq 2 ]]
}

@test "-c, --mem, -t, -J and --cpu-bind reach Slurm" {
    gives 0 launch hvdrun -N2 -n4 --ntasks-per-node=2 -c3 --mem=200 -t 7 -J my-name --cpu-bind=none \
        bash -c 'echo "$SLURM_CPUS_PER_TASK $SLURM_JOB_NAME"; squeue -h -j $SLURM_JOB_ID -o "%l %m"'
    lines 4 "3 my-name"
    lines 4 "7:00 200M"
}

@test "--label and -l label lines as srun does" {
    for how in --label -l; do
        gives 0 launch hvdrun $how -N2 -n4 --ntasks-per-node=2 bash -c 'echo out; echo err >&2'
        for rank in 0 1 2 3; do
            lines 1 "^$rank: out$"
            lines 1 "^$rank: err$"
        done
    done
}

@test "-o, -e and -i name files of input and output" {
    gives 0 launch hvdrun -o 'out.%t' -e 'err.%t' -N2 -n2 bash -c 'echo "out $HOROVOD_RANK"; echo "err $HOROVOD_RANK" >&2'
    [ -z "$output" ]
    for rank in 0 1; do
        [ "$(cat "$(home)/out.$rank")" = "out $rank" ]
        [ "$(cat "$(home)/err.$rank")" = "err $rank" ]
    done
    script input <<<"some input"
    run launch hvdrun -i input -N2 -n2 cat
    lines 2 "some input"
    gives 0 launch hvdrun -i none -N2 -n2 cat
    [ -z "$output" ]
}

@test "standard input goes to the ranks as srun gives it" {
    for with in srun hvdrun; do
        output=$(echo hello | launch "$with" -N2 -n2 cat)
        lines 2 hello
        # With stdin closed, and from a large file, nothing hangs and nothing is lost.
        output=$(launch "$with" -N2 -n2 wc -c </dev/null)
        lines 2 '^0$'
        output=$(head -c 3000000 /dev/zero | launch "$with" -N2 -n2 wc -c)
        lines 2 '^3000000$'
    done
}

@test "much output is not lost and not mixed up" {
    for with in srun hvdrun; do
        gives 0 launch "$with" -l -N2 -n4 --ntasks-per-node=2 seq -f 'a line of output, number %06.0f' 5000
        lines 20000 "^[0-3]: a line of output, number 00[0-9]\{4\}$"
    done
}

@test "-- ends the options; the command's own stay its own" {
    gives 0 launch hvdrun -N1 -n1 -- echo -n4 --label
    [ "$output" = "-n4 --label" ]
    run launch hvdrun -N1 -n1 echo -n4 --label --version
    [ "$output" = "-n4 --label --version" ]
    run launch hvdrun -N1 -n1 bash -c 'echo "$#:$1:$2:$3"' - 'two words' '' '*'
    [ "$output" = "3:two words::*" ]
}

@test "the exit status is that of the rank that failed" {
    gives 0 launch hvdrun -N2 -n2 true
    for code in 1 42 255; do
        run launch hvdrun -N2 -n2 bash -c "exit $code"
        exits "$code"
    done
    gives 1 launch hvdrun -N2 -n2 -p nosuchpartition true
    has "invalid partition"
    run launch hvdrun -N2 -n2 --no-such-option true
    [ "$status" -ne 0 ]
    has "--no-such-option"
    gives 2 launch hvdrun -N2 -n2
}

@test "a launcher as the command is refused with the line to write, unless there is one for each host" {
    printf '#!/bin/sh\necho "torchrun $SLURM_NODEID $*"\n' | script torchrun
    printf '#!/bin/sh\necho "mpirun $*"\n' | script mpirun
    local path
    path=$(home):/usr/bin:/bin
    typed() { run on_login env PATH="$B/bin:$path" "$@"; }
    typed hvdrun --launcher=fork -np 2 torchrun --nproc-per-node=2 train.py --lr 1
    exits 2
    [ "${lines[0]}" = "hvdrun: error: torchrun is a launcher, too: each of its copies would start a training of its own" ]
    [[ ${lines[1]} == "hvdrun: write hvdrun --launcher=fork -np 2 python train.py --lr 1, "* ]]
    [ "${#lines[@]}" -eq 2 ]
    # Where a job would have to queue, at once; else when the layout is known.
    typed hvdrun -N2 --ntasks-per-node=2 torchrun train.py
    exits 2
    has "write hvdrun -N2 --ntasks-per-node=2 python train.py,"
    has_not StepId
    typed hvdrun -n4 torchrun train.py
    exits 2
    has "write hvdrun -n4 python train.py,"
    has_not "torchrun 0"
    typed hvdrun -N2 hvdrun -np 2 train
    exits 2
    has "write hvdrun -np 2 train"
    typed srun --hvd -N2 -n4 torchrun train.py
    exits 2
    has "hvd: write srun --hvd python train.py,"
    has_not "torchrun 0"
    typed srun --hvd -N2 -n2 mpirun -np 4 train
    exits 2
    has "mpirun is a launcher, too" "write srun --hvd train; for a program that uses MPI"
    # One for each host.
    typed hvdrun -N2 -n2 torchrun train.py
    exits 0
    has "torchrun 0 train.py" "torchrun 1 train.py"
    typed srun --hvd -N2 -n2 torchrun train.py
    exits 0
    has "torchrun 0 train.py" "torchrun 1 train.py"
    typed hvdrun --launcher=fork -np 1 mpirun -np 4 train
    exits 0
    has "mpirun -np 4 train"
    assert_no_leftovers
}

# hvdrun(1), EXIT STATUS, lists these.
@test "the status is that of the rank that failed first, whoever starts the ranks" {
    local how two='if [ $HOROVOD_RANK = 0 ]; then exit 3; else sleep 1; exit 9; fi'
    for how in "-n2" "--launcher=fork -np 2"; do
        # shellcheck disable=SC2086
        run -3 on_login hvdrun $how sh -c "$two"
        # shellcheck disable=SC2086
        run -3 on_login hvdrun $how --keep-going sh -c "$two"
        # shellcheck disable=SC2086
        run -127 on_login hvdrun $how nosuchcommand
        # shellcheck disable=SC2086
        run -127 on_login hvdrun $how /etc/passwd
        # shellcheck disable=SC2086,SC2016
        run -137 on_login hvdrun $how sh -c 'kill -KILL $$'
    done
    run -3 on_login hvdrun --launcher=fork -np 2 --min-np 2 sh -c "$two"
    # No sshd runs there.
    run -1 on_login hvdrun --launcher=ssh --hosts hvdn1:1 --start-timeout 5 true
    run -2 on_login hvdrun -N2 -n2 --nics=nosuch0 true
    begin on_login hvdrun --launcher=fork -np 2 sh -c 'echo ready; sleep 50'
    says_times 10 2 ready
    on_host hvdlogin pkill -TERM -o -x hvdrun
    ended 10 143
    begin on_login hvdrun -n2 sh -c 'echo ready; sleep 50'
    says_times 10 2 ready
    on_host hvdlogin pkill -TERM -o -x hvdrun
    ended 20 137
}

next_job() { on_host hvdctl scontrol show config | grep NEXT_JOB_ID; }
@test "--dry-run starts nothing and shows a line that works" {
    local next
    next=$(next_job)
    [[ $next == NEXT_JOB_ID* ]]
    gives 0 launch hvdrun --dry-run -N2 -n4 --fusion-threshold-mb 32 echo 'two words'
    has "backend: srun" "HOROVOD_FUSION_THRESHOLD=33554432" "-N2 -n4" "'two words'"
    [[ $(next_job) == "$next" ]]
    gives 0 bash -c "'$HVD_CLUSTER_CMD' exec -- hvdrun --dry-run --json -N2 -n4 true | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert d[\"backend\"] == \"srun\", d
assert \"-N2\" in d[\"processes\"][0][\"argv\"], d'"
}

@test "Slurm shows the user's command as the name of the job, and ranks see the name of their job" {
    gives 0 launch hvdrun -N1 -n1 bash -c 'squeue -h -j $SLURM_JOB_ID -o %j; echo "$SLURM_JOB_NAME"'
    lines 2 '^bash$'
    gives 0 on_login env SLURM_JOB_NAME=mine hvdrun -N1 -n1 bash -c 'squeue -h -j $SLURM_JOB_ID -o %j'
    lines 1 '^mine$'
    script inner.sh <<'END'
#!/bin/sh
hvdrun bash -c 'echo "$SLURM_JOB_NAME"'
END
    submit -N1 -n1 -J outer inner.sh
    lines 1 '^outer$'
}

@test "a launch that waits says what it waits for" {
    begin on_login hvdrun -np 2 --min-np 2 --discover=jobs:NONE --elastic-timeout=4 true
    says 4 "waiting for hosts: no running job of yours has the name or comment NONE yet"
    ended 10 1
    fault munged-stop hvdlogin
    begin on_login timeout 5 hvdrun -N2 -n2 true
    says 4 "hvdrun: still waiting for Slurm: munged does not run on this host"
    ended 10 124
    fault clear
}

@test "--json tells how it went" {
    gives 0 bash -c "'$HVD_CLUSTER_CMD' exec -- hvdrun --json -N2 -n3 --ntasks-per-node=2 \
        sh -c '[ \$HOROVOD_RANK != 0 ] || echo \$SLURM_JOB_ID' 2>&1 | grep '^[0-9{]' | python3 -c '
import json, re, sys
job, text = sorted(sys.stdin.read().splitlines(), key=len)
d = json.loads(text)
assert d[\"job\"] == int(job) and d[\"version\"][0].isdigit(), d
assert sorted((h[\"name\"], h[\"ranks\"]) for h in d[\"hosts\"]) == [(\"hvdn1\", 2), (\"hvdn2\", 1)], d
assert not re.search(r\"\\d\\.\\d{11}\", text), text'"
    gives 0 bash -c "'$HVD_CLUSTER_CMD' exec -- hvdrun --json -N2 -n4 --ntasks-per-node=2 \
        bash -c '[ \$HOROVOD_RANK = 3 ] && exit 9; sleep 20' 2>&1 | grep '^{' | python3 -c '
import json, sys
d = json.load(sys.stdin)
f = d[\"first_failure\"]
assert d[\"status\"] == 9 and d[\"started\"] is True, d
assert f[\"rank\"] == 3 and f[\"host\"] == \"hvdn2\" and f[\"how\"] == \"exit code 9\", d
assert 0 < d[\"start_seconds\"] <= d[\"seconds\"] < 20, d'"
}

@test "--trace writes what a viewer of traces reads" {
    for with in srun hvdrun; do
        gives 0 launch "$with" --hvd-trace trace.json -N3 -n6 --ntasks-per-node=2 true
        gives 0 python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))
events = d["traceEvents"] if isinstance(d, dict) else d
text = json.dumps(d)
assert all(e["ph"] for e in events) and len(events) >= 3, events
for host in "hvdn1", "hvdn2", "hvdn3":
    assert host in text, text
assert all(e.get("dur", 0) >= 0 for e in events)' "$(home)/trace.json"
        rm "$(home)/trace.json"
    done
    # The launch as a whole: the queue, the start, what PyTorch's ranks do, the end.
    gives 0 launch hvdrun --trace trace.json -N2 -n4 --ntasks-per-node=2 python3 "$BATS_TEST_DIRNAME/lib/tcpstore_client.py"
    gives 0 python3 -c '
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
row = [e["pid"] for e in events if e["ph"] == "M" and e["args"]["name"] == "launch"]
phases = [(e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X" and e["pid"] == row[0]]
names = ["queue, and start of the agents", "start", "ranks start, until the first init", "init, from the first rank to the last", "ranks run"]
assert [p[0] for p in phases] == names, phases
assert all(abs(a[1] + a[2] - b[1]) <= 2 for a, b in zip(phases, phases[1:])), phases' "$(home)/trace.json"
    rm "$(home)/trace.json"
    # However it ends.
    for with in srun hvdrun; do
        run launch "$with" --hvd-trace trace.json -N2 -n2 false
        traced "launch - start" "launch 1 ranks run"
        rm "$(home)/trace.json"
        begin launch "$with" --hvd-trace trace.json -N2 -n2 sh -c 'echo ready; exec sleep 60'
        says_times 10 2 ready
        on_login sh -c 'scancel -u alice'
        ended 20
        traced "launch - start" "launch 1 ranks run"
        rm "$(home)/trace.json"
    done
    run launch hvdrun --trace /nowhere/trace.json -N2 -n2 true
    has /nowhere/trace.json
}

@test "tunables and configuration reach every rank" {
    printf 'params:\n  cycle_time_ms: 2.5\n' | script tune.yaml
    for with in srun hvdrun; do
        gives 0 launch "$with" --hvd-config tune.yaml -N2 -n2 bash -c 'echo "cycle $HOROVOD_CYCLE_TIME"'
        lines 2 "^cycle 2.5$"
    done
    run launch hvdrun --hvd-config tune.yaml --cycle-time-ms 4 -N2 -n2 bash -c 'echo "cycle $HOROVOD_CYCLE_TIME"'
    lines 2 "^cycle 4$"
}

@test "a start within a step is refused, since srun would wait for ever, but not in a job that a step has submitted" {
    begin launch srun --no-hvd -N1 -n1 hvdrun -n1 hostname
    ended 20 2
    has "hvdrun was started by srun, in step" "--overlap"
    gives 0 launch srun --no-hvd -N1 -n1 hvdrun --overlap -n1 hostname
    [ "$output" = hvdn1 ]
    gives 0 launch srun --no-hvd -N1 -n1 hvdrun --launcher=fork -np 2 hostname
    lines 2 hvdn1
    printf '#!/bin/sh\nhvdrun -n1 hostname\n' | script inner.sh
    gives 0 launch srun --no-hvd -N1 -n1 sbatch --wait --output=inner.out inner.sh
    [ "$(cat "$(home)/inner.out")" = hvdn1 ]
}

# A file of srun --multi-prog for four ranks, and what its ranks print.
programs() {
    script programs <<'END'
# who runs what
1-2  sh -c 'echo "trainer $*: $RANK/$WORLD_SIZE"' - %o\
  rank%t
*    sh -c 'echo "other $*: $RANK/$WORLD_SIZE"' - %o\ a
END
}
programs_ran() {
    lines 4 /4
    has "other 0 a more: 0/4" "trainer 0 rank1 more: 1/4" "trainer 1 rank2 more: 2/4" "other 3 a more: 3/4"
}

@test "--multi-prog: each rank runs the command that srun's file names for it, whoever starts the ranks" {
    programs
    for with in srun hvdrun; do
        gives 0 launch $with -N2 -n4 --multi-prog programs more
        programs_ran
    done
    gives 0 launch hvdrun -N2 -n4 --multi-prog --max-restarts=1 programs more
    programs_ran
    gives 0 on_login hvdrun --launcher=fork -np 4 --multi-prog programs more
    programs_ran
    gives 0 on_login hvdrun --launcher=fork -np 4 --multi-prog --dry-run programs
    has "# rank 0 runs sh -c 'echo " "# rank 2 runs sh -c 'echo \"trainer \$*: \$RANK/\$WORLD_SIZE\"' - 1 rank2"
}

@test "--multi-prog: other ranks than the job's, launchers and spare hosts of srun are refused" {
    programs
    script three <<<'0-2 true'
    script launchers <<<'* torchrun train.py'
    gives 2 launch hvdrun -N2 -n4 --multi-prog three
    has "three: no executable program specified for rank 3 of 4"
    # srun alone counts these ranks.
    gives 2 launch hvdrun -N2 --ntasks-per-node=2 --multi-prog three
    has "three: no executable program specified for rank 3 of 4"
    gives 1 launch srun -N2 -n4 --multi-prog three
    has "no record for task id 3"
    for with in srun hvdrun; do
        gives 2 launch $with -N1 -n2 --multi-prog launchers
        has "line 1 of launchers: torchrun is a launcher, too"
    done
    gives 2 launch srun -N3 -n4 --hvd-spares=1 --multi-prog programs
    has "--hvd-spares cannot be used with --multi-prog"
}
