# SPDX-License-Identifier: Apache-2.0
# Installing and removing; included by the Makefile.
#
# PREFIX, BINDIR, LIBEXECDIR, PLUGINDIR, SYSCONFDIR, MANDIR, DATADIR   where to; the programs are built with these, so
#              give them to `make` and to `make install` alike
# PYTHONDIR    of the Python module hvdrun, which looks for bin/hvdrun four folders above its own, and then in PATH
# DESTDIR      put in front of them all, for packages
# HOROVODRUN=1 also install hvdrun under the name horovodrun

INSTALL    ?= install
DOCDIR     ?= $(DATADIR)/doc/hvd
PYTHONDIR  ?= $(PREFIX)/lib/hvd/python
HOROVODRUN ?=

pages_made := $(B)/man/hvdrun.1 $(B)/man/spank-hvd.8
man_pages  := $(sort $(wildcard man/*.[1-8])) $(pages_made)
user_docs  := $(sort $(wildcard docs/*.md))
pictures   := $(sort $(wildcard docs/pictures/*.svg))
examples   := $(sort $(wildcard scripts/examples/*.sbatch scripts/examples/*.bsub scripts/examples/*.py scripts/examples/*.sh scripts/discover/*.sh))

# The options of hvdrun stand in its tables; the rest of its page is written by hand. HVDRUN_HERE is an hvdrun of the same
# sources that this machine can run.
HVDRUN_HERE ?= $(B)/bin/hvdrun
$(B)/man/hvdrun.1: man/hvdrun.1.in $(B)/bin/hvdrun
	@mkdir -p $(@D)
	$(HVDRUN_HERE) --help-man > $@.options
	sed -e '/^@OPTIONS@$$/ { r $@.options' -e 'd; }' -e 's/@VERSION@/$(VERSION)/' $< > $@

# Those of the plugin, and its keys in plugstack.conf, which have "_" for "-".
$(B)/man/spank-hvd.8: man/spank-hvd.8.in $(B)/bin/hvdrun
	@mkdir -p $(@D)
	$(HVDRUN_HERE) --help-man-plugin > $@.options
	sed -e '/^@OPTIONS@$$/ { r $@.options' -e 'd; }' \
		-e "s/@KEYS@/$$(sed -n 's/^\.It Fl -hvd-\([a-z-]*\) .*/\1/p' $@.options | tr '\n-' ',_' | sed 's/,$$//; s/,/ , /g')/" $< > $@

all: $(pages_made)

# hvdrun has lsrun find these in place of those in LSF_SERVERDIR.
lsf_server := $(B)/libexec/hvd/lsf/server/nios $(B)/libexec/hvd/lsf/server/eauth
$(lsf_server): lsf/server.sh
	@mkdir -p $(@D)
	$(INSTALL) -m 755 $< $@

all: $(lsf_server)

# hvd-agent looks for it beside itself.
preload := $(B)/libexec/hvd/preload/sitecustomize.py
$(preload): python/preload/sitecustomize.py
	@mkdir -p $(@D)
	$(INSTALL) -m 644 $< $@

all: $(preload)

# What `hvdrun --ray` runs on its hosts.
hvd_ray := $(B)/libexec/hvd/ray/hvd_ray.py
$(hvd_ray): python/ray/hvd_ray.py
	@mkdir -p $(@D)
	$(INSTALL) -m 644 $< $@

all: $(hvd_ray)

place := sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@BINDIR@|$(BINDIR)|g' -e 's|@MANDIR@|$(MANDIR)|g' \
	-e 's|@PYTHONDIR@|$(PYTHONDIR)|g' -e 's|@LIBEXECDIR@|$(LIBEXECDIR)|g' \
	-e 's|@PLUGINDIR@|$(PLUGINDIR)|g' -e 's|@VERSION@|$(VERSION)|g'

.PHONY: install
install: all  ## install below PREFIX (/usr/local); DESTDIR goes in front; see install.mk
	$(INSTALL) -d '$(DESTDIR)$(BINDIR)' '$(DESTDIR)$(LIBEXECDIR)' '$(DESTDIR)$(DOCDIR)/docs/pictures' \
		'$(DESTDIR)$(DOCDIR)/examples' '$(DESTDIR)$(DOCDIR)/prometheus' '$(DESTDIR)$(DOCDIR)/grafana' '$(DESTDIR)$(DATADIR)/bash-completion/completions' '$(DESTDIR)$(DATADIR)/modulefiles/hvd'
	$(INSTALL) -m 755 $(filter $(B)/bin/%,$(programs)) '$(DESTDIR)$(BINDIR)'
	$(INSTALL) -m 755 $(filter $(B)/libexec/%,$(programs)) '$(DESTDIR)$(LIBEXECDIR)'
	ln -sf hvd-agent '$(DESTDIR)$(LIBEXECDIR)/hvd-task'
ifneq ($(filter $(B)/lib/hvd.so,$(programs)),)
	$(INSTALL) -d '$(DESTDIR)$(PLUGINDIR)'
	$(INSTALL) -m 755 $(B)/lib/hvd.so '$(DESTDIR)$(PLUGINDIR)'
endif
	for page in $(man_pages); do \
		$(INSTALL) -d "$(DESTDIR)$(MANDIR)/man$${page##*.}" && \
		$(INSTALL) -m 644 "$$page" "$(DESTDIR)$(MANDIR)/man$${page##*.}" || exit 1; \
	done
	$(INSTALL) -m 644 README.md NEWS LICENSE etc/hvd.conf '$(DESTDIR)$(DOCDIR)'
	$(INSTALL) -m 644 $(user_docs) '$(DESTDIR)$(DOCDIR)/docs'
	$(INSTALL) -m 644 $(pictures) '$(DESTDIR)$(DOCDIR)/docs/pictures'
	$(INSTALL) -m 644 $(examples) '$(DESTDIR)$(DOCDIR)/examples'
	$(INSTALL) -m 644 etc/prometheus/hvd.yml '$(DESTDIR)$(DOCDIR)/prometheus'
	$(INSTALL) -m 644 etc/grafana/hvd-dashboard.json '$(DESTDIR)$(DOCDIR)/grafana'
	$(place) etc/plugstack.conf.d/hvd.conf.in > '$(DESTDIR)$(DOCDIR)/plugstack-hvd.conf' && chmod 644 '$(DESTDIR)$(DOCDIR)/plugstack-hvd.conf'
	$(place) etc/plugstack.conf.d/zz-hvd.conf.in > '$(DESTDIR)$(DOCDIR)/plugstack-zz-hvd.conf' && chmod 644 '$(DESTDIR)$(DOCDIR)/plugstack-zz-hvd.conf'
	$(place) etc/modulefiles/hvd.lua.in > '$(DESTDIR)$(DATADIR)/modulefiles/hvd/$(VERSION).lua' && chmod 644 '$(DESTDIR)$(DATADIR)/modulefiles/hvd/$(VERSION).lua'
	$(INSTALL) -d '$(DESTDIR)$(LIBEXECDIR)/lsf/server'
	$(INSTALL) -m 755 $(lsf_server) '$(DESTDIR)$(LIBEXECDIR)/lsf/server'
	$(place) lsf/esub.hvd.in > '$(DESTDIR)$(LIBEXECDIR)/lsf/esub.hvd' && chmod 755 '$(DESTDIR)$(LIBEXECDIR)/lsf/esub.hvd'
	$(INSTALL) -m 644 etc/bash_completion/* '$(DESTDIR)$(DATADIR)/bash-completion/completions'
	$(INSTALL) -d '$(DESTDIR)$(PYTHONDIR)/hvdrun'
	$(INSTALL) -m 644 $(sort $(wildcard python/hvdrun/*.py)) '$(DESTDIR)$(PYTHONDIR)/hvdrun'
	$(INSTALL) -d '$(DESTDIR)$(LIBEXECDIR)/preload'
	$(INSTALL) -m 644 $(preload) '$(DESTDIR)$(LIBEXECDIR)/preload'
	$(INSTALL) -d '$(DESTDIR)$(LIBEXECDIR)/ray'
	$(INSTALL) -m 644 $(hvd_ray) '$(DESTDIR)$(LIBEXECDIR)/ray'
ifneq ($(HOROVODRUN),)
	ln -sf hvdrun '$(DESTDIR)$(BINDIR)/horovodrun'
	ln -sf hvdrun '$(DESTDIR)$(DATADIR)/bash-completion/completions/horovodrun'
endif

# What an installation of this tree would put there is what goes; folders go when they are empty.
.PHONY: uninstall
uninstall:  ## remove what install has put there (give the same PREFIX, DESTDIR, …)
	rm -rf '$(B)/uninstall'
	$(MAKE) --no-print-directory install DESTDIR='$(abspath $(B))/uninstall' HOROVODRUN=$(HOROVODRUN) >/dev/null
	cd '$(B)/uninstall' && find . ! -type d | while read -r f; do rm -f '$(DESTDIR)'/"$$f"; done
	rm -rf '$(DESTDIR)$(PYTHONDIR)/hvdrun/__pycache__' '$(DESTDIR)$(LIBEXECDIR)/preload/__pycache__'
	rmdir --ignore-fail-on-non-empty '$(DESTDIR)$(PYTHONDIR)/hvdrun' '$(DESTDIR)$(PYTHONDIR)' $(if $(filter %/hvd/python,$(PYTHONDIR)),'$(DESTDIR)$(patsubst %/python,%,$(PYTHONDIR))') '$(DESTDIR)$(LIBEXECDIR)/preload' '$(DESTDIR)$(LIBEXECDIR)/ray' '$(DESTDIR)$(LIBEXECDIR)/lsf/server' '$(DESTDIR)$(LIBEXECDIR)/lsf' '$(DESTDIR)$(LIBEXECDIR)' '$(DESTDIR)$(DOCDIR)/docs/pictures' '$(DESTDIR)$(DOCDIR)/docs' '$(DESTDIR)$(DOCDIR)/examples' '$(DESTDIR)$(DOCDIR)/prometheus' '$(DESTDIR)$(DOCDIR)/grafana' '$(DESTDIR)$(DOCDIR)' \
		'$(DESTDIR)$(DATADIR)/modulefiles/hvd' $(if $(filter yes,$(PLUGIN)),'$(DESTDIR)$(PLUGINDIR)')
	rm -rf '$(B)/uninstall'

.PHONY: dist
dist:  ## make $(B)/hvd-VERSION.tar.gz of what is committed
	@mkdir -p $(B)
	git archive --prefix='hvd-$(VERSION)/' -o '$(B)/hvd-$(VERSION).tar.gz' HEAD
