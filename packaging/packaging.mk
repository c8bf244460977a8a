# SPDX-License-Identifier: Apache-2.0
# Packages; included by the Makefile. All are made of what is committed (git HEAD), below $(B)/packages, by any user;
# each script prints the paths of what it made.
#
# REVISION   of the deb and rpm, behind VERSION (1)

REVISION ?= 1

package = B='$(B)' VERSION='$(VERSION)' REVISION='$(REVISION)' MAKE='$(MAKE)' packaging/$(1)

.PHONY: deb rpm tarball-user wheel check-packages
deb:  ## Debian packages
	@$(call package,make-deb)
rpm:  ## RPM packages
	@$(call package,make-rpm)
tarball-user:  ## hvdrun to unpack and run, for a user without rights, for every release of Slurm
	@$(call package,make-tarball-user)
wheel:  ## the Python module hvdrun
	@$(call package,make-wheel)

packages_bats := $(sort $(wildcard tests/packages/*.bats))
check-packages:  ## install, use, upgrade and remove the packages in a copy of PACKAGES_ROOT (this machine's root)
	@B='$(B)' HVD_TEST_LIMIT_BATS='$(or $(HVD_TEST_LIMIT_BATS),1800)' tests/run $(packages_bats)
