/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_procs.h - the processes on this host that run the shims of an elastic job's hosts elsewhere: one for each host.
 */
#ifndef HVD_AGENT_PROCS_H
#define HVD_AGENT_PROCS_H

#include "procs.h"

#include <stdint.h>

struct hvd_agent_procs;

struct hvd_agent_procs_ops {
	/* The process of this host, which was still wanted, has ended; `why` says what that means. */
	void (*lost)(uint32_t host, const struct hvd_err *why, void *arg);
	/* The process of this host is killed, perhaps before it has passed on all that its ranks wrote. */
	void (*cut_short)(uint32_t host, void *arg);
	void (*output_lost)(void *arg); /* what a process has passed on could not be written; the user was told why */
	void (*none_left)(void *arg);   /* the last process has ended */
};

/* `launch` is what all hosts have in common; it and the others are not owned. */
struct hvd_agent_procs *hvd_agent_procs_create(struct event_base *base, const struct hvd_launch *launch,
					       const struct hvd_backend *backend, const struct hvd_procs_opts *opts,
					       const struct hvd_agent_procs_ops *ops, void *arg);
void hvd_agent_procs_destroy(struct hvd_agent_procs *agent_procs); /* ends what is left; NULL is fine */

/* Start the shim of a host of that name and so many slots, in that Slurm job (0: ours). -1 with err set. */
int hvd_agent_procs_start(struct hvd_agent_procs *agent_procs, uint32_t host, const char *name, int slots, uint32_t job,
			  struct hvd_err *err);
void hvd_agent_procs_came(struct hvd_agent_procs *agent_procs, uint32_t host);
/* Not wanted any longer. The shim was told to end; `hard`: nobody could tell it. */
void hvd_agent_procs_release(struct hvd_agent_procs *agent_procs, uint32_t host, bool hard);
/* All were told to end; `at_once`: the user does not want to wait for the last of their output. */
void hvd_agent_procs_end(struct hvd_agent_procs *agent_procs, bool at_once);
/* The shim of a host, which was told to end, has done so: its process has only output to pass on. */
void hvd_agent_procs_left(struct hvd_agent_procs *agent_procs, uint32_t host);

void hvd_agent_procs_reap(struct hvd_agent_procs *agent_procs); /* after SIGCHLD */
unsigned hvd_agent_procs_running(const struct hvd_agent_procs *agent_procs);

#endif
