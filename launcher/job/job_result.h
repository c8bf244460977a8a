/* SPDX-License-Identifier: Apache-2.0 */
/* job_result.h - how a job has ended. */
#ifndef HVD_JOB_RESULT_H
#define HVD_JOB_RESULT_H

#include "lib/base/deadline.h"
#include "requeue.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct hvd_result {
	hvd_time began;
	int status;       /* exit status: the first failed rank's, else the backend's, 1 when the start failed */
	int ended_by;     /* the signal that has ended the job; 0 = none */
	bool started;     /* every rank had its plan */
	bool rank_failed; /* one failed: */
	uint32_t rank, local_rank; /* local_rank: of an elastic job only */
	char host[256];
	int rank_status; /* as from waitpid(2) */
	/* What --json has of the failures (launcher/diagnosis/failure_report.h); NULL = nothing. The result's own. */
	json_t *first_failure, *failures;
	uint32_t job;  /* Slurm's number of the job that the hosts are in; 0 = none, or not known */
	json_t *hosts; /* where the ranks of the last generation were: [{"name", "ranks"}]; NULL = nowhere */
	json_t *history, *goodput; /* of a job with restarts (launcher/job/restart_history.h); else NULL */
	json_t *roles;             /* of a launch with roles (elastic_end.c); else NULL */
	double start_seconds;      /* until every rank had its plan */
	double seconds;            /* all of it */
	int generations;           /* of an elastic job; else 0 */
	bool limit_met;            /* --reset-limit has ended it */
	struct hvd_requeue_wish requeue;
};

static inline void hvd_result_clear(struct hvd_result *result)
{
	json_decref(result->first_failure);
	json_decref(result->failures);
	json_decref(result->hosts);
	json_decref(result->history);
	json_decref(result->goodput);
	json_decref(result->roles);
	result->first_failure = result->failures = result->hosts = NULL;
	result->history = result->goodput = result->roles = NULL;
}

static inline double hvd_result_seconds(const struct hvd_result *result) /* since it began */
{
	return (double)(hvd_now() - result->began) / 1e9;
}

#endif
