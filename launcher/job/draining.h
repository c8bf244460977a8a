/* SPDX-License-Identifier: Apache-2.0 */
/*
 * draining.h - the end of an elastic job that is preempted or to be requeued: its ranks got the signal of --signal-ranks
 * (launcher/job/time_limit.h), or a rank has asked for it.
 *
 * From then on a rank that ends is not a failure, and is not replaced. The job ends when all ranks have ended, or some
 * time after the first of them, since the others may wait for it.
 */
#ifndef HVD_DRAINING_H
#define HVD_DRAINING_H

#include "launcher/world/machine.h"
#include "lib/base/timer.h"
#include "requeue.h"

#include <event2/event.h>

/* `over` is called once, with the exit status of the first rank that has ended with a failure, else 0. */
struct hvd_draining {
	const struct hvd_launch_spec *spec;
	struct hvd_requeue_wish *wish;
	void (*over)(int status, void *arg);
	void *arg;
	double seconds; /* from the first rank's end to that of the last one, 30 at least */

	/* Its own. */
	struct hvd_timer *late;
	int ended, status;
	bool over_called; /* `over` was called */
};

/* The fields above are set. */
void hvd_draining_init(struct hvd_draining *leaving, struct event_base *base);
void hvd_draining_clear(struct hvd_draining *leaving);

/* A rank has ended, `status` as from waitpid(2). True: the job is draining, and the machine must not be notified. */
bool hvd_draining_exited(struct hvd_draining *leaving, const struct hvd_machine *machine, int status);

#endif
