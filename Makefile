# SPDX-License-Identifier: Apache-2.0
# `make help` lists what can be made. Everything built goes to $(B).

VERSION   := 0.1.0
PREFIX    ?= /usr/local
BINDIR    ?= $(PREFIX)/bin
LIBEXECDIR ?= $(PREFIX)/libexec/hvd
PLUGINDIR ?= $(PREFIX)/lib/slurm
SYSCONFDIR ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)
MANDIR    ?= $(PREFIX)/share/man
DATADIR   ?= $(PREFIX)/share
B         ?= build

CC        ?= gcc
CXX       ?= g++
CLANG     ?= clang
PKG_CONFIG ?= pkg-config
WERROR    ?=
SAN       ?=

pkgs      := jansson libevent_core hwloc nettle yaml-0.1 libzstd
DEP_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(pkgs) 2>/dev/null)
DEP_LIBS  := $(shell $(PKG_CONFIG) --libs $(pkgs) 2>/dev/null) -ldl -lm

# The plugin needs Slurm's headers. Nothing is linked with libslurm: the programs ask Slurm's commands (slurm/slurm.h).
SLURM_CFLAGS ?= $(shell $(PKG_CONFIG) --cflags slurm 2>/dev/null)
PLUGIN       ?= $(shell printf '\#include <slurm/spank.h>\n' | $(CC) $(SLURM_CFLAGS) $(CPPFLAGS) -E - >/dev/null 2>&1 && echo yes || echo no)
# Gloo is C++ and only the self-test worker needs it.
GLOO      ?= $(shell test -e /usr/include/gloo/config.h && echo yes || echo no)
GLOO_LIBS ?= -lgloo
# Only hvd-watch needs ncurses; without it hvdrun --watch prints lines.
NCURSES   ?= $(shell $(PKG_CONFIG) --exists ncursesw && echo yes || echo no)
NCURSES_LIBS = $(if $(filter yes,$(NCURSES)),$(shell $(PKG_CONFIG) --libs ncursesw))

OPT       ?= -O2 -g
WARN      := -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wpointer-arith -Wwrite-strings -Wformat=2 $(WERROR)
CWARN     := -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition
HARDEN    := -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection \
	$(if $(filter x86_64-% i%86-%,$(shell $(CC) -dumpmachine)),-fcf-protection)
ifneq ($(SAN),)
HARDEN    := -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer
endif
CPPFLAGS_ALL := -D_GNU_SOURCE -DHVD_VERSION='"$(VERSION)"' -DHVD_LIBEXECDIR='"$(LIBEXECDIR)"' \
	-DHVD_SYSCONFDIR='"$(SYSCONFDIR)"' -DHVD_PLUGINDIR='"$(PLUGINDIR)"' -iquote . $(SLURM_CFLAGS) $(DEP_CFLAGS) $(CPPFLAGS)
CFLAGS_ALL   := -std=c11 $(OPT) $(WARN) $(CWARN) $(HARDEN) -fPIC -fvisibility=hidden $(CFLAGS)
CXXFLAGS_ALL := -std=c++17 $(OPT) $(WARN) $(HARDEN) -fPIE $(CXXFLAGS)
LDFLAGS_ALL  := -Wl,-z,relro,-z,now,--as-needed $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)

# Unit tests are a third of all lines, and run for moments: to optimize them takes more time than it saves. Some warnings of
# gcc need -O1, none of clang does.
$(B)/obj/tests/unit/%.o: CFLAGS_ALL += $(if $(SAN),-O0,$(subst -O2,-O1,$(OPT)))

