/* SPDX-License-Identifier: Apache-2.0 */
/*
 * draining.h - the end of a job that is preempted or to be requeued: its ranks got the signal of --signal-ranks
 * (launcher/job/time_limit.h), or in a job that would start them again one has asked for it.
 *
 * From then on a rank that ends is not a failure, and is not replaced. The ranks end one after the other, since each may
 * still write a checkpoint. The time limit, or Slurm, ends those that do not; but if a rank has asked, the others have
 * 30 seconds from the first end, since they may wait for it.
 */
#ifndef HVD_DRAINING_H
#define HVD_DRAINING_H

#include "lib/base/timer.h"
#include "requeue.h"

#include <event2/event.h>

/* `over` is called once, with the exit status of the first rank that has ended with a failure, else 0. */
struct hvd_draining {
	const struct hvd_requeue_wish *wish;
	bool restarts; /* ranks that fail are started again, so that one that asks is no failure */
	void (*over)(int status, void *arg);
	void *arg;

	/* Its own. */
	struct hvd_timer *late;
	int ended, status;
	bool over_called; /* `over` was called */
};

/* The fields above are set. */
void hvd_draining_init(struct hvd_draining *draining, struct event_base *base);
void hvd_draining_clear(struct hvd_draining *draining);

bool hvd_draining(const struct hvd_draining *draining); /* has it begun? */
/* It has, and a rank has ended, one of so many; `status` as from waitpid(2). */
void hvd_draining_exited(struct hvd_draining *draining, int ranks, int status);

#endif
