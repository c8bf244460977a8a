/* SPDX-License-Identifier: Apache-2.0 */
/* time_limit.c - a timer, and questions to the scheduler, see time_limit.h. */
#include "time_limit.h"

#include "lib/base/deadline.h"
#include "lib/base/signals.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Seconds between two questions. */
#define LEAST_WAIT 5.0
#define MOST_WAIT  60.0
/* What is due within so many seconds is done now. */
#define SOON 0.05
/* Before the job's end, so that there is time to have it requeued. */
#define LAST_SECONDS 15.0

struct hvd_time_limit {
	const struct hvd_launch_spec *spec;
	const struct hvd_log *log;
	const struct hvd_time_limit_ops *ops;
	void *arg;
	struct hvd_requeue_wish *wish;
	struct hvd_timer *timer;
	hvd_time ends; /* by the last answer; 0 = not known */
	double notice; /* how long before the end the ranks were told */
	bool preempted;
	bool announced, ended, said_none, said_error;
};

/* ---- the timer ---- */

static void look_in(struct hvd_time_limit *limit, double seconds)
{
	hvd_timer_at(limit->timer, hvd_deadline_in(seconds));
}

/* The next point in time at which something is due: the signal, or the last word. Negative when that has passed. */
static double due_in(const struct hvd_time_limit *limit, double left)
{
	if (!limit->announced)
		return left - limit->spec->signal_ranks.seconds;
	return left - (limit->notice / 2 < LAST_SECONDS ? limit->notice / 2 : LAST_SECONDS);
}

static enum hvd_requeue_reason reason_of(const struct hvd_time_limit *limit)
{
	return limit->preempted ? HVD_REQUEUE_PREEMPT : HVD_REQUEUE_LIMIT;
}

static void announce(struct hvd_time_limit *limit, double left)
{
	const int sig = limit->spec->signal_ranks.signal;

	limit->announced = true;
	limit->notice = left;
	hvd_info(limit->log, "the job %s in %.0f s: sending SIG%s to all ranks",
		 limit->preempted ? "is preempted, and ends" : "reaches its time limit", left, hvd_signal_name(sig));
	hvd_requeue_want(limit->wish, limit->spec, reason_of(limit), NULL);
	limit->ops->signal_ranks(sig, limit->arg);
}

static void end_ranks(struct hvd_time_limit *limit, double left)
{
	limit->ended = true;
	if (!hvd_requeue_wanted(limit->wish, reason_of(limit)))
		return;
	hvd_info(limit->log, "the job %s in %.0f s: ending the ranks, so that it can be requeued",
		 limit->preempted ? "is preempted, and ends" : "reaches its time limit", left);
	limit->ops->end(limit->arg);
}

/* What the last answer, or a former one, says. */
static void act(struct hvd_time_limit *limit)
{
	const double left = (double)(limit->ends - hvd_now()) / 1e9;
	double due = due_in(limit, left);

	if (due <= SOON && !limit->announced) {
		announce(limit, left);
		due = due_in(limit, left);
	}
	if (due <= SOON) {
		end_ranks(limit, left);
		return;
	}
	if (due > LEAST_WAIT)
		due = due / 4 > LEAST_WAIT ? due / 4 : LEAST_WAIT;
	look_in(limit, due < MOST_WAIT ? due : MOST_WAIT);
}

static void no_answer(struct hvd_time_limit *limit, const char *why)
{
	if (!limit->said_error)
		hvd_warn(limit->log, "cannot find out when the job reaches its time limit: %s", why);
	limit->said_error = true;
	if (limit->ends && due_in(limit, (double)(limit->ends - hvd_now()) / 1e9) <= SOON)
		act(limit);
	else
		look_in(limit, LEAST_WAIT);
}

static void no_limit(struct hvd_time_limit *limit)
{
	if (!limit->said_none)
		hvd_info(limit->log, "the job has no time limit: --signal-ranks has nothing to announce");
	limit->said_none = true;
	limit->ends = 0;
	look_in(limit, MOST_WAIT);
}

void hvd_time_limit_facts(struct hvd_time_limit *limit, const struct hvd_job_facts *facts)
{
	if (!limit || limit->ended)
		return;
	if (facts->unknown) {
		no_answer(limit, facts->unknown);
	} else if (facts->left < 0) {
		no_limit(limit);
	} else {
		limit->ends = hvd_now() + (hvd_time)(facts->left * 1e9);
		limit->preempted = facts->preempted;
		limit->wish->preempted |= facts->preempted;
		act(limit);
	}
}

static void on_timer(void *arg)
{
	struct hvd_time_limit *limit = arg;

	limit->ops->ask(limit->arg);
}

struct hvd_time_limit *hvd_time_limit_watch(struct event_base *base, const struct hvd_launch_spec *spec,
					    struct hvd_requeue_wish *wish, const struct hvd_time_limit_ops *ops,
					    void *arg, const struct hvd_log *log)
{
	const struct hvd_batch_job job = hvd_batch_job_of(spec, wish->job);
	struct hvd_time_limit *limit;

	if (!spec->signal_ranks.signal)
		return NULL;
	if (!job.scheduler->facts) {
		hvd_warn(log, "--signal-ranks: this launch is not part of a job that has a time limit");
		return NULL;
	}
	limit = hvd_xcalloc(1, sizeof(*limit));
	*limit = (struct hvd_time_limit){.spec = spec, .log = log, .ops = ops, .arg = arg, .wish = wish};
	limit->timer = hvd_timer_new(base, on_timer, limit);
	look_in(limit, 0);
	return limit;
}

void hvd_time_limit_destroy(struct hvd_time_limit *limit)
{
	if (!limit)
		return;
	hvd_timer_free(limit->timer);
	free(limit);
}
