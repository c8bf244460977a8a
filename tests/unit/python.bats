#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2030,SC2031,SC2154 # what run sets, for functions that look at it
# The Python module hvdrun, and hvdrun --run-func that it stands on, on this machine.

load ../cluster/helpers

bats_require_minimum_version 1.5.0

setup_file() {
	SRC=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	B=$(cd "$SRC" && cd "${B:-build}" && pwd)
	export SRC B HVDRUN=$B/bin/hvdrun PYTHONPATH=$SRC/python PYTHONDONTWRITEBYTECODE=1 HVD_LAUNCHER=fork
	[[ -x $HVDRUN ]] || { echo "there is no hvdrun in $B: make all" >&2 && return 1; }
}

setup() {
	python3 -c 'import cloudpickle' 2>/dev/null || skip "the Python module cloudpickle is not installed"
	cd "$BATS_TEST_TMPDIR" || return
}

# python: a script on stdin, with hvdrun imported, within a time that a busy machine keeps to.
python() {
	{
		echo 'import hvdrun, os, signal, sys, time'
		echo 'def rank(): return int(os.environ["HOROVOD_RANK"])'
		cat
	} >script.py
	run timeout --kill-after=5 200 python3 script.py
	echo "$output"
}

@test "results by rank; closures, lambdas, classes, keywords, a module beside the script" {
	echo 'def double(x): return 2 * x' >beside.py
	python <<-'END'
		import beside
		offset = 10
		class Pair:
		    def __init__(self, a, b): self.a, self.b = a, b
		def work(x, y=0):
		    return Pair(rank() + offset, beside.double(x) + y)
		pairs = hvdrun.run(work, (3,), {"y": 1}, num_proc=3)
		assert [(p.a, p.b) for p in pairs] == [(10, 7), (11, 7), (12, 7)]
		assert hvdrun.run(lambda: None) == [None]
		assert hvdrun.run(beside.double, ("ab",), np=2) == ["abab"] * 2
		print("all well")
	END
	[ "$status" -eq 0 ] && [ "$output" = "all well" ]
}

@test "an exception comes back with its rank, host and traceback; the next run is none the worse" {
	python <<-'END'
		class Odd(Exception):
		    def __init__(self, a, b): Exception.__init__(self, a)
		def deep(x): return 1 // x
		def work(what):
		    if rank() == 1: what()
		    time.sleep(60)
		def fails(what, np=2):
		    try: hvdrun.run(work, (what,), np=np)
		    except hvdrun.RankError as e:
		        assert e.rank == 1 and e.host, (e.rank, e.host)
		        return e
		def odd(): raise Odd(1, 2)
		e = fails(lambda: deep(0))
		assert type(e.__cause__) is ZeroDivisionError, e.__cause__
		assert "in deep" in e.traceback and "_worker.py" not in e.traceback and list(e.errors) == [1]
		assert "in deep" in str(e) and "rank 1 on " + e.host in str(e)
		e = fails(odd)              # can be pickled, but not read again
		assert e.__cause__ is None and "Odd: 1" in str(e)
		e = fails(lambda: sys.exit(3))
		assert "SystemExit: 3" in str(e) and e.status == 3
		e = fails(lambda: os.kill(os.getpid(), signal.SIGKILL))
		assert "killed by signal 9" in e.how and e.traceback is None and e.status == 137
		e = fails(lambda: exec("raise ValueError('from a text')"))
		assert type(e.__cause__) is ValueError
		assert hvdrun.run(lambda: 1, np=2) == [1, 1]
		print("all well")
	END
	[ "$status" -eq 0 ] && [[ $output == *"all well" ]]
}

@test "a rank without a result is named; results that cannot be pickled or read" {
	python <<-'END'
		def fails(func):
		    try: hvdrun.run(func, np=2)
		    except hvdrun.LaunchError as e: return str(e)
		def leaves():
		    if rank() == 1: os._exit(0)
		assert "rank 1 on localhost ended without a result" in fails(leaves)
		assert "sys.exit" in fails(lambda: sys.exit(0)) or "SystemExit: 0" in fails(lambda: sys.exit(0))
		assert "of type generator, cannot be pickled" in fails(lambda: (x for x in ""))
		class Unreadable:
		    def __reduce__(self): return (int, ("no number",))
		assert "result of rank 0 cannot be read here: ValueError" in fails(lambda: Unreadable())
		print("all well")
	END
	[ "$status" -eq 0 ] && [[ $output == *"all well" ]]
}

