#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# make wheel: installed into environments of users, it has the programs, the module and the plugin, and each finds the
# others.

bats_require_minimum_version 1.5.0

setup_file() {
	load packages
	load ../cluster/helpers
	cluster_can
	python3 -c 'import setuptools, wheel' 2>/dev/null || skip "setuptools or wheel is not installed: scripts/install-deps --wheel"
	# One that the cluster's users can run, too: that in PATH may be in root's home.
	for PYTHON in /usr/bin/python3 python3; do
		if "$PYTHON" -c 'import venv, ensurepip' 2>/dev/null; then break; fi
	done
	"$PYTHON" -c 'import venv, ensurepip' 2>/dev/null || skip "Python's venv is not installed (Debian: python3-venv)"
	B=$(cd "$SRC/${B:-build}" && pwd) || return 1
	portable wheel || return 1
	WHEEL=$(echo "$BATS_FILE_TMPDIR"/packages/hvdrun-"$VERSION"-py3-none-manylinux_2_28_*.whl)
	# Where all hosts of the cluster see it.
	PLACE=$(mktemp -d "$B/wheel.XXXXXX")
	chmod 755 "$PLACE"
	VENV=$PLACE/env
	export B WHEEL PLACE VENV PYTHON
	"$PYTHON" -m venv --system-site-packages "$VENV"
	# As a user does; where PyPI is out of reach, without cloudpickle.
	"$VENV/bin/pip" install --quiet "$WHEEL" || "$VENV/bin/pip" install --quiet --no-deps --no-index "$WHEEL"
	cluster_up --nodes 2 --plugin "$VENV/lib/slurm/hvd.so"
}

teardown_file() {
	load packages
	load ../cluster/helpers
	cluster_down
	rm -rf "$PLACE"
}

setup() {
	load packages
	load ../cluster/helpers
}

@test "the wheel is of this version, for glibc 2.28, and depends on cloudpickle" {
	run python3 -c 'import sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
for name in "METADATA", "WHEEL": print(z.read([n for n in z.namelist() if n.endswith(".dist-info/" + name)][0]).decode())' "$WHEEL"
	echo "$output"
	[[ $output == *"Version: $VERSION"* && $output == *"Requires-Dist: cloudpickle"* ]]
	[[ $output == *"Tag: py3-none-manylinux_2_28_$(uname -m)"* ]]
}

@test "no program, nor the plugin, needs a symbol that glibc 2.28 does not have, or a library of others" {
	local dir=$BATS_TEST_TMPDIR/x
	python3 -m zipfile -e "$WHEEL" "$dir"
	assert_portable "$dir"/hvdrun-"$VERSION".data
}

@test "hvdrun in the environment runs ranks in an allocation, with the agents of its own folder" {
	run on_login salloc -N2 --ntasks-per-node=2 "$VENV/bin/hvdrun" --selftest -- --quick
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"4 ranks on 2 hosts: OK"* ]]
	assert_no_leftovers
}

@test "the module runs a function by the environment's hvdrun, without PATH" {
	on_login "$VENV/bin/python" -c 'import cloudpickle' || skip "the Python module cloudpickle is not installed"
	run on_login env -i PATH=/usr/bin:/bin "$VENV/bin/python" -c '
import hvdrun, hvdrun._launch, os
print(hvdrun._launch.find_hvdrun())
print(hvdrun.run(lambda: os.environ["HOROVOD_RANK"], np=2, extra_args=["--launcher=fork"]))'
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$output" = "$VENV/bin/hvdrun"$'\n'"['0', '1']" ]
}

@test "pip install --target has the module beside the programs" {
	"$VENV/bin/pip" install --quiet --no-deps --no-index --target "$PLACE/target" "$WHEEL"
	run env -i PYTHONPATH="$PLACE/target" PATH=/usr/bin:/bin python3 -c 'import hvdrun._launch; print(hvdrun._launch.find_hvdrun())'
	echo "$output"
	[ "$output" = "$PLACE/target/bin/hvdrun" ]
	run on_login "$output" --launcher=fork -np 1 true
	[ "$status" -eq 0 ]
}

@test "without hvdrun anywhere the module says what is missing" {
	mkdir "$PLACE/alone"
	cp -r "$VENV"/lib/python3*/site-packages/hvdrun "$PLACE/alone"
	run env -i PATH=/nonexistent "$VENV/bin/python" -c "
import sys
sys.path.insert(0, '$PLACE/alone')
import hvdrun._launch
hvdrun._launch.find_hvdrun()"
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"FileNotFoundError"*"hvdrun is not in PATH"* ]]
}

@test "--plugin-path names the plugin, and srun --hvd works with its path alone in plugstack.conf" {
	run on_login "$VENV/bin/hvdrun" --plugin-path
	[ "$output" = "$VENV/lib/slurm/hvd.so" ]
	run on_login srun --hvd -N2 --ntasks-per-node=1 "$VENV/bin/hvd-selftest" --quick
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"2 ranks on 2 hosts: OK"* ]]
	assert_no_leftovers
}

@test "an environment that was moved to a path with blanks, which its user cannot write, runs ranks" {
	local moved="$PLACE/an other place"
	cp -a "$VENV" "$moved"
	run on_login touch "$moved/bin/x"
	[ "$status" -eq 1 ]
	[[ $output == *"Permission denied"* ]]
	run on_login "$moved/bin/hvdrun" -N2 --ntasks-per-node=1 --selftest --dry-run -- --quick
	[[ $output == *"$moved/"*hvd-agent* && $output != *"$VENV/"* ]]
	run on_login "$moved/bin/hvdrun" -N2 --ntasks-per-node=1 --selftest -- --quick
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"2 ranks on 2 hosts: OK"* ]]
}

@test "pip uninstall leaves no file" {
	"$PYTHON" -m venv --system-site-packages "$PLACE/fresh"
	# Bytecode of pip itself is not the wheel's, and pip leaves folders that are empty.
	find "$PLACE/fresh" ! -type d ! -path '*__pycache__*' | sort >"$PLACE/before"
	"$PLACE/fresh/bin/pip" install --quiet --no-deps --no-index "$WHEEL"
	[ -x "$PLACE/fresh/libexec/hvd/hvd-agent" ] && [ -e "$PLACE/fresh/share/man/man1/hvdrun.1" ]
	"$PLACE/fresh/bin/python" -c 'import hvdrun' || "$PLACE/fresh/bin/hvdrun" --version
	"$PLACE/fresh/bin/pip" uninstall --quiet --yes hvdrun
	find "$PLACE/fresh" ! -type d ! -path '*__pycache__*' | sort >"$PLACE/after"
	run diff "$PLACE/before" "$PLACE/after"
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "uv tool install puts hvdrun into the folder of a user's programs" {
	local uv
	uv=$(command -v uv) || { pip3 install --quiet --target "$PLACE/uv" uv && uv=$PLACE/uv/bin/uv; } || skip "uv cannot be had from PyPI"
	# uv looks for dependencies nowhere else, so the wheel's is left out.
	echo "cloudpickle; python_version < '3'" >"$PLACE/overrides"
	UV_TOOL_DIR=$PLACE/tools UV_TOOL_BIN_DIR=$PLACE/bin "$uv" tool install --offline --no-cache --no-index --overrides "$PLACE/overrides" \
		--python "$(command -v python3)" "$WHEEL"
	run on_login "$PLACE/bin/hvdrun" --launcher=fork -np 2 sh -c 'echo "rank $HOROVOD_RANK of $HOROVOD_SIZE"'
	echo "$output"
	[[ $output == *"rank 1 of 2"* ]]
}
