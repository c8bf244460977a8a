#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2028 # what run sets; Python's escape sequences
# hvdrun --preload on this machine, with modules of Python itself: a rank is as one that is started plainly.

bats_require_minimum_version 1.5.0

load ../cluster/helpers
load ../cluster/launch

setup_file() {
	built
	export HVD_LAUNCHER=fork
}

setup() {
	PY=$(python3 -c 'import sys; print(sys.executable if sys.version_info >= (3, 8) else "")') || true
	[[ $PY ]] || skip "there is no Python 3.8 or later"
	export PY
	cd "$BATS_TEST_TMPDIR" || return
	cp "$BATS_TEST_DIRNAME/preload_probe.py" probe.py
}

MODULES=json,decimal,random,multiprocessing

# start NAME ARG…: runs hvdrun with that; what it prints, and its status, go to NAME.out and NAME.err.
start() {
	local status=0
	timeout --kill-after=5 100 "$HVDRUN" "${@:2}" <<<"first line" >out 2>err || status=$?
	echo "status $status" >>out
	mv out "$1.out"
	mv err "$1.err"
}

# both ARG…: runs hvdrun with that twice, without and with --preload, and compares.
both() {
	start plain "$@"
	start forked --hvd-verbose --preload="$MODULES" "$@"
	grep -q "has imported $MODULES" forked.err || { cat forked.err && return 1; }
	diff <("${SHOWN:-cat}" plain.out) <("${SHOWN:-cat}" forked.out) || return 1
	diff <(rank_text plain.err) <(rank_text forked.err) || return 1
}

# by_name FILE: bash has exported the variables in another order.
by_name() { grep -v '^proc environ' "$1" | sort; }

# rank_text FILE: its lines that hvdrun has not printed.
rank_text() { grep -vE '^ *(hvdrun|hvd-agent)\b|^  ' "$1"; grep -E '^  [A-Z]|^  File' "$1" || true; }

@test "arguments, environment, descriptors, signals and all else are those of a plain start" {
	both -np 1 "$PY" probe.py
	grep -q "^comm = b'python" forked.out
	both -np 1 "$PY" ./probe.py '' 'b c' $'new\nline' --preload=x
	both -np 1 "$PY" "$PWD/probe.py" -- -x
	both -np 1 "$PY" -m probe one two
	both -np 1 "$PY" -c "$(cat probe.py)" one
	both -np 1 "$PY" -u -O -W error -X utf8 probe.py x
	# Python 3.8 -X dev crashes at the end of each process that was forked.
	! "$PY" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || both -np 1 "$PY" -X dev probe.py
	both -np 1 "$PY" -OBum probe
	mkdir folder && cp probe.py folder/__main__.py
	both -np 1 "$PY" folder
	both -np 1 --output-filename=files "$PY" probe.py
	(cd "$BATS_TEST_TMPDIR/folder" && PYTHONPATH=/nowhere:x LC_ALL=C X=$'a\xffb' PYTHONUNBUFFERED=1 both -np 1 "$PY" ../probe.py)
}

@test "exits, exceptions, signals and what comes at the end are those of a plain start" {
	local how
	for how in raise text code interrupt kill stack thread spawn warn; do
		echo "how: $how"
		both -np 1 "$PY" probe.py "$how"
		grep -qx "not flushed" forked.out || [[ $how == kill ]]
	done
	run ! grep -q preload/sitecustomize forked.out forked.err
}

@test "what a wrapper, the interpreter or the user's sitecustomize does has its effect" {
	mkdir site bin
	echo 'import builtins, sys; builtins.mark = sys.flags; sys.path.append("/from/site")' >site/sitecustomize.py
	printf '#!/bin/bash\nexport WRAPPED=$WRAPPED:1 PYTHONPATH=/wrapped${PYTHONPATH:+:$PYTHONPATH}\nexec %q "$@"\n' "$PY" >bin/python3
	chmod +x bin/python3
	PYTHONPATH=$PWD/site both -np 1 "$PY" probe.py
	grep -q "^sitecustomize = $PWD/site/sitecustomize.py" forked.out
	# Its own error is that of each rank, and the program runs once.
	mkdir broken
	echo 'raise ValueError("broken")' >broken/sitecustomize.py
	PYTHONPATH=$PWD/broken both -np 1 "$PY" probe.py
	grep -q "ValueError: broken" forked.err
	[[ $(grep -c '^argv' forked.out) -eq 1 ]]
	SHOWN=by_name PATH=$PWD/bin:$PATH both -np 1 python3 probe.py
	grep -q "WRAPPED=:1'" forked.out
	(unset LANG LC_ALL LC_CTYPE && both -np 1 "$PY" probe.py)
	# A module sets variables.
	echo 'import os; os.environ["OF_MODULE"] = "1"; os.environ.pop("TO_GO")' >setter.py
	MODULES=setter TO_GO=1 OF_MODULE=0 both -np 1 "$PY" -c 'import setter; exec(open("probe.py").read())'
	grep -q "^environ = b'OF_MODULE=1" forked.out
	run ! grep -q "^environ = b'TO_GO" forked.out
}