@test "100 MB there and back; more than the rendezvous takes is refused, with the limit" {
	python <<-'END'
		data = os.urandom(1 << 20) * 96
		back, = hvdrun.run(lambda d: d[::-1], (data,))
		assert back == data[::-1]
		def too_much(n):
		    try: hvdrun.run(lambda d, n: b"x" * n, (b"x" * (202000000 - n), n))
		    except hvdrun.LaunchError as e: return str(e)
		for text in too_much(0), too_much(202000000):
		    assert "bytes" in text and "268435392 at most" in text, text
		print("all well")
	END
	[ "$status" -eq 0 ] && [[ $output == *"all well" ]]
}

@test "as an elastic job whose ranks are started anew: the results are those of the last generation" {
	python <<-'END'
		def work(how):
		    first = not os.path.exists("failed")
		    if rank() == 0 and first: return "of no use"
		    while rank() == 1 and first:
		        open("failed", "w").close()
		        raise LookupError(how)
		    return rank(), os.environ["TORCHELASTIC_RESTART_COUNT"]
		more = {"min_np": 1, "extra_args": ["--max-restarts=1"], "num_proc": 2}
		print(hvdrun.run(work, ("once",), **more))
		assert hvdrun.run(rank, min_num_proc=2, max_num_proc=2, reset_limit=1, cooldown_range=(1, 2)) == [0, 1]
		def fails(): raise LookupError("always")
		try: hvdrun.run(fails, **more)
		except hvdrun.RankError as e: assert repr(e.__cause__) == "LookupError('always')", e
		print("all well")
	END
	[ "$status" -eq 0 ] && [[ $output == *"[(0, '1'), (1, '1')]"* && $output == *"all well" ]]
}

@test "what makes no sense is refused before anything is started" {
	python <<-'END'
		def refused(kind, text, *args, **kwargs):
		    try: hvdrun.run(*args, **kwargs)
		    except kind as e:
		        assert text in str(e), e
		        return
		    assert False, kwargs
		f = len
		refused(ValueError, "two names of one", f, min_num_proc=1, min_np=2)
		refused(ValueError, "elastic jobs", f, reset_limit=1)
		refused(ValueError, "elastic jobs", f, cooldown_range=(1, 2))
		refused(ValueError, "not both", f, hosts="a:1", hostfile="b")
		refused(ValueError, "not both", f, use_gloo=True, use_mpi=True)
		refused(ValueError, "mpi_args", f, mpi_args="-v")
		refused(ValueError, "num_proc", f, num_proc=0)
		refused(ValueError, "two names of one", f, num_proc=1, np=2)
		refused(TypeError, "not callable", 7)
		refused(TypeError, "list of words", f, extra_args="-N2")
		refused(TypeError, "cannot be pickled", f, (open("/dev/null"), (x for x in "")))
		refused(FileNotFoundError, "no such program", f, hvdrun="/no/such")
		os.environ.pop("HVDRUN"); os.environ["PATH"] = "/nowhere"
		refused(FileNotFoundError, "not in PATH", f)
		print("all well")
	END
	[ "$status" -eq 0 ] && [ "$output" = "all well" ]
}

@test "options reach hvdrun; what it says is in the exception" {
	python <<-'END'
		show = os.path.abspath("show")
		with open(show, "w") as f:
		    f.write('#!/bin/sh\nprintf "%s\\n" "$@" "X=$X" "Y=$Y" >&2\necho "hvdrun: error: no" >&2\nexit 2\n')
		os.chmod(show, 0o755)
		os.environ["Y"] = "y"
		try:
		    hvdrun.run(len, hvdrun=show, num_proc=4, hosts="a:2,b:2", slots=3, start_timeout=7, ssh_port=22,
		               ssh_identity_file="id", disable_cache=True, output_filename="out", verbose=2, use_mpi=True,
		               mpi_args="-x y", network_interfaces=["e0", "e1"], executable="/py", env={"X": 1, "Y": None},
		               extra_args=["--partition=gpu"])
		except hvdrun.LaunchError as e:
		    assert e.status == 2 and e.messages == ["hvdrun: error: no"] and "error: no" in str(e), e
	END
	local text
	for text in -np$'\n'4 --hosts=a:2,b:2 --slots-per-host=3 --start-timeout=7 --ssh-port=22 --ssh-identity-file=id \
		--disable-cache --output-filename=out --hvd-verbose$'\n'--hvd-verbose --mpi "--mpi-args=-x y" \
		--network-interfaces=e0,e1 --partition=gpu$'\n'--$'\n'/py X=1 Y=; do
		[[ $'\n'$output$'\n' == *$'\n'"$text"$'\n'* ]] || { echo "not there: $text" && false; }
	done
}

