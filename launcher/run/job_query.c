/* SPDX-License-Identifier: Apache-2.0 */
#include "job_query.h"

#include "lib/base/cleanup.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/call.h"
#include "lib/process/spawn.h"
#include "lsf/lsf.h"
#include "slurm/slurm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* How long the scheduler may take to answer. */
#define ANSWER_SECONDS 30
/* A job without a limit ends, as Slurm has it, in a year. */
#define NO_LIMIT_SECONDS (300 * INT64_C(86400))

struct hvd_job_query {
	uint32_t job;
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

double hvd_job_query_lsf(const char *text)
{
	char hours[8], minutes[4], after;
	int n = sscanf(text, " %5[0-9]:%2[0-9]%c", hours, minutes, &after);

	if (n < 2 || atoi(minutes) > 59 || (n == 3 && after != ' ' && after != '\n'))
		return -1;
	return atoi(hours) * 3600.0 + atoi(minutes) * 60.0;
}

/* ---- the child that asks ---- */

/* Write the seconds that are left, three flags and the fate; or "?" and why that is not known. */
static void ask_slurm(int out, uint32_t job)
{
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job info = {0};
	struct hvd_err err = {0};
	int64_t left = -1;

	if (hvd_slurm_job_get(job, &info, hvd_deadline_in(ANSWER_SECONDS), &err) != 0) {
		if (err.code == HVD_E_NOENT)
			dprintf(out, "-1 0 0 1 is not known to Slurm any longer");
		else
			dprintf(out, "?%s", err.msg);
		return;
	}
	if (info.ends > 0 && info.ends - info.now <= NO_LIMIT_SECONDS)
		left = info.ends > info.now ? info.ends - info.now : 0;
	dprintf(out, "%lld %d %d %d %s", (long long)left, info.paused, info.preempted, info.state != HVD_SLURM_RUNNING,
		info.fate                         ? info.fate
		: info.state == HVD_SLURM_PENDING ? "was requeued"
						  : "");
}

static void ask_lsf(int out)
{
	char *name = hvd_lsf_job_name(environ);

	dup2(out, STDOUT_FILENO);
	execlp("bjobs", "bjobs", "-noheader", "-o", "time_left", name, (char *)NULL);
	dprintf(out, "?bjobs cannot be started");
	free(name);
}

static void ask(int out, void *arg)
{
	const struct hvd_job_query *query = arg;

	if (query->job)
		ask_slurm(out, query->job);
	else
		ask_lsf(out);
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

static bool read_slurm(const char *text, struct hvd_job_facts *facts)
{
	int paused, preempted, over, at = 0;

	if (sscanf(text, "%lf %d %d %d %n", &facts->left, &paused, &preempted, &over, &at) != 4 || at == 0)
		return false;
	facts->paused = paused != 0;
	facts->preempted = preempted != 0;
	facts->over = over != 0;
	facts->fate = text[at] ? text + at : NULL;
	return true;
}

/* bjobs prints "-" for a job without a limit. */
static bool read_lsf(const char *text, struct hvd_job_facts *facts)
{
	facts->left = hvd_job_query_lsf(text);
	return facts->left >= 0 || text[strspn(text, " ")] == '-';
}

static void tell(struct hvd_job_query *query)
{
	struct hvd_job_facts facts = {.left = -1};

	query->text[query->len] = '\0';
	if (query->text[0] == '?')
		tell_unknown(query, query->text + 1);
	else if (query->job ? read_slurm(query->text, &facts) : read_lsf(query->text, &facts))
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

struct hvd_job_query *hvd_job_query_create(struct event_base *base, uint32_t job, hvd_job_facts_fn *fn, void *arg)
{
	struct hvd_job_query *query = hvd_xcalloc(1, sizeof(*query));

	*query = (struct hvd_job_query){.base = base, .job = job, .fn = fn, .arg = arg, .fd = -1};
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
