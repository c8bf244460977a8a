/* SPDX-License-Identifier: Apache-2.0 */
#include "job_watch.h"

#include "job.h"
#include "launcher/diagnosis/control.h"
#include "launcher/diagnosis/hang_watch.h"
#include "launcher/scheduler/scheduler.h"
#include "lib/base/cleanup.h"
#include "lib/base/deadline.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/host/rank_name.h"
#include "node_down.h"
#include "stacks_question.h"
#include "status.h"
#include "time_limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

#define LOST_HOST_SECONDS 3

struct hvd_job_watch {
	struct hvd_job *job;
	const struct hvd_job_watch_ops *ops;
	struct hvd_stacks_question *stacks;
	struct hvd_control_question questions[3];
	struct hvd_control *control; /* NULL: the launch cannot be asked from outside */
	struct hvd_hang_watch *hangs[HVD_MAX_WORLDS];
	unsigned n_hangs;
	struct hvd_time_limit *limit;
	struct hvd_node_down *down;
	struct hvd_job_query *query; /* NULL: there is no scheduler to ask */
	bool reports_state;          /* it reports more than time */
	bool started;
	struct hvd_timer *host_lost; /* pending: `host` may be lost */
	char host[256];
	hvd_time at; /* when its connection ended */
};

static bool ending(const struct hvd_job_watch *watch)
{
	return hvd_job_is_over(watch->job) || watch->job->ending;
}

/* ---- hosts ---- */

static void lose(struct hvd_job_watch *watch, const char *how)
{
	if (!ending(watch) && !watch->job->policy->hosts_change)
		hvd_requeue_want(&watch->job->result->requeue, watch->job->spec, HVD_REQUEUE_NODE, watch->host);
	watch->job->policy->ops->host_lost(watch->job->policy, watch->host, how);
}

void hvd_job_watch_unkillable(struct hvd_job_watch *watch, const struct hvd_unkillable *what, const char *role,
			      int rank, const char *host)
{
	char name[HVD_RANK_NAME];
	hvd_cleanup_free char *text = hvd_unkillable_text(what, rank);
	hvd_cleanup_free char *why = hvd_xasprintf("%sits rank %s cannot be killed", what->left ? "a process of " : "",
						   hvd_rank_name_text(role, rank, name));

	hvd_warn(watch->job->log, "%s: %s%s%s", host, role ? role : "", role ? ": " : "", text);
	hvd_info(watch->job->log, "%s", HVD_UNKILLABLE_HINT);
	hvd_requeue_avoid(&watch->job->result->requeue, host, why);
}

static void on_host_lost(void *arg)
{
	lose(arg, "");
}

void hvd_job_watch_host_gone(struct hvd_job_watch *watch, const char *host, const struct hvd_err *why)
{
	/* What the kernel says is one to users. A reason that is not the kernel's has a hint, too. */
	hvd_cleanup_free char *how = hvd_xasprintf(": %s", why->hint[0] ? why->msg : "the host does not answer");

	if (hvd_timer_runs(watch->host_lost))
		return;
	snprintf(watch->host, sizeof(watch->host), "%s", host);
	watch->at = hvd_now();
	if (why->code == HVD_E_TIMEOUT)
		lose(watch, how);
	else
		hvd_timer_in_ms(watch->host_lost, LOST_HOST_SECONDS * 1000);
}

/* A watchdog of the host reports it, so the host is up. */
bool hvd_job_watch_process_lost(struct hvd_job_watch *watch, const struct hvd_loss *loss)
{
	if (loss->status < 0 || strcmp(loss->host, watch->host) != 0)
		return false;
	hvd_timer_stop(watch->host_lost);
	return true;
}

static void on_down(const char *host, void *arg)
{
	struct hvd_job_watch *watch = arg;

	hvd_timer_stop(watch->host_lost);
	snprintf(watch->host, sizeof(watch->host), "%s", host);
	lose(watch, ": Slurm has given up the node");
}

bool hvd_job_watch_settle(struct hvd_job_watch *watch)
{
	bool pending = hvd_timer_runs(watch->host_lost);

	hvd_timer_stop(watch->host_lost);
	return pending;
}

const char *hvd_job_watch_settled_host(const struct hvd_job_watch *watch, hvd_time *at)
{
	*at = watch->at;
	return watch->host;
}

void hvd_job_watch_lose(struct hvd_job_watch *watch)
{
	lose(watch, "");
}

void hvd_job_watch_ask_slurm(struct hvd_job_watch *watch)
{
	if (watch->down)
		hvd_node_down_ask(watch->down);
}

void hvd_job_watch_ask_of_all(struct hvd_job_watch *watch)
{
	if (watch->down)
		hvd_node_down_ask_of_all(watch->down);
}

int hvd_job_watch_lost_error(struct hvd_err *err, const char *host, const char *how, const char *then, bool slurm)
{
	const struct hvd_scheduler *scheduler = slurm ? &hvd_scheduler_slurm : hvd_scheduler_of(environ);

	hvd_err_set(err, HVD_E_NET, "the connection to its node agent was lost%s; %s", how, then);
	hvd_err_hint(err, "did the host fail or freeze, or was it taken away? (%s %s)", scheduler->host_command, host);
	return hvd_err_host(err, host);
}

/* ---- hangs and the time limit ---- */

