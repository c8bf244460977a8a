#!/bin/bash
# A discovery script: of the hosts in a file, those whose ssh answers now. For clusters without a scheduler.
#
#   hvdrun -np 4 --min-np 2 --host-discovery-script "bash reachable.sh hosts.txt" python train_elastic.py
#
# The file has lines "HOST:SLOTS" or "HOST"; what follows a "#" is not looked at. PORT in the environment is tried
# instead of 22, for TIMEOUT (1) seconds.

set -u
file=${1:?usage: reachable.sh FILE}
[[ -r $file ]] || { echo "reachable.sh: cannot read $file" >&2 && exit 2; }

# All at once; the answers are put in the order of the file, for the order decides on ranks.
number=0
while IFS= read -r line || [[ $line ]]; do
	line=${line%%#*}
	line=${line//[[:space:]]/}
	[[ $line ]] || continue
	number=$((number + 1))
	(
		if timeout "${TIMEOUT:-1}" bash -c 'exec 3<>"/dev/tcp/$0/$1"' "${line%%:*}" "${PORT:-22}" 2>/dev/null; then
			printf '%06d %s\n' "$number" "$line"
		fi
	) &
done <"$file" | sort | cut -d' ' -f2
