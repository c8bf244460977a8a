/* SPDX-License-Identifier: Apache-2.0 */
/*
 * time_limit.h - knows when the job's time is over, and says so before (--signal-ranks).
 *
 * The time limit is Slurm's, by the controller's clock, or LSF's (bjobs -o time_left, in minutes). It may be changed
 * while the job runs, and it comes earlier when the job is preempted: so the owner is told to ask the scheduler again
 * after a quarter of the time that is left, a minute at most, and once more before anything is done. Facts that the
 * owner has asked for itself count as well.
 */
#ifndef HVD_TIME_LIMIT_H
#define HVD_TIME_LIMIT_H

#include "launcher/scheduler/scheduler.h"
#include "lib/base/log.h"
#include "requeue.h"

#include <event2/event.h>

struct hvd_time_limit;

struct hvd_time_limit_ops {
	/* Ask the scheduler about the job; hvd_time_limit_facts() follows. */
	void (*ask)(void *arg);
	/* The job has as many seconds as --signal-ranks says, or fewer: called once. The log was told, and *wish has
	 * the reason to requeue the job, if --requeue-on has it. */
	void (*signal_ranks)(int sig, void *arg);
	/* The job has only a few seconds left, and is to be requeued: end what is left. Called once, after the
	 * former. */
	void (*end)(void *arg);
};

/* NULL if --signal-ranks was not given, or there is no job, which the log says. The job is that of `wish`. All that is
 * passed must outlive the watch. */
struct hvd_time_limit *hvd_time_limit_watch(struct event_base *base, const struct hvd_launch_spec *spec,
					    struct hvd_requeue_wish *wish, const struct hvd_time_limit_ops *ops,
					    void *arg, const struct hvd_log *log);
void hvd_time_limit_destroy(struct hvd_time_limit *limit); /* NULL is fine */

/* What the scheduler says of the job. NULL is fine as the limit. */
void hvd_time_limit_facts(struct hvd_time_limit *limit, const struct hvd_job_facts *facts);

#endif
