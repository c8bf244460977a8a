#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # what shells on the cluster evaluate
# Every script in scripts/examples, submitted by a user to a cluster that has the suite installed below a PREFIX of its
# own; hvd-selftest stands in for training.

bats_require_minimum_version 1.5.0
load helpers

setup_file() {
	cluster_can
	export SRC=$BATS_TEST_DIRNAME/../..
	SRC=$(cd "$SRC" && pwd)
	local build
	build=$(cd "$SRC" && mkdir -p "${B:-build}" && cd "${B:-build}" && pwd)/prefix
	export PRE=$build/root
	# Built for its place, as an administrator does, and not moved there afterwards; soon, and not for speed: then gcc warns of
	# what it knows better when it optimizes.
	make --no-print-directory -s -j2 -C "$SRC" install OPT=-O0 HARDEN= WERROR= B="$build" PREFIX="$PRE" DESTDIR= >"$BATS_FILE_TMPDIR/make.log" 2>&1 ||
		{ cat "$BATS_FILE_TMPDIR/make.log" && return 1; }
	[[ -e $PRE/lib/slurm/hvd.so ]] || skip "there is no plugin: Slurm's headers are missing"
	export HVD_PATH=$PRE/bin EXAMPLES=$PRE/share/doc/hvd/examples
	cluster_up --nodes 4 --gpus 2 --plugin "$PRE/lib/slurm/hvd.so"
}
teardown_file() { cluster_down; }
teardown() { cluster_mend; }

# submit SCRIPT [OPTION OF sbatch]...: waits for the end; sets $output to what the job wrote, and $status.
submit() {
	local script=$1
	[[ ${COMMAND-} ]] || local COMMAND=(hvd-selftest --quick)
	shift
	run on_login sbatch --wait --output=job.%a.out "$@" "$EXAMPLES/$script" "${COMMAND[@]}"
	echo "$output"
	local state=$status
	output=$(on_login bash -c 'cat job.*.out; rm -f job.*.out')
	echo "$output"
	status=$state
}

# passed TEXT N: succeeds when N lines say that the self-test of TEXT passed.
passed() { [ "$(grep -cF "hvd-selftest: $1: OK" <<<"$output")" -eq "$2" ]; }

@test "each example is tested here, or with the programs that it needs in peers/roles.bats" {
	local file
	for file in "$SRC"/scripts/examples/*.sbatch; do
		grep -qE "(submit |examples/)${file##*/}" "$BATS_TEST_FILENAME" "$SRC"/tests/peers/{roles,ray}.bats || { echo "not tested: $file" && false; }
	done
}

@test "srun.sbatch: the plugin" {
	submit srun.sbatch
	[ "$status" -eq 0 ]
	passed "8 ranks on 4 hosts" 1
	assert_no_leftovers
}

@test "the script of docs/start.md, in a virtual environment" {
	local home
	home=$(cluster path)/home/alice
	mkdir -p "$home/venv/bin"
	echo "PATH=$home/venv/bin:\$PATH" >"$home/venv/bin/activate"
	printf '%s\n' '#!/bin/sh' 'exec hvd-selftest --quick' >"$home/venv/bin/python"
	chmod -R a+rX "$home/venv" && chmod 755 "$home/venv/bin/python"
	# Smaller nodes than those of the page.
	sed -n '/^#!\/bin\/bash$/,/^```$/p' "$SRC/docs/start.md" | sed '/^```$/d; s/=4/=2/g; s/=8/=2/' >"$home/start.sh"
	EXAMPLES=$home submit start.sh
	[ "$status" -eq 0 ]
	passed "4 ranks on 2 hosts" 1
	assert_no_leftovers
}

@test "hvdrun.sbatch: without the plugin" {
	submit hvdrun.sbatch
	[ "$status" -eq 0 ]
	passed "8 ranks on 4 hosts" 1
	assert_no_leftovers
}

@test "container.sbatch: Apptainer, where srun has no --container-image" {
	local home
	home=$(cluster path)/home/alice
	mkdir -p "$home/bin"
	printf '%s\n' '#!/bin/sh' '[ "$1 $2" = "exec train.sif" ] || exit 9' 'shift 2' 'exec "$@"' >"$home/bin/apptainer"
	chmod 755 "$home/bin" "$home/bin/apptainer"
	HVD_PATH=$home/bin:$HVD_PATH IMAGE=train.sif submit container.sbatch
	[ "$status" -eq 0 ]
	passed "4 ranks on 2 hosts" 1
	submit container.sbatch
	[ "$status" -ne 0 ]
	[[ $output == *"name an image"* ]]
	assert_no_leftovers
}

