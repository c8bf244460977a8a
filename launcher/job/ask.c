/* SPDX-License-Identifier: Apache-2.0 */
#include "ask.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* How long the scheduler may take to answer about the job. */
#define FACTS_SECONDS 30

struct hvd_ask {
	struct event_base *base;
	hvd_call_fn *ask;
	void *ask_arg;
	int seconds;
	void (*answered)(const char *answer, void *arg);
	void *arg;
	struct hvd_timer *late;
	struct event *answer;
	pid_t pid; /* of the child that asks; not above 0 = none */
	int fd;    /* what it writes; -1 = none */
	char text[HVD_ASK_MAX + 1];
	size_t len;
};

static void reap(struct hvd_ask *ask)
{
	if (ask->answer)
		event_free(ask->answer);
	ask->answer = NULL;
	if (ask->fd >= 0)
		close(ask->fd);
	ask->fd = -1;
	hvd_end(ask->pid, 0, NULL);
	ask->pid = 0;
	hvd_timer_stop(ask->late);
}

static void on_answer(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_ask *ask = arg;
	ssize_t n = read(fd, ask->text + ask->len, HVD_ASK_MAX - ask->len);

	(void)what;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		ask->len += (size_t)n;
	if (n > 0 && ask->len < HVD_ASK_MAX)
		return;
	reap(ask);
	ask->text[ask->len] = '\0';
	ask->answered(ask->text, ask->arg);
}

static void on_late(void *arg)
{
	struct hvd_ask *ask = arg;

	reap(ask);
	ask->answered(NULL, ask->arg);
}

void hvd_ask_now(struct hvd_ask *ask)
{
	if (hvd_timer_runs(ask->late))
		return;
	ask->pid = hvd_call_begin(ask->ask, ask->ask_arg, &ask->fd, NULL);
	ask->len = 0;
	if (ask->pid < 0) { /* no process can be started */
		hvd_timer_in_ms(ask->late, 0);
		return;
	}
	ask->answer = event_new(ask->base, ask->fd, EV_READ | EV_PERSIST, on_answer, ask);
	event_add(ask->answer, NULL);
	hvd_timer_in_ms(ask->late, ask->seconds * 1000);
}

struct hvd_ask *hvd_ask_create(struct event_base *base, hvd_call_fn *ask, void *ask_arg, int seconds,
			       void (*answered)(const char *answer, void *arg), void *arg)
{
	struct hvd_ask *made = hvd_xcalloc(1, sizeof(*made));

	*made = (struct hvd_ask){.base = base,
				 .ask = ask,
				 .ask_arg = ask_arg,
				 .seconds = seconds,
				 .answered = answered,
				 .arg = arg,
				 .fd = -1};
	made->late = hvd_timer_new(base, on_late, made);
	return made;
}

void hvd_ask_destroy(struct hvd_ask *ask)
{
	if (!ask)
		return;
	reap(ask);
	hvd_timer_free(ask->late);
	free(ask);
}

/* ---- about the batch job ---- */

struct hvd_job_query {
	struct hvd_batch_job job;
	hvd_job_facts_fn *fn;
	void *arg;
	struct hvd_ask *ask;
	bool awaited, again; /* an answer is; somebody has asked meanwhile */
};

/* Write the seconds that are left, four flags and the fate; or "?" and why that is not known. */
static void ask_facts(int out, void *arg)
{
	const struct hvd_job_query *query = arg;
	struct hvd_job_facts facts;
	struct hvd_err err = {0};
	int rc = hvd_batch_job_facts(&query->job, &facts, hvd_deadline_in(FACTS_SECONDS), &err);

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

static void on_facts(const char *answer, void *arg)
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

struct hvd_job_query *hvd_job_query_create(struct event_base *base, const struct hvd_batch_job *job,
					   hvd_job_facts_fn *fn, void *arg)
{
	struct hvd_job_query *query = hvd_xcalloc(1, sizeof(*query));

	*query = (struct hvd_job_query){.job = *job, .fn = fn, .arg = arg};
	query->ask = hvd_ask_create(base, ask_facts, query, FACTS_SECONDS, on_facts, query);
	return query;
}

void hvd_job_query_destroy(struct hvd_job_query *query)
{
	if (!query)
		return;
	hvd_ask_destroy(query->ask);
	free(query);
}
