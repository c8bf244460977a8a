#!/usr/bin/env bats
# The Python module hvdrun: a function in every rank, through Slurm.

load launch
load sshd

setup_file() {
    suite_up --nodes 3
    PYTHONPATH=$(cd "$BATS_TEST_DIRNAME/../../python" && pwd)
    export PYTHONPATH
}
setup() {
    python3 -c 'import cloudpickle' 2>/dev/null || skip "the Python module cloudpickle is not installed"
}

# program NAME <TEXT: a Python script in alice's home that imports hvdrun.
program() {
    {
        printf '#!/usr/bin/env python3\nimport os, sys, time\n'
        printf 'sys.dont_write_bytecode = True\nsys.path.append("%s")\nimport hvdrun\n' "$PYTHONPATH"
        cat
    } | script "$1"
}

# sshd on all nodes, in any number of tests.
logins_up() {
    local host
    sshd_prepare hvdn1 hvdn2 hvdn3
    for host in hvdn1 hvdn2 hvdn3; do sshd_up "$host"; done
}
logins_down() {
    local host
    for host in hvdn1 hvdn2 hvdn3; do sshd_down "$host"; done
}

@test "hvdrun.run() in a batch job starts ranks on several nodes" {
    echo 'def triple(x): return 3 * x' | script beside.py
    program job.py <<'END'
import beside
factor = 2
def where(x):
    return os.environ["SLURMD_NODENAME"], int(os.environ["HOROVOD_RANK"]), factor * beside.triple(x)
print(hvdrun.run(where, (1,), num_proc="all"))
print(hvdrun.run(lambda: os.environ["SLURMD_NODENAME"], np=2))
def fails():
    rank = int(os.environ["HOROVOD_RANK"])
    if rank == 4: raise LookupError("no data on " + os.environ["SLURMD_NODENAME"])
    time.sleep(100)
try:
    hvdrun.run(fails, np=6)
except hvdrun.RankError as e:
    print("rank", e.rank, "on", e.host, repr(e.__cause__), "in fails" in e.traceback)
big = os.urandom(1 << 20) * 20
print([r == big for r in hvdrun.run(lambda b: b, (big,), np=6)])
END
    submit -N3 --ntasks-per-node=2 --wrap 'python3 job.py'
    exits 0
    has "[('hvdn1', 0, 6), ('hvdn1', 1, 6), ('hvdn2', 2, 6), ('hvdn2', 3, 6), ('hvdn3', 4, 6), ('hvdn3', 5, 6)]" \
        "['hvdn1', 'hvdn1']" "rank 4 on hvdn3 LookupError('no data on hvdn3') True" \
        "[True, True, True, True, True, True]"
    assert_no_leftovers
}

@test "from the login host, with options of srun: results come back from nodes" {
    program far.py <<'END'
print(hvdrun.run(lambda: os.environ["SLURMD_NODENAME"], extra_args=["-N3", "--ntasks-per-node=1"]))
def killed():
    if os.environ["HOROVOD_RANK"] == "2": os.kill(os.getpid(), 9)
    time.sleep(100)
def left():
    if os.environ["HOROVOD_RANK"] == "1": os._exit(0)
for func in killed, left:
    try:
        hvdrun.run(func, num_proc=3, extra_args=["-N3"])
    except hvdrun.RankError as e:
        print(e)
try:
    hvdrun.run(left, extra_args=["-N1", "-p", "none"])
except hvdrun.LaunchError as e:
    print(type(e).__name__, e)
END
    gives 0 on_login ./far.py
    has "['hvdn1', 'hvdn2', 'hvdn3']" "rank 2 on hvdn3 failed: killed by signal 9 (SIGKILL)"$'\n' \
        "rank 1 on hvdn2 ended without a result: exit code 0"$'\n' "LaunchError hvdrun ended with status 1:"
    [[ $output == *LaunchError*"srun: "* ]] || { echo "$output" && false; }
    assert_no_leftovers
}