@test "output of ranks goes where this program's goes, also when that is no file" {
	python <<-'END'
		import io
		def talk():
		    sys.stdout.write("out of %d\n" % rank())
		    sys.stderr.write("err of %d\n" % rank())
		hvdrun.run(talk, np=2)
		sys.stdout, sys.stderr = out, err = io.StringIO(), io.StringIO()
		hvdrun.run(talk, np=2)
		sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
		assert sorted(out.getvalue().split("\n")) == ["", "out of 0", "out of 1"], out.getvalue()
		assert sorted(err.getvalue().split("\n")) == ["", "err of 0", "err of 1"], err.getvalue()
	END
	[ "$status" -eq 0 ]
	[ "$(sort <<<"$output")" = "err of 0"$'\n'"err of 1"$'\n'"out of 0"$'\n'"out of 1" ]
}

nobody() { ! pgrep -f "$BATS_TEST_TMPDIR" >/dev/null; }

# Within ten seconds all is over: the ranks sleep under a name of this test's.
gone() {
	wait_for 10 nobody || { pgrep -af "$BATS_TEST_TMPDIR" && return 1; }
}

both_sleep() { [[ $(pgrep -cf "^$BATS_TEST_TMPDIR/sleeps 300") -eq 2 ]]; }

@test "interrupted, terminated or killed: no rank is left" {
	local sig
	cp "$(command -v sleep)" "$BATS_TEST_TMPDIR/sleeps"
	cat >script.py <<-END
		import hvdrun, subprocess
		hvdrun.run(lambda: subprocess.call(["$BATS_TEST_TMPDIR/sleeps", "300"]), np=2)
	END
	for sig in INT TERM KILL; do
		# Not in the background of a shell that has it ignore SIGINT.
		python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
os.execvp("python3", ["python3", "script.py"])' >"out.$sig" 2>&1 3>&- &
		local pid=$!
		wait_for 30 both_sleep || { cat "out.$sig" && false; }
		kill -s "$sig" "$pid"
		wait "$pid" || true
		gone || { cat "out.$sig" && false; }
	done
	grep -q KeyboardInterrupt out.INT
}

