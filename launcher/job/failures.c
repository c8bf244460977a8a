/* SPDX-License-Identifier: Apache-2.0 */
#include "failures.h"

#include "launcher/scheduler/scheduler.h"
#include "launcher/world/machine.h"
#include "lib/base/cleanup.h"
#include "lib/process/spawn.h"

#include <stdio.h>

struct hvd_failure_report *hvd_failures_now(struct hvd_failures *failures)
{
	if (!failures->now)
		failures->now = hvd_failure_report_create();
	return failures->now;
}

static bool any(struct hvd_failure_report *report)
{
	const char *host;

	return report && hvd_failure_report_first(report, &host);
}

void hvd_failures_next(struct hvd_failures *failures, int generation, struct hvd_event_log *events,
		       const struct hvd_log *log)
{
	if (any(failures->now)) {
		hvd_cleanup_free char *text = hvd_failure_report_text(failures->now, true);

		hvd_failure_report_event(failures->now, events);
		hvd_info(log, "before generation %d: %s", generation, text);
		hvd_failure_report_destroy(failures->last);
		failures->last = failures->now;
	} else {
		hvd_failure_report_destroy(failures->now);
	}
	failures->now = NULL;
}

/* A failure that was seen before it was known to be the first may have made the status. If the job has ended for want of
 * progress, its status says so. */
static void set_result(struct hvd_result *result, struct hvd_failure_report *report)
{
	const char *host;
	const struct hvd_rank_end *first = hvd_failure_report_first(report, &host);
	int status = hvd_failure_report_status(report);

	if (!result->ended_by && result->status != HVD_IDLE_STATUS &&
	    (!result->rank_failed || result->status == hvd_status_exit(result->rank_status)))
		result->status = hvd_status_exit(status);
	result->rank_failed = true;
	result->rank = first->rank;
	result->local_rank = first->local_rank;
	result->rank_status = status;
	snprintf(result->host, sizeof(result->host), "%s", host);
}

void hvd_failures_end(struct hvd_failures *failures, const struct hvd_launch_spec *spec, struct hvd_result *result,
		      struct hvd_event_log *events, const struct hvd_log *log)
{
	struct hvd_failure_report *report = any(failures->now) ? failures->now : failures->last;
	const struct hvd_batch_job job = hvd_batch_job_of(spec, 0);
	const struct hvd_rank_end *first;
	const char *host;

	if (!any(report))
		return;
	set_result(result, report);
	if (report == failures->now)
		hvd_failure_report_event(report, events);
	first = hvd_failure_report_first(report, &host);
	if (hvd_failure_report_interrupted(report)) {
		hvd_info(log, "the ranks were ended by SIGINT; first: rank %u on %s", (unsigned)first->rank, host);
		return;
	}
	if (hvd_failure_report_killed(report)) {
		hvd_cleanup_free char *fate = hvd_batch_job_fate(&job);

		hvd_failure_report_killer(report, fate);
	}
	hvd_failure_report_log(report, !first->error && hvd_requeue_leaving(&result->requeue), log);
	hvd_failure_report_json(report, &result->first_failure, &result->failures);
}

void hvd_failures_clear(struct hvd_failures *failures)
{
	hvd_failure_report_destroy(failures->now);
	hvd_failure_report_destroy(failures->last);
	*failures = (struct hvd_failures){0};
}
