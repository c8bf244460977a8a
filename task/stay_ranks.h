/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stay_ranks.h - the ranks of a host where Slurm has started them, as the node agent that stays sees them: who they
 * are, what they write to standard error and to their error files, and how they end.
 *
 * It hears of them by notes (lib/protocol/step_note.h). A rank's error file (TORCHELASTIC_ERROR_FILE, to which
 * PyTorch's programs write the exception that ends them) is a pipe of this process, which the rank opens by its name in
 * /proc. So nothing is left of it, however the step ends.
 */
#ifndef HVD_STAY_RANKS_H
#define HVD_STAY_RANKS_H

#include "lib/base/log.h"
#include "lib/job/rank_end.h"
#include "step_tasks.h"
#include "taskinfo.h"

#include <event2/event.h>
#include <stdbool.h>

struct hvd_stay_ranks_opts {
	int notes;                       /* taken */
	int answers;                     /* the eventfd of lib/protocol/step_note.h; taken */
	const int *error_files;          /* by local rank: the reading ends of pipes; taken. NULL = none */
	const struct hvd_taskinfo *info; /* not owned */
	unsigned lines;                  /* of standard error that are kept; 0: it is not looked at */
	/* Have all tasks ended by now, whether slurmstepd has told of them or not? */
	bool (*over)(void *arg);
	void (*began)(uint32_t rank, pid_t pid, void *arg);
	/* A rank has ended, and what it had written is where it belongs. True: the driver need not be told, or cannot
	 * be; false: hvd_stay_ranks_told() follows when it was. */
	bool (*ended)(const struct hvd_rank_end *end, void *arg);
	void (*seen)(void *arg); /* hvd_stay_ranks_left() may have changed; not to destroy anything from within */
	/* A rank has written so many bytes to standard error. */
	void (*output)(size_t bytes, void *arg);
	void *arg;
};

struct hvd_stay_ranks;

struct hvd_stay_ranks *hvd_stay_ranks_create(struct event_base *base, const struct hvd_stay_ranks_opts *opts);
void hvd_stay_ranks_destroy(struct hvd_stay_ranks *ranks); /* NULL is fine */

/* This process has got a signal that Slurm sends to all processes of a step: ranks that it ends have not failed. */
void hvd_stay_ranks_signalled(struct hvd_stay_ranks *ranks);

/* The driver was told of all that have ended: slurmstepd, which waits for that, may go on. */
void hvd_stay_ranks_told(struct hvd_stay_ranks *ranks);
/* Is there a rank whose end is not known, or that is not told of? */
bool hvd_stay_ranks_left(const struct hvd_stay_ranks *ranks);

/* In a process whose only work it is: pass on the standard error of the ranks that have sent notes to `spare`, until
 * the tasks have ended. */
void hvd_stay_ranks_pass_on(int spare, struct hvd_step_tasks *tasks);

#endif
