/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discovery.h - where the hosts of an elastic job come from, and when they change.
 *
 * A job has one discovery, in its event loop; nothing in it blocks. It looks for hosts, and reports the complete list
 * whenever the list has changed. Kinds:
 *   hosts     those that the user listed, or a given allocation: reported once
 *   script    a program that prints `host[:slots]` lines, run every second, or at another interval
 *   slurm     the nodes of this Slurm job, without those that are down, draining or failing
 *   jobs      the nodes of all the user's running Slurm jobs of one name or comment
 *   agents    self-registering agents (--launcher=join), while they are connected
 * To add one: a file with a struct hvd_discovery_kind (discovery_kind.h), and its line in the table of discovery.c.
 */
#ifndef HVD_DISCOVERY_H
#define HVD_DISCOVERY_H

#include "launcher/start/backend.h"
#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/host/alloc.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

struct hvd_discovery_opts {
	enum hvd_discover from;            /* not AUTO */
	struct hvd_alloc hosts;            /* HOSTS: these. SLURM: the job's hosts at the start */
	char *script;                      /* SCRIPT: a command line for sh -c */
	char *jobs;                        /* JOBS: the name or comment of the jobs */
	struct hvd_agent_pool *agent_pool; /* AGENTS: where they register; not owned */
	int first_slots;    /* AGENTS: the first hosts are reported together, when they have so many slots,
				  * or ten seconds after the first one; 0 = at once */
	uint32_t job;       /* SLURM: the job. JOBS: the one that we run in, whose hosts come first; 0 = none */
	int slots_per_host; /* of hosts without a number; 0 = 1, or the number in their job */
	char *const *envp;  /* of the script; not owned */
	double time_limit;  /* seconds that a run of the script may take; 0 = 30 */
	/* SCRIPT, SLURM and JOBS: seconds between two queries; 0 = 1, or more if a query takes a lot of processor
	 * time. */
	double interval;
};

/* Callbacks come from the event loop, never from within hvd_discovery_create(). All of them may destroy the
 * discovery. */
struct hvd_discovery_ops {
	/*
	 * The complete list, soon after creation (it may be empty) and whenever it has changed. Each host is listed
	 * once, with at least one slot. Hosts keep their order from list to list, and new ones follow. The list is only
	 * valid during the call.
	 *
	 * The job must leave a host that is no longer in the list. Processes there may still run (the host drains, or
	 * its job is about to end) or be gone already. A host that moved from one job to another is missing from one
	 * list in between, so the callee need not compare jobs.
	 */
	void (*hosts)(const struct hvd_alloc *hosts, void *arg);
	/*
	 * This host will go in about so many seconds, because its job is being preempted or is near its time limit.
	 * Called once for each host; a list without the host follows at once. Processes there run until the time is
	 * over, so ranks can leave the host in an orderly way. But Slurm has sent SIGTERM to the steps of a job that
	 * is preempted, and they must survive it.
	 */
	void (*leaving)(const char *host, double seconds, void *arg);
	/* The first query failed, and later ones would fail in the same way. Called once, and nothing follows. Later
	 * failures are logged, and the last list stays valid. */
	void (*failed)(const struct hvd_err *why, void *arg);
};

struct hvd_discovery;

/* Choose by the options: --discover, --host-discovery-script, -H or --hostfile, else the Slurm job that we are
 * in, else this machine. -1 with err set (HVD_E_USAGE, HVD_E_NOENT). Clear *out in any case. */
int hvd_discovery_choose(const struct hvd_launch *launch, struct hvd_discovery_opts *out, struct hvd_err *err);
void hvd_discovery_opts_clear(struct hvd_discovery_opts *opts); /* NULL is fine */

/* Start. `opts` and `ops` are copied as needed; `envp` and `log` must outlive the discovery. NULL with err set. */
struct hvd_discovery *hvd_discovery_create(struct event_base *base, const struct hvd_discovery_opts *opts,
					   const struct hvd_discovery_ops *ops, void *arg, const struct hvd_log *log,
					   struct hvd_err *err);
/* Ends what it started (a script that runs is killed). NULL is fine. */
void hvd_discovery_destroy(struct hvd_discovery *s);

/* Query now instead of at the next interval, because the caller has seen a host fail. Any kind accepts this. */
void hvd_discovery_nudge(struct hvd_discovery *s);

#endif
