#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# make install and make uninstall, what they put where, and whether it runs from there; the manual pages and samples.

bats_require_minimum_version 1.5.0

setup_file() {
	export SRC=$BATS_TEST_DIRNAME/../.. DEST=$BATS_FILE_TMPDIR/dest PRE=/opt/hvd
	export B=${B:-build}
	cd "$SRC" || return 1
	# The build directory's programs as they are: with another PREFIX they would be built anew, and so would they
	# be for every test after this file.
	PRE=$(sed -n 's|.*-DHVD_LIBEXECDIR="\([^"]*\)/libexec/hvd".*|\1|p' "$B/flags" | head -n 1)
	[[ $PRE ]] || PRE=/usr/local
	make_quietly install
}

make_quietly() {
	make --no-print-directory -C "$SRC" "$@" B="$B" DESTDIR="$DEST" PREFIX="$PRE" >"$BATS_FILE_TMPDIR/make.log" 2>&1 ||
		{ cat "$BATS_FILE_TMPDIR/make.log" && return 1; }
}

installed() { (cd "$DEST$PRE" && find . ! -type d | sort); }

@test "everything has its place, readable by all" {
	cd "$DEST$PRE"
	[ -x bin/hvdrun ] && [ -x bin/hvd-rendezvous ] && [ -x libexec/hvd/hvd-driver ] && [ -x libexec/hvd/hvd-requeue ] && [ -x libexec/hvd/hvd-watch ] && [ -x libexec/hvd/hvd-agent ]
	[ "$(readlink libexec/hvd/hvd-task)" = hvd-agent ]
	[ -f share/bash-completion/completions/hvdrun ]
	[ ! -e bin/horovodrun ]
	local page
	for page in man1/hvdrun.1 man1/hvd-rendezvous.1 man1/hvd-selftest.1 man3/hvdrun.3 man5/hvd.conf.5 man7/hvd-diagnosis.7 \
		man7/hvd-elastic.7 man7/hvd-join.7 man7/hvd-lsf.7 man7/hvd-pytorch.7 man7/hvd-requeue.7 man7/hvd-roles.7 man8/spank-hvd.8; do
		[ -f "share/man/$page" ]
	done
	[ -x libexec/hvd/lsf/server/nios ] && [ -x libexec/hvd/lsf/server/eauth ]
	[ -x libexec/hvd/lsf/esub.hvd ] && [ -f share/doc/hvd/examples/gpus.bsub ]
	[ -f share/doc/hvd/README.md ] && [ -f share/doc/hvd/hvd.conf ] && [ -f share/doc/hvd/examples/srun.sbatch ]
	[ -f share/doc/hvd/prometheus/hvd.yml ] && [ -f share/doc/hvd/grafana/hvd-dashboard.json ]
	for page in "$SRC"/scripts/examples/* "$SRC"/scripts/discover/*; do
		[ -f "share/doc/hvd/examples/${page##*/}" ]
	done
	# The links of README.md to pages for users lead somewhere.
	for page in $(grep -oh '(pictures/[a-z-]*\.svg)' share/doc/hvd/docs/*.md | tr -d '()'); do
		[ -f "share/doc/hvd/docs/$page" ]
	done
	for page in $(grep -o '(docs/[a-z]*\.md)' share/doc/hvd/README.md | tr -d '()'); do
		[ -f "share/doc/hvd/$page" ]
	done
	run find . ! -perm -o=r
	[ "$output" = "" ]
	# The folders above are the test's own.
	run find . -type d ! -perm -o=x
	[ "$output" = "" ]
}

# So that one build works with every release of Slurm.
@test "nothing is linked with libslurm" {
	cd "$DEST$PRE"
	local file
	for file in bin/hvdrun bin/hvd-rendezvous libexec/hvd/hvd-driver libexec/hvd/hvd-requeue libexec/hvd/hvd-watch libexec/hvd/hvd-agent \
		lib/slurm/hvd.so; do
		[[ -e $file || $file == *.so ]] || { echo "$file is missing" && return 1; }
		[[ -e $file ]] || continue
		run -0 readelf -d "$file"
		[[ $output == *NEEDED*libc.so* && $output != *libslurm* ]] || { echo "$file: $output" && return 1; }
	done
}

@test "no place-holder is left, and samples name what is installed" {
	cd "$DEST$PRE"
	run ! grep -rnI '@[A-Z]*@' share
	if [ -e lib/slurm/hvd.so ]; then
		[ "$(awk '$1 == "optional" { print $2 }' share/doc/hvd/plugstack-hvd.conf)" = "$PRE/lib/slurm/hvd.so" ]
		grep -qxF "optional $PRE/lib/slurm/hvd.so late" share/doc/hvd/plugstack-zz-hvd.conf
	fi
	grep -qF "\"$PRE/bin\"" share/modulefiles/hvd/*.lua
	run ! grep -n '@[A-Z]*@' libexec/hvd/lsf/esub.hvd
	grep -qxF "bindir=$PRE/bin" libexec/hvd/lsf/esub.hvd
}

@test "the installed hvdrun runs the installed programs" {
	[ -x "$DEST$PRE/bin/hvd-selftest" ] || skip "hvd-selftest is not built"
	cd /
	run env -i PATH=/usr/bin:/bin "$DEST$PRE/bin/hvdrun" --launcher=fork -np 2 --selftest -- --quick
	[ "$status" -eq 0 ] || { echo "$output" && false; }
	[[ $output == *"2 ranks on 1 host: OK"* ]]
	run env -i PATH=/usr/bin:/bin "$DEST$PRE/bin/hvdrun" --launcher=fork -np 2 --dry-run true
	[[ $output == *"$DEST$PRE/bin/../libexec/hvd/hvd-agent host "* ]]
}

@test "the installed Python module finds the installed hvdrun" {
	python3 -c 'import cloudpickle' || skip "the Python module cloudpickle is not installed"
	cd /
	run env -i PATH=/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$DEST$PRE/lib/hvd/python" python3 -c '
import hvdrun, hvdrun._launch, os
print(hvdrun._launch.find_hvdrun())
print(hvdrun.run(lambda: os.environ["HOROVOD_RANK"], np=2, extra_args=["--launcher=fork"]))'
	[ "$status" -eq 0 ] || { echo "$output" && false; }
	[ "$output" = "$DEST$PRE/bin/hvdrun"$'\n'"['0', '1']" ]
	grep -qF "\"$PRE/lib/hvd/python\"" "$DEST$PRE"/share/modulefiles/hvd/*.lua
}

@test "HOROVODRUN=1 adds the name horovodrun, which goes again" {
	make_quietly install HOROVODRUN=1
	[ "$(readlink "$DEST$PRE/bin/horovodrun")" = hvdrun ]
	run -0 env -i PATH=/usr/bin:/bin "$DEST$PRE/bin/horovodrun" --version
	[[ $output =~ ^hvdrun\ [0-9.]+$ ]]
	make_quietly uninstall HOROVODRUN=1
	[ ! -e "$DEST$PRE/bin/horovodrun" ]
	make_quietly install
}

@test "completion asks the program and knows its options" {
	run bash --norc -c '
		PATH=$1:$PATH
		. "$2"
		COMP_WORDS=(hvdrun --start-t) COMP_CWORD=1
		_hvdrun hvdrun
		printf "%s\n" "${COMPREPLY[@]}"' x "$DEST$PRE/bin" "$DEST$PRE/share/bash-completion/completions/hvdrun"
	[ "$output" = "--start-timeout" ]
	run bash --norc -c '
		PATH=$1:$PATH
		. "$2"
		COMP_WORDS=(hvdrun --role = trainer -N2 true : --replic) COMP_CWORD=7
		_hvdrun hvdrun
		printf "%s\n" "${COMPREPLY[@]}"
		COMP_WORDS=(hvdrun --role = trainer -N2 true : --role judge --with = tr) COMP_CWORD=11
		_hvdrun hvdrun
		printf "%s\n" "${COMPREPLY[@]}"' x "$DEST$PRE/bin" "$DEST$PRE/share/bash-completion/completions/hvdrun"
	[ "$output" = "--replicas"$'\n'"trainer" ]
}

@test "the manual pages are well-formed" {
	command -v mandoc >/dev/null || skip "mandoc is not installed"
	run mandoc -Tlint -W warning "$DEST$PRE"/share/man/man?/*
	[ "$output" = "" ]
	[ "$status" -eq 0 ]
}

# Long options that --help=all shows, against those in bold on the page.
@test "hvdrun(1) has the options of --help=all" {
	local name n=0
	run "$DEST$PRE/bin/hvdrun" --help=all
	while read -r name; do
		grep -qF "\\fB${name//-/\\-}\\fR" "$DEST$PRE/share/man/man1/hvdrun.1" || { echo "not there: $name" && false; }
		n=$((n + 1))
	done < <(grep -oE '^ .{1,26}--[a-z0-9_-]+' <<<"$output" | grep -oE -- '--[a-z0-9_-]+$')
	((n > 100))
}

# Keys of the file's page, "map.key" within a map.
documented_keys() {
	awk '/^\.Bl / { depth++; if (depth == 2) map = key; next }
		/^\.El/ { depth--; next }
		/^\.It Cm / && $0 ~ / : / { key = $3; print depth == 2 ? map "." key : key; next }
		/^\.It Cm / && depth == 1 { key = $3 }' "$SRC/man/hvd.conf.5" | sort
}

# Those of the sample, which stand behind "#" there.
sample() { sed -nE 's/^#( *[a-z_-]+:.*)$/\1/p' "$SRC/etc/hvd.conf"; }

@test "hvd.conf(5) has the keys that there are for Horovod, and no other" {
	local known
	known=$( (echo controller && grep -v '^#include' "$SRC/launcher/options/options_horovod.c" |
		grep -oE '"[a-z_]+\.[a-z_]+"' | tr -d '"') | sort)
	[ "$(wc -l <<<"$known")" -gt 20 ]
	diff <(echo "$known") <(documented_keys | grep -E '\.|^controller')
}

@test "every key of hvd.conf(5) is accepted, alone" {
	local key value file=$BATS_TEST_TMPDIR/one.conf
	for key in $(documented_keys); do
		case $key in
		controller) value=gloo ;;
		launcher) value=fork ;;
		lost-host) value=slurm ;;
		store) value=rank0 ;;
		frameworks) value='[torch, jax]' ;;
		preflight) value=quick ;;
		hang-action) value='kill' ;;
		signal-ranks) value=USR1@300 ;;
		requeue-on) value='limit,node' ;;
		nics) value='[lo, eth0]' ;;
		logging.level) value=INFO ;;
		metrics) value=file:/tmp/some ;;
		*file | *filename | trace | events | report) value=/tmp/some ;;
		*gaussian*) value=0.5 ;;
		keep-going | *enabled | *mark_cycles | *_disable | *_timestamp | *_all*) value=true ;;
		*) value=1 ;;
		esac
		if [[ $key == *.* ]]; then
			printf '%s:\n  %s: %s\n' "${key%.*}" "${key#*.}" "$value" >"$file"
		else
			printf '%s: %s\n' "$key" "$value" >"$file"
		fi
		run "$DEST$PRE/bin/hvdrun" --launcher=fork -np 1 --config-file="$file" --dry-run true
		# A key file is looked at, and this one is not there.
		[[ $status -eq 0 || $key == key-file && $output != *"no setting"* ]] || { cat "$file" && echo "$output" && false; }
	done
}

@test "the sample of hvd.conf is one, with its lines switched on or not" {
	sample >"$BATS_TEST_TMPDIR/on.conf"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/on.conf")" -gt 20 ]
	run "$DEST$PRE/bin/hvdrun" --launcher=fork -np 1 --config-file="$BATS_TEST_TMPDIR/on.conf" --dry-run true
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *HOROVOD_FUSION_THRESHOLD=134217728* ]]
	run -0 "$DEST$PRE/bin/hvdrun" --launcher=fork -np 1 --config-file="$SRC/etc/hvd.conf" --dry-run true
}

# The names of the plugin's settings.
settings() {
	sed -nE 's/^SETTING\([a-z_]*, "([a-z-]*)".*/\1/p; s/^HOROVOD_SETTING\([a-z_]*, "[a-z-]*", "([a-z-]*)".*/\1/p' \
		"$SRC/lib/base/settings.def"
}

@test "spank-hvd(8) has the plugin's options and arguments" {
	local name page n=0
	page=$(cat "$DEST$PRE/share/man/man8/spank-hvd.8")
	while read -r name; do
		grep -q -- "^\.It Fl -$name\( \|$\)" <<<"$page" || { echo "not there: --$name" && false; }
		n=$((n + 1))
	done < <(printf '%s\n' hvd no-hvd hvd-verbose && settings | sed 's/^/hvd-/')
	((n >= 18))
	for name in $(settings | tr - _) verbose libexecdir kill_on_bad_exit newer_slurm enabled; do
		grep -q "^\.It Cm .*\b$name\b" <<<"$page" || { echo "not there: $name=" && false; }
	done
}

@test "install-deps: nothing to do is done quickly, wrong usage is refused" {
	run -0 timeout 5 "$SRC/scripts/install-deps" --build --print
	[ "$output" = "nothing is missing" ]
	run -2 "$SRC/scripts/install-deps" --nonsense
}

@test "uninstall leaves nothing but folders" {
	[ "$(installed | wc -l)" -gt 15 ]
	make_quietly uninstall
	[ "$(installed)" = "" ]
	run find "$DEST" -path '*hvd*' ! -path "$DEST" ! -path "$DEST$PRE"
	[ "$output" = "" ]
}