@test "each of several ranks has its CPUs, its output and a seed of its own" {
	local r
	start plain -np 2 --cpu-bind=cores --output-filename=files "$PY" probe.py
	mv files plain
	start forked -np 2 --cpu-bind=cores --output-filename=files --preload="$MODULES" "$PY" probe.py
	mv files forked
	for r in 0 1; do diff "plain/rank.$r/stdout" "forked/rank.$r/stdout"; done
	start seeds -np 4 --preload="$MODULES" "$PY" -c \
		'import random, multiprocessing as m, sys
sys.stdout.write("%s %s\n" % (random.random(), bytes(m.current_process().authkey).hex()))'
	[[ $(grep -c '^0\.' seeds.out) -eq 4 ]]
	[[ $(cut -d' ' -f1 seeds.out | sort -u | wc -l) -eq 5 && $(cut -d' ' -f2 seeds.out | sort -u | wc -l) -eq 5 ]]
}

# A module that writes a line for each import, and a program of two ranks, of which the first of generation 0 ends when
# there is a file.
generations() {
	echo 'open("imports", "a").write("x\n")' >noted.py
	cat >train.py <<-'END'
		import noted, os, signal, time
		text = "threads %s generation %s rank %s\n"
		env = os.environ
		os.write(1, (text % ("OMP_NUM_THREADS" in env, env["TORCHELASTIC_RESTART_COUNT"], env["RANK"])).encode())
		while not os.path.exists("go" + os.environ["TORCHELASTIC_RESTART_COUNT"]):
		    time.sleep(0.02)
		if os.environ["TORCHELASTIC_RESTART_COUNT"] != "2" and os.environ["RANK"] == "0":
		    os.kill(os.getpid(), signal.SIGKILL)
		time.sleep(60 * (os.environ["TORCHELASTIC_RESTART_COUNT"] != "2"))
	END
}
imports() { wc -l <imports; }
has_imported() { [[ $(grep -c "has imported noted" "$OUT") -eq $1 ]]; }
# forker: the process that forks ranks.
forker() { sed -nE 's/.*process ([0-9]+) has imported noted$/\1/p' "$OUT" | tail -1; }

@test "ranks of later generations are forked, too; a Python that was killed is replaced" {
	generations
	begin "$HVDRUN" -np 2 --max-restarts=2 --hvd-verbose --preload=noted "$PY" train.py
	says 30 "generation 0 rank 0"
	says 30 "generation 0 rank 1"
	[[ $(<"/proc/$(forker)/comm") == hvd-preload ]]
	[[ $(tr '\0' ' ' <"/proc/$(forker)/cmdline") == "hvd-preload noted " ]]
	touch go0
	says 30 "generation 1 rank 0"
	says 30 "generation 1 rank 1"
	[[ $(imports) -eq 1 ]]
	kill -KILL "$(forker)"
	wait_for 30 has_imported 2
	touch go1 go2
	ended 60
	exits 0
	has "generation 2 rank 0" "generation 2 rank 1"
	has_not "without --preload"
	[[ $(imports) -eq 2 ]]
}

# without WHY COMMAND…: two ranks start all the same, and one warning says why they were not forked.
without() {
	rm -f ran
	start without -np 2 --preload="$MODULES" "${@:2}"
	[[ $(tail -n1 without.out) == "status 0" && $(wc -l <ran) -eq 2 ]] || { cat without.out without.err ran && return 1; }
	[[ $(grep -cF "warning: localhost: ranks start without --preload=$MODULES: $1" without.err) -eq 1 ]] ||
		{ cat without.err && return 1; }
}

@test "where ranks cannot be forked they start all the same, and a warning says why" {
	echo 'open("ran", "a").write("x\n")' >ran.py
	printf 'import os\nif "RANK" not in os.environ:\n    %s\n' 'raise ValueError("not yet")' >boom.py
	MODULES=json,boom without "importing boom failed:" "$PY" ran.py
	grep -qx '  ValueError: not yet' without.err
	grep -q 'boom.py", line 3' without.err
	run ! grep -q 'preload/sitecustomize' without.err
	MODULES=nonesuch without "importing nonesuch failed:" "$PY" ran.py
	grep -qx "  ModuleNotFoundError: No module named 'nonesuch'" without.err
	echo 'import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()' >goes_on.py
	MODULES=goes_on,json without "importing goes_on starts a thread" "$PY" ran.py
	mkdir torch
	printf 'class cuda:\n    def is_initialized():\n        return True\n' >torch/__init__.py
	MODULES=torch without "importing torch initializes the GPU" "$PY" ran.py
	echo 'import os; os.fork = None' >spoils.py
	MODULES=spoils without "Python cannot fork ranks: TypeError" "$PY" ran.py
	echo 'import os; os._exit(3)' >leaves.py
	MODULES=leaves without "Python has ended: exit code 3" "$PY" ran.py
	echo 'import os; os.closerange(3, 100)' >closes.py
	MODULES=closes without "Python has ended: " "$PY" ran.py
	for option in -E -I -S -uBE; do
		MODULES=json without "Python did not read hvd-agent's sitecustomize.py" "$PY" "$option" -c "$(cat ran.py)"
	done
	OMP_PROC_BIND=true MODULES=json without "OMP_PROC_BIND is set" --cpu-bind=cores "$PY" ran.py
}

