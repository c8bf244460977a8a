/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discovery.h - where the hosts of an elastic job come from, and when they change.
 *
 * A job has one discovery, in its event loop; nothing in it blocks. It looks for hosts, and tells the complete list
 * whenever that has changed. Kinds:
 *   hosts     those that the user listed, or a given allocation: told once
 *   script    a program that prints `host[:slots]` lines, run every second, or as often as is asked for
 *   slurm     the nodes of this Slurm job, without those that are down, draining or failing
 *   jobs      the nodes of all the user's running Slurm jobs of one name or comment
 *   agents    those that come by themselves (--launcher=join), while they are connected
 * To add one: a file with a struct hvd_discovery_kind (discovery_kind.h), and its line in the table of discovery_choose.c.
 */
#ifndef HVD_DISCOVERY_H
#define HVD_DISCOVERY_H

#include "launcher/backends/backend.h"
#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/job/alloc.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

struct hvd_discovery_opts {
	enum hvd_discover from;      /* not AUTO */
	struct hvd_alloc hosts;      /* HOSTS: these. SLURM: the job's as it began */
	char *script;                /* SCRIPT: a command line for sh -c */
	char *jobs;                  /* JOBS: the name or comment of the jobs */
	struct hvd_joining *joining; /* AGENTS: where they come; not owned */
	uint32_t job;       /* SLURM: the job. JOBS: the one that we run in, whose hosts come first; 0 = none */
	int slots_per_host; /* of hosts that come without a number; 0 = 1, or what their job says */
	char *const *envp;  /* of the script; not owned */
	double time_limit;  /* seconds that a run of the script may take; 0 = 30 */
	/* Seconds from one look to the next, SCRIPT, SLURM and JOBS; 0 = 1, or more where a look takes so much of a
	 * core that it should be seldom. */
	double interval;
};

/* Callbacks come from the event loop, never from within hvd_discovery_create(). All of them may destroy the
 * discovery. */
struct hvd_discovery_ops {
	/*
	 * The complete list, at first (soon after creation; perhaps an empty one) and whenever it has changed. Hosts
	 * are named once, with at least one slot, and keep their order from list to list: a new one comes behind those
	 * that stay. The list is on loan for the call.
	 *
	 * A host that is not in the list any more is to be left: its processes may still run (drained, its job about to
	 * end) or be gone already. A host that went from one job to another is left out of one list in between, so
	 * that nobody has to compare jobs.
	 */
	void (*hosts)(const struct hvd_alloc *hosts, void *arg);
	/*
	 * This host will go in about so many seconds: its job is being preempted or is near its time limit. Once for
	 * each host; a list without it follows at once. Until then processes there run on, so ranks can leave it in
	 * peace. But Slurm has sent SIGTERM to the steps of a job that is preempted: they must outlive that.
	 */
	void (*leaving)(const char *host, double seconds, void *arg);
	/* The first look for hosts failed, which no later one would mend. Called once, and nothing follows. Later
	 * failures are logged, and the last list stays. */
	void (*failed)(const struct hvd_err *why, void *arg);
};

struct hvd_discovery;

/* What the options ask for: --discover, --host-discovery-script, -H or --hostfile, else the Slurm job that we are
 * in, else this machine. -1 with err set (HVD_E_USAGE, HVD_E_NOENT). Clear *out in any case. */
int hvd_discovery_choose(const struct hvd_launch *launch, struct hvd_discovery_opts *out, struct hvd_err *err);
void hvd_discovery_opts_clear(struct hvd_discovery_opts *opts); /* NULL is fine */

/* Begin. `opts`, `ops` are copied where needed; `envp` and `log` must outlive the discovery. NULL with err set. While
 * one of the Slurm kinds lives, nobody else in this process may use libslurm (slurm.h). */
struct hvd_discovery *hvd_discovery_create(struct event_base *base, const struct hvd_discovery_opts *opts,
					   const struct hvd_discovery_ops *ops, void *arg, const struct hvd_log *log,
					   struct hvd_err *err);
/* Ends what it started (a script that runs is killed). NULL is fine. */
void hvd_discovery_destroy(struct hvd_discovery *s);

/* Look now, rather than at the next turn: the caller has seen a host fail. Harmless for all kinds. */
void hvd_discovery_nudge(struct hvd_discovery *s);

#endif
