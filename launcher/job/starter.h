/* SPDX-License-Identifier: Apache-2.0 */
/*
 * starter.h - what a job (job.h) has its ranks started by: the processes that hvdrun starts on its own host
 * (run.c), or the srun whose plugin has started this process (step_run.c).
 *
 * A starter starts, signals and ends; what it does that nobody asked for, and what it does not do though it should, is
 * its own file's business. The job calls the ops; the starter reports to the job by the functions of job.h.
 */
#ifndef HVD_STARTER_H
#define HVD_STARTER_H

#include "lib/base/err.h"
#include "lib/base/strv.h"
#include "lib/protocol/boot.h"

#include <stdbool.h>

struct hvd_procs;
struct hvd_starter;
struct hvd_job;

struct hvd_ending {
	bool again;    /* the starter was told before: end everything at once */
	bool no_ranks; /* no rank is left that it could wait for */
	bool agents;   /* the agents were told to end their ranks, and can do so; what they cannot reach is left */
	bool had_time; /* the ranks were told that the start has failed, and had time to end */
};

struct hvd_starter_ops {
	/* Start the ranks, or the agents that start them. `boot` says how they reach the driver. -1 with err set. */
	int (*start)(struct hvd_starter *starter, const struct hvd_boot *boot, struct hvd_err *err);
	/* Send a signal to all ranks. Unless the agents end the ranks: then they do that. */
	void (*signal)(struct hvd_starter *starter, int sig);
	/* End all ranks and what was started for them. HVD_JOB_STARTER_GONE follows. */
	void (*end)(struct hvd_starter *starter, const struct hvd_ending *how);

	/* A signal has ended a rank: SIGINT, or one that follows it. Does the starter end all ranks? It has told the user
	 * then, and the job to expect their ends. NULL: no. */
	bool (*interrupts)(struct hvd_starter *starter);
	/* A host is lost, so its tasks will not be reported. May be NULL. */
	void (*host_lost)(struct hvd_starter *starter, const char *host);
	/* All ranks have ended, as far as is known, and the starter should end by itself soon. `without_munge` as in
	 * static_ends.h; valid as long as the job. NULL: their end is the starter's business. */
	void (*ranks_ended)(struct hvd_starter *starter, const struct hvd_strv *without_munge);
	/* The starter has gone. Has it ended badly for a reason that nobody has given? With `say` it says why, the last
	 * thing before the job is over. NULL: no. */
	bool (*unexplained)(struct hvd_starter *starter, bool say);
};

struct hvd_starter {
	const struct hvd_starter_ops *ops;
	struct hvd_job *job;     /* hvd_job_create() sets it */
	struct hvd_procs *procs; /* its processes on this host, which the job reports hosts and ranks to; NULL = none */
	/* Who starts the ranks: the agents (true), or the starter itself. */
	bool agents_start_ranks;
	/* Who ends them: the agents when the driver says so, or the starter. */
	bool agents_end_ranks;
	/* It shows the user each failed rank and decides itself what follows from it: srun with the plugin. Otherwise
	 * the job does so. */
	bool judges_failures;
	/* It does not end the other ranks after a failure, and is told to: unless Slurm says that the job is being
	 * preempted, in which they may still save. */
	bool ends_after_failure;
	/* If it ends the ranks after one has failed, and may forget to: it is told to after so many seconds. 0 = it
	 * does not forget. */
	int failure_seconds;
	/* The driver tells the ranks of a failed start, and those that it reaches end. How long that may take before
	 * and after the plan. */
	int failed_seconds, failed_later_seconds;
	/* How long ends of ranks may be on their way when the starter has gone. */
	int last_ms;
	bool ask_slurm; /* Slurm knows about its hosts: ask whether it has given one up */
};

#endif