@test "hvdrun --run-func by itself: what is served, taken and written" {
	printf 'some function' >func
	cat >worker.py <<-'END'
		import hashlib, hmac, http.client, os, struct, sys
		key_fd = int(os.environ["HVD_RUN_FUNC_KEY_FD"])
		key = os.pread(key_fd, 64, 0)
		assert key_fd > 2 and len(key) == 32
		def mac(*pieces):
		    m = hmac.new(key, digestmod=hashlib.sha256)
		    for p in pieces: m.update(struct.pack(">Q", len(p)) + p)
		    return m.hexdigest().encode()
		def ask(method, path, body=None):
		    c = http.client.HTTPConnection(os.environ["HVD_RUN_FUNC_ADDR"], int(os.environ["HVD_RUN_FUNC_PORT"]))
		    c.request(method, path, body)
		    a = c.getresponse()
		    return a.status, a.read()
		rank = os.environ["HVD_RUN_FUNC_RANK"]
		func = mac(b"func", b"", b"some function") + b"some function"
		assert ask("GET", "/runfunc/func") == (200, func)
		for method in "PUT", "DELETE":
		    for scope in "runfunc/func", "runfunc_result/0", "runfunc_error/0":
		        assert ask(method, "/" + scope, func)[0] == 403
		assert ask("GET", "/runfunc/func") == (200, func)
		for name in "x", "-1", "00", "1e3", "123456789":
		    assert ask("PUT", "/runfunc_result/" + name, func)[0] == 400
		# Without a MAC, with one of another value, rank or kind: refused, and nothing is kept.
		me, other, mine = rank.encode(), b"10"[int(rank):][:1], b"result " + rank.encode()
		right = mac(b"result", me, mine)
		for bad in (b"", mine, right[:-1], right + b"other", right[1:] + b"0" + mine,
		            mac(b"result", other, mine) + mine, mac(b"error", me, mine) + mine, func):
		    assert ask("PUT", "/runfunc_result/" + rank, bad)[0] == 403, bad
		if rank != os.environ.get("MUTE"):
		    assert ask("PUT", "/runfunc_result/" + rank, right + mine)[0] == 200
		    assert ask("PUT", "/runfunc_result/" + rank, mac(b"result", me, b"once more") + b"once more")[0] == 200
		    assert ask("PUT", "/runfunc_error/" + rank, right + mine)[0] == 403
		assert ask("PUT", "/other/key", b"v")[0] == 200
		assert ask("GET", "/other/key") == (200, b"v")
	END
	run --separate-stderr timeout 60 "$HVDRUN" -np 2 --run-func=func --results=out python3 worker.py
	[ "$status" -eq 0 ] || { echo "$stderr" && false; }
	[ "$(grep -c '"t":"result"' out)" -eq 2 ] && grep -q '"length":8}' out
	grep -q '^result 0' out && grep -q '^result 1' out
	[ "$(grep -c 'it does not carry this launch.s MAC' <<<"$stderr")" -eq 1 ]
	run ! grep -q 'once more\|other' out
	tail -n 1 out | grep -qF '{"t":"end","status":0,"started":true,"ranks":2,"length":0}'

	MUTE=1 run timeout 60 "$HVDRUN" -np 2 --run-func=func --results=out python3 worker.py
	[ "$status" -eq 1 ]
	[[ $output == *"rank 1 ended without a result (1 of 2 ranks did)"* ]]
	grep -qF '{"t":"exit","rank":1,"host":"localhost","status":0,' out
}

@test "a worker executes no function that is not of this launch, and tells when it has no key" {
	cat >impostor.py <<-'END'
		import base64, http.server, os, pickle, sys, threading
		class Evil:
		    def __reduce__(self): return (os.system, ("touch owned",))
		evil = base64.b64encode(pickle.dumps(Evil()))
		class Impostor(http.server.BaseHTTPRequestHandler):
		    def do_GET(self):
		        body = b"0" * 64 + evil
		        self.send_response(200)
		        self.send_header("Content-Length", str(len(body)))
		        self.end_headers()
		        self.wfile.write(body)
		    def log_message(self, *args): pass
		s = http.server.HTTPServer(("127.0.0.1", 0), Impostor)
		threading.Thread(target=s.serve_forever, daemon=True).start()
		os.environ["HVD_RUN_FUNC_PORT"] = str(s.server_port)
		if sys.argv[2:]: os.environ.pop("HVD_RUN_FUNC_KEY_FD")
		import subprocess
		sys.exit(subprocess.call([sys.executable, sys.argv[1]], close_fds=False))
	END
	printf 'any' >func
	run timeout 60 "$HVDRUN" -np 1 --run-func=func --results=out python3 impostor.py "$SRC/python/hvdrun/_worker.py"
	[ "$status" -eq 1 ] && [[ $output == *"is not of this launch, and is not executed"* ]] && [ ! -e owned ]
	run timeout 60 "$HVDRUN" -np 1 --run-func=func --results=out python3 impostor.py "$SRC/python/hvdrun/_worker.py" x
	[ "$status" -eq 1 ] && [[ $output == *"the launch's key cannot be read from descriptor ?"* ]] && [ ! -e owned ]
}