PUT='
import http.client, sys
c = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=10)
c.request("PUT", "/runfunc_result/0", b"0" * 64 + b"gASVAAAA")
print(c.getresponse().status)'
@test "pickles that another user sends before and after the ranks do are not read, and the run succeeds" {
    program attacked.py <<'END'
def work():
    rank, environ = int(os.environ["HOROVOD_RANK"]), os.environ
    if rank == 0:
        print("meets at", environ["MASTER_ADDR"], environ["MASTER_PORT"], flush=True)
        while not os.path.exists("go"): time.sleep(0.1)
    return "rank", rank
print(hvdrun.run(work, num_proc=2, extra_args=sys.argv[1:]))
END
    local bob
    bob="$(cluster path)/home/bob"
    cat >"$bob/attack.py" <<'END'
import base64, http.client, json, os, pickle, sys
class Evil:
    def __reduce__(self): return (os.system, ("touch ~alice/owned",))
evil = base64.b64encode(pickle.dumps(Evil()))
error = json.dumps({"host": "h", "type": "E", "text": "", "traceback": "", "pickled": evil.decode()}).encode()
def ask(method, path, body=None):
    c = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=10)
    try:
        c.request(method, path, body)
        return c.getresponse().status
    except (ConnectionError, http.client.HTTPException):  # the address of a network does not even answer
        return 0
print("answers:", sorted({ask("PUT", "/runfunc_result/%d" % rank, b) for rank in range(2)
                          for b in (evil, b"0" * 64 + evil)} |
                         {ask("PUT", "/runfunc_error/0", error), ask("PUT", "/runfunc/func", evil)} |
                         {ask("DELETE", p) for p in ("/runfunc/func", "/runfunc_result/1", "/runfunc_error/0")}))
END
    # The rendezvous is at an address of the network, on nodes of the job's own as on shared ones.
    local from backend
    while read -r -u 9 from backend; do
        rm -f "$(home)/go"
        if [[ $backend == --hosts* ]]; then
            sshd_can || continue
            logins_up
        fi
        # shellcheck disable=SC2086 # it is several words
        begin on_login ./attacked.py $backend
        says 30 "meets at"
        sleep 1 # rank 1 is done
        read -r addr port < <(sed -n 's/.*meets at //p' "$OUT")
        gives 0 cluster exec --user bob --host "$from" -- python3 attack.py "$addr" "$port"
        [[ $output =~ answers:\ \[(0|403|0,\ 403)\]$ ]] || { echo "$output" && return 1; }
        # Nor is what a process of her own sends that does not know the launch's key.
        gives 0 cluster exec --user alice --host hvdn1 -- python3 -c "$PUT" "$addr" "$port"
        as_user alice touch go
        ended 30
        has "[('rank', 0), ('rank', 1)]" "refused a value that somebody sent as the result of rank 0"
        [[ ! -e $(home)/owned ]]
        if [[ $backend == --hosts* ]]; then logins_down; fi
        assert_no_leftovers
    done 9<<'END'
hvdn2 -N2 --exclusive
hvdn1 -N2
hvdn1 --hosts=hvdn1:1,hvdn2:1
END
}

@test "hvdrun.run() within salloc uses the allocation" {
    program here.py <<'END'
print(hvdrun.run(lambda x: (os.environ["SLURMD_NODENAME"], x), "x", np=2, hosts="hvdn2:1,hvdn3:1"))
END
    gives 0 on_login salloc -Q -N3 -n3 ./here.py
    has "[('hvdn2', 'x'), ('hvdn3', 'x')]"
    assert_no_leftovers
}

@test "when the caller is interrupted or killed, the step ends" {
    program waits.py <<'END'
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
def work():
    print("rank", os.environ["HOROVOD_RANK"], "works")
    time.sleep(300)
hvdrun.run(work, extra_args=["-N2", "-n2"])
END
    for sig in INT KILL; do
        begin on_login ./waits.py
        says_times 30 2 works
        as_root hvdlogin pkill "-$sig" -u alice -f 'python3 ./waits.py'
        ended 30
        [[ $sig != INT ]] || has KeyboardInterrupt
        assert_no_leftovers 15
    done
}

@test "hvdrun.run() starts ranks on hosts through ssh" {
    sshd_can || skip "OpenSSH is not installed"
    logins_up
    program ssh.py <<'END'
def where(): return os.environ["HOROVOD_HOSTNAME"], os.uname()[1], int(os.environ["HOROVOD_RANK"])
print(hvdrun.run(where, np=3, hosts="hvdn2:2,hvdn3:1"))
try:
    hvdrun.run(lambda: 1 // int(os.environ["HOROVOD_CROSS_RANK"] == "0"), np=2, hosts="hvdn2:1,hvdn3:1")
except hvdrun.RankError as e:
    print(e.rank, e.host, repr(e.__cause__))
END
    run on_login ./ssh.py
    logins_down
    exits 0
    has "[('hvdn2', 'hvdn2', 0), ('hvdn2', 'hvdn2', 1), ('hvdn3', 'hvdn3', 2)]" "1 hvdn3 ZeroDivisionError("
    assert_no_leftovers
}
