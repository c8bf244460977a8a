#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The RPM packages: what they say of themselves, and what they put where, in a folder and a database of their own.
#
# HVD_PACKAGES   packages that make rpm has made before, instead of building them

bats_require_minimum_version 1.5.0

setup_file() {
	load packages
	command -v rpmbuild >/dev/null || skip "rpmbuild is not installed: scripts/install-deps --package"
	command -v srun >/dev/null || skip "Slurm is not installed"
	cd "$SRC" || return 1
	export RPMS=${HVD_PACKAGES:-$BATS_FILE_TMPDIR/packages}
	[[ ${HVD_PACKAGES-} ]] || make B="$BATS_FILE_TMPDIR" rpm || return 1
	RELEASE=$(packaging/slurm-release | sed -n 's/^release=//p')
	SONAME=$(packaging/slurm-release | sed -n 's/^soname=//p')
	NEXT=$(packaging/slurm-release | sed -n 's/^next=//p')
	export RELEASE SONAME NEXT
}

setup() {
	load packages
	NEVRA="$VERSION-1.slurm$RELEASE.$(uname -m)"
	ROOT=$BATS_FILE_TMPDIR/root
}

@test "rpmlint finds nothing that is not answered" {
	command -v rpmlint >/dev/null || skip "rpmlint is not installed"
	run rpmlint -c "$SRC/packaging/rpmlint.toml" "$RPMS"/*.rpm "$RPMS/hvd.spec"
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *" 0 errors, 0 warnings"* ]]
}

@test "the plugin needs the libslurm and the release of Slurm that it was built for" {
	run rpm -qp --requires "$RPMS/hvd-slurm-plugin-$NEVRA.rpm"
	echo "$output"
	grep -qxF "$SONAME()(64bit)" <<<"$output"
	grep -qxF "slurm >= $RELEASE" <<<"$output"
	grep -qxF "slurm < $NEXT" <<<"$output"
	grep -q "^hvd(.*) = $VERSION-1.slurm$RELEASE$" <<<"$output"
	run rpm -qp --requires "$RPMS/hvd-$NEVRA.rpm"
	grep -qxF "$SONAME()(64bit)" <<<"$output"
	run rpm -qp --conflicts "$RPMS/hvd-$NEVRA.rpm"
	grep -qxF "slurm >= $NEXT" <<<"$output"
}

@test "the packages are installed into a root, run there, and leave nothing when they are erased" {
	local db=(--root "$ROOT" --dbpath /rpmdb --nodeps --noscripts)
	((EUID == 0)) || skip "rpm --root needs root"
	mkdir -p "$ROOT"
	run rpm "${db[@]}" -i "$RPMS"/*.rpm
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$("$ROOT/usr/bin/hvdrun" --version | head -n 1)" = "hvdrun $VERSION" ]
	"$ROOT/usr/bin/hvdrun" --launcher=fork -np 2 true
	# The line names the installed plugin; a changed one is kept.
	local conf=$ROOT/etc/slurm/plugstack.conf.d/hvd.conf
	[ -f "$ROOT$(awk '$1 == "optional" { print $2 }' "$conf")" ]
	rpm "${db[@]}" -V hvd hvd-slurm-plugin python3-hvdrun
	echo "# ours" >>"$conf"
	rpm "${db[@]}" -U --replacepkgs "$RPMS/hvd-slurm-plugin-$NEVRA.rpm"
	grep -qx '# ours' "$conf"
	rm "$conf"
	rpm "${db[@]}" -e hvd hvd-slurm-plugin python3-hvdrun
	run find "$ROOT" -name '*hvd*'
	echo "$output"
	[ "$output" = "" ]
}

# A database that has a Slurm: rpm resolves against it.
@test "an upgrade of Slurm that would leave the plugin behind is refused" {
	((EUID == 0)) || skip "rpm --root needs root"
	local root=$BATS_TEST_TMPDIR/root release
	for release in "$RELEASE.1" 99.05.1; do
		fake_slurm "$release" "$([[ $release == 99* ]] && echo libslurm.so.99 || echo "$SONAME")"
	done
	local db=(--root "$root" --dbpath /rpmdb)
	mkdir -p "$root"
	rpm "${db[@]}" -i "$BATS_TEST_TMPDIR/slurm-$RELEASE.1-1.noarch.rpm"
	rpm "${db[@]}" -i --nodeps --noscripts "$RPMS/hvd-$NEVRA.rpm" "$RPMS/hvd-slurm-plugin-$NEVRA.rpm"
	run rpm "${db[@]}" -U "$BATS_TEST_TMPDIR/slurm-99.05.1-1.noarch.rpm"
	echo "$output"
	[ "$status" -ne 0 ]
	[[ $output == *"needed by (installed) hvd-slurm-plugin"* ]]
	[ "$(rpm "${db[@]}" -q slurm)" = "slurm-$RELEASE.1-1.noarch" ]
}

# fake_slurm VERSION SONAME
fake_slurm() {
	cat >"$BATS_TEST_TMPDIR/slurm.spec" <<END
Name: slurm
Version: $1
Release: 1
Summary: Stands for another one
License: none
BuildArch: noarch
Provides: $2()(64bit)
%description
Stands for another one.
%files
END
	rpmbuild -bb --define "_topdir $BATS_TEST_TMPDIR/top" --define "_rpmdir $BATS_TEST_TMPDIR" \
		--define '_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm' \
		"$BATS_TEST_TMPDIR/slurm.spec" >"$BATS_TEST_TMPDIR/fake.log" 2>&1 ||
		{ cat "$BATS_TEST_TMPDIR/fake.log" && return 1; }
}
