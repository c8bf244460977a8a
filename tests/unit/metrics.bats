#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# --metrics of launches on this machine: the page and the file as curl and Prometheus' own programs read them. Other users,
# several hosts and srun are in tests/cluster/metrics.bats.

load ../cluster/launch

setup_file() {
	built
	unset HVD_METRICS HVD_METRICS_TOKEN_FILE "${!SLURM_@}"
}
setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	mkfifo input
	exec {input}<>input
	command -v curl >/dev/null || skip "curl is not installed"
}
teardown() {
	exec {input}>&-
	for launch in ${launch-} ${quiet-}; do kill "$launch" 2>/dev/null || true; done
	wait
}

until_true() { # COMMAND...: within a minute
	wait_for 60 "$@" || { cat messages && return 1; }
}

# begin OPTION...: a launch of two ranks, which end with status 0 at a line on descriptor $input, is in the background.
begin() {
	"$B/bin/hvdrun" --launcher=fork -np 2 --sample=1 "$@" sh -c 'read -r line <input; echo more >input' \
		>messages 2>&1 3>&- {input}>&- &
	launch=$!
}
finish() { # it ends with this status
	local status=0
	echo end >&"$input"
	wait "$launch" || status=$?
	launch=
	[[ $status -eq $1 ]] || { echo "it ends with $status" && cat messages && return 1; }
}
# The port that a message names.
has_port() { port=$(sed -nE 's|.*metrics: http://127\.0\.0\.1:([0-9]+)/metrics$|\1|p' messages) && [[ $port ]]; }
get() { curl -fsS --max-time 30 "$@" "http://127.0.0.1:$port/metrics"; }
runs() { get >page && grep -q 'state="running"} 1$' page; }

