#!/bin/bash
# Ranks in agents that something else starts, without a scheduler and without ssh: here processes of this machine, as many
# as there are ranks. Anything that starts a program with the key on its standard input will do.
#
#   join.sh 4 python train.py
#
# RUN may hold what starts an agent somewhere else: RUN="docker run -i IMAGE", RUN="kubectl exec -i POD --" …

set -e
[ $# -gt 1 ] || { echo "usage: $0 RANKS COMMAND…" >&2; exit 2; }
ranks=$1
shift
: "${HVD_AGENT:=$(dirname "$(command -v hvdrun)")/../libexec/hvd/hvd-agent}"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
hvdrun --launcher=join -np "$ranks" --key-file "$dir/key" --join-file "$dir/address" "$@" &
hvdrun=$!
until [ -s "$dir/address" ]; do
	kill -0 $hvdrun 2>/dev/null || wait $hvdrun
	sleep 0.1
done

# The agent ends when its standard input does, and that ends with hvdrun, whatever becomes of this script.
for ((i = 0; i < ranks; i++)); do
	{
		cat "$dir/key"
		tail --pid=$hvdrun -f /dev/null
	} | ${RUN-} "$HVD_AGENT" connect "$(cat "$dir/address")" --key-file=- --index=$i &
done
wait $hvdrun