@test "mpi.sbatch: workers of MPI, by mpirun" {
	local COMMAND=(printenv HOROVOD_CONTROLLER)
	command -v mpirun.openmpi >/dev/null || skip "Open MPI is not installed: scripts/install-deps --test"
	HVD_MPIRUN=mpirun.openmpi submit mpi.sbatch
	[ "$status" -eq 0 ]
	[ "$(grep -cE ">: ?mpi$" <<<"$output")" -eq 8 ]
}

@test "steps.sbatch: several steps in one job, two of them at once" {
	submit steps.sbatch
	[ "$status" -eq 0 ]
	passed "8 ranks on 4 hosts" 1
	output=$(on_login bash -c 'cat small-a.out small-b.out large.out')
	echo "$output"
	passed "4 ranks on 2 hosts" 2
	passed "8 ranks on 4 hosts" 1
	assert_no_leftovers
}

@test "array.sbatch: jobs of an array share nodes" {
	submit array.sbatch
	[ "$status" -eq 0 ]
	passed "4 ranks on 2 hosts" 3
	assert_no_leftovers
}

# Slurm waits for two minutes before it starts a requeued job, unless it is told that the job may start now.
@test "requeue.sbatch: a job that goes on after its time limit" {
	local COMMAND=(python3 "$EXAMPLES/requeue.py")
	while sleep 0.5; do
		on_host hvdctl squeue -h -t PD -n hvd-requeue -o %r | grep -q BeginTime || continue
		as_root hvdctl scontrol update JobName=hvd-requeue UserID=alice StartTime=now || true
	done >"$BATS_TEST_TMPDIR/start" 2>&1 3>&- &
	local starter=$!
	STEPS=70 SIGNAL_BEFORE=54 submit requeue.sbatch --time=1
	kill "$starter"
	[ "$status" -eq 0 ]
	[[ $output == *"requeueing job"*"(restart 1): its time limit"*"this is restart 1 of job"* ]]
	[ "$(grep -c "done after 70 steps: 2485" <<<"$output")" -eq 4 ]
	assert_no_leftovers
}

@test "gpus.sbatch: a rank for each GPU" {
	submit gpus.sbatch
	[ "$status" -eq 0 ]
	passed "4 ranks on 2 hosts" 1
	assert_no_leftovers
}

@test "no-hvd.sbatch: --hvd for the job, --no-hvd for a step" {
	submit no-hvd.sbatch
	[ "$status" -eq 0 ]
	[ "$(grep -c '^hvdn[0-9]$' <<<"$output")" -eq 2 ]
	passed "4 ranks on 2 hosts" 1
	assert_no_leftovers
}

# A light client of the launch's store stands in for torch.distributed; tests/peers has PyTorch itself.
@test "torch.sbatch: ranks meet at the launch's store" {
	local COMMAND=(python3 "$SRC/tests/cluster/lib/tcpstore_client.py")
	submit torch.sbatch
	[ "$status" -eq 0 ]
	[ "$(grep -c 'rank [0-7] of 8: sum 28 ' <<<"$output")" -eq 8 ]
	assert_no_leftovers
}

@test "torchrun.sbatch: each node's torchrun is told where the others meet" {
	local home COMMAND=(train.py)
	home=$(cluster path)/home/alice
	mkdir -p "$home/bin"
	printf '%s\n' '#!/bin/sh' 'echo "torchrun $* by $PET_RDZV_BACKEND at $PET_RDZV_ENDPOINT id $PET_RDZV_ID, $PET_NNODES"' \
		>"$home/bin/torchrun"
	chmod 755 "$home/bin" "$home/bin/torchrun"
	HVD_PATH=$home/bin:$HVD_PATH submit torchrun.sbatch
	[ "$status" -eq 0 ]
	[ "$(grep -cE '^torchrun train.py by c10d at [0-9.]+:[0-9]+ id [^ ]+, 4$' <<<"$output")" -eq 4 ]
	[ "$(grep torchrun <<<"$output" | sort -u | wc -l)" -eq 1 ]
	assert_no_leftovers
}

@test "jax.sbatch: all processes have the same coordinator, on the host of the first" {
	local COMMAND=(sh -c 'echo "coordinator $JAX_COORDINATOR_ADDRESS"')
	submit jax.sbatch
	[ "$status" -eq 0 ]
	[ "$(grep -cE '^coordinator 10\.7[78]\.0\.11:[0-9]+$' <<<"$output")" -eq 4 ]
	[ "$(sort -u <<<"$output" | grep -c coordinator)" -eq 1 ]
	assert_no_leftovers
}

