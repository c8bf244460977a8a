/* SPDX-License-Identifier: Apache-2.0 */
#include "hang_watch.h"

#include "busy_hang.h"
#include "lib/base/cleanup.h"
#include "lib/base/deadline.h"
#include "lib/base/strv.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "stack_events.h"
#include "stack_groups.h"

#include <stdlib.h>

/* How long hosts may take to report where their ranks are. */
#define STACKS_SECONDS 10.0
/* Samples of ranks that are busy, and the time that they take at most. A loop of few lines has a good chance to be at the
 * same one in two of them. */
#define SAMPLES        5
#define SAMPLE_SECONDS 10.0
/* Until a further one: if all ranks seem to wait for their GPUs, which may compute. At most a timeout. */
#define LATER_SECONDS 60.0

struct hvd_hang_watch {
	unsigned world;
	struct hvd_stacks *stacks;
	const struct hvd_launch_spec *spec;
	hvd_hang_end_fn *end;
	void (*ask)(void *arg);
	void *arg;
	struct hvd_event_log *events;
	const struct hvd_log *log;
	struct hvd_progress *progress;
	double seconds; /* without progress */
	hvd_time began; /* this watch, with the job */
	bool busy;
	bool uncertain; /* it may hang */
	struct hvd_err why;
	struct hvd_timer *pause;
	json_t *first; /* sample of ranks that are busy */
	double apart;  /* seconds from the first sample to the last, without the time that they take */
	int samples;   /* so many are there */
	enum {
		QUIET,
		ASKING,  /* whether the job is suspended */
		LOOKING, /* where the ranks are, for the report */
		SAMPLING /* where they are, and some are busy: whether they hang */
	} state;
};

void hvd_hang_describe(const struct hvd_stall *stall, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv silent = {0};
	hvd_cleanup_free char *names = NULL;

	for (size_t i = 0; i < stall->n; i++)
		if (!stall->hosts[i].answers)
			hvd_strv_add(&silent, stall->hosts[i].name);
	names = hvd_strv_join(&silent, ", ");
	hvd_err_set(err, HVD_E_TIMEOUT, "no rank has made progress for %.0f s%s%s", stall->seconds,
		    silent.n == 0   ? ""
		    : silent.n == 1 ? ", and this host does not answer: "
				    : ", and these hosts do not answer: ",
		    names);
	hvd_err_hint(err, "--hang-timeout sets this limit");
}

/* Between two samples. */
static double pause_seconds(const struct hvd_hang_watch *watch)
{
	const double half = watch->spec->hang_timeout / 2;

	return (half < SAMPLE_SECONDS ? half : SAMPLE_SECONDS) / (SAMPLES - 1);
}

/* ---- the report ---- */

static void report(struct hvd_hang_watch *watch)
{
	hvd_warn(watch->log, "%s", watch->why.msg);
	hvd_event(watch->events, HANG, .world = watch->world, .seconds = (int64_t)watch->seconds,
		  .why = watch->why.msg);
	if (watch->log->of)
		hvd_err_prefix(&watch->why, "%s", watch->log->of);
	hvd_err_prefix(&watch->why, "ending the job");
}

static void act(struct hvd_hang_watch *watch)
{
	const int action = watch->spec->hang_action;
	const bool again = hvd_progress_again(watch->progress);

	hvd_event(watch->events, HANG_ACTION, .world = watch->world,
		  .why = again                       ? "there is progress again: the job goes on"
			 : action == HVD_HANG_REPORT ? "the job goes on"
			 : action == HVD_HANG_KILL   ? "the job is ended"
						     : "the job is ended and requeued");
	if (again)
		hvd_info(watch->log, "there is progress again: the job goes on");
	else if (action == HVD_HANG_REPORT)
		hvd_info(watch->log, "the job goes on; --hang-action=kill would end it");
	else
		watch->end(&watch->why, action == HVD_HANG_REQUEUE, watch->log->of, watch->arg);
}

static void on_stacks(json_t *said, void *arg)
{
	struct hvd_hang_watch *watch = arg;
	hvd_cleanup_free char *groups = said ? hvd_stack_groups_text(said, "this launch") : NULL;

	watch->state = QUIET;
	if (groups)
		hvd_log_text(watch->log, HVD_LOG_WARN, groups);
	if (watch->uncertain) {
		hvd_info(watch->log, "the job goes on, because a long call looks the same");
		return;
	}
	if (said)
		hvd_stack_events(said, watch->world, watch->events);
	act(watch);
}

static void look(struct hvd_hang_watch *watch)
{
	watch->state = LOOKING;
	if (watch->stacks)
		hvd_stacks_ask(watch->stacks, STACKS_SECONDS, on_stacks, watch);
	else
		on_stacks(NULL, watch);
}

/* ---- ranks that are busy ---- */

