/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restart_history.h - the generations of a job with restarts: when each began and why it ended, and where the time went. It is made
 * of the events of the launch.
 *
 * The time of the job has these parts. start: until the first generation began. init: from the begin of each generation
 * until all of its ranks had called init_process_group(). training: from then to its first failure, or to the change of
 * hosts that ended it. ending: from then until the last rank had gone. waiting: from then until the next generation began,
 * as for hosts. goodput is the share of training in all of it, as far as the launcher can see.
 *
 * Ranks may not be PyTorch's. Until a generation has called init_process_group(), training counts from the begin of
 * generations; afterwards one that has not called it has not trained.
 */
#ifndef HVD_RESTART_HISTORY_H
#define HVD_RESTART_HISTORY_H

#include "job_result.h"
#include "launcher/events/event_log.h"

struct hvd_restart_history {
	struct hvd_event_log *events;
	hvd_time began; /* the job */
	json_t *list;
	bool inits;                                    /* a generation has called init_process_group() */
	double start, init, training, ending, waiting; /* seconds of generations that are over */
	struct {
		hvd_time began, init, failed, over; /* 0 = has not */
		json_t *entry;
	} now;
};

/* Of a job that began then, from its events. `events`: NULL if there is no history. */
void hvd_restart_history_init(struct hvd_restart_history *history, struct hvd_event_log *events, hvd_time began);
void hvd_restart_history_clear(struct hvd_restart_history *history);

/* Did the current generation end by the same exception of the same rank as the last one before it that ended by the
 * failure of a rank, but on another host? */
bool hvd_restart_history_repeats(const struct hvd_restart_history *history);
/* The job has ended: put the history into the result, and log a summary if there was more than one generation. */
void hvd_restart_history_end(struct hvd_restart_history *history, struct hvd_result *result, hvd_time now,
			     const struct hvd_log *log);

#endif
