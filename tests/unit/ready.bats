#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2016 # what run sets; what another shell evaluates
# --ready of roles on this machine, whose ranks are real processes: what comes in which order, what is left, and errors.

load ../cluster/launch

setup_file() {
	built
	unset "${!SLURM_@}" NOTIFY_SOCKET
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	# What happens, each by a line.
	cat >notify.py <<-'E'
		import os, socket, sys
		socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"READY=1\nSTATUS=at work", "\0" + sys.argv[1][1:])
	E
	cat >server.py <<-'E'
		import http.server, sys, threading
		left = int(sys.argv[2])
		class Handler(http.server.BaseHTTPRequestHandler):
		    def do_GET(self):
		        global left
		        left -= 1
		        self.send_response(503 if left >= 0 else 200 if self.path == "/up" else 404)
		        self.end_headers()
		        self.wfile.write(b"x" * 10000)
		        if left < 0:
		            print("up", file=open("order", "a"))
		    def log_message(self, *args):
		        pass
		threading.Event().wait(0.3)
		print("serving", flush=True)
		http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
	E
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# launch STATUS ARG…: roles on this machine, of which the first is the trainer with its hosts. What hvdrun prints is in $output.
launch() {
	local want=$1
	shift
	run timeout --kill-after=5 100 "$B/bin/hvdrun" --hosts=localhost:4 --role=trainer -n1 "$@"
	echo "$output"
	[ "$status" -eq "$want" ]
}

# in_order LINE…: what has happened.
in_order() { diff <(printf '%s\n' "$@") order; }

@test "http: a server that is slow, and answers 503 before it answers 200" {
	port=$(free_port)
	launch 0 --after=s sh -c 'echo trainer >>order' : \
		--role=s -n1 --with=trainer --service --ready="http:$port/up" python3 server.py "$port" 2
	in_order up trainer
	[[ $output != *rror* ]]
	run -1 pgrep -f "server.py $port"
}

@test "tcp: a port that takes connections after a while" {
	port=$(free_port)
	launch 0 --after=s sh -c 'echo trainer' : \
		--role=s -n1 --with=trainer --service --ready="tcp:$port" python3 server.py "$port" 0
	[[ $output == *serving*trainer* ]]
}

@test "file: it is made by the first rank that does not fail" {
	touch -d '1 hour ago' first
	ln -s first ready # of an earlier run
	launch 0 --after=s sh -c 'echo trainer >>order' : \
		--role=s -n1 --with=trainer --service --on-failure=restart --ready=file:ready sh -c '
			if [ "$TORCHELASTIC_RESTART_COUNT" = 0 ]; then echo fails >>order; exit 3; fi
			echo made >>order; touch new; mv new ready; exec sleep 1000'
	in_order fails made trainer
}

@test "notify: all ranks have to, each for itself" {
	mkfifo go
	launch 0 --after=s sh -c 'echo trainer >>order' : \
		--role=s -n2 --with=trainer --service --ready=notify sh -c '
			if [ "$RANK" = 0 ]; then read -r line <go; echo 0 >>order
			else python3 notify.py "$NOTIFY_SOCKET"; fi
			python3 notify.py "$NOTIFY_SOCKET"
			if [ "$RANK" = 1 ]; then echo >go; fi
			exec sleep 1000'
	in_order 0 trainer
}

@test "a role that is not ready in time is an error with the last lines of a rank" {
	launch 1 --after=s sh -c 'echo trainer >>order' : \
		--role=s -n1 --with=trainer --ready=tcp:1 --ready-timeout=1 sh -c 'echo loading; echo "no such model" >&2; exec sleep 1000'
	[ ! -e order ]
	[[ $output == *"s: the ranks are not ready after 1 s (--ready=tcp:1): nothing takes connections at port 1"* ]]
	[[ $output == *"the last lines of rank 0 on localhost (stdout and stderr):"*"| loading"*"| no such model"* ]]
}

@test "a role that ends before it is ready is an error at once" {
	launch 1 --after=s sh -c 'echo trainer >>order' : --role=s -n1 --with=trainer --ready=file:ready true
	[ ! -e order ]
	[[ $output == *"role s has ended before it was ready, and role trainer waits for it"* ]]
}
