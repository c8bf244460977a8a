/* SPDX-License-Identifier: Apache-2.0 */
/*
 * observed.h - the agent of a host (agent.h) whose ranks Slurm, an MPI or jsrun starts.
 *
 * It is a process of its own (detached.h), which lasts as long as the host's ranks. The first process of the launch on
 * the host starts it, before anything is connected. The agent
 *   hands each shim of the host its plan (shims.h), or all tasks of the plugin their variables
 *   (lib/protocol/step_plans.h);
 *   learns of the ranks by step events (observed_ranks.h);
 *   passes the driver's signals on to the shims.
 */
#ifndef HVD_OBSERVED_H
#define HVD_OBSERVED_H

#include "bootstrap.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <sys/types.h>

/* The programs that start ranks differ in these ways. */
struct hvd_rank_starter {
	const char *name; /* for ps(1) */
	/* Shims report the ranks; else slurmstepd and the tasks do, by the plugin in them. */
	bool shims;
	/* slurmstepd tracks the ranks, and ends what they leave behind; else only the shims know them. */
	bool step;
	/* Shims end the ranks when the driver says so or is gone; else the program that has started them does. */
	bool shims_end;
};

extern const struct hvd_rank_starter hvd_starter_plugin, hvd_starter_srun, hvd_starter_mpi, hvd_starter_jsrun;

struct hvd_observed_opts {
	const struct hvd_rank_starter *starter;
	struct hvd_bootstrap *start; /* of the starting process; the agent gets a copy */
	bool events; /* no shims: HVD_STEP_EVENTS_FD, …_BACKUP_FD and …_SEEN_FD are open (lib/protocol/step_event.h) */
	pid_t task; /* `step`: a task of the step on this host */
	int socket; /* listens for shims; without them a connection to the process that asks for all plans */
	char *const
		*command; /* no shims: of the ranks, not in the memory of this process's arguments; empty: not known */
};

/* Start the agent. Its descriptors are closed here, also after an error. Returns its pid; -1 with err set. */
pid_t hvd_observed_start(const struct hvd_observed_opts *opts, struct hvd_err *err);

#endif
