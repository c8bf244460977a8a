/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_query.h - asks the scheduler about the batch job that a launch is part of, in a child process, so that the event
 * loop goes on while a controller does not answer.
 */
#ifndef HVD_JOB_QUERY_H
#define HVD_JOB_QUERY_H

#include "launcher/scheduler/scheduler.h"

#include <event2/event.h>

typedef void hvd_job_facts_fn(const struct hvd_job_facts *facts, void *arg);

struct hvd_job_query;

/* `job` is copied. `fn` is called from the event loop, and may destroy the query. */
struct hvd_job_query *hvd_job_query_create(struct event_base *base, const struct hvd_batch_job *job,
					   hvd_job_facts_fn *fn, void *arg);
void hvd_job_query_destroy(struct hvd_job_query *query); /* NULL is fine */

/* Ask now. If an answer is awaited already, another one is awaited after it, and only that is passed on. */
void hvd_job_query_ask(struct hvd_job_query *query);

#endif