@test "hvdrun --run-func: wrong files and options" {
	touch func
	mkfifo fifo
	truncate -s 300M large
	refused() {
		local text=$1
		shift
		run timeout 20 "$HVDRUN" -np 1 "$@" true
		[ "$status" -eq 2 ] && [[ $output == *"$text"* ]] || { echo "$status: $output" && false; }
	}
	refused "must be given together" --run-func=func
	refused "must be given together" --results=out
	refused "cannot open the function" --run-func=none --results=out
	refused "is not a file" --run-func=fifo --results=out
	refused "314572800 bytes, and the rendezvous takes 268435392 at most" --run-func=large --results=out
	refused "cannot write to /no/such" --run-func=func --results=/no/such
	refused "cannot write to 99" --run-func=func --results=99
	refused "cannot write to fifo" --run-func=func --results=fifo # nobody reads it
	refused "--selftest" --run-func=func --results=out --selftest
}

@test "hvdrun.spark: refused without Spark; who else can read the key on its way" {
	python <<-'END'
		from hvdrun import spark
		try: spark.run(rank)
		except (ImportError, RuntimeError) as e: assert "pyspark" in str(e) or "SparkContext" in str(e), e
		for refused in {"use_mpi": True}, {"extra_mpi_args": "-x A"}:
		    try: spark.run(rank, **refused)
		    except NotImplementedError as e: assert "use_mpi" in str(e)
		    else: assert False, refused
		crypto = {"spark.network.crypto.enabled": "true"}
		assert "authenticate" in spark.exposure({}) and "authenticate" in spark.exposure(crypto)
		assert "encrypt" in spark.exposure({"spark.authenticate": " True"})
		assert spark.exposure(dict(crypto, **{"spark.authenticate": "true"})) is None
		java = "org.apache.SparkException: Job aborted.%s\n\tat org.apache.x\nDriver stacktrace:\n"
		raised = "\nTraceback:\n  File x\nRuntimeError: n1: hvd-agent: error: no way\nhint\n SQLSTATE: 38000\n"
		assert spark._words(Exception(java % "")) == "org.apache.SparkException: Job aborted."
		assert spark._words(Exception(java % raised)) == "n1: hvd-agent: error: no way\nhint"
		print("all well")
	END
	[ "$status" -eq 0 ] && [ "$output" = "all well" ]
}

@test "hvdrun.spark: where hvd-agent is on the executors, also by the names of older releases" {
	python <<-'END'
		import os
		from hvdrun import spark
		for name in "HVD_AGENT", "HVD_TASK": os.environ.pop(name, None)
		assert spark._find_hvd_agent(None, "/opt/hvd/bin/hvdrun") == "/opt/hvd/libexec/hvd/hvd-agent"
		os.environ["HVD_TASK"] = "/old/hvd-task"
		assert spark._find_hvd_agent(None, "/opt/hvd/bin/hvdrun") == "/old/hvd-task"
		os.environ["HVD_AGENT"] = "/new/hvd-agent"
		assert spark._find_hvd_agent(None, "/opt/hvd/bin/hvdrun") == "/new/hvd-agent"
		assert spark._find_hvd_agent("/given", "/opt/hvd/bin/hvdrun") == "/given"
		print("all well")
	END
	[ "$status" -eq 0 ] && [ "$output" = "all well" ]
}

@test "tasks of a Spark executor do not take another user's socket for their agent's" {
	[[ $(id -u) -eq 0 ]] || skip "only root can be another user"
	python <<-'END'
		import socket
		from hvdrun import _spark_task
		_spark_task.TOGETHER_SECONDS = 1
		name = _spark_task.socket_name("key", str(os.getpid()))
		def agent(user):
		    ready, pid = os.pipe(), os.fork()
		    if pid == 0:
		        os.setuid(user)
		        with socket.socket(socket.AF_UNIX) as listener:
		            listener.bind(name)
		            listener.listen(8)
		            os.write(ready[1], b"x")
		            while True:
		                connection = listener.accept()[0]
		                if user == 0:
		                    connection.recv(100)
		                try:
		                    connection.sendall(b"\n")
		                except OSError:
		                    pass
		                connection.close()
		    os.read(ready[0], 1)
		    return pid
		for user in 12345, 0:
		    pid = agent(user)
		    try:
		        _spark_task.wait_for_agent(name, {"partition": 1})
		        print(user, "ended")
		    except RuntimeError as error:
		        print(user, error)
		    os.kill(pid, signal.SIGKILL)
		    os.waitpid(pid, 0)
	END
	[[ $status -eq 0 && $output == *"12345 executor"*"has no agent"*"0 ended"* ]]
}
