/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discovery_kind.h - what a kind of source is, and what all of them share. Only the source files include it.
 */
#ifndef HVD_DISCOVERY_KIND_H
#define HVD_DISCOVERY_KIND_H

#include "discovery.h"
#include "lib/base/strv.h"
#include "slurm_hosts.h"

struct hvd_discovery_kind {
	const char *name;
	/* Begin to look; source->own is the kind's to use. */
	int (*begin)(struct hvd_discovery *source, struct hvd_err *err);
	void (*end)(struct hvd_discovery *source);   /* also after a begin that failed */
	void (*nudge)(struct hvd_discovery *source); /* look now; may be NULL */
};

struct hvd_discovery {
	const struct hvd_discovery_kind *kind;
	struct event_base *base;
	struct hvd_discovery_opts opts; /* its own, but for envp */
	struct hvd_discovery_ops ops;
	void *arg;
	const struct hvd_log *log;
	void *own;

	/* Told so far. */
	bool any;
	struct hvd_alloc hosts;
	struct hvd_strv leaving; /* hosts of which that was said, while they are still about */
	char said[1024];         /* the last failure that was logged; "" when the last look was good */
	bool busy, unwanted;     /* in a callback; to be destroyed after it */
};

extern const struct hvd_discovery_kind hvd_discovery_script, hvd_discovery_slurm;

/*
 * A look has come to an end: with a view (its order is that of discovery; what of it is new is told), or with a
 * failure. The source may be gone after the call, so it is the last thing that a kind does.
 */
void hvd_discovery_looked(struct hvd_discovery *source, const struct hvd_slurm_hosts *view);
void hvd_discovery_missed(struct hvd_discovery *source, const struct hvd_err *why);

/* What a discovery script printed: `host[:slots]` lines. A host of several lines has the slots of the last. HVD_E_USAGE
 * names a line that is neither that nor blank. Untrusted input is fine. After an error *out is empty. */
int hvd_script_parse(const char *text, size_t len, int default_slots, struct hvd_alloc *out, struct hvd_err *err);

#endif
