/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restart_history.h - the generations of a job with restarts: when each began and why it ended, and where the time went.
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

#include "launcher/run/job_result.h"
#include "lib/base/log.h"
#include "lib/job/rank_end.h"
#include "machine.h"

struct hvd_restart_history {
	hvd_time began; /* the job */
	json_t *list;
	bool inits;                                    /* a generation has called init_process_group() */
	double start, init, training, ending, waiting; /* seconds of generations that are over */
	struct {
		hvd_time began, init, failed; /* 0 = has not */
		json_t *entry;
	} now;
};

void hvd_restart_history_init(struct hvd_restart_history *history, hvd_time began);
void hvd_restart_history_clear(struct hvd_restart_history *history);

/* The machine's generation begins. */
void hvd_restart_history_begin(struct hvd_restart_history *history, const struct hvd_machine *machine, hvd_time now);
/* All ranks of the current generation have called init_process_group(). */
void hvd_restart_history_init_done(struct hvd_restart_history *history, hvd_time now);
/* Why the current generation ends; only the first reason counts. `host` may be NULL. */
void hvd_restart_history_ends(struct hvd_restart_history *history, const char *cause, const char *host, hvd_time now);
/* The same for the failure of a rank. `error` is its exception (struct hvd_rank_end), or NULL. */
void hvd_restart_history_failed(struct hvd_restart_history *history, const char *cause, const char *error,
				const char *host, int rank, hvd_time now);
/* Did the current generation end by the same exception of the same rank as the last one before it that ended by the
 * failure of a rank, but on another host? */
bool hvd_restart_history_repeats(const struct hvd_restart_history *history);
/* The job has ended: put the history into the result, and log a summary if there was more than one generation. */
void hvd_restart_history_end(struct hvd_restart_history *history, struct hvd_result *result, hvd_time now,
			     const struct hvd_log *log);

#endif
