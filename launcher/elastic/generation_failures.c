/* SPDX-License-Identifier: Apache-2.0 */
#include "generation_failures.h"

#include "lib/base/cleanup.h"
#include "lib/base/deadline.h"
#include "lib/process/spawn.h"

#include <stddef.h>
#include <stdio.h>

static struct hvd_failure_report *current(struct hvd_elastic_failures *failures)
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

void hvd_elastic_failures_add(struct hvd_elastic_failures *failures, const struct hvd_machine *machine, uint32_t worker,
			      const struct hvd_rank_end *end)
{
	const struct hvd_worker *w = hvd_machine_worker(machine, worker);
	struct hvd_rank_end known = *end; /* the caller keeps its texts */

	if (!w)
		return;
	known.rank = (uint32_t)w->rank;
	known.local_rank = (uint32_t)w->slot;
	/* It may have failed by itself before the machine ended it. */
	if (w->state == HVD_WORKER_ENDING && !end->error)
		known.cause = HVD_END_WITH_ALL;
	hvd_failure_report_add(current(failures), &known, hvd_machine_host(machine, w->host));
}

void hvd_elastic_failures_lose_host(struct hvd_elastic_failures *failures, const struct hvd_machine *machine,
				    uint32_t host, unsigned silent_ms)
{
	struct hvd_loss loss = {.of = HVD_LOSS_HOST,
				.host = hvd_machine_host(machine, host),
				.status = -1,
				.at = hvd_now() - silent_ms * INT64_C(1000000)};

	if (hvd_machine_has_rank(machine, host))
		hvd_failure_report_lost(current(failures), &loss);
}

void hvd_elastic_failures_ending(struct hvd_elastic_failures *failures)
{
	hvd_failure_report_ending(current(failures), hvd_now());
}

void hvd_elastic_failures_next(struct hvd_elastic_failures *failures, int generation, struct hvd_event_log *events,
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

void hvd_elastic_failures_end(struct hvd_elastic_failures *failures, struct hvd_result *result,
			      struct hvd_event_log *events, const struct hvd_log *log)
{
	struct hvd_failure_report *report = any(failures->now) ? failures->now : failures->last;
	const struct hvd_rank_end *first;
	const char *host;

	if (!any(report))
		return;
	if (report == failures->now)
		hvd_failure_report_event(report, events);
	hvd_failure_report_log(report, false, log);
	hvd_failure_report_json(report, &result->first_failure, &result->failures);
	first = hvd_failure_report_first(report, &host);
	result->rank_failed = true;
	result->rank = first->rank;
	result->local_rank = first->local_rank;
	snprintf(result->host, sizeof(result->host), "%s", host);
	result->rank_status = hvd_failure_report_status(report);
	result->status = hvd_status_exit(result->rank_status);
}

void hvd_elastic_failures_clear(struct hvd_elastic_failures *failures)
{
	hvd_failure_report_destroy(failures->now);
	hvd_failure_report_destroy(failures->last);
	*failures = (struct hvd_elastic_failures){0};
}
