#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The page of --report and --report-of: of a launch, and as a real browser draws it.

bats_require_minimum_version 1.5.0

load ../cluster/helpers

setup_file() {
	SRC=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	B=$(cd "$SRC" && cd "${B:-build}" && pwd)
	export SRC B HVDRUN=$B/bin/hvdrun HVD_LAUNCHER=fork
	[[ -x $HVDRUN ]] || { echo "there is no hvdrun in $B: make all" >&2 && return 1; }
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

teardown() {
	[[ ! ${server-} ]] || kill "$server"
}

launches() { "$BATS_TEST_DIRNAME/report_events.py" "$@"; }

# draw PAGE: the page as the browser has it when its script has ended, in PAGE.dom.
draw() {
	local browser
	browser=$(command -v chromium || command -v chromium-headless-shell || command -v google-chrome) ||
		skip "there is no browser (Debian: chromium)"
	timeout --kill-after=5 200 "$browser" --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
		--disable-component-update --disable-sync --user-data-dir="$PWD/profile" --dump-dom "file://$PWD/$1" >"$1.dom" 2>chromium.log ||
		{ cat chromium.log && return 1; }
	grep -q 'data-drawn="yes"' "$1.dom" || { echo "the script of the page has not ended" && grep -o 'id="errors".*' "$1.dom" && return 1; }
}

# look PAGE: what is in the page that the browser has drawn, a line for each: errors, title, each section, and the first
# words of each row of the table of hosts.
look() {
	python3 - "$1.dom" <<-'END'
		import html.parser, sys

		class Page(html.parser.HTMLParser):
		    def __init__(self):
		        super().__init__()
		        self.path, self.said, self.hosts, self.tags = [], {}, [], set()

		    def handle_starttag(self, tag, attributes):
		        if tag in ("meta", "input", "br", "img", "link", "base"):
		            self.tags.add(tag)
		            return
		        self.path.append((tag, dict(attributes).get("id", "")))
		        if tag == "tr" and ("div", "hosts") in self.path and not any(t == "thead" for t, _ in self.path):
		            self.hosts.append("")

		    def handle_endtag(self, tag):
		        if any(t == tag for t, _ in self.path):
		            while self.path.pop()[0] != tag:
		                pass

		    def handle_data(self, data):
		        tags = [t for t, _ in self.path]
		        if "script" in tags or "style" in tags:
		            return
		        for tag, name in self.path:
		            if name:
		                self.said[name] = self.said.get(name, "") + data
		        if "h2" in tags or "h1" in tags or "title" in tags and "svg" not in tags:
		            print(tags[-1] + ": " + data.split("<")[0].strip())
		        if self.hosts and "tbody" in tags and ("div", "hosts") in self.path:
		            self.hosts[-1] += data + "|"

		page = Page()
		page.feed(open(sys.argv[1], encoding="utf-8").read())
		print("errors: " + page.said.get("errors", ""))
		print("state: " + page.said.get("state", ""))
		print("failure: " + page.said.get("first-failure", "").replace("\n", "|"))
		print("lines: " + page.said.get("failure-lines", "").replace("\n", "|"))
		print("hosts: %d" % len(page.hosts))
		for host in page.hosts:
		    print("host: " + host[:400].replace("\n", " "))
		print("tags: " + " ".join(sorted(page.tags)))
	END
}

# has LINE: so begins a line of what look has said.
has() {
	local line
	for line in "${lines[@]}"; do
		[[ $line != "$1"* ]] || return 0
	done
	echo "no line begins with: $1" && printf '%s\n' "${lines[@]}" | head -n 100 && return 1
}

@test "a launch writes its page, --report-of makes the same of its events, and only the user can read it" {
	run "$HVDRUN" --report=page.html --events=events -np 3 sh -c 'echo "ValueError: <b>" >&2; exit $((RANK == 2 ? 7 : 0))'
	[[ $status == 7 ]]
	[[ $(stat -c %a page.html) == 600 ]]
	"$HVDRUN" --report-of=events >again.html
	cmp page.html again.html
	HVD_REPORT=never.html "$HVDRUN" --report-of events --report=third.html
	cmp page.html third.html
	"$HVDRUN" --report-of events >again.html
	[[ ! -e never.html ]]
	grep -q '"command":"hvdrun --report=page.html --events=events -np 3 sh -c ' <(sed 's|"command":"[^" ]*/hvdrun|"command":"hvdrun|' page.html)
	grep -q '"lines":"ValueError: \\u003cb\\u003e' page.html
}

@test "a browser draws the page of a launch that has failed" {
	run -7 "$HVDRUN" --report=page.html -np 3 sh -c 'echo "ValueError: <b>" >&2; exit $((RANK == 2 ? 7 : 0))'
	draw page.html
	run look page.html
	has "state: failed (exit status 7)"
	has "failure: rank 2 on localhost failed first: exit code 7"
	has "lines: ValueError: <b>"
	has "hosts: 1"
	has "host: localhost|part of the job|"
	has "tags: input meta"
	[[ ${lines[*]} == *"errors:  state:"* ]]
}

@test "what cannot be read or written ends with 2 and a reason" {
	echo something >other
	for file in other nothing .; do
		run "$HVDRUN" --report-of "$file"
		[[ $status == 2 && $output == *"--report-of"* && $output == *"--events"* ]]
	done
	run "$HVDRUN" --report-of other true
	[[ $status == 2 && $output == *"starts no command"* ]]
	run "$HVDRUN" --report=nowhere/page.html -np 1 touch ran
	[[ $status == 2 && $output == *"--report nowhere/page.html cannot be written: No such file or directory"* && ! -e ran ]]
	launches 1 >events
	run "$HVDRUN" --report-of events --report=nowhere/page.html
	[[ $status == 2 && $output == *"--report nowhere/page.html cannot be written: No such file or directory"* ]]
	if "$HVDRUN" --report-of events >/dev/full; then return 1; fi
	[[ $(ls) == $'events\nother' ]]
}

# The server would see what a page loads: this is tried first.
@test "a browser draws pages of 1 and of 1,000 hosts with hostile texts: no script fails, nothing is loaded" {
	local hosts url
	cat >server.py <<-'END'
		import http.server
		with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
		    print(server.server_port, flush=True)
		    server.serve_forever()
	END
	python3 server.py >port 2>requests &
	server=$!
	wait_for 60 test -s port
	url=http://127.0.0.1:$(cat port)/leak
	echo "<html data-drawn=\"yes\"><img src=$url></html>" >loads.html
	draw loads.html
	grep -q 'GET /leak' requests
	: >requests
	for hosts in 1 1000; do
		launches "$hosts" "$url" >events
		"$HVDRUN" --report-of events >page.html
		draw page.html
		run look page.html
		has "h1: Launch 4711.0"
		has "state: failed (exit status 1)"
		has "failure: rank $((hosts == 1 ? 0 : 4000)) on node failed first: exit code 1|  RuntimeError: CUDA error</script><script>throw 1"
		has "lines: Traceback (most recent call last):|"
		has "h2: Hang"
		has "h2: $((hosts < 1000)) host" || has "h2: 1,000 hosts"
		has "hosts: $((hosts < 60 ? hosts : 60))"
		has "tags: input meta"
		[[ ${lines[*]} == *"errors:  state:"* ]]
		((hosts == 1)) || {
			has "host: node0001</script>"
			has "h2: Usage of the hosts"
			grep -q 'title>1,000 hosts registered: first after ' page.html.dom
		}
	done
	if [[ -s requests ]]; then cat requests && return 1; fi
}

@test "launches that share a page are all in it: a browser shows the last one, and offers all" {
	export HVD_REPORT=shared.html HVD_EVENTS=events
	for status in 0 3; do
		run -"$status" "$HVDRUN" -np 1 sh -c "exit $status"
	done
	run -0 "$HVDRUN" --hosts=localhost:4 --role=trainer -n2 true : --role=rollout --with=trainer --replicas=2 -n1 true
	"$HVDRUN" --report-of events >page.html
	cmp shared.html page.html
	[[ $(ls) == $'events\npage.html\nshared.html' ]]
	head -c 40 events >part
	cat part >>events
	"$HVDRUN" --report-of events >page.html
	draw page.html
	[[ $(grep -o '<option value="[0-9]*"' page.html.dom | wc -l) -ge 3 ]]
	run look page.html
	has "state: succeeded"
	has "h2: Not complete"
	has "h2: 3 generations"
	grep -qF 'trainer: 2 ranks on localhost; rollout/0: 1 rank on localhost; rollout/1: 1 rank on localhost' page.html.dom
	grep -q '<th[^>]*>role</th>' page.html.dom
}
