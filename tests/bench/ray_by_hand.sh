#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ray in a job of Slurm's, with the steps and pauses of the script that Ray's documentation has for it: the head, ten
# seconds later one worker after the other, five seconds apart, then the command. The hosts of the test cluster share /tmp,
# where their Rays would meet.
#
#   ray_by_hand.sh RAY CPUS COMMAND…
set -eu
ray=$1 cpus=$2
shift 2
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
address=$(srun --overlap -N1 -n1 -w "${nodes[0]}" hostname --ip-address)
address=${address%% *}:6379
start() { srun --overlap -N1 -n1 -w "$1" "$ray" start --block --num-cpus "$cpus" --temp-dir "/tmp/ray-$$-$1" "${@:2}" >/dev/null 2>&1 & }
start "${nodes[0]}" --head --node-ip-address="${address%:*}" --port=6379
sleep 10
for node in "${nodes[@]:1}"; do
	start "$node" --address "$address"
	sleep 5
done
RAY_ADDRESS=$address "$@"
# Slurm ends the steps with the job.
