/* SPDX-License-Identifier: Apache-2.0 */
#include "job_query.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/call.h"
#include "lib/process/spawn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* How long the scheduler may take to answer. */
#define ANSWER_SECONDS 30

struct hvd_job_query {
	struct hvd_batch_job job;
	hvd_job_facts_fn *fn;
	void *arg;
	struct event_base *base;
	struct hvd_timer *late;
	struct event *answer;
	pid_t pid; /* of the child that asks; not above 0 = none */
	int fd;    /* what it writes; -1 = none */
	char text[256];
	size_t len;
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

static void reap(struct hvd_job_query *query)
{
	if (query->answer)
		event_free(query->answer);
	query->answer = NULL;
	if (query->fd >= 0)
		close(query->fd);
	query->fd = -1;
	hvd_end(query->pid, 0, NULL);
	query->pid = 0;
	hvd_timer_stop(query->late);
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

static void tell(struct hvd_job_query *query)
{
	struct hvd_job_facts facts = {.left = -1};

	query->text[query->len] = '\0';
	if (query->text[0] == '?')
		tell_unknown(query, query->text + 1);
	else if (read_facts(query->text, &facts))
		query->fn(&facts, query->arg);
	else
		tell_unknown(query, "the scheduler does not say");
}

static void on_answer(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_job_query *query = arg;
	ssize_t n = read(fd, query->text + query->len, sizeof(query->text) - 1 - query->len);

	(void)what;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		query->len += (size_t)n;
	if (n > 0 && query->len < sizeof(query->text) - 1)
		return;
	reap(query);
	tell(query);
}

static void on_late(void *arg)
{
	struct hvd_job_query *query = arg;

	reap(query);
	tell_unknown(query, "the scheduler does not answer");
}

void hvd_job_query_ask(struct hvd_job_query *query)
{
	if (hvd_timer_runs(query->late))
		return;
	query->pid = hvd_call_begin(ask, query, &query->fd, NULL);
	query->len = 0;
	if (query->pid < 0) { /* no process can be started */
		hvd_timer_in_ms(query->late, 0);
		return;
	}
	query->answer = event_new(query->base, query->fd, EV_READ | EV_PERSIST, on_answer, query);
	event_add(query->answer, NULL);
	hvd_timer_in_ms(query->late, ANSWER_SECONDS * 1000);
}

/* ---- life ---- */

struct hvd_job_query *hvd_job_query_create(struct event_base *base, const struct hvd_batch_job *job,
					   hvd_job_facts_fn *fn, void *arg)
{
	struct hvd_job_query *query = hvd_xcalloc(1, sizeof(*query));

	*query = (struct hvd_job_query){.base = base, .job = *job, .fn = fn, .arg = arg, .fd = -1};
	query->late = hvd_timer_new(base, on_late, query);
	return query;
}

void hvd_job_query_destroy(struct hvd_job_query *query)
{
	if (!query)
		return;
	reap(query);
	hvd_timer_free(query->late);
	free(query);
}
