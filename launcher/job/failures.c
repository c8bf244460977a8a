/* SPDX-License-Identifier: Apache-2.0 */
#include "failures.h"

#include "launcher/scheduler/scheduler.h"
#include "launcher/world/machine.h"
#include "lib/base/cleanup.h"
#include "lib/base/signals.h"
#include "lib/process/spawn.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

struct hvd_failure_report *hvd_failures_now(struct hvd_failures *failures)
{
	if (!failures->now) {
		failures->now = hvd_failure_report_create();
		hvd_failure_report_of(failures->now, failures->world, failures->role);
	}
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
static void set_status(struct hvd_result *result, struct hvd_failure_report *report)
{
	int status = hvd_failure_report_status(report);

	if (!result->ended_by && result->status != HVD_IDLE_STATUS &&
	    (!result->rank_failed || result->status == hvd_status_exit(result->rank_status)))
		result->status = hvd_status_exit(status);
	result->rank_failed = true;
	result->rank_status = status;
}

static void set_rank(struct hvd_result *result, struct hvd_failure_report *report)
{
	const char *host;
	const struct hvd_rank_end *first = hvd_failure_report_first(report, &host);

	result->rank = first->rank;
	result->local_rank = first->local_rank;
	snprintf(result->host, sizeof(result->host), "%s", host);
}

/* One line for a world that is not part of the report. */
static void log_let_go(struct hvd_failure_report *report, const char *role, struct hvd_event_log *events,
		       const struct hvd_log *log)
{
	hvd_cleanup_free char *text = hvd_failure_report_text(report, true);

	hvd_failure_report_event(report, events);
	hvd_info(log, "role %s had failed, and the others went on: %s", role, text);
}

/* The report of all worlds; the caller destroys it. */
static struct hvd_failure_report *merge(struct hvd_failures *all, unsigned n, unsigned world,
					const struct hvd_failure_report *decides, struct hvd_event_log *events,
					const struct hvd_log *log)
{
	struct hvd_failure_report *report = hvd_failure_report_create();
	const bool own = hvd_failure_report_own(decides);

	hvd_failure_report_of(report, world, all[world].role);
	hvd_failure_report_merge(report, decides);
	for (unsigned w = 0; w < n; w++)
		if (w != world && all[w].let_go && own && any(all[w].now))
			log_let_go(all[w].now, all[w].role ? all[w].role : "?", events, log);
		else if (w != world && all[w].now)
			hvd_failure_report_merge(report, all[w].now);
	return report;
}

/* Log it in full, or in one line. */
static bool log_report(struct hvd_failure_report *report, const struct hvd_batch_job *job, bool shown, bool leaving,
		       const struct hvd_log *log)
{
	const bool interrupted = hvd_failure_report_interrupted(report);
	hvd_cleanup_free char *fate = hvd_failure_report_killed(report) ? hvd_batch_job_fate(job) : NULL;
	const char *host;
	const struct hvd_rank_end *first = hvd_failure_report_first(report, &host);
	const int sig = first && WIFSIGNALED(first->status) ? WTERMSIG(first->status) : 0;
	const bool ended = interrupted || (shown && (sig == SIGTERM || sig == SIGINT || sig == SIGHUP || fate ||
						     hvd_failure_report_killed_together(report)));

	if (first && ended && (fate || !shown || !hvd_failure_report_loss(report)) && (interrupted || !first->error)) {
		hvd_info(log, "the ranks were ended by SIG%s%s%s; first: rank %u on %s",
			 hvd_signal_name(interrupted ? SIGINT
					 : sig       ? sig
						     : SIGKILL),
			 fate ? ", since " : "", fate ? fate : "", (unsigned)first->rank, host);
		return false;
	}
	hvd_failure_report_killer(report, fate);
	hvd_failure_report_log(report, first && !first->error && leaving, log);
	return true;
}

/* `decides` are the failures that make the status. */
static bool end(struct hvd_failure_report *report, struct hvd_failure_report *decides, bool now,
		const struct hvd_launch_spec *spec, struct hvd_result *result, bool shown, struct hvd_event_log *events,
		const struct hvd_log *log)
{
	const struct hvd_batch_job job = hvd_batch_job_of(spec, result->job);

	if (any(report)) {
		set_status(result, decides);
		set_rank(result, report);
	}
	if (now)
		hvd_failure_report_event(report, events);
	if (!log_report(report, &job, shown, hvd_requeue_leaving(&result->requeue), log))
		return false;
	hvd_failure_report_json(report, &result->first_failure, &result->failures);
	return true;
}

bool hvd_failures_end(struct hvd_failures *all, unsigned n, unsigned world, const struct hvd_launch_spec *spec,
		      struct hvd_result *result, bool shown, struct hvd_event_log *events, const struct hvd_log *log)
{
	struct hvd_failures *failures = &all[world];
	const bool now = any(failures->now) || (shown && hvd_failure_report_any(hvd_failures_now(failures)));
	struct hvd_failure_report *report = now ? failures->now : failures->last, *merged;
	bool in_full;

	if (!now && !any(report))
		return false;
	if (n <= 1)
		return end(report, report, now, spec, result, shown, events, log);
	merged = merge(all, n, world, report, events, log);
	in_full = end(merged, report, now, spec, result, shown, events, log);
	hvd_failure_report_destroy(merged);
	return in_full;
}

void hvd_failures_clear(struct hvd_failures *failures)
{
	hvd_failure_report_destroy(failures->now);
	hvd_failure_report_destroy(failures->last);
	*failures = (struct hvd_failures){0};
}
