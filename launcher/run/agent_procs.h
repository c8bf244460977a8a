/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_procs.h - the processes on this host that run the shims of an elastic job's hosts elsewhere: one for each host.
 */
#ifndef HVD_AGENT_PROCS_H
#define HVD_AGENT_PROCS_H

#include "procs.h"

#include <stdint.h>

struct hvd_shims;

struct hvd_shims_ops {
	/* The process of this host, which was still wanted, has ended; `why` says what that means. */
	void (*lost)(uint32_t host, const struct hvd_err *why, void *arg);
	/* The process of this host is killed, perhaps before it has passed on all that its ranks wrote. */
	void (*cut_short)(uint32_t host, void *arg);
	void (*output_lost)(void *arg); /* what a process has passed on could not be written; the user was told why */
	void (*none_left)(void *arg);   /* the last process has ended */
};

/* `launch` is what all hosts have in common; it and the others are not owned. */
struct hvd_shims *hvd_shims_create(struct event_base *base, const struct hvd_launch *launch,
				   const struct hvd_backend *backend, const struct hvd_procs_opts *opts,
				   const struct hvd_shims_ops *ops, void *arg);
void hvd_shims_destroy(struct hvd_shims *shims); /* ends what is left; NULL is fine */

/* Start the shim of a host of that name and so many slots, in that Slurm job (0: ours). -1 with err set. */
int hvd_shims_start(struct hvd_shims *shims, uint32_t host, const char *name, int slots, uint32_t job,
		    struct hvd_err *err);
void hvd_shims_came(struct hvd_shims *shims, uint32_t host);
/* Not wanted any longer. The shim was told to end; `hard`: nobody could tell it. */
void hvd_shims_release(struct hvd_shims *shims, uint32_t host, bool hard);
/* All were told to end; `at_once`: the user does not want to wait for the last of their output. */
void hvd_shims_end(struct hvd_shims *shims, bool at_once);
/* The shim of a host, which was told to end, has done so: its process has only output to pass on. */
void hvd_shims_left(struct hvd_shims *shims, uint32_t host);

void hvd_shims_reap(struct hvd_shims *shims); /* after SIGCHLD */
unsigned hvd_shims_running(const struct hvd_shims *shims);

#endif
