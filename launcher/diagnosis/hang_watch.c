/* SPDX-License-Identifier: Apache-2.0 */
#include "hang_watch.h"

#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "stack_events.h"
#include "stack_groups.h"

#include <stdlib.h>

/* How long hosts may take to report where their ranks are. */
#define STACKS_SECONDS 10.0

struct hvd_hang_watch {
	struct hvd_stacks *stacks;
	const struct hvd_launch_spec *spec;
	hvd_hang_end_fn *end;
	void (*ask)(void *arg);
	void *arg;
	struct hvd_event_log *events;
	const struct hvd_log *log;
	struct hvd_progress *progress;
	struct hvd_err why;
	enum {
		QUIET,
		ASKING,
		LOOKING
	} state; /* whether the job is suspended; where the ranks are */
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

static void on_stacks(json_t *said, void *arg)
{
	struct hvd_hang_watch *watch = arg;
	hvd_cleanup_free char *groups = said ? hvd_stack_groups_text(said, "this launch") : NULL;
	int action = watch->spec->hang_action;
	const bool again = hvd_progress_again(watch->progress);

	watch->state = QUIET;
	if (groups)
		hvd_log_text(watch->log, HVD_LOG_WARN, groups);
	if (said)
		hvd_stack_events(said, watch->events);
	hvd_event(watch->events, HANG_ACTION,
		  .why = again                       ? "there is progress again: the job goes on"
			 : action == HVD_HANG_REPORT ? "the job goes on"
			 : action == HVD_HANG_KILL   ? "the job is ended"
						     : "the job is ended and requeued");
	if (again)
		hvd_info(watch->log, "there is progress again: the job goes on");
	else if (action == HVD_HANG_REPORT)
		hvd_info(watch->log, "the job goes on; --hang-action=kill would end it");
	else
		watch->end(&watch->why, action == HVD_HANG_REQUEUE, watch->arg);
}

void hvd_hang_watch_stalled(struct hvd_hang_watch *watch, const struct hvd_stall *stall)
{
	if (watch->state != QUIET)
		return;
	hvd_hang_describe(stall, &watch->why);
	watch->progress = stall->progress;
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
	hvd_warn(watch->log, "%s", watch->why.msg);
	hvd_err_prefix(&watch->why, "ending the job");
	watch->state = LOOKING;
	if (watch->stacks)
		hvd_stacks_ask(watch->stacks, STACKS_SECONDS, on_stacks, watch);
	else
		on_stacks(NULL, watch);
}

struct hvd_hang_watch *hvd_hang_watch_create(struct hvd_stacks *stacks, const struct hvd_launch_spec *spec,
					     hvd_hang_end_fn *end, void (*ask)(void *arg), void *arg,
					     struct hvd_event_log *events, const struct hvd_log *log)
{
	struct hvd_hang_watch *watch = hvd_xcalloc(1, sizeof(*watch));

	*watch = (struct hvd_hang_watch){
		.stacks = stacks, .spec = spec, .end = end, .ask = ask, .arg = arg, .events = events, .log = log};
	return watch;
}

void hvd_hang_watch_destroy(struct hvd_hang_watch *watch)
{
	if (!watch)
		return;
	if (watch->stacks)
		hvd_stacks_forget(watch->stacks, watch);
	free(watch);
}
