/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restart_history.h - the generations of a world with restarts: when each began and why it ended, and where the time went
 * (launcher/events/goodput.h). It is made of the events of the launch.
 */
#ifndef HVD_RESTART_HISTORY_H
#define HVD_RESTART_HISTORY_H

#include "job_result.h"
#include "launcher/events/event_log.h"
#include "launcher/events/goodput.h"

struct hvd_restart_history {
	struct hvd_event_log *events;
	unsigned world;
	struct hvd_goodput goodput;
	json_t *list;
	json_t *entry; /* of the current generation; NULL before the first one */
};

/* Of a world of a job that began then, from its events. `events`: NULL if there is no history. */
void hvd_restart_history_init(struct hvd_restart_history *history, struct hvd_event_log *events, unsigned world,
			      hvd_time began);
void hvd_restart_history_clear(struct hvd_restart_history *history);

/* Did the current generation end by the same exception of the same rank as the last one before it that ended by the
 * failure of a rank, but on another host? */
bool hvd_restart_history_repeats(const struct hvd_restart_history *history);
/* The job has ended: put the history into the result, and log a summary if there was more than one generation. */
void hvd_restart_history_end(struct hvd_restart_history *history, struct hvd_result *result, hvd_time now,
			     const struct hvd_log *log);

#endif
