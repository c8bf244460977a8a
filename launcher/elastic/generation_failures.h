/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generation_failures.h - the messages of an elastic job about failed ranks: after each generation a short one about
 * the rank that failed first, and at the end, if the job has failed, the full report
 * (launcher/diagnosis/failure_report.h).
 */
#ifndef HVD_GENERATION_FAILURES_H
#define HVD_GENERATION_FAILURES_H

#include "launcher/diagnosis/failure_report.h"
#include "launcher/run/job.h"
#include "machine.h"

/* A zeroed one has none. */
struct hvd_elastic_failures {
	struct hvd_failure_report *now, *last; /* of this generation; of the last one before it that had failures */
};

/* A worker has ended. If the machine had it ended, and it reports no error, it has not failed. */
void hvd_elastic_failures_add(struct hvd_elastic_failures *failures, const struct hvd_machine *machine, uint32_t worker,
			      const struct hvd_rank_end *end);
/* A host was lost, which has not answered for so many milliseconds. */
void hvd_elastic_failures_lose_host(struct hvd_elastic_failures *failures, const struct hvd_machine *machine,
				    uint32_t host, unsigned silent_ms);
/* The job ends the ranks of this generation from now on. */
void hvd_elastic_failures_ending(struct hvd_elastic_failures *failures);
/* The generation with this number begins. */
void hvd_elastic_failures_next(struct hvd_elastic_failures *failures, int generation, struct hvd_event_log *events,
			       const struct hvd_log *log);
/* The job has failed: log the report, and make the first failure the result. */
void hvd_elastic_failures_end(struct hvd_elastic_failures *failures, struct hvd_result *result,
			      struct hvd_event_log *events, const struct hvd_log *log);
void hvd_elastic_failures_clear(struct hvd_elastic_failures *failures);

#endif
