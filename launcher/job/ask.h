/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask.h - asks the scheduler something in a child process, so that the event loop goes on while a controller does not
 * answer.
 */
#ifndef HVD_ASK_H
#define HVD_ASK_H

#include "launcher/scheduler/scheduler.h"
#include "lib/process/call.h"

#include <event2/event.h>

/* The longest answer. */
#define HVD_ASK_MAX 255

struct hvd_ask;

/* `ask` is called in a child, with `ask_arg`, and writes the answer. `answered` is called from the event loop, with NULL if
 * there is none within so many seconds, and may destroy the object. */
struct hvd_ask *hvd_ask_create(struct event_base *base, hvd_call_fn *ask, void *ask_arg, int seconds,
			       void (*answered)(const char *answer, void *arg), void *arg);
void hvd_ask_destroy(struct hvd_ask *ask); /* NULL is fine */

/* Ask now, unless an answer is awaited already. */
void hvd_ask_now(struct hvd_ask *ask);

/* ---- about the batch job that a launch is part of ---- */

typedef void hvd_job_facts_fn(const struct hvd_job_facts *facts, void *arg);

struct hvd_job_query;

/* `job` is copied. `fn` is called from the event loop, and may destroy the query. */
struct hvd_job_query *hvd_job_query_create(struct event_base *base, const struct hvd_batch_job *job,
					   hvd_job_facts_fn *fn, void *arg);
void hvd_job_query_destroy(struct hvd_job_query *query); /* NULL is fine */

/* Ask now. If an answer is awaited already, another one is awaited after it, and only that is passed on. */
void hvd_job_query_ask(struct hvd_job_query *query);

#endif