static void on_hang_end(const struct hvd_err *why, bool requeue, const char *role, void *arg)
{
	struct hvd_job_watch *watch = arg;
	struct hvd_requeue_wish *wish = &watch->job->result->requeue;

	if (ending(watch))
		return;
	if (requeue)
		hvd_requeue_want(wish, watch->job->spec, HVD_REQUEUE_HANG, NULL);
	snprintf(wish->role, sizeof(wish->role), "%s", role ? role : "");
	watch->ops->end(why, watch->job);
}

void hvd_job_watch_stalled(struct hvd_job_watch *watch, unsigned world, const struct hvd_stall *stall)
{
	if (!ending(watch))
		hvd_hang_watch_stalled(watch->hangs[world], stall);
}

static void suspended(struct hvd_job_watch *watch, bool suspended)
{
	for (unsigned w = 0; w < watch->n_hangs; w++)
		hvd_hang_watch_suspended(watch->hangs[w], suspended);
}

static void on_limit_end(void *arg)
{
	struct hvd_job_watch *watch = arg;

	if (!ending(watch))
		watch->ops->end(NULL, watch->job);
}

static void on_limit_signal(int sig, void *arg)
{
	struct hvd_job_watch *watch = arg;

	watch->ops->signal_ranks(sig, watch->job);
}

/* ---- what Slurm says of the job ---- */

static void on_facts(const struct hvd_job_facts *facts, void *arg)
{
	struct hvd_job_watch *watch = arg;

	if (facts->preempted && !watch->job->result->requeue.preempted)
		hvd_info(watch->job->log, "the job is preempted, and ends in %.0f s", facts->left);
	watch->job->result->requeue.preempted |= facts->preempted;
	hvd_time_limit_facts(watch->limit, facts);
	if (!watch->reports_state)
		return;
	suspended(watch, facts->paused);
	if (watch->ops->facts)
		watch->ops->facts(facts, watch->job);
}

bool hvd_job_watch_ask(struct hvd_job_watch *watch)
{
	if (watch->query)
		hvd_job_query_ask(watch->query);
	return watch->reports_state;
}

static void on_limit_ask(void *arg)
{
	hvd_job_watch_ask(arg);
}

static void on_hang_ask(void *arg)
{
	struct hvd_job_watch *watch = arg;

	if (!hvd_job_watch_ask(watch))
		suspended(watch, false);
}

/* ---- questions from outside ---- */

static void ask_status(void *owner, double seconds, const char *rank, void (*done)(char *answer, void *arg), void *arg)
{
	(void)seconds;
	hvd_job_status_ask(owner, rank, done, arg);
}

static void forget_status(void *owner)
{
	hvd_job_status_forget(owner);
}

/* ---- life ---- */

void hvd_job_watch_started(struct hvd_job_watch *watch)
{
	static const struct hvd_time_limit_ops ops = {on_limit_ask, on_limit_signal, on_limit_end};
	const struct hvd_job *job = watch->job;

	if (watch->started)
		return;
	watch->started = true;
	watch->limit = hvd_time_limit_watch(job->opts.base, job->spec, &job->result->requeue, &ops, watch, job->log);
	if (job->starter->ask_slurm)
		watch->down = hvd_node_down_watch(job->opts.base, job->policy, on_down, watch);
}

/* Of the next world. NULL: where its ranks are cannot be asked. */
static void watch_hangs(struct hvd_job_watch *watch, const struct hvd_world *world)
{
	const struct hvd_job *job = watch->job;
	const unsigned number = watch->n_hangs++;

	watch->hangs[number] =
		hvd_hang_watch_create(job->opts.base, number, world ? hvd_world_stacks(world) : NULL,
				      world ? hvd_world_spec(world) : job->spec, on_hang_end, on_hang_ask, watch,
				      job->events, world ? hvd_world_log(world) : job->log);
}

struct hvd_job_watch *hvd_job_watch_create(struct hvd_job *job, const struct hvd_job_watch_ops *ops)
{
	struct hvd_job_watch *watch = hvd_xcalloc(1, sizeof(*watch));
	const struct hvd_batch_job batch = hvd_batch_job_of(job->spec, job->result->requeue.job);
	struct event_base *base = job->opts.base;

	watch->job = job;
	watch->ops = ops;
	watch->stacks = hvd_stacks_question_create(job->worlds, job->n_worlds);
	watch->query = batch.scheduler->facts ? hvd_job_query_create(base, &batch, on_facts, watch) : NULL;
	watch->reports_state = batch.scheduler->reports_state;
	watch->questions[0] = (struct hvd_control_question){"stacks", hvd_stacks_question_ask,
							    hvd_stacks_question_forget, watch->stacks};
	watch->questions[1] = (struct hvd_control_question){"status", ask_status, forget_status, job->status};
	watch->control = hvd_control_open(base, job->opts.control, job->opts.pid, watch->questions);
	for (unsigned w = 0; w == 0 || w < job->n_worlds; w++)
		watch_hangs(watch, job->worlds[w]);
	watch->host_lost = hvd_timer_new(base, on_host_lost, watch);
	return watch;
}

void hvd_job_watch_destroy(struct hvd_job_watch *watch)
{
	if (!watch)
		return;
	hvd_time_limit_destroy(watch->limit);
	hvd_job_query_destroy(watch->query);
	hvd_node_down_destroy(watch->down);
	hvd_control_close(watch->control);
	for (unsigned w = 0; w < watch->n_hangs; w++)
		hvd_hang_watch_destroy(watch->hangs[w]);
	hvd_stacks_question_destroy(watch->stacks);
	hvd_timer_free(watch->host_lost);
	free(watch);
}
