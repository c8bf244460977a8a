#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# make tarball-user: unpacked by a user without rights, on a cluster without the suite, and moved.

bats_require_minimum_version 1.5.0

setup_file() {
	load packages
	load ../cluster/helpers
	cluster_can
	B=$(cd "$SRC/${B:-build}" && pwd) || return 1
	portable tarball-user || return 1
	ARCHIVE=$(echo "$BATS_FILE_TMPDIR"/packages/hvd-"$VERSION"-linux-*.tar.gz)
	export ARCHIVE
	cluster_up --nodes 2 --srun-port-range 61000-61100
	on_login mkdir "site" && on_login tar xz -C site <"$ARCHIVE"
	export TOP=site/hvd-$VERSION
}

teardown_file() {
	load packages
	load ../cluster/helpers
	cluster_down
}

setup() {
	load packages
	load ../cluster/helpers
}

@test "no program, nor the plugin, needs a library of others, or a symbol that glibc 2.28 does not have" {
	local dir=$BATS_TEST_TMPDIR/x
	mkdir "$dir" && tar xz -C "$dir" <"$ARCHIVE"
	cd "$dir/hvd-$VERSION"
	assert_portable .
	run ! grep -rlI "$SRC\|@[A-Z]*@" .
	[ -f share/man/man1/hvdrun.1 ] && [ -x libexec/hvd/hvd-agent ] && [ -f lib/slurm/hvd.so ]
	run find share/doc/hvd/licenses -type f
	[ "${#lines[@]}" -ge 7 ]
}

@test "ranks run on one machine" {
	run on_login "$TOP/bin/hvdrun" --launcher=fork -np 2 sh -c 'echo "rank $HOROVOD_RANK of $HOROVOD_SIZE"'
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"rank 0 of 2"* && $output == *"rank 1 of 2"* ]]
}

@test "ranks run in an allocation, with the rendezvous in SrunPortRange" {
	run on_login salloc -N2 --ntasks-per-node=2 "$TOP/bin/hvdrun" sh -c 'echo "rank $RANK: port $HOROVOD_GLOO_RENDEZVOUS_PORT"'
	echo "$output"
	[ "$status" -eq 0 ]
	for rank in 0 1 2 3; do
		[[ $output =~ rank\ $rank:\ port\ (610[0-9][0-9]|61100) ]]
	done
	assert_no_leftovers
}

@test "outside an allocation hvdrun makes a job, as srun would" {
	run on_login "$TOP/bin/hvdrun" -N2 --ntasks-per-node=1 --selftest -- --quick
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"2 ranks on 2 hosts: OK"* ]]
}

@test "an elastic job in an allocation" {
	run on_login salloc -N2 "$TOP/bin/hvdrun" --min-np 1 --max-np 2 true
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "after a move it runs from its new folder, and its module finds it" {
	on_login mv "$TOP" "site/else where"
	run on_login salloc -N2 --ntasks-per-node=1 "site/else where/bin/hvdrun" --selftest -- --quick
	echo "$output"
	on_login mv "site/else where" "$TOP"
	[ "$status" -eq 0 ]
	[[ $output == *"2 ranks on 2 hosts: OK"* ]]
	# Not the old place's, for there is nothing any more.
	[[ $output != *"$TOP"* ]]
}

@test "the tarball's Python module runs a function by the tarball's hvdrun" {
	python3 -c 'import cloudpickle' || skip "the Python module cloudpickle is not installed"
	run on_login env PYTHONPATH="$TOP/lib/hvd/python" python3 -c '
import hvdrun, os
print(hvdrun.run(lambda: os.environ["HOROVOD_RANK"], np=2, extra_args=["--launcher=fork"]))'
	echo "$output"
	[ "$output" = "['0', '1']" ]
}
