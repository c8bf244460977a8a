/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failures.h - the failures of a world of ranks, generation by generation: after each generation one line about the rank that failed
 * first, and at the end, if that has ended the job, the full report (launcher/diagnosis/failure_report.h). A job of fixed size
 * has one generation.
 */
#ifndef HVD_FAILURES_H
#define HVD_FAILURES_H

#include "job_result.h"
#include "launcher/diagnosis/failure_report.h"
#include "launcher/events/event_log.h"
#include "launcher/options/launch_spec.h"

/* With none, but for the first two zeroed. */
struct hvd_failures {
	unsigned world;                        /* its number */
	const char *role;                      /* its name; NULL = it has none */
	bool let_go;                           /* it has failed, and the other worlds went on */
	struct hvd_failure_report *now, *last; /* of this generation; of the last one before it that had failures */
};

/* The report of this generation. */
struct hvd_failure_report *hvd_failures_now(struct hvd_failures *failures);
/* The generation with this number begins. */
void hvd_failures_next(struct hvd_failures *failures, int generation, struct hvd_event_log *events,
		       const struct hvd_log *log);
/* The job has failed, and all ends are known: log the report, and make the failure that was the first by its time the
 * result. `all` has the failures of n worlds, of which that of this number decides about the status. The report is of all
 * of them, but for those that were let go if the deciding one failed for a reason of its own: these have a line each. Asks the scheduler who has killed a rank. `shown`: srun has shown how each rank ended, so if they were ended by a
 * signal, and the first says no more, one line is enough: somebody has ended the step. True: it was logged in full. */
bool hvd_failures_end(struct hvd_failures *all, unsigned n, unsigned world, const struct hvd_launch_spec *spec,
		      struct hvd_result *result, bool shown, struct hvd_event_log *events, const struct hvd_log *log);
void hvd_failures_clear(struct hvd_failures *failures);

#endif
