#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Measure hvd-rendezvous, over loopback only, and leave nothing behind:
#   1. requests a second, a connection for each, 200-byte values, against nginx with one worker that serves a file of
#      that size and closes first, as hvd-rendezvous does: same client, which asks as Horovod's does, in turns, medians
#   2. the full mesh of N simulated ranks, with values of 200 bytes and of Gloo's real size, against what a server that
#      only accepts and answers, and a bare copy, reach on this machine
#
# B=build RUNS=5 SECONDS_EACH=2 CONNECTIONS="1 16 64" RANKS="8 64 256 1024" LIMIT=120 bench_rendezvous.sh
set -eu
cd "$(dirname "$0")/../.."
B=${B:-build}
RUNS=${RUNS:-5}
SECONDS_EACH=${SECONDS_EACH:-2}
CONNECTIONS=${CONNECTIONS:-1 16 64}
RANKS=${RANKS-8 64 256 1024}
LIMIT=${LIMIT:-120} # seconds of one mesh
bench=$B/tests/bench

make -s B="$B" "$B/bin/hvd-rendezvous" "$bench/rv_load"

dir=$(mktemp -d)
chmod 755 "$dir"
pids=()
finish() {
	[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
	wait 2>/dev/null || true
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM

start_ours() { # FILE-FOR-OUTPUT OPTION...
	local out=$1
	shift
	"$B/bin/hvd-rendezvous" --json --bind=127.0.0.1 "$@" >"$out" &
	pids+=($!)
	for _ in $(seq 100); do
		[ -s "$out" ] && break
		sleep 0.05
	done
	port=$(sed -n 's/.*"port":\([0-9]*\).*/\1/p;q' "$out")
	[ -n "$port" ]
}

free_port() {
	local out=$dir/free
	start_ours "$out"
	kill "${pids[-1]}"
	wait "${pids[-1]}" || true
	unset 'pids[-1]'
	rm -f "$out"
}

median() { sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.2f", (b > 0 ? a / b : 0)}'; }

start_ours "$dir/checked"
checked=$port
start_ours "$dir/any" --any-user
any=$port
for p in $checked $any; do "$bench/rv_load" put "$p" /global/1 200; done

nginx_port=
if command -v nginx >/dev/null; then
	free_port
	nginx_port=$port
	mkdir -p "$dir/www/global"
	head -c 200 /dev/zero | tr '\0' v >"$dir/www/global/1"
	{
		echo "worker_processes 1; daemon off; pid $dir/pid; error_log $dir/error;"
		echo "events { worker_connections 8192; }"
		echo "http { access_log off; keepalive_timeout 0; root $dir/www;"
		for t in client_body proxy fastcgi uwsgi scgi; do echo "${t}_temp_path $dir/$t;"; done
		echo "server { listen 127.0.0.1:$nginx_port backlog=4096; } }"
	} >"$dir/nginx.conf"
	nginx -c "$dir/nginx.conf" -e "$dir/error" &
	pids+=($!)
	for _ in $(seq 100); do
		(: <>"/dev/tcp/127.0.0.1/$nginx_port") 2>/dev/null && break
		sleep 0.05
	done
fi

show() { # NAME FILE
	echo "$1: $(cut -d' ' -f1 "$2" | median)/s, p50 $(cut -d' ' -f2 "$2" | median) us," \
		"p99 $(cut -d' ' -f3 "$2" | median) us, failures $(awk '{n += $4} END {print n}' "$2")"
}
[ -n "$nginx_port" ] || echo "nginx is not installed: no comparison"
for at_once in $CONNECTIONS; do
	echo "== requests a second, connection per request, 200 bytes, $at_once at a time, median of $RUNS"
	rm -f "$dir"/r.*
	for _ in $(seq "$RUNS"); do
		[ -z "$nginx_port" ] || "$bench/rv_load" rate "$nginx_port" /global/1 "$at_once" "$SECONDS_EACH" >>"$dir/r.nginx"
		"$bench/rv_load" rate "$checked" /global/1 "$at_once" "$SECONDS_EACH" >>"$dir/r.checked"
		"$bench/rv_load" rate "$any" /global/1 "$at_once" "$SECONDS_EACH" >>"$dir/r.any"
	done
	show "hvd-rendezvous" "$dir/r.checked"
	show "hvd-rendezvous --any-user" "$dir/r.any"
	[ -n "$nginx_port" ] || continue
	show "nginx, one worker" "$dir/r.nginx"
	n=$(cut -d' ' -f1 "$dir/r.nginx" | median)
	echo "ratio to nginx: $(ratio "$(cut -d' ' -f1 "$dir/r.checked" | median)" "$n")" \
		"(--any-user: $(ratio "$(cut -d' ' -f1 "$dir/r.any" | median)" "$n"))"
done

# Horovod's own server, where a Python that has it is at hand.
PYTHON=${PYTHON:-python3}
if "$PYTHON" -c 'import horovod.runner.http.http_server' 2>/dev/null; then
	"$PYTHON" - >"$dir/horovod" <<-'PY' &
		import sys, time
		from horovod.runner.http.http_server import RendezvousServer
		print(RendezvousServer(0).start(), flush=True)
		time.sleep(600)
	PY
	pids+=($!)
	sleep 3
	port=$(cat "$dir/horovod")
	"$bench/rv_load" put "$port" /global/1 200
	for _ in $(seq "$RUNS"); do "$bench/rv_load" rate "$port" /global/1 4 "$SECONDS_EACH" >>"$dir/r.horovod"; done
	show "Horovod's server (4 at a time)" "$dir/r.horovod"
	kill "${pids[-1]}"
	unset 'pids[-1]'
else
	echo "Horovod is not installed: no comparison with its server"
fi

echo "== full mesh of N ranks, one request at a time each"
read -r memcpy loopback < <("$bench/rv_load" copy)
echo "bounds: memcpy $memcpy MB/s, loopback $loopback MB/s"
for n in $RANKS; do
	for bytes in 200 0; do
		size=$bytes
		[ "$bytes" -ne 0 ] || size=$((136 * (n - 1)))
		free_port
		"$bench/rv_load" serve "$port" "$size" &
		bound=$!
		pids+=("$bound")
		sleep 0.2
		rate=$("$bench/rv_load" rate "$port" /global/1 "$n" "$SECONDS_EACH" | cut -d' ' -f1)
		kill "$bound"
		wait "$bound" 2>/dev/null || true
		unset 'pids[-1]'
		read -r took requests missing mb part < <("$bench/rv_load" mesh "$any" "$n" "$bytes" "$LIMIT")
		done_rate=$(awk -v r="$requests" -v t="$took" 'BEGIN {printf "%.0f", r / t}')
		echo "N=$n, $size bytes: $took s for $part% of it, $requests requests ($done_rate/s, 404: $missing)," \
			"$(ratio "$mb" "$took") MB/s; accept-and-answer does $rate/s: ratio $(ratio "$done_rate" "$rate")"
		curl -s -o /dev/null -X DELETE "http://127.0.0.1:$any/global/0" || true
	done
done
