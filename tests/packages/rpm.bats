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
}

setup() {
	load packages
	NEVRA="$VERSION-1.$(uname -m)"
	ROOT=$BATS_FILE_TMPDIR/root
}

@test "rpmlint finds nothing that is not answered" {
	command -v rpmlint >/dev/null || skip "rpmlint is not installed"
	run rpmlint -c "$SRC/packaging/rpmlint.toml" "$RPMS"/*.rpm "$RPMS/hvd.spec"
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *" 0 errors, 0 warnings"* ]]
}

@test "no package needs a release of Slurm" {
	run rpm -qp --requires --conflicts "$RPMS/hvd-slurm-plugin-$NEVRA.rpm" "$RPMS/hvd-$NEVRA.rpm"
	echo "$output"
	grep -q "^hvd(.*) = $VERSION-1$" <<<"$output"
	[[ $output != *libslurm* && $output != *"slurm "[\<\>=]* ]]
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
