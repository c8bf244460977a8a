# SPDX-License-Identifier: Apache-2.0
# Packages; included by the Makefile. All are made of what is committed (git HEAD), below $(B)/packages, by any user;
# each script prints the paths of what it made.
#
# REVISION   of the deb and rpm, behind VERSION (1)
# ARCH       of the wheel, the tarball and what they are made of: x86_64 or aarch64 (this machine's)
# PORTABLE   where compiler and libraries for them are kept between builds ($(B)/portable)

REVISION ?= 1
ARCH     ?= $(shell uname -m)
PORTABLE ?= $(B)/portable

package = B='$(B)' VERSION='$(VERSION)' REVISION='$(REVISION)' ARCH='$(ARCH)' PORTABLE='$(PORTABLE)' MAKE='$(MAKE)' packaging/$(1)

.PHONY: deb rpm portable tarball-user wheel check-wheel check-packages
deb:  ## Debian packages
	@$(call package,make-deb)
rpm:  ## RPM packages
	@$(call package,make-rpm)
portable:  ## what the next two are made of, for glibc 2.28 and newer; ARCH=aarch64 for arm64
	@$(call package,make-portable)
tarball-user:  ## hvdrun to unpack and run, for a user without rights
	@$(call package,make-tarball-user)
wheel:  ## hvdrun, its Python module and the plugin for pip install
	@$(call package,make-wheel)

packages_bats := $(sort $(wildcard tests/packages/*.bats))
check-wheel:  ## install the wheel and the tarball as users would, and use them on a cluster
	@B='$(B)' HVD_TEST_LIMIT_BATS='$(or $(HVD_TEST_LIMIT_BATS),1800)' tests/run -j 2 tests/packages/wheel.bats tests/packages/tarball.bats
check-packages:  ## install, use, upgrade and remove the packages in a copy of PACKAGES_ROOT (this machine's root)
	@B='$(B)' HVD_TEST_LIMIT_BATS='$(or $(HVD_TEST_LIMIT_BATS),1800)' tests/run $(packages_bats)
