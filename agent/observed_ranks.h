/* SPDX-License-Identifier: Apache-2.0 */
/*
 * observed_ranks.h - the ranks of a host where Slurm, an MPI or jsrun has started them, as the node agent sees them:
 * who they are, what they write to standard error and to their error files, and how they end.
 *
 * It hears of them by events (lib/protocol/step_event.h). Ranks that the agent has started itself are in
 * spawned_ranks.h.
 */
#ifndef HVD_OBSERVED_RANKS_H
#define HVD_OBSERVED_RANKS_H

#include "lib/job/rank_end.h"
#include "lib/protocol/step_event.h"
#include "step_tasks.h"
#include "taskinfo.h"

#include <event2/event.h>
#include <stdbool.h>

struct hvd_observed_ranks_opts {
	const struct hvd_taskinfo *info; /* not owned; as the plan has it */
	unsigned lines;                  /* of standard error that are kept; 0: it is not looked at */
	/* Have all tasks ended by now, whether slurmstepd has told of them or not? NULL: who sends the events knows
	 * which ranks were ended with all. */
	bool (*over)(void *arg);
	void (*began)(uint32_t rank, pid_t pid, void *arg);
	/* A rank has ended, and what it had written is where it belongs. True: the driver was told, or cannot be;
	 * false: hvd_observed_ranks_told() follows when it was. */
	bool (*ended)(const struct hvd_rank_end *end, void *arg);
	/* The event of its end may be acknowledged. Not to destroy anything from within. */
	void (*seen)(uint32_t local_id, void *arg);
	/* A rank has written so many bytes to standard error. */
	void (*output)(size_t bytes, void *arg);
	void *arg;
};

struct hvd_observed_ranks;

struct hvd_observed_ranks *hvd_observed_ranks_create(struct event_base *base,
						     const struct hvd_observed_ranks_opts *opts);
void hvd_observed_ranks_destroy(struct hvd_observed_ranks *ranks); /* NULL is fine */

/* The path of a rank's error file (crash_info.h); NULL = there is none. */
const char *hvd_observed_ranks_error_file(const struct hvd_observed_ranks *ranks, uint32_t local_id);

/* A event of a rank has come; takes the descriptors. Notes of others are ignored. */
void hvd_observed_ranks_event(struct hvd_observed_ranks *ranks, const struct hvd_step_event *event, int fds[2]);
/* No event will come any longer, of any rank. */
void hvd_observed_ranks_deaf(struct hvd_observed_ranks *ranks);
/* What has started the rank has ended without a word of it. True with the rank's number: nobody knew of its end. */
bool hvd_observed_ranks_lose(struct hvd_observed_ranks *ranks, uint32_t local_id, uint32_t *rank);

/* This process has got a signal that Slurm sends to all processes of a step: ranks that it ends have not failed. */
void hvd_observed_ranks_signalled(struct hvd_observed_ranks *ranks);

/* The driver was told of all that have ended. */
void hvd_observed_ranks_told(struct hvd_observed_ranks *ranks);
/* Is there a rank whose end is not known, or that is not told of? */
bool hvd_observed_ranks_left(const struct hvd_observed_ranks *ranks);

/* In a process whose only work it is: pass on the standard error of the ranks that have sent events to `spare`, until
 * the tasks, or all that could write, have ended. */
void hvd_observed_ranks_pass_on(int spare, struct hvd_step_tasks *tasks);

#endif
