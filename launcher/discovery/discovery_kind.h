/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discovery_kind.h - what a kind of discovery is, and what all kinds share. Only files of this folder include it.
 */
#ifndef HVD_DISCOVERY_KIND_H
#define HVD_DISCOVERY_KIND_H

#include "discovery.h"
#include "lib/base/strv.h"
#include "lib/base/timer.h"
#include "slurm/slurm.h"

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

struct hvd_slurm_hosts_leaving {
	char *host;
	double seconds;
};

/* What a query has found. A zeroed struct is empty. */
struct hvd_slurm_hosts {
	struct hvd_alloc hosts; /* each with its Slurm job */
	struct hvd_slurm_hosts_leaving *leaving;
	size_t n_leaving;
	struct hvd_strv notes; /* for the user, such as a host that two jobs share */
};

extern const struct hvd_discovery_kind hvd_discovery_script, hvd_discovery_slurm;

/*
 * A kind calls one of these at the end of a query: with the hosts that were found, whose changes are reported, or with
 * the failure. The call may free the discovery, so it must be the last that the kind does.
 */
void hvd_discovery_found(struct hvd_discovery *s, const struct hvd_slurm_hosts *found);
void hvd_discovery_failed(struct hvd_discovery *s, const struct hvd_err *why);

/* The seconds between two queries: the user's interval, or else one, but more, up to `most`, if a query costs so many
 * seconds that it would take more than 2 % of the time. */
double hvd_discovery_pause(const struct hvd_discovery_opts *opts, double cost, double most);

/* What a discovery script printed: `host[:slots]` lines. A host of several lines has the slots of the last. HVD_E_USAGE
 * names a line that is neither that nor blank. Untrusted input is fine. After an error *out is empty. */
int hvd_script_parse(const char *text, size_t len, int default_slots, struct hvd_alloc *out, struct hvd_err *err);

/* ---- slurm_hosts.c: turns Slurm's data about jobs and nodes into hosts and slots. No I/O. ---- */

/* The hosts of another job than the one that hvdrun runs in are left this many seconds before its time limit. */
#define HVD_SLURM_LEAVE_SECONDS 30

/* Does hvd_slurm_hosts_make() take hosts of a job? */
bool hvd_slurm_hosts_wants(const struct hvd_discovery_opts *opts, const struct hvd_slurm_job *job);
/* Do the slots of a job that hvd_slurm_hosts_make() would take depend on its GPUs (hvd_slurm_job_gpus())? */
bool hvd_slurm_hosts_by_gpus(const struct hvd_discovery_opts *opts, const struct hvd_slurm_job *job);

/*
 * The usable nodes of running jobs that have the name or comment opts->jobs or, when that is NULL, the number
 * opts->job. The job that hvdrun runs in comes first, then older jobs. A host of several jobs belongs to the first of
 * them. Hosts of jobs that are about to end are in `leaving` only. Reorders `jobs`. hvd_slurm_hosts_clear() is due.
 */
void hvd_slurm_hosts_make(struct hvd_slurm_hosts *out, const struct hvd_discovery_opts *opts,
			  struct hvd_slurm_job *jobs, size_t n, const struct hvd_slurm_nodes *nodes);
/* Times and notes are not compared. */
bool hvd_slurm_hosts_same(const struct hvd_slurm_hosts *a, const struct hvd_slurm_hosts *b);
void hvd_slurm_hosts_clear(struct hvd_slurm_hosts *out); /* NULL is fine */

#endif
