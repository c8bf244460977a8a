/* SPDX-License-Identifier: Apache-2.0 */
#include "job_query.h"

#include "ask.h"
#include "lib/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>

/* How long the scheduler may take to answer. */
#define ANSWER_SECONDS 30

struct hvd_job_query {
	struct hvd_batch_job job;
	hvd_job_facts_fn *fn;
	void *arg;
	struct hvd_ask *ask;
	bool awaited, again; /* an answer is; somebody has asked meanwhile */
};

/* ---- the child that asks ---- */

/* Write the seconds that are left, four flags and the fate; or "?" and why that is not known. */
static void ask(int out, void *arg)
{
	const struct hvd_job_query *query = arg;
	struct hvd_job_facts facts;
	struct hvd_err err = {0};
	int rc = hvd_batch_job_facts(&query->job, &facts, hvd_deadline_in(ANSWER_SECONDS), &err);

	if (rc == 0)
		dprintf(out, "%.0f %d %d %d %d %s", facts.left, facts.paused, facts.preempted, facts.over,
			facts.requeued,
			facts.fate       ? facts.fate
			: facts.requeued ? "was requeued"
					 : "");
	else if (err.code == HVD_E_NOENT)
		dprintf(out, "-1 0 0 1 0 is not known to %s any longer", query->job.scheduler->name);
	else
		dprintf(out, "?%s", err.msg);
}

/* ---- its answer ---- */

static void tell_unknown(struct hvd_job_query *query, const char *why)
{
	query->fn(&(struct hvd_job_facts){.unknown = why, .left = -1}, query->arg);
}

static bool read_facts(const char *text, struct hvd_job_facts *facts)
{
	int paused, preempted, over, requeued, at = 0;

	if (sscanf(text, "%lf %d %d %d %d %n", &facts->left, &paused, &preempted, &over, &requeued, &at) != 5 ||
	    at == 0)
		return false;
	facts->paused = paused != 0;
	facts->preempted = preempted != 0;
	facts->over = over != 0;
	facts->requeued = requeued != 0;
	facts->fate = text[at] ? text + at : NULL;
	return true;
}

static void on_answer(const char *answer, void *arg)
{
	struct hvd_job_query *query = arg;
	struct hvd_job_facts facts = {.left = -1};

	query->awaited = query->again;
	if (query->again) { /* what the answer does not know may be why */
		query->again = false;
		hvd_ask_now(query->ask);
		return;
	}
	if (!answer)
		tell_unknown(query, "the scheduler does not answer");
	else if (*answer == '?')
		tell_unknown(query, answer + 1);
	else if (read_facts(answer, &facts))
		query->fn(&facts, query->arg);
	else
		tell_unknown(query, "the scheduler does not say");
}

void hvd_job_query_ask(struct hvd_job_query *query)
{
	query->again = query->awaited;
	query->awaited = true;
	if (!query->again)
		hvd_ask_now(query->ask);
}

/* ---- life ---- */

struct hvd_job_query *hvd_job_query_create(struct event_base *base, const struct hvd_batch_job *job,
					   hvd_job_facts_fn *fn, void *arg)
{
	struct hvd_job_query *query = hvd_xcalloc(1, sizeof(*query));

	*query = (struct hvd_job_query){.job = *job, .fn = fn, .arg = arg};
	query->ask = hvd_ask_create(base, ask, query, ANSWER_SECONDS, on_answer, query);
	return query;
}

void hvd_job_query_destroy(struct hvd_job_query *query)
{
	if (!query)
		return;
	hvd_ask_destroy(query->ask);
	free(query);
}
