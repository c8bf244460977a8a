# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A job of the real hvdrun whose agents are simulated, any number of them in one process (sim_agents.c), on this machine.
# B is the build, SIM_DIR a folder for files. What hvdrun says is in $SIM_DIR/out, what sim_agents says in
# $SIM_DIR/agents.

# sim_begin RANKS [OPTION OF hvdrun…]: hvdrun begins, with LAUNCHER as its pid, and waits for agents.
sim_begin() {
	local np=$1
	shift
	rm -f "$SIM_DIR"/{address,out,agents*}
	ulimit -n "$(ulimit -Hn)"
	(cd "$SIM_DIR" && exec "$B/bin/hvdrun" --launcher=join --key-file key --join-file address -np "$np" --max-restarts 1000 \
		--max-idle-restarts 0 --start-timeout 120 "$@" ./rank) >"$SIM_DIR/out" 2>&1 3>&- &
	LAUNCHER=$!
	SIMS=() SIM_FDS=()
	until [[ -s $SIM_DIR/address ]]; do
		kill -0 "$LAUNCHER" || { cat "$SIM_DIR/out" && return 1; }
		sleep 0.05
	done
}

# sim_agents HOSTS FIRST SLOTS: one more process of agents, which is SIMS[N]; sim_tell N COMMAND. What it says is in
# $SIM_DIR/agents.N. It gets SIM_OPTIONS, too.
sim_agents() {
	local n=${#SIMS[@]} fd
	rm -f "$SIM_DIR/commands.$n"
	mkfifo "$SIM_DIR/commands.$n"
	"$B/tests/bench/sim_agents" -n "$1" -f "$2" -s "$3" "${SIM_OPTIONS[@]}" "$(<"$SIM_DIR/address")" "$SIM_DIR/key" \
		<"$SIM_DIR/commands.$n" >"$SIM_DIR/agents.$n" 2>&1 3>&- &
	SIMS[n]=$!
	exec {fd}>"$SIM_DIR/commands.$n"
	SIM_FDS[n]=$fd
}
sim_tell() { echo "$2" >&"${SIM_FDS[$1]}"; }

# sim_waits SECONDS FILE PATTERN [N]: until the file has a line, or N lines, that fit.
sim_waits() {
	local end=$((SECONDS + $1))
	until (($(grep -cE -e "$3" "$SIM_DIR/$2" 2>/dev/null) >= ${4-1})); do
		if ((SECONDS >= end)); then
			echo "no $3 in $2:" && tail -n 20 "$SIM_DIR/$2" "$SIM_DIR"/agents.*
			return 1
		fi
		sleep 0.05
	done
}

# sim_end: the job ends, and agents with it.
sim_end() {
	local n
	kill -TERM "$LAUNCHER" 2>/dev/null || true
	for n in "${SIM_FDS[@]}"; do exec {n}>&-; done
	wait "$LAUNCHER" 2>/dev/null || true
	for n in "${SIMS[@]}"; do kill -KILL "$n" 2>/dev/null || true; done
	wait 2>/dev/null || true
}