@test "a launch serves its figures at a free port, which is free again at its end" {
	begin --metrics=0
	until_true has_port
	until_true runs
	grep -qE '^hvd_launch_info\{launch="[^"]+:[0-9]+",version="[^"]+",backend="fork",job=""\} 1$' page
	grep -qE '^hvd_launch_ranks\{.*\} 2$' page
	grep -qE '^hvd_launch_hosts\{.*stage="here"\} 1$' page
	run get -o head -I
	[[ $status -eq 0 ]]
	grep -qi '^content-type: text/plain; version=0.0.4' head
	for path in / /metrics/x /favicon.ico; do
		[[ $(curl -sS -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port$path") == 404 ]]
	done
	[[ $(curl -sS -o /dev/null -w '%{http_code}' -X PUT -d x "http://127.0.0.1:$port/metrics") == 413 ]]
	finish 0
	run ! get
}

@test "what ranks and hosts use is there a while after the start, unless nobody looks" {
	begin --metrics=0 --sample=0
	until_true has_port
	until_true runs
	quiet=$launch at=$port
	begin --metrics=0
	until_true has_port
	sampled() { get >page && grep -qE '^hvd_launch_ranks_sampled\{.*\} 2$' page; }
	until_true sampled
	for rank in 0 1; do
		grep -qE "^hvd_rank_memory_bytes\{launch=\"[^\"]*\",host=\"[^\"]+\",rank=\"$rank\"\} [0-9]{5,}" page
	done
	grep -qE '^hvd_host_ranks\{.*\} 2$' page
	grep -qE '^hvd_ranks_memory_bytes\{.*,at="median"\} [0-9]{5,}' page
	port=$at get >page
	grep -qE '^hvd_launch_ranks_sampled\{.*\} 0$' page
	run ! grep -q '^hvd_rank_memory_bytes' page
	finish 0
	wait "$quiet"
	quiet=
}

@test "Prometheus' programs take both forms" {
	begin --metrics=0
	until_true has_port
	until_true runs
	get -H 'Accept: application/openmetrics-text;version=1.0.0' >openmetrics
	[[ $(tail -1 openmetrics) == "# EOF" ]]
	# The same samples.
	diff <(grep -v '^#' openmetrics | sed 's/} .*/}/') <(grep -v '^#' page | sed 's/} .*/}/')
	finish 0
	command -v promtool >/dev/null || skip "promtool is not installed (Debian: prometheus)"
	promtool check metrics <page
	# Debian's packages are those of Debian's Python.
	for python in python3 /usr/bin/python3; do
		if "$python" -c 'import prometheus_client' 2>/dev/null; then break; fi
		python=
	done
	[[ $python ]] || skip "prometheus_client is not installed (Debian: python3-prometheus-client)"
	"$python" - <<-'END'
		from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
		families = {family.name: family for family in parse(open("openmetrics").read())}
		assert families["hvd_launch"].type == "info"
		assert families["hvd_restarts"].type == "counter"
		assert families["hvd_goodput_ratio"].unit == "ratio"
		assert len(families) >= 17, families
	END
}

@test "a port in use is a warning, and the launch goes on" {
	begin --metrics=0
	until_true has_port
	run "$B/bin/hvdrun" --launcher=fork -np 1 --metrics="$port" echo it runs
	echo "$output"
	[[ $status -eq 0 && $output == *"warning: no metrics are served (--metrics): port $port is in use"* ]]
	[[ $output == *"it runs"* ]]
	until_true runs
	finish 0
}

@test "silent, slow and greedy clients hold up neither the launch nor the others" {
	begin --metrics=0
	until_true has_port
	python3 - "$port" <<-'END' &
		import socket, sys, time
		held = []
		for i in range(300):
		    try:
		        s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)
		        s.send([b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\n\r\n", b"x" * 20000][i % 4])
		        held.append(s)
		    except OSError:
		        pass
		open("held", "w").close()
		time.sleep(600)
	END
	held=$!
	until_true test -e held
	for _ in 1 2 3 4 5; do runs; done
	finish 0
	kill "$held"
}

@test "with a token whoever has it is answered, and nobody else" {
	(umask 077 && echo 0123456789abcdef-secret >token)
	begin --metrics=127.0.0.1:0 --metrics-token-file=token
	until_true has_port
	token=(-H 'Authorization: Bearer 0123456789abcdef-secret')
	served() { get "${token[@]}" >page; }
	until_true served
	[[ $(curl -sS -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/metrics") == 401 ]]
	[[ $(curl -sS -o /dev/null -w '%{http_code}' -H 'Authorization: Bearer 0123456789abcdef-secreT' \
		"http://127.0.0.1:$port/metrics") == 401 ]]
	finish 0
	run ! grep -r secret messages page
}

@test "values that make no sense are refused with status 2" {
	local value
	for value in 65536 name:1 file: x 10.0.0.1:9400; do
		run "$B/bin/hvdrun" --launcher=fork -np 1 --metrics="$value" touch started
		echo "$output"
		[[ $status -eq 2 && ${lines[0]} == *"error: --metrics=$value "* ]]
	done
	echo 0123456789abcdef-secret >open && chmod 644 open
	run "$B/bin/hvdrun" --launcher=fork -np 1 --metrics=0 --metrics-token-file=open touch started
	[[ $status -eq 2 && $output == *"open to others"* ]]
	[[ ! -e started ]]
}

@test "the file is whole at every moment, and stays with the end of the launch" {
	mkdir folder
	begin --metrics=file:folder/hvd.prom
	until_true test -e folder/hvd.prom
	whole() { cat folder/hvd.prom >text && grep -q '^hvd_launch_info' text && grep -q '^hvd_launch_ranks_slow' text; }
	changes=0 last=$(stat -c %i folder/hvd.prom) SECONDS=0
	while ((changes < 1)); do
		whole
		((SECONDS < 60))
		now=$(stat -c %i folder/hvd.prom)
		if [[ $now != "$last" ]]; then changes=$((changes + 1)) last=$now; fi
	done
	finish 0
	whole
	grep -q 'state="ended"} 1$' text
	grep -qE '^hvd_launch_exit_status\{.*\} 0$' text
	grep -qE '^hvd_rank_ends_total\{.*how="ok"\} 2$' text
	[[ $(ls -A folder) == hvd.prom ]]
	[[ $(stat -c %a folder/hvd.prom) == "$(printf %o $((0666 & ~$(umask))))" ]]
	if command -v promtool >/dev/null; then promtool check metrics <folder/hvd.prom; fi
	run "$B/bin/hvdrun" --launcher=fork -np 1 --metrics=file:folder/hvd.prom sh -c 'exit 3'
	[[ $status -eq 3 ]]
	grep -qE '^hvd_launch_exit_status\{.*\} 3$' folder/hvd.prom
	grep -qE '^hvd_failures_total\{.*\} 1$' folder/hvd.prom
}

@test "a file that cannot be written is a warning" {
	run "$B/bin/hvdrun" --launcher=fork -np 1 --metrics=file:nowhere/hvd.prom echo it runs
	echo "$output"
	[[ $status -eq 0 && $output == *"it runs"* ]]
	[[ $output == *"warning: --metrics: cannot write the metrics nowhere/hvd.prom: No such file or directory"* ]]
}

# families: of the source, as their samples are named.
families() {
	(
		sed -nE 's/.*"(hvd_[a-z_]+)", HVD_METRICS_GAUGE, .*/\1/p; s/.*"(hvd_[a-z_]+)", HVD_METRICS_COUNTER, .*/\1_total/p;
			s/.*"(hvd_[a-z_]+)", HVD_METRICS_INFO, .*/\1_info/p' "$SRC"/launcher/metrics/*.c
		sed -nE 's/.*\bROW\([a-z_]+, "([a-z_]+)", .*/\1/p' "$SRC/launcher/metrics/metrics_uses.c" |
			sed -E 's/.*/hvd_rank_&\nhvd_host_&\nhvd_ranks_&/'
	) | sort -u
}

@test "the page of documentation has each metric, and the dashboard no other" {
	families >known
	(($(wc -l <known) >= 40))
	while read -r name; do
		[[ $name == hvd_host_*_* || $name == hvd_ranks_* ]] || grep -q "\`$name\`" "$SRC/docs/monitoring.md" ||
			{ echo "docs/monitoring.md lacks $name" && false; }
	done <known
	jq -e '.panels | length > 20' "$SRC/etc/grafana/hvd-dashboard.json"
	jq -r '.. | strings' "$SRC/etc/grafana/hvd-dashboard.json" | grep -oE '\bhvd_[a-z_]+' | sort -u >used
	(($(wc -l <used) >= 25))
	[[ ! $(comm -23 used known) ]] || { comm -23 used known && false; }
}

@test "the samples for Prometheus and Grafana are what they read" {
	command -v promtool >/dev/null || skip "promtool is not installed (Debian: prometheus)"
	# Each expression of the dashboard, as a rule.
	jq '{groups: [{name: "dashboard", rules: [.. | .expr? | strings | gsub("[$]launch"; "x") | gsub("[$]host"; ".*") |
		{record: "x", expr: .}] | unique}]}' "$SRC/etc/grafana/hvd-dashboard.json" >dashboard.yml
	(($(jq '.groups[0].rules | length' dashboard.yml) > 30))
	promtool check rules dashboard.yml
	(umask 077 && echo 0123456789abcdef >token)
	sed "s|/etc/prometheus/hvd-metrics-token|$PWD/token|" "$SRC/etc/prometheus/hvd.yml" >prometheus.yml
	promtool check config prometheus.yml
	sed -n '/^# groups:/,$ s/^# \{0,1\}//p' "$SRC/etc/prometheus/hvd.yml" >rules.yml
	promtool check rules rules.yml
}
