#!/usr/bin/env bats
# shellcheck disable=SC2154 # what run sets
# shellcheck disable=SC2016 # for the shell that runs the command
# hvdrun --stacks: where the ranks of a running job are, seen from outside.

load launch
load asked

setup() {
    mkdir -p "$(home)/bin"
    # In the form of py-spy's own output; the rank's line is what the rank has written down.
    script bin/py-spy <<'EOF'
#!/bin/bash
pid=${*: -1}
line=$(tr '\0' '\n' </proc/"$pid"/environ | sed -n 's/^AT_LINE=//p')
cat <<JSON
[{"pid":$pid,"thread_id":1,"thread_name":"MainThread","os_thread_id":$pid,"active":false,"owns_gil":false,"frames":[
 {"name":"all_reduce","filename":"/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py","line":2501},
 {"name":"step","filename":"/work/alice/train.py","line":${line:-41}}]}]
JSON
EOF
}

# A rank that stays: rank 2 at another line than the others.
STAY='echo here; [[ $SLURM_PROCID != 2 ]] || export AT_LINE=17; exec sleep 1000'

# driver_knows JOB TEXT: the driver of the job's first step answers, and not a step that looks for the ranks.
driver_knows() {
    output=$(on_login hvdrun --verbose --stacks "$1.0" 2>&1)
    [[ $output != *"this host"* && $output == *"$2"* ]]
}

@test "the ranks of a step are shown in groups, the odd one first" {
    local with job
    for with in "srun" "srun --hvd" "hvdrun"; do
        # shellcheck disable=SC2086 # a command and its options
        begin on_login bash -c 'PATH=$HOME/bin:$PATH exec "$@"' bash $with -N2 -n4 bash -c "$STAY"
        job=$(job_of 4)
        gives 0 on_login hvdrun --stacks "$job"
        has "4 ranks of job $job" "rank 2 on hvdn" "all_reduce (train.py:17)" "3 ranks (0-1, 3): all_reduce (train.py:41)"
        [[ ${output%%train.py:41*} == *train.py:17* ]] || { echo "the odd one is not first: $output" && return 1; }
        gives 0 on_login hvdrun --stacks "$job.0" --json
        [[ $(jq -r '.groups[0].where + " " + (.groups[1].ranks | tostring)' <<<"$output") == "all_reduce (train.py:17) [0,1,3]" ]] || { echo "$output" && return 1; }
        # The driver is asked where it is known by the job's number, some seconds after the start.
        if [[ $with == "srun --hvd" ]]; then wait_for 10 driver_knows "$job" "3 ranks (0-1, 3): all_reduce"; fi
        on_login scancel "$job"
        ended 20
    done
}

@test "without py-spy the function is shown, and a stopped rank stays stopped" {
    local job pid
    begin on_login srun -N2 -n4 bash -c 'echo here; exec sleep 1000'
    job=$(job_of 4)
    pid=$(as_root hvdn1 pgrep -u alice -x sleep | head -n 1)
    as_root hvdn1 kill -STOP "$pid"
    gives 0 on_login hvdrun --stacks "$job"
    has "stopped by a signal" "3 ranks (" "py-spy is not installed there"
    [[ $(as_root hvdn1 ps -o state= -p "$pid") == T ]]
}

@test "gdb alone, on a busy host: it has time, and py-spy is named" {
    local job
    script bin/gdb <<'EOF'
#!/bin/bash
sleep 6
[[ ! -e ~/gdb-fails ]] || exit 1
printf '\nThread 1 (LWP %s):\n#0  0x00007f1 in c10d::TCPStore::wait () from libtorch.so\n#1  0x00007f2 in main ()\n' "$6"
EOF
    rm "$(home)/bin/py-spy"
    local GDB
    for GDB in works fails; do
        if [[ $GDB == fails ]]; then on_login touch gdb-fails; fi
        begin on_login srun -N1 -n1 bash -c 'export PATH=$HOME/bin:/bin:/usr/bin; echo here; exec sleep 1000'
        job=$(job_of 1)
        gives 0 on_login hvdrun --stacks "$job"
        if [[ $GDB == works ]]; then has "c10d::TCPStore::wait"; fi
        if [[ $GDB == fails ]]; then has "py-spy, which is quicker and shows lines of Python, is not installed there"; fi
        on_login scancel "$job"
        ended 20
    done
    as_root hvdlogin rm "$(home)/bin/gdb" "$(home)/gdb-fails"
}

@test "a job that is not there, or is another user's, is refused" {
    local job
    gives 2 on_login hvdrun --stacks 99999
    gives 2 on_login hvdrun --stacks nonsense
    has "is not a job"
    begin on_login srun -n1 bash -c 'echo here; exec sleep 1000'
    job=$(job_of 1)
    run as_user bob hvdrun --stacks "$job"
    [[ $status -ne 0 ]]
    has_not "ranks (" "rank 0"
}

@test "a node that does not answer is named, and the others are shown" {
    local job
    begin on_login srun -w hvdn1,hvdn2 -n2 bash -c 'echo here; exec sleep 1000'
    job=$(job_of 2)
    fault node-freeze hvdn2
    run on_login hvdrun --stacks "$job"
    fault node-thaw hvdn2
    exits 0
    has "no answer from hvdn2" "rank 0"
    on_login scancel "$job"
    ended 20
    wait_for 20 no_jobs
    # The driver is asked, too.
    begin on_login srun --hvd -w hvdn1,hvdn2 -n2 bash -c 'echo here; exec sleep 1000'
    job=$(job_of 2)
    wait_for 10 driver_knows "$job" "2 ranks"
    fault node-freeze hvdn2
    run on_login hvdrun --verbose --stacks "$job.0"
    fault node-thaw hvdn2
    exits 0
    has "no answer from hvdn2" "rank 0"
    has_not "this host"
}

