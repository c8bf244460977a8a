#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# make wheel: installed into an environment of its own, it runs functions by the hvdrun in PATH.

bats_require_minimum_version 1.5.0

setup_file() {
	load packages
	python3 -c 'import setuptools, wheel, venv, ensurepip' 2>/dev/null ||
		skip "setuptools, wheel or venv is not installed: scripts/install-deps --package"
	B=$(cd "$SRC/${B:-build}" && pwd) || return 1
	export B VENV=$BATS_FILE_TMPDIR/venv
	make -C "$SRC" B="$BATS_FILE_TMPDIR" wheel || return 1
	python3 -m venv --system-site-packages "$VENV"
	"$VENV/bin/pip" install --quiet --no-deps --no-index "$BATS_FILE_TMPDIR"/packages/*.whl
}

setup() { load packages; }

@test "the wheel is of pure Python and this version, and depends on cloudpickle" {
	local wheel=$BATS_FILE_TMPDIR/packages/hvdrun-$VERSION-py3-none-any.whl
	run python3 -m zipfile -l "$wheel"
	echo "$output"
	[[ $output == *hvdrun/_worker.py* ]]
	[[ $output != *.so* && $output != *tests* ]]
	run python3 -c 'import sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
print(z.read([n for n in z.namelist() if n.endswith("METADATA")][0]).decode())' "$wheel"
	[[ $output == *"Version: $VERSION"* && $output == *"Requires-Dist: cloudpickle"* ]]
}

@test "the module runs a function in the ranks of a job, by the hvdrun in PATH" {
	"$VENV/bin/python" -c 'import cloudpickle' || skip "the Python module cloudpickle is not installed"
	cd /
	run env -i PATH="$B/bin:/usr/bin:/bin" "$VENV/bin/python" -c '
import hvdrun, hvdrun._launch, os
assert hvdrun.__file__.startswith(os.environ.get("VIRTUAL_ENV") or "'"$VENV"'"), hvdrun.__file__
print(hvdrun._launch.find_hvdrun())
print(hvdrun.run(lambda: os.environ["HOROVOD_RANK"], np=2, extra_args=["--launcher=fork"]))'
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$output" = "$B/bin/hvdrun"$'\n'"['0', '1']" ]
}

@test "without hvdrun in PATH the module says what is missing" {
	run env -i PATH=/nonexistent "$VENV/bin/python" -c 'import hvdrun; hvdrun.run(print, np=1)'
	echo "$output"
	[ "$status" -ne 0 ]
	[[ $output == *"hvdrun is not in PATH"* || $output == *"cloudpickle"* ]]
}