# Which folder may include headers of which: tests/include_rules.
lib_src        := $(sort $(wildcard lib/*/*.c slurm/*.c lsf/*.c))
launcher_src   := $(sort $(filter-out launcher/watch/screen$(if $(filter yes,$(NCURSES)),_none).c,$(wildcard launcher/*/*.c)))
agent_src      := $(sort $(filter-out agent/main_%,$(wildcard agent/*.c)))
spank_src      := $(sort $(wildcard spank/*.c))
rendezvous_src := $(sort $(wildcard rendezvous/*.c))
unit_src       := $(sort $(filter-out $(if $(filter yes,$(PLUGIN)),,%/test_host_slurm.c),$(wildcard tests/unit/*/test_*.c tests/unit/*/*/test_*.c)))
fuzz_src       := $(sort $(wildcard tests/fuzz/fuzz_*.c))
bench_src      := $(sort $(wildcard tests/bench/*.c))
obj = $(patsubst %.c,$(B)/obj/%.o,$(1))

programs := $(B)/bin/hvdrun $(B)/bin/hvd-rendezvous $(B)/libexec/hvd/hvd-driver \
	$(B)/libexec/hvd/hvd-requeue $(B)/libexec/hvd/hvd-watch $(B)/libexec/hvd/hvd-agent
ifeq ($(GLOO),yes)
programs += $(B)/bin/hvd-selftest
endif
ifeq ($(PLUGIN),yes)
programs += $(B)/lib/hvd.so
endif
unit_bin  := $(patsubst %.c,$(B)/tests/unit/%,$(notdir $(unit_src)))
bench_bin := $(patsubst tests/bench/%.c,$(B)/tests/bench/%,$(bench_src))

.PHONY: all
all: $(programs) $(B)/libexec/hvd/hvd-task

##@ help
.PHONY: help
help:  ## list what can be made
	@awk -F '##' '/^[a-z-]+:.*##/ { split($$1, t, ":"); printf "  make %-14s %s\n", t[1], $$2 }' $(MAKEFILE_LIST)

# Objects depend on the flags that they are compiled with, so a changed flag rebuilds them.
flags_now := $(CC) $(CXX) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(CXXFLAGS_ALL) $(LDFLAGS_ALL)
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(subst ','\'',$(flags_now))' | cmp -s - $@ || echo '$(subst ','\'',$(flags_now))' > $@
.PHONY: FORCE
FORCE:

$(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c $< -o $@

$(B)/obj/%.o: %.cc $(B)/flags
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS_ALL) $(CXXFLAGS_ALL) -MMD -MP -c $< -o $@

# Libraries and the plugin depend on the list of sources too, so nothing is left of a removed source.
sources_now := $(lib_src) $(launcher_src) $(agent_src) $(spank_src) $(rendezvous_src)
$(B)/sources: FORCE
	@mkdir -p $(@D)
	@echo '$(sources_now)' | cmp -s - $@ || echo '$(sources_now)' > $@

$(B)/libhvd.a: $(call obj,$(lib_src)) $(B)/sources
$(B)/liblauncher.a: $(call obj,$(launcher_src)) $(B)/obj/html_template.o $(B)/sources
$(B)/libagent.a: $(call obj,$(agent_src)) $(B)/sources
$(B)/%.a:
	@rm -f $@
	$(AR) rcs $@ $(filter %.o,$^)

# The page of --report is part of the programs that write it.
$(B)/html_template.c: launcher/report/page.html Makefile
	@mkdir -p $(@D)
	@{ echo '#include "launcher/report/html_template.h"'; echo 'const char hvd_html_template[] = {'; \
		od -An -v -tu1 $< | sed 's/[0-9][0-9]*/&,/g'; echo '0};'; } > $@
$(B)/obj/html_template.o: $(B)/html_template.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c $< -o $@

# None of launcher/, agent/ and rendezvous/ uses another; linking without it says so.
$(B)/bin/hvdrun: $(B)/obj/launcher/main_hvdrun.o $(B)/liblauncher.a $(B)/libhvd.a
$(B)/libexec/hvd/hvd-driver: $(B)/obj/launcher/main_driver.o $(B)/liblauncher.a $(B)/libhvd.a
$(B)/libexec/hvd/hvd-requeue: $(B)/obj/launcher/main_requeue.o $(B)/liblauncher.a $(B)/libhvd.a
$(B)/libexec/hvd/hvd-watch: $(B)/obj/launcher/main_watch.o $(B)/liblauncher.a $(B)/libhvd.a
$(B)/libexec/hvd/hvd-watch: DEP_LIBS += $(NCURSES_LIBS)
$(B)/obj/launcher/watch/screen.o: CPPFLAGS_ALL += $(filter -I%,$(shell $(PKG_CONFIG) --cflags ncursesw 2>/dev/null))
$(B)/bin/hvd-rendezvous: $(call obj,$(rendezvous_src)) $(B)/libhvd.a
# It loads hwloc and zstd itself, late, where they are the releases that agent/main_libraries.c knows.
late := $(shell $(PKG_CONFIG) --exists 'hwloc >= 2' 'hwloc < 3' 'libzstd < 2' 2>/dev/null && echo $(B)/obj/agent/main_libraries.o)
$(B)/libexec/hvd/hvd-agent: $(B)/obj/agent/main_agent.o $(late) $(B)/libagent.a $(B)/libhvd.a
# Two rules: one with two patterns would be taken to make both files at once.
define link_program
@mkdir -p $(@D)
$(CC) $(LDFLAGS_ALL) -pie -o $@ $^ $(DEP_LIBS)
endef
$(B)/bin/%:
	$(link_program)
$(B)/libexec/hvd/%:
	$(link_program)

# Its name in older releases, which users may have in scripts.
$(B)/libexec/hvd/hvd-task: $(B)/libexec/hvd/hvd-agent
	@ln -sf hvd-agent $@

selftest_src := $(sort $(wildcard agent/selftest/*.cc))
$(B)/bin/hvd-selftest: $(patsubst %.cc,$(B)/obj/%.o,$(selftest_src))
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS_ALL) -pie -o $@ $^ $(GLOO_LIBS) -lpthread

# The plugin takes from lib/ only what needs nothing but libc.
plugin_lib := $(call obj,$(addprefix lib/,base/deadline.c base/digits.c base/err.c base/file.c base/hash.c base/key.c base/printable.c base/random.c base/signals.c base/strv.c base/values.c base/xalloc.c \
	process/apptainer.c process/close_fds.c process/command_line.c process/interpreter.c process/other_launcher.c process/process_watch.c process/program.c process/rlimits.c process/roles_line.c process/spawn.c net/addr.c net/nicspec.c protocol/boot.c protocol/step_event.c protocol/step_plans.c frameworks/emitted.c frameworks/frameworks.c frameworks/launch_marks.c))
$(B)/lib/hvd.so: $(call obj,$(spank_src)) $(plugin_lib) spank/exports.map $(B)/sources
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -shared -Wl,-Bsymbolic -Wl,--version-script=spank/exports.map -o $@ $(filter %.o,$^) -ldl

# The folders of tests/unit are those of the sources; the programs are in one folder.
$(foreach t,$(unit_src),$(eval $(B)/tests/unit/$(notdir $(t:.c=)): $(call obj,$t)))
$(unit_bin): $(B)/libagent.a $(B)/liblauncher.a $(B)/libhvd.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -pie -o $@ $(filter %.o,$^) $(filter %.a,$^) $(DEP_LIBS) -lcmocka

# It takes the place of the Slurm that loads the plugin.
$(B)/tests/unit/test_host_slurm: LDFLAGS_ALL += -rdynamic
$(B)/tests/unit/test_host_slurm: $(B)/obj/spank/host_slurm.o $(B)/lib/hvd.so

$(B)/tests/bench/%: $(B)/obj/tests/bench/%.o $(B)/libagent.a $(B)/liblauncher.a $(B)/libhvd.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -pie -o $@ $^ $(DEP_LIBS)

.SECONDARY:

unit_bats    := $(sort $(wildcard tests/unit/*.bats))
cluster_bats := $(sort $(wildcard tests/cluster/*.bats))
peers_bats   := $(sort $(wildcard tests/peers/*.bats))
fuzz_bin     := $(patsubst tests/fuzz/%.c,$(B)/fuzz/tests/fuzz/%,$(fuzz_src))

# Files of tests that run side by side: three for each processor, for they wait most of their time, but for those whose ranks
# import PyTorch. Tests that fail for the load alone run once more.
JOBS ?= $(shell expr $$(nproc) '*' 3)
run_tests := B='$(B)' tests/run -j '$(JOBS)' --few peers

# Programs that tests run.
test_tools := $(addprefix $(B)/tests/bench/,bench_driver connect_flood connect_hold discovery_watch sim_agents worker_wire) \
	$(addprefix $(B)/tests/standins/,show old_kernel nvml/libnvidia-ml.so.1)
ifeq ($(PLUGIN),yes)
test_tools += $(B)/tests/standins/pyxis.so
endif

.PHONY: test-tools
test-tools: $(test_tools)  ## build what single test files need besides make all

# For tests of containers: a plugin that starts one, and the command in it, which finds no libraries there.
$(B)/tests/standins/pyxis.so: $(B)/obj/tests/standins/pyxis.o
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -shared -Wl,-Bsymbolic -o $@ $^

$(B)/tests/standins/show: $(B)/obj/tests/standins/show.o
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -static -o $@ $^

# In place of NVIDIA's library, which is loaded by its name; and as drivers from before MIG had it.
$(B)/tests/standins/nvml/libnvidia-ml.so.1 $(B)/tests/standins/nvml_old/libnvidia-ml.so.1: tests/standins/nvml.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(if $(findstring old,$@),-DOLD) $(LDFLAGS_ALL) -shared -Wl,-Bsymbolic -o $@ $<
$(B)/tests/unit/test_gpu_usage: $(B)/tests/standins/nvml/libnvidia-ml.so.1 $(B)/tests/standins/nvml_old/libnvidia-ml.so.1

# For tests on an old kernel.
$(B)/tests/standins/old_kernel: $(B)/obj/tests/standins/old_kernel.o
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^

.PHONY: units benches objects
units: $(unit_bin)
benches: $(bench_bin)
# What make all units benches compiles, without linking it.
compiled := $(lib_src) $(launcher_src) $(agent_src) $(rendezvous_src) $(wildcard launcher/main_*.c agent/main_*.c) \
	$(unit_src) $(bench_src) $(if $(filter yes,$(PLUGIN)),$(spank_src)) $(if $(filter yes,$(GLOO)),$(selftest_src))
objects: $(patsubst %.cc,$(B)/obj/%.o,$(call obj,$(compiled))) $(B)/obj/html_template.o

.PHONY: unit
unit: $(unit_bin)  ## build and run the unit tests that are programs
	@$(run_tests) $(unit_bin)

# The first tier, of which make check-unit is a part, is what tests/first-tier names.
first_tier := --only tests/first-tier

.PHONY: check-unit
check-unit: all $(unit_bin) $(test_tools)  ## the quick tests that need no cluster; half a minute
	@$(run_tests) $(first_tier) --say 'unit tests, first tier' $(unit_bin) $(unit_bats)

.PHONY: check-unit-all
check-unit-all: all $(unit_bin) $(test_tools)  ## every test that needs no cluster
	@$(run_tests) --say 'unit tests' $(unit_bin) $(unit_bats)

.PHONY: check-cluster
check-cluster: all $(test_tools)  ## every test on several hosts on this machine, most with a real Slurm (as root)
	@$(run_tests) --say 'cluster tests' $(cluster_bats)

.PHONY: peers check-peers
peers:  ## install Horovod, PyTorch and others for the tests that need them, outside of this folder; some minutes
	@tests/peers/install.sh --all

check-peers: all $(test_tools)  ## every test with real Horovod and PyTorch: make peers first
	@$(run_tests) --say 'tests with peers' $(peers_bats)

# What cannot be had its tests are skipped without, and say why; where it should be and is not they fail.
# The other tests run while it is installed.
PEERS ?= yes
prepare = $(if $(filter no,$(PEERS)),,--prepare 'peers=$(1)')
all_tests := $(unit_bin) $(unit_bats) $(cluster_bats) $(peers_bats)
.PHONY: check check-all check-rest
check: all $(unit_bin) $(test_tools)  ## the first tier of tests, of every kind; installs Horovod and PyTorch besides, unless PEERS=no
	@$(run_tests) $(first_tier) --say 'first tier' \
		$(call prepare,tests/peers/install.sh; tests/peers/install.sh --torch) $(all_tests)
check-rest: all $(unit_bin) $(test_tools)  ## the tests that make check does not run
	@HVD_TEST_FLAKY=$${HVD_TEST_FLAKY:-6} $(run_tests) --not tests/first-tier --say 'second tier' $(call prepare,tests/peers/install.sh --all) $(all_tests)
check-all: all $(unit_bin) $(test_tools)  ## run every test; installs Horovod and others besides, unless PEERS=no
	@$(run_tests) --say 'all tests' $(call prepare,tests/peers/install.sh --all) $(all_tests)

# The suite on other releases of Slurm: in roots of other releases of Debian, outside of this folder.
ROOTS  ?= trixie sid
MATRIX ?= all
.PHONY: matrix matrix-roots matrix-arm64 compatibility
matrix: portable  ## clone, build and test in each of ROOTS ("trixie sid"), as root; MATRIX=ci, or names of cluster tests, selects
	@B='$(B)' PORTABLE='$(PORTABLE)' tests/matrix/run --only '$(filter-out all,$(MATRIX))' $(ROOTS)
matrix-roots:  ## only make those roots, and install in them what the tests need
	@B='$(B)' tests/matrix/run --prepare $(ROOTS)
# By hand, for an emulated machine is slow. The limits of time in tests of clusters are too short for it.
matrix-arm64:  ## cross-build for arm64 in a root of bookworm, and run the programs of unit tests on an emulated machine
	@B='$(B)' tests/matrix/run bookworm-arm64
compatibility:  ## write what make matrix has found into docs/compatibility.md
	@tests/matrix/report page '$(B)/matrix' docs/compatibility.md

.PHONY: lint
lint:  ## compilers' warnings, cppcheck, shellcheck, format, manual pages, exported symbols
	@B='$(B)' MAKE='$(MAKE)' tests/lint

# Both are built by clang with sanitizers and coverage, all objects anew in $(B)/fuzz. make knows by the + that another
# make is called.
fuzz_san := address,undefined
make_fuzz = $(MAKE) --no-print-directory B='$(B)/fuzz' CC='$(CLANG)' CXX='$(CLANG)++' SAN=fuzzer-no-link,$(fuzz_san) OPT='-O1 -g'

.PHONY: sanitize sanitize-programs fuzz objects-clang clang-runtime
sanitize: clang-runtime  ## run the unit tests with the address and undefined-behaviour sanitizers
	+@$(make_fuzz) unit
sanitize-programs: clang-runtime
	+@$(make_fuzz) units $(fuzz_bin)
objects-clang: clang-runtime
	+@$(make_fuzz) objects
fuzz: clang-runtime  ## run each fuzz target for FUZZ_SECONDS (10)
	+@$(make_fuzz) $(fuzz_bin)
	@B='$(B)' tests/fuzz/run $(fuzz_bin)

clang-runtime:
	@command -v $(CLANG) >/dev/null || { echo 'this needs clang, and $(CLANG) is not installed'; exit 1; }
	@mkdir -p $(B)/fuzz
	@echo 'int LLVMFuzzerTestOneInput(const char *d, long n); int LLVMFuzzerTestOneInput(const char *d, long n) { return !d && n; }' | \
		$(CLANG) -fsanitize=fuzzer,$(fuzz_san) -x c - -o $(B)/fuzz/runtime 2>$(B)/fuzz/runtime.log || \
		{ cat $(B)/fuzz/runtime.log; echo 'this needs the sanitizer runtime of clang (Debian: libclang-rt-*-dev)'; exit 1; }

$(B)/tests/fuzz/%: $(B)/obj/tests/fuzz/%.o $(B)/libagent.a $(B)/liblauncher.a $(B)/libhvd.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -fsanitize=fuzzer -o $@ $^ $(DEP_LIBS)

# Side by side in one run, as ratios; each needs some minutes. BENCH selects; tests/bench/run has the names.
BENCH ?= launch driver agents rendezvous torch relay ray
.PHONY: bench
bench: all $(bench_bin)  ## measure launches against srun, the rendezvous against nginx, the driver's scale
	@B='$(B)' tests/bench/run $(BENCH)

SOAK ?= 1000
FAULTS ?= 60
.PHONY: soak
soak: all  ## SOAK (1000) launches in a row on the test cluster, then look for leaks
	@B='$(B)' tests/cluster/soak.sh $(SOAK)

.PHONY: soak-faults
soak-faults: all  ## FAULTS (60) launches, each with a fault of a process, a host or its links at random
	@B='$(B)' tests/cluster/soak_faults.sh $(FAULTS)

.PHONY: soak-busy
soak-busy: all  ## a job with restarts for BUSY (3600) seconds on busy processors, with agents that are stopped: no host is lost
	@B='$(B)' tests/cluster/soak_busy.sh $(BUSY)

include install.mk
include packaging/packaging.mk

.PHONY: demo
demo: all  ## run a job on a four-node Slurm on this machine, as root (scripts/demo --help)
	@B='$(B)' scripts/demo

.PHONY: cluster-up cluster-down cluster-shell
NODES ?= 4
cluster-up: all  ## bring up a Slurm of NODES (4) nodes on this machine with the suite as it is now
	@B='$(B)' scripts/demo up --nodes '$(NODES)'
cluster-shell:  ## a shell of user alice on that cluster
	@scripts/demo shell
cluster-down:  ## take that cluster down
	@scripts/demo down

.PHONY: clean
clean:  ## remove what was built
	rm -rf $(B)

.PHONY: format
format:  ## apply .clang-format
	clang-format -i $$(git ls-files '*.c' '*.h' '*.cc')

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
