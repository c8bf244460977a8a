/* SPDX-License-Identifier: Apache-2.0 */
/*
 * observed_ranks.h - the ranks of a host that Slurm, an MPI or jsrun has started, as the agent sees them: their
 * processes, their standard error and error files, and their ends.
 *
 * The agent learns of the ranks by step events (lib/protocol/step_event.h). spawned_ranks.h has ranks that the agent
 * has started itself.
 */
#ifndef HVD_OBSERVED_RANKS_H
#define HVD_OBSERVED_RANKS_H

#include "agent.h"
#include "lib/protocol/step_event.h"
#include "step_tasks.h"

/* `arg` is agent->ranks. */
struct hvd_observed_ranks_opts {
	struct hvd_agent *agent; /* which has its plan, and learns of beginnings and output; not owned */
	/* Have all tasks ended by now, whether slurmstepd has reported them or not? NULL: the sender of the events
	 * knows which ranks were ended with all. */
	bool (*over)(void *arg);
	/* A rank has ended, and its output was delivered. True: the driver was told, or cannot be told. False: the
	 * caller calls hvd_observed_ranks_delivered() when it was. */
	bool (*ended)(const struct hvd_rank_end *end, void *arg);
	/* The event of the rank's end may be acknowledged. Must not destroy anything from within. */
	void (*seen)(uint32_t local_id, void *arg);
};

struct hvd_observed_ranks;

struct hvd_observed_ranks *hvd_observed_ranks_create(const struct hvd_observed_ranks_opts *opts);
void hvd_observed_ranks_destroy(struct hvd_observed_ranks *ranks); /* NULL is fine */

/* The path of a rank's error file (crash_info.h); NULL = there is none. */
const char *hvd_observed_ranks_error_file(const struct hvd_observed_ranks *ranks, uint32_t local_id);

/* Handle an event of a rank; takes ownership of the descriptors. Events of others are ignored. */
void hvd_observed_ranks_event(struct hvd_observed_ranks *ranks, const struct hvd_step_event *event, int fds[2]);
/* No further event will arrive, of any rank. */
void hvd_observed_ranks_no_more_events(struct hvd_observed_ranks *ranks);
/* The process that started the rank has ended without reporting the rank's end. True with the rank's number if the end
 * was not known. */
bool hvd_observed_ranks_lose(struct hvd_observed_ranks *ranks, uint32_t local_id, uint32_t *rank);

/* This process got a signal that Slurm sends to all processes of a step: ranks that the signal ends have not failed. */
void hvd_observed_ranks_signalled(struct hvd_observed_ranks *ranks);

/* What has the rank with this number written last? */
void hvd_observed_ranks_lines(const struct hvd_observed_ranks *ranks, uint32_t number, struct hvd_rank_lines *lines);

/* The driver was told of all ranks that have ended. */
void hvd_observed_ranks_delivered(struct hvd_observed_ranks *ranks);
/* Is there a rank whose end is not known, or was not reported? */
bool hvd_observed_ranks_left(const struct hvd_observed_ranks *ranks);

/* For a process that does nothing else: pass on the standard error of the ranks that have sent events to `backup_fd`, until
 * the tasks, or all writers, have ended. */
void hvd_observed_ranks_pass_on(int backup_fd, struct hvd_step_tasks *tasks);

#endif