needs_elastic() {
	if "$PRE/bin/hvdrun" --min-np=1 --dry-run true 2>&1 | grep -q 'not in this release'; then
		skip "hvdrun has no elastic jobs"
	fi
}

# submit elastic.sbatch: its ranks do no training, but print who they are.
@test "elastic.sbatch: on the nodes of one job" {
	needs_elastic
	run on_login sbatch --wait --output=job.0.out "$EXAMPLES/elastic.sbatch" sh -c 'echo "rank $HOROVOD_RANK of $HOROVOD_SIZE"; sleep 3'
	echo "$output"
	[ "$status" -eq 0 ]
	output=$(on_login cat job.0.out)
	echo "$output"
	[ "$(grep -o 'rank [0-7] of 8' <<<"$output" | sort -u | wc -l)" -eq 8 ]
	assert_no_leftovers
}

# submit elastic-torch.sbatch: one of its ranks fails once, and all are started anew. That elastic-torch.py trains is
# tested in peers/torch_elastic.bats.
@test "elastic-torch.sbatch: ranks that go on from a checkpoint" {
	run on_login sbatch --wait --output=job.0.out "$EXAMPLES/elastic-torch.sbatch" \
		sh -c 'echo "rank $RANK of $WORLD_SIZE again $TORCHELASTIC_RESTART_COUNT"; [ "$RANK$TORCHELASTIC_RESTART_COUNT" != 50 ]'
	echo "$output"
	[ "$status" -eq 0 ]
	output=$(on_login cat job.0.out)
	echo "$output"
	[ "$(grep -o 'rank [0-7] of 8 again 1' <<<"$output" | sort -u | wc -l)" -eq 8 ]
	[ -e "$EXAMPLES/elastic-torch.py" ]
	assert_no_leftovers
}

# submit elastic-jobs.sbatch, submit elastic-companion.sbatch
@test "elastic-jobs.sbatch and elastic-companion.sbatch: two jobs, one training" {
	local companion
	needs_elastic
	companion=$(on_login sbatch --parsable --job-name=mine -p preempt "$EXAMPLES/elastic-companion.sbatch")
	wait_for 20 on_login bash -c "squeue -h -t R -j $companion | grep -q ."
	run on_login sbatch --wait --job-name=mine --output=job.0.out "$EXAMPLES/elastic-jobs.sbatch" \
		sh -c 'echo "rank $HOROVOD_RANK of $HOROVOD_SIZE on $(hostname)"; sleep 3'
	echo "$output"
	[ "$status" -eq 0 ]
	output=$(on_login cat job.0.out)
	echo "$output"
	[ "$(grep -o 'rank [0-3] of 4' <<<"$output" | sort -u | wc -l)" -eq 4 ]
	[ "$(grep -o 'on hvdn[0-9]' <<<"$output" | sort -u | wc -l)" -eq 2 ]
	# The training's end is the companion's.
	assert_no_leftovers 15
}

@test "an example reports a training that fails" {
	local script
	for script in srun hvdrun; do
		run on_login sbatch --wait --output=job.0.out "$EXAMPLES/$script.sbatch" hvd-selftest --quick --fail-rank 3:7
		[ "$status" -ne 0 ]
		# srun's own words
		run on_login cat job.0.out
		echo "$output"
		[[ $output == *"hvdn2: task 3: Exited with exit code 7"* ]]
	done
	assert_no_leftovers
}

@test "the site's file below the PREFIX is read, by srun and by hvdrun" {
	mkdir -p "$PRE/etc"
	echo 'params: {fusion_threshold_mb: 3}' >"$PRE/etc/hvd.conf"
	run on_login srun --hvd -N1 -n1 printenv HOROVOD_FUSION_THRESHOLD
	echo "$output"
	[ "$output" = 3145728 ]
	run on_login hvdrun -N1 -n1 printenv HOROVOD_FUSION_THRESHOLD
	rm "$PRE/etc/hvd.conf"
	[ "$output" = 3145728 ]
}

@test "the user's way: a PREFIX in the home folder, no plugin, hvdrun" {
	local home
	home=$(on_login bash -c 'echo "$HOME"')
	# Moved, not built anew for the place: hvdrun finds its own programs by where it is itself.
	on_login bash -c 'mkdir -p .local && cp -r "$1"/bin "$1"/libexec .local/' x "$PRE"
	HVD_PATH=$home/.local/bin run on_login hvdrun -N2 -n4 --ntasks-per-node=2 hvd-selftest --quick
	echo "$output"
	[ "$status" -eq 0 ]
	passed "4 ranks on 2 hosts" 1
}
