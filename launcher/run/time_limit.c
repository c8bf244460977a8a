/* SPDX-License-Identifier: Apache-2.0 */
/* time_limit.c - one timer, and one child process at a time that asks the scheduler, see time_limit.h. */
#include "time_limit.h"

#include "lib/base/deadline.h"
#include "lib/base/signals.h"
#include "lib/base/xalloc.h"
#include "lib/process/call.h"
#include "lib/process/spawn.h"
#include "lsf/lsf.h"
#include "slurm/slurm.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* Seconds between two questions. */
#define LEAST_WAIT 5.0
#define MOST_WAIT  300.0
/* What is due within so many seconds is done now. */
#define SOON 0.05
/* How long the scheduler may take to answer. */
#define ANSWER_SECONDS 30
/* A job without a limit ends, as Slurm has it, in a year. */
#define NO_LIMIT_SECONDS (300 * 86400.0)
/* Before the job's end, so that there is time to have it requeued. */
#define LAST_SECONDS 15.0

struct hvd_time_limit {
	struct event_base *base;
	const struct hvd_launch_spec *spec;
	const struct hvd_log *log;
	const struct hvd_time_limit_ops *ops;
	void *arg;
	struct hvd_requeue_wish *wish;
	uint32_t job;
	struct event *timer, *late, *answer;
	pid_t pid; /* of the child that asks; not above 0 = none */
	int fd;    /* what it writes; -1 = none */
	char text[256];
	size_t len;
	hvd_time ends; /* by the last answer; 0 = not known */
	bool announced, ended, said_none, said_error;
};

double hvd_time_limit_lsf(const char *text)
{
	char hours[8], minutes[4], after;
	int n = sscanf(text, " %5[0-9]:%2[0-9]%c", hours, minutes, &after);

	if (n < 2 || atoi(minutes) > 59 || (n == 3 && after != ' ' && after != '\n'))
		return -1;
	return atoi(hours) * 3600.0 + atoi(minutes) * 60.0;
}

/* ---- the child that asks ---- */

/* Write the seconds that are left, or "none", or "?" and why it is not known. */
static void ask_slurm(int out, uint32_t job)
{
	struct hvd_slurm_job info;
	struct hvd_err err = {0};

	if (hvd_slurm_job_get(job, &info, &err) != 0)
		dprintf(out, "?%s", err.msg);
	else if (info.ends == 0 || info.ends - info.now > NO_LIMIT_SECONDS)
		dprintf(out, "none");
	else
		dprintf(out, "%lld", (long long)(info.ends - info.now));
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
	const struct hvd_time_limit *limit = arg;

	if (limit->job)
		ask_slurm(out, limit->job);
	else
		ask_lsf(out);
}

static void reap(struct hvd_time_limit *limit)
{
	if (limit->answer)
		event_free(limit->answer);
	limit->answer = NULL;
	if (limit->fd >= 0)
		close(limit->fd);
	limit->fd = -1;
	hvd_end(limit->pid, 0, NULL);
	limit->pid = 0;
	evtimer_del(limit->late);
}

/* ---- the timer ---- */

static void look_in(struct hvd_time_limit *limit, double seconds)
{
	struct timeval tv = hvd_left_tv(hvd_deadline_in(seconds));

	evtimer_add(limit->timer, &tv);
}

/* The next point in time at which something is due: the signal, or the last word. Negative when that has passed. */
static double due_in(const struct hvd_time_limit *limit, double left)
{
	const double before = limit->spec->signal_ranks.seconds;

	if (!limit->announced)
		return left - before;
	return left - (before / 2 < LAST_SECONDS ? before / 2 : LAST_SECONDS);
}

static void announce(struct hvd_time_limit *limit, double left)
{
	const int sig = limit->spec->signal_ranks.signal;

	limit->announced = true;
	hvd_info(limit->log, "the job reaches its time limit in %.0f s: sending SIG%s to all ranks", left,
		 hvd_signal_name(sig));
	hvd_requeue_want(limit->wish, limit->spec, HVD_REQUEUE_LIMIT, NULL);
	limit->ops->signal_ranks(sig, limit->arg);
}

static void end_ranks(struct hvd_time_limit *limit, double left)
{
	limit->ended = true;
	if (!hvd_requeue_wanted(limit->wish, HVD_REQUEUE_LIMIT))
		return;
	hvd_info(limit->log, "the job reaches its time limit in %.0f s: ending the ranks, so that it can be requeued",
		 left);
	limit->ops->end(limit->arg);
}