@test "a thread that has ended does not count; -np 6 are forked" {
	echo 'import threading as t; x = t.Thread(target=print); x.start(); x.join()' >ends.py
	unset PYTHONDONTWRITEBYTECODE
	MODULES=ends start forked -np 6 --preload=ends --hvd-verbose "$PY" -c \
		'import sys; sys.stdout.write("%s\n" % ("ends" in sys.modules))'
	[[ $(grep -c True forked.out) -eq 6 ]]
	grep -q "has imported ends" forked.err
	[[ -e __pycache__ && ! -e $B/libexec/hvd/preload/__pycache__ ]]
}

@test "misuse is refused with status 2" {
	local what
	for what in "--preload=a;b $PY x.py" "--preload=a,,b $PY x.py" "--preload=a,1b $PY x.py" "--preload=json bash x.sh" "--preload=json ./x.py" \
		"--preload=json --selftest" "--launcher=mpirun --preload=json $PY x.py"; do
		# shellcheck disable=SC2086
		run -2 "$HVDRUN" -np 2 $what
		[[ $output == "hvdrun: error: --preload"* ]] || { echo "$what: $output" && return 1; }
	done
}

gone() { ! kill -0 "$1" 2>/dev/null; }

@test "an agent that is killed leaves nothing" {
	generations
	begin "$HVDRUN" -np 2 --hvd-verbose --max-restarts=1 --preload=noted "$PY" train.py
	says 30 "generation 0 rank 1"
	local pid forker
	forker=$(forker)
	pid=$(awk '/^PPid/ { print $2 }' "/proc/$forker/status")
	[[ $(<"/proc/$pid/comm") == hvd-agent ]]
	kill -KILL "$pid"
	within 5 gone "$forker"
	ended 30
	wait_for 10 bash -c '! pgrep -f "train.p[y]" -s 0'
}

@test "a launch that ends while modules are imported ends at once" {
	printf 'import time; open("began", "w"); time.sleep(100)' >slow.py
	begin "$HVDRUN" -np 2 --preload=slow "$PY" -c 'print("begun")'
	wait_for 30 test -e began
	kill -TERM "$PID"
	ended 8
	exits 143
	has_not begun
}

@test "a Python that is a child of a wrapper works, and ends with it" {
	mkdir bin
	printf '#!/bin/bash\n%q "$@"\n' "$PY" >bin/python3
	chmod +x bin/python3
	generations
	PATH=$PWD/bin:$PATH begin "$HVDRUN" -np 2 --max-restarts=1 --hvd-verbose --preload=noted python3 train.py
	says 30 "generation 0 rank 1"
	local forker
	forker=$(pgrep -x hvd-preload -s 0)
	touch go0
	says 30 "generation 1 rank 1"
	[[ $(imports) -eq 1 ]]
	kill -TERM "$PID"
	ended 10
	wait_for 10 gone "$forker"
}

@test "a host gets another number of ranks: a Python with their number of threads forks them" {
	generations
	unset OMP_NUM_THREADS
	echo localhost:2 >hosts
	printf '#!/bin/sh\ncat %q\n' "$PWD/hosts" >discover
	chmod +x discover
	begin "$HVDRUN" -np 2 --min-np=1 --max-restarts=1 --host-discovery-script=./discover --hvd-verbose --preload=noted \
		"$PY" train.py
	says_times 30 2 "threads True generation 0"
	echo localhost:1 >hosts
	says 60 "threads False generation 0"
	[[ $(imports) -eq 2 ]]
	kill -TERM "$PID"
	ended 10
	has_not "starts without --preload"
}

@test "ranks of --run-func are forked, too, and have the launch's key" {
	"$PY" -c 'import cloudpickle' 2>/dev/null || skip "the Python module cloudpickle is not installed"
	printf '#!/bin/bash\nexec %q --preload=json --hvd-verbose "$@"\n' "$HVDRUN" >hvdrun
	chmod +x hvdrun
	HVDRUN=$PWD/hvdrun PYTHONPATH=$SRC/python run -0 timeout 100 "$PY" -c '
import hvdrun, os, sys
print(hvdrun.run(lambda: (os.environ["HOROVOD_RANK"], "json" in sys.modules), np=2))'
	has "[('0', True), ('1', True)]" "has imported json"
}
