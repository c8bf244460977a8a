/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_query.h - asks the scheduler about the batch job that a launch is part of, in a child process, so that the event
 * loop goes on while a controller does not answer.
 */
#ifndef HVD_JOB_QUERY_H
#define HVD_JOB_QUERY_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

struct hvd_job_facts {
	const char *unknown; /* the scheduler does not say, for this reason, and the rest is not set; NULL: it has */
	double left;         /* seconds until the job's end; below 0: it has no time limit */
	/* Slurm only. */
	bool paused;      /* the job is suspended */
	bool preempted;   /* the job is being preempted, and `left` is the rest of its grace time */
	bool over;        /* the job has ended or is being ended, or Slurm has forgotten it */
	const char *fate; /* how it has ended: "was cancelled (scancel)"; NULL: it runs, or nobody knows */
};

typedef void hvd_job_facts_fn(const struct hvd_job_facts *facts, void *arg);

struct hvd_job_query;

/* `job`: Slurm's number; 0 = LSF's job of the environment. `fn` is called from the event loop, and may destroy the
 * query. */
struct hvd_job_query *hvd_job_query_create(struct event_base *base, uint32_t job, hvd_job_facts_fn *fn, void *arg);
void hvd_job_query_destroy(struct hvd_job_query *query); /* NULL is fine */

/* Ask now, unless an answer is awaited already. */
void hvd_job_query_ask(struct hvd_job_query *query);

/* Read "H:M", with LSF's letter behind it, as bjobs -o time_left prints it: seconds, or -1 for a job without a limit
 * and for any other text. Untrusted input is fine. */
double hvd_job_query_lsf(const char *text);

#endif