CONNECT='import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
s.connect("\0" + sys.argv[1])
n = 0
try:
    s.sendall((sys.argv[2] + "\n").encode())
    while got := s.recv(65536):
        n += len(got)
except (BrokenPipeError, ConnectionResetError):
    pass
print("answer", n, "bytes")'

@test "a launch without Slurm is asked by the process of hvdrun" {
    local pid
    begin on_login hvdrun --launcher=fork -np 3 bash -c 'echo here; exec sleep 1000'
    says_times 10 3 here
    pid=$(as_root hvdlogin pgrep -u alice -x hvdrun)
    gives 0 on_login hvdrun --stacks "pid:$pid"
    has "3 ranks of pid:$pid" "3 ranks (0-2)"
    gives 2 on_login hvdrun --stacks "pid:1"
    has "process 1 is not an hvdrun"
    # Another user learns nothing, and cannot take the name; what makes no sense does no harm.
    gives 2 as_user bob hvdrun --stacks "pid:$pid"
    run as_user bob python3 -c "$CONNECT" "hvd/$(as_root hvdlogin id -u alice)/none/$pid" "stacks 5"
    has "answer 0 bytes"
    run on_login python3 -c "$CONNECT" "hvd/$(as_root hvdlogin id -u alice)/none/$pid" "stack $(printf '%099d' 0)"
    has "answer 0 bytes"
    gives 0 on_login hvdrun --stacks "pid:$pid"
    has "3 ranks (0-2)"
    as_root hvdlogin kill -INT "$pid"
    ended 20
}

# Another user takes names of alice's launch: all that it may have by its process id, and names beside them at which he
# never answers, or at which others wait.
SQUAT='import socket, sys, time
uid, first, last = sys.argv[1:]
def take(name, full):
    s = socket.socket(socket.AF_UNIX)
    s.bind("\0" + name)
    s.listen(0)
    kept.append(s)
    if full:
        c = socket.socket(socket.AF_UNIX)
        c.connect("\0" + name)
        kept.append(c)
kept = []
for pid in range(int(first), int(last)):
    take("hvd/%s/none/%d" % (uid, pid), False)
    take("hvd/%s/more/%d" % (uid, pid), False)
    take("hvd/%s/full/%d" % (uid, pid), True)
print("taken", flush=True)
time.sleep(200)'

@test "names that another user has taken are no launches" {
    local pid now squatter
    now=$(on_login bash -c 'echo $$')
    : >"$BATS_TEST_TMPDIR/bob"
    as_user bob python3 -c "$SQUAT" "$(as_root hvdlogin id -u alice)" "$now" $((now + 100)) >"$BATS_TEST_TMPDIR/bob" 3>&- &
    squatter=$!
    wait_for 10 grep -q taken "$BATS_TEST_TMPDIR/bob"
    begin on_login hvdrun --launcher=fork -np 3 bash -c 'echo here; exec sleep 1000'
    says_times 10 3 here
    pid=$(as_root hvdlogin pgrep -u alice -x hvdrun)
    ((pid + 1 < now + 100))
    gives 0 on_login hvdrun --stacks "pid:$pid"
    has "3 ranks (0-2)"
    # Nothing of alice's is meant: no time is spent on names of others.
    gives 2 on_login timeout 3 hvdrun --stacks "pid:$((pid + 1))"
    has "process $((pid + 1)) is not an hvdrun"
    as_root hvdlogin kill -INT "$pid"
    ended 20
    as_root hvdlogin pkill -u bob
    wait "$squatter" || true
}

# Another user takes 300 names of a launch, with a client at each that fills its queue, and fills the launch's own queue.
CROWD='import socket, sys, time
uid, pid = sys.argv[1:]
kept = []
for n in range(300):
    s, c = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    name = "\0hvd/%s/none/%08x/%s" % (uid, n, pid)
    s.bind(name)
    s.listen(0)
    c.connect(name)
    kept += [s, c]
try:
    while True:
        c = socket.socket(socket.AF_UNIX)
        c.setblocking(False)
        c.connect("\0hvd/%s/none/%s" % (uid, pid))
        kept.append(c)
except BlockingIOError:
    print("crowded", flush=True)
time.sleep(200)'

@test "a launch among 300 names of another user, who also fills its queue, is found" {
    local pid squatter
    begin on_login hvdrun --launcher=fork -np 3 bash -c 'echo here; exec sleep 1000'
    says_times 10 3 here
    pid=$(as_root hvdlogin pgrep -u alice -x hvdrun)
    : >"$BATS_TEST_TMPDIR/bob"
    as_root hvdlogin kill -STOP "$pid"
    as_user bob python3 -c "$CROWD" "$(as_root hvdlogin id -u alice)" "$pid" >"$BATS_TEST_TMPDIR/bob" 3>&- &
    squatter=$!
    wait_for 10 grep -q crowded "$BATS_TEST_TMPDIR/bob"
    (sleep 1 && as_root hvdlogin kill -CONT "$pid") 3>&- &
    gives 0 on_login hvdrun --stacks "pid:$pid"
    has "3 ranks (0-2)"
    as_root hvdlogin kill -INT "$pid"
    ended 20
    as_root hvdlogin pkill -u bob
    wait "$squatter" || true
}
