/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discovery_kind.h - what a kind of discovery is, and what all kinds share. Only discovery*.c include it.
 */
#ifndef HVD_DISCOVERY_KIND_H
#define HVD_DISCOVERY_KIND_H

#include "discovery.h"
#include "lib/base/strv.h"
#include "lib/base/timer.h"
#include "slurm_hosts.h"

struct hvd_discovery_kind {
	const char *name;
	/* Start to look for hosts; s->own belongs to the kind. */
	int (*begin)(struct hvd_discovery *s, struct hvd_err *err);
	void (*end)(struct hvd_discovery *s);   /* also after a begin that failed */
	void (*nudge)(struct hvd_discovery *s); /* look now; may be NULL */
};

struct hvd_discovery {
	const struct hvd_discovery_kind *kind;
	struct event_base *base;
	struct hvd_discovery_opts opts; /* owned, but for envp */
	struct hvd_discovery_ops ops;
	void *arg;
	const struct hvd_log *log;
	void *own;

	/* Reported so far. */
	bool any;
	struct hvd_alloc hosts;
	struct hvd_strv leaving;  /* hosts that ops.leaving() was called for and that are still found */
	char said[1024];          /* the last failure that was logged; "" if the last query succeeded */
	struct hvd_timer *silent; /* pending: no host was found yet, and the user was not told */
	bool busy, unwanted;      /* in a callback; to be destroyed after it */
};

extern const struct hvd_discovery_kind hvd_discovery_script, hvd_discovery_slurm;

/*
 * A kind calls one of these at the end of a query: with the hosts that were found, whose changes are reported, or with
 * the failure. The call may free the discovery, so it must be the last that the kind does.
 */
void hvd_discovery_found(struct hvd_discovery *s, const struct hvd_slurm_hosts *found);
void hvd_discovery_failed(struct hvd_discovery *s, const struct hvd_err *why);

/* What a discovery script printed: `host[:slots]` lines. A host of several lines has the slots of the last. HVD_E_USAGE
 * names a line that is neither that nor blank. Untrusted input is fine. After an error *out is empty. */
int hvd_script_parse(const char *text, size_t len, int default_slots, struct hvd_alloc *out, struct hvd_err *err);

#endif