/* What the last answer, or a former one, says. */
static void act(struct hvd_time_limit *limit)
{
	const double left = (double)(limit->ends - hvd_now()) / 1e9;
	double due = due_in(limit, left);

	if (due <= SOON && !limit->announced) {
		announce(limit, left);
		due = due_in(limit, left);
	}
	if (due <= SOON) {
		end_ranks(limit, left);
		return;
	}
	if (due > LEAST_WAIT)
		due = due / 4 > LEAST_WAIT ? due / 4 : LEAST_WAIT;
	look_in(limit, due < MOST_WAIT ? due : MOST_WAIT);
}

static void no_answer(struct hvd_time_limit *limit, const char *why)
{
	if (!limit->said_error)
		hvd_warn(limit->log, "cannot find out when the job reaches its time limit: %s", why);
	limit->said_error = true;
	if (limit->ended)
		return;
	if (limit->ends && due_in(limit, (double)(limit->ends - hvd_now()) / 1e9) <= SOON)
		act(limit);
	else
		look_in(limit, LEAST_WAIT);
}

static void no_limit(struct hvd_time_limit *limit)
{
	if (!limit->said_none)
		hvd_info(limit->log, "the job has no time limit: --signal-ranks has nothing to announce");
	limit->said_none = true;
	limit->ends = 0;
	look_in(limit, MOST_WAIT);
}

static void take_answer(struct hvd_time_limit *limit)
{
	char *text = limit->text, *end = text;
	double left;

	text[limit->len] = '\0';
	if (limit->job)
		left = strtod(text, &end);
	else if ((left = hvd_time_limit_lsf(text)) >= 0)
		end++;
	if (end != text) {
		limit->ends = hvd_now() + (hvd_time)(left * 1e9);
		act(limit);
	} else if (text[strspn(text, " ")] == '-' || strcmp(text, "none") == 0) {
		no_limit(limit);
	} else {
		no_answer(limit, *text == '?' ? text + 1 : "the scheduler does not say");
	}
}

static void on_answer(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_time_limit *limit = arg;
	ssize_t n = read(fd, limit->text + limit->len, sizeof(limit->text) - 1 - limit->len);

	(void)what;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		limit->len += (size_t)n;
	if (n > 0 && limit->len < sizeof(limit->text) - 1)
		return;
	reap(limit);
	take_answer(limit);
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_time_limit *limit = arg;

	(void)fd;
	(void)what;
	reap(limit);
	no_answer(limit, "the scheduler does not answer");
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_time_limit *limit = arg;
	struct hvd_err err = {0};

	(void)fd;
	(void)what;
	limit->pid = hvd_call_begin(ask, limit, &limit->fd, &err);
	if (limit->pid < 0) {
		no_answer(limit, err.msg);
		return;
	}
	limit->len = 0;
	limit->answer = event_new(limit->base, limit->fd, EV_READ | EV_PERSIST, on_answer, limit);
	event_add(limit->answer, NULL);
	evtimer_add(limit->late, &(struct timeval){.tv_sec = ANSWER_SECONDS});
}

struct hvd_time_limit *hvd_time_limit_watch(struct event_base *base, const struct hvd_launch_spec *spec,
					    struct hvd_requeue_wish *wish, const struct hvd_time_limit_ops *ops,
					    void *arg, const struct hvd_log *log)
{
	const uint32_t job = hvd_requeue_job(spec, wish->job);
	struct hvd_time_limit *limit;

	if (!spec->signal_ranks.signal)
		return NULL;
	if (!job && !hvd_alloc_in_lsf(environ)) {
		hvd_warn(log, "--signal-ranks: this launch is not part of a job that has a time limit");
		return NULL;
	}
	limit = hvd_xcalloc(1, sizeof(*limit));
	*limit = (struct hvd_time_limit){
		.base = base, .spec = spec, .log = log, .ops = ops, .arg = arg, .wish = wish, .job = job, .fd = -1};
	limit->timer = evtimer_new(base, on_timer, limit);
	limit->late = evtimer_new(base, on_late, limit);
	look_in(limit, 0);
	return limit;
}

void hvd_time_limit_destroy(struct hvd_time_limit *limit)
{
	if (!limit)
		return;
	reap(limit);
	event_free(limit->timer);
	event_free(limit->late);
	free(limit);
}
