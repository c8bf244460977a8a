#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ray_symmetric.sh BIN HEAD HOSTS CPUS COMMAND... - for bench_ray.sh, a task on each host: `ray symmetric-run`, which looks for ray
# in PATH. The cluster's hosts share /tmp.
set -eu
head=$2 hosts=$3 cpus=$4
PATH=$1:$PATH
shift 4
# Its own look at the cluster finds the head by a file in the default folder.
folder=()
if [[ $(hostname) != "${head%:*}" ]]; then folder=(--temp-dir "/tmp/ray-$$-$(hostname)"); fi
exec ray symmetric-run --address "$head" --min-nodes "$hosts" --num-cpus "$cpus" "${folder[@]}" -- "$@"