static void conclude(struct hvd_hang_watch *watch, enum hvd_busy_verdict verdict, const char *where)
{
	switch (verdict) {
	case HVD_BUSY_WORKS:
	case HVD_BUSY_UNKNOWN:
		hvd_verbose(watch->log, "for %.0f s ranks have used their processors only: %s", watch->seconds, where);
		hvd_progress_works(watch->progress);
		break;
	case HVD_BUSY_MAY_HANG:
		hvd_warn(watch->log, "ranks may hang: none has made progress for %.0f s, but some are busy: %s",
			 watch->seconds, where);
		hvd_event(watch->events, MAY_HANG, .world = watch->world, .seconds = (int64_t)watch->seconds,
			  .why = where);
		watch->uncertain = true;
		look(watch);
		break;
	case HVD_BUSY_HANGS_TOGETHER:
	case HVD_BUSY_HANGS:
		hvd_err_set(&watch->why, HVD_E_TIMEOUT, "no rank has made progress for %.0f s, but some are busy: %s",
			    watch->seconds, where);
		hvd_err_hint(&watch->why, "--hang-timeout sets this limit");
		report(watch);
		look(watch);
		break;
	}
}

static void stop_sampling(struct hvd_hang_watch *watch)
{
	json_decref(watch->first);
	watch->first = NULL;
	watch->apart = 0;
	watch->samples = 0;
	watch->state = QUIET;
}

/* Take a further sample? The first one that shows that ranks compute is the last. */
static bool goes_on(struct hvd_hang_watch *watch, enum hvd_busy_verdict verdict)
{
	const double timeout = watch->spec->hang_timeout;
	double pause = pause_seconds(watch);

	if (verdict < HVD_BUSY_MAY_HANG || watch->samples > SAMPLES)
		return false;
	if (watch->samples == SAMPLES) {
		if (verdict != HVD_BUSY_HANGS_TOGETHER)
			return false;
		pause = timeout < LATER_SECONDS ? timeout : LATER_SECONDS;
	}
	watch->apart += pause;
	hvd_timer_in_ms(watch->pause, (int64_t)(pause * 1000));
	return true;
}

static void on_sample(json_t *said, void *arg)
{
	struct hvd_hang_watch *watch = arg;
	enum hvd_busy_verdict verdict = HVD_BUSY_MAY_HANG;
	hvd_cleanup_free char *where = NULL;

	if (hvd_progress_again(watch->progress)) {
		stop_sampling(watch);
		return;
	}
	if (watch->samples++ == 0)
		watch->first = json_incref(said);
	else
		verdict = hvd_busy_hang_judge(watch->first, said, watch->apart,
					      (double)(hvd_now() - watch->began) / 1e9, &where);
	if (goes_on(watch, verdict))
		return;
	stop_sampling(watch);
	conclude(watch, verdict, where);
}

static void on_pause(void *arg)
{
	struct hvd_hang_watch *watch = arg;

	hvd_stacks_ask_no_stop(watch->stacks, STACKS_SECONDS, on_sample, watch);
}

/* ---- stalls ---- */

void hvd_hang_watch_stalled(struct hvd_hang_watch *watch, const struct hvd_stall *stall)
{
	if (watch->state != QUIET)
		return;
	hvd_hang_describe(stall, &watch->why);
	watch->progress = stall->progress;
	watch->seconds = stall->seconds;
	watch->busy = stall->busy;
	watch->uncertain = false;
	watch->state = ASKING;
	watch->ask(watch->arg);
}

void hvd_hang_watch_suspended(struct hvd_hang_watch *watch, bool suspended)
{
	if (watch->state != ASKING)
		return;
	watch->state = QUIET;
	if (suspended) {
		hvd_verbose(watch->log, "the job is suspended: that no rank makes progress is no hang");
		hvd_progress_begin(watch->progress, 0);
		return;
	}
	if (hvd_progress_again(watch->progress))
		return;
	if (watch->busy) {
		if (!watch->stacks)
			return;
		watch->state = SAMPLING;
		hvd_stacks_ask_no_stop(watch->stacks, STACKS_SECONDS, on_sample, watch);
		return;
	}
	report(watch);
	look(watch);
}

/* ---- life ---- */

struct hvd_hang_watch *hvd_hang_watch_create(struct event_base *base, unsigned world, struct hvd_stacks *stacks,
					     const struct hvd_launch_spec *spec, hvd_hang_end_fn *end,
					     void (*ask)(void *arg), void *arg, struct hvd_event_log *events,
					     const struct hvd_log *log)
{
	struct hvd_hang_watch *watch = hvd_xcalloc(1, sizeof(*watch));

	*watch = (struct hvd_hang_watch){.world = world,
					 .stacks = stacks,
					 .spec = spec,
					 .end = end,
					 .ask = ask,
					 .arg = arg,
					 .events = events,
					 .log = log,
					 .began = hvd_now()};
	if (stacks)
		watch->pause = hvd_timer_new(base, on_pause, watch);
	return watch;
}

void hvd_hang_watch_destroy(struct hvd_hang_watch *watch)
{
	if (!watch)
		return;
	if (watch->stacks)
		hvd_stacks_forget(watch->stacks, watch);
	hvd_timer_free(watch->pause);
	json_decref(watch->first);
	free(watch);
}
