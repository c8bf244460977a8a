#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The Debian packages in a copy of PACKAGES_ROOT: built by a user without rights, installed, used on a real cluster,
# upgraded, not affected by an upgrade of Slurm, and purged.
#
# HVD_PACKAGES   packages that make deb has made before for that root, instead of building them

bats_require_minimum_version 1.5.0

setup_file() {
	load packages
	load ../cluster/helpers
	copy_up
	in_copy sh -c 'command -v dh && command -v srun' >/dev/null ||
		skip "debhelper or Slurm is not installed in $PACKAGES_ROOT: scripts/install-deps --package"
	build_tree
	export DEBS=$BUILD/build/packages
	if [[ ${HVD_PACKAGES-} ]]; then
		mkdir -p "$DEBS"
		cp "$HVD_PACKAGES"/*.deb "$HVD_PACKAGES"/*.changes "$HVD_PACKAGES"/*.buildinfo "$DEBS"
	else
		as_nobody make -C /tmp/build -j2 deb || return 1
	fi
	export NEW=$BATS_FILE_TMPDIR/new
}

teardown_file() {
	load packages
	load ../cluster/helpers
	if [[ ${HVD_CLUSTER_MINE-} ]]; then cluster down; fi
	copy_down
}

setup() {
	load packages
	load ../cluster/helpers
	EDITION=$VERSION-1
}

version_of() { in_copy dpkg-query -W -f '${db:Status-Abbrev}${Version}' "$1"; }

install_debs() {
	in_copy bash -c 'cd /tmp/build/build/packages && dpkg -i {hvd,hvd-slurm-plugin,python3-hvdrun}_"$1"_*.deb' bash "$1"
}

# another EDITION: the same packages under another version.
another() {
	local deb dir=$BATS_TEST_TMPDIR/tree name
	for deb in "$DEBS"/{hvd,hvd-slurm-plugin,python3-hvdrun}_"$EDITION"_*.deb; do
		rm -rf "$dir"
		dpkg-deb -R "$deb" "$dir"
		sed -i "s/${EDITION//./[.]}/$1/g" "$dir/DEBIAN/control"
		name=$(basename "$deb")
		dpkg-deb --root-owner-group -b "$dir" "$DEBS/${name/"$EDITION"/"$1"}" >/dev/null
	done
}

@test "lintian finds nothing that is not answered" {
	command -v lintian >/dev/null || skip "lintian is not installed"
	run lintian --allow-root --fail-on error,warning "$DEBS/hvd_${EDITION}_$(dpkg --print-architecture).changes"
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "the packages install their files where they belong" {
	run install_debs "$EDITION"
	echo "$output"
	[ "$status" -eq 0 ]
	# Debian's Slurm reads the folder: there is nothing left to say.
	if grep -q '^include.*plugstack.conf.d' "$COPY/etc/slurm/plugstack.conf"; then
		[[ $output != *"one more line"* ]]
	fi
	[ "$(version_of hvd-slurm-plugin)" = "ii $EDITION" ]
	[ "$(in_copy hvdrun --version | head -n 1)" = "hvdrun $VERSION" ]
	in_copy man -w hvdrun hvd.conf spank-hvd || [ ! -x "$COPY/usr/bin/man" ]
	# The line names the installed plugin.
	local plugin
	plugin=$(awk '$1 == "optional" { print $2 }' "$COPY/etc/slurm/plugstack.conf.d/hvd.conf")
	[ -f "$COPY$plugin" ]
	in_copy python3 -c 'import hvdrun, hvdrun._launch; print(hvdrun._launch.find_hvdrun())' | grep -qx /usr/bin/hvdrun
}

@test "the line of the package is what gives srun its option" {
	run in_copy sh -c 'printf "ClusterName=x\nSlurmctldHost=localhost\nAuthType=auth/none\n" >/tmp/slurm.conf
		cp -r /etc/slurm/plugstack.conf* /tmp/ && sed -i "s|/etc/slurm/|/tmp/|" /tmp/plugstack.conf
		SLURM_CONF=/tmp/slurm.conf srun --help'
	echo "$output" | tail -n 5
	[[ $output == *--hvd* ]]
}

@test "srun --hvd and hvdrun work as they were installed" {
	local plugin
	plugin=$(awk '$1 == "optional" { print $2 }' "$COPY/etc/slurm/plugstack.conf.d/hvd.conf")
	export HVD_CLUSTER_NAME="p$$-$RANDOM"
	HVD_TEST_DEADLINE=120 cluster up --root "$COPY" --nodes 2 --plugin "$plugin"
	run on_login srun --hvd -N2 --ntasks-per-node=2 hvd-selftest --quick
	local first=$status said=$output
	run on_login hvdrun -N2 --ntasks-per-node=1 hvd-selftest --quick
	cluster down
	echo "$said"
	echo "$output"
	[ "$first" -eq 0 ]
	[ "$status" -eq 0 ]
	[[ $said == *"4 ranks on 2 hosts: OK"* && $output == *"2 ranks on 2 hosts: OK"* ]]
}

@test "an upgrade keeps what the site has written into the line's file" {
	local conf=$COPY/etc/slurm/plugstack.conf.d/hvd.conf
	another "$VERSION-2"
	echo "# ours" >>"$conf"
	run install_debs "$VERSION-2"
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(version_of hvd-slurm-plugin)" = "ii $VERSION-2" ]
	[ "$(tail -n 1 "$conf")" = "# ours" ]
	in_copy hvdrun -np 2 true
}

# Of a removed package dpkg keeps the configuration.
@test "without the plugin Slurm reads no line of it, and installed again it has the site's" {
	local dir=$COPY/etc/slurm/plugstack.conf.d
	in_copy dpkg --remove hvd-slurm-plugin
	run ls "$dir"
	[[ $output != *.conf && $output != *.conf$'\n'* ]] || { echo "$output" && return 1; }
	run install_debs "$VERSION-2"
	[ "$status" -eq 0 ]
	[ "$(tail -n 1 "$dir/hvd.conf")" = "# ours" ]
	[ -f "$dir/zz-hvd.conf" ]
	[ ! -e "$dir/hvd.conf.removed" ]
}

# A fault of assert_unchanged shows here: its list is not empty while they are installed.
@test "purged packages leave nothing behind" {
	run assert_unchanged
	[ "$status" -ne 0 ]
	[[ $output == *usr/bin/hvdrun* ]]
	run in_copy dpkg --purge hvd hvd-slurm-plugin python3-hvdrun
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output != *"not empty"* ]]
	assert_unchanged
}

# fake PACKAGE VERSION [DEPENDS]: an empty package.
fake() {
	local dir=$BUILD/fake/$1
	mkdir -p "$dir/DEBIAN"
	{
		printf 'Package: %s\nVersion: %s\nArchitecture: %s\n' "$1" "$2" "$(dpkg --print-architecture)"
		printf 'Maintainer: nobody <nobody@packages.invalid>\nDescription: stands for a newer one\n'
		[[ -z ${3-} ]] || printf 'Depends: %s\n' "$3"
	} >"$dir/DEBIAN/control"
	dpkg-deb --root-owner-group -b "$dir" "$BUILD/fake/$1.deb" >/dev/null
	rm -rf "$dir"
}

# fake_slurm RELEASE LIBRARY: all of a Slurm; sets files to where they are in the copy.
fake_slurm() {
	local name
	files=("/tmp/build/fake/$2.deb" /tmp/build/fake/{slurm-wlm-basic-plugins,slurm-client,slurmd,slurmctld}.deb)
	fake "$2" "$1"
	fake slurm-wlm-basic-plugins "$1" "$2 (>= $1)"
	for name in slurm-client slurmd slurmctld; do
		fake "$name" "$1" "slurm-wlm-basic-plugins (= $1)"
	done
}

@test "an upgrade of Slurm to another release leaves the packages as they are" {
	local files
	in_copy dpkg-query -W slurm-wlm-basic-plugins >/dev/null || skip "this is not Debian's own Slurm"
	run install_debs "$EDITION"
	[ "$status" -eq 0 ]
	run in_copy sh -c 'dpkg-query -W -f "\${Depends} \${Breaks} \${Conflicts}" hvd hvd-slurm-plugin'
	[[ $output != *slurm-* && $output != *libslurm* ]] || { echo "$output" && false; }
	fake_slurm 99.05-1 libslurm99
	run in_copy apt-get -s install "${files[@]}"
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"Inst slurm-client"* && $output != *"Remv hvd"* ]]
}
