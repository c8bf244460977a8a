/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_exits.c - what follows from the end of a rank.
 *
 * A failure is none, or not yet, in these cases:
 *   - The policy, the job's end, or a signal of the user's has ended the rank.
 *   - Its agent has ended it without being told to, since what had started the agent has gone, or is ending it. The
 *     reason may be on its way, and only when it does not come in time the end counts.
 *   - The job may be about to be preempted: then the scheduler is asked first, and the end is held meanwhile.
 *   - The job is preempted, or its ranks were told of the time limit: they end one after the other (draining.h).
 * What is left is for the policy to decide. In a static job the first failure ends the others.
 */
#include "job.h"

#include "launcher/start/procs.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long it may take until it is seen here why an agent has ended its ranks. */
#define UNREQUESTED_SECONDS 1

/* ---- the first failure of a static job ---- */

static void rank_failed(struct hvd_job *job, const struct hvd_rank_exit *failed)
{
	struct hvd_result *result = job->result;
	char text[64];

	job->ranks_failed = result->rank_failed = true;
	result->rank = failed->rank;
	result->rank_status = failed->status;
	result->status = hvd_status_exit(failed->status);
	snprintf(result->host, sizeof(result->host), "%s", failed->host);
	hvd_error(job->log, "rank %u on %s failed: %s; %s", failed->rank, failed->host,
		  hvd_status_text(failed->status, text, sizeof(text)),
		  job->spec->keep_going ? "the others go on (--keep-going)" : "ending the other ranks");
	if (job->spec->keep_going)
		return;
	if (job->starter->agents_end_ranks)
		hvd_job_handle(job, HVD_JOB_CANNOT_GO_ON);
	else if (job->starter->failure_seconds)
		hvd_timer_in_ms(job->grace, job->starter->failure_seconds * 1000);
}

/* ---- every rank's end ---- */

/* Is it one of those that end one after the other? */
static bool drains(struct hvd_job *job, const struct hvd_rank_exit *exited)
{
	const struct hvd_job_policy_ops *ops = job->policy->ops;

	if (!hvd_draining(&job->draining))
		return false;
	if (ops->running)
		hvd_draining_exited(&job->draining, ops->running(job->policy), exited->status);
	return true;
}

static void settle(struct hvd_job *job, const struct hvd_rank_exit *exited)
{
	const struct hvd_job_policy_ops *ops = job->policy->ops;
	bool failed = exited->status != 0 && !exited->told && !job->ending &&
		      (ops->rank_ended || (exited->first && !job->result->rank_failed));
	char text[64];

	if (drains(job, exited))
		return;
	if (failed)
		hvd_event(job->events, GENERATION_FAILED, .world = exited->world, .rank = exited->rank,
			  .host = exited->host, .how = hvd_status_text(exited->status, text, sizeof(text)),
			  .error = exited->error);
	if (ops->rank_ended)
		ops->rank_ended(job->policy, exited);
	else if (failed && !job->starter->judges_failures)
		rank_failed(job, exited);
	if (failed && job->starter->ends_after_failure)
		hvd_job_handle(job, HVD_JOB_CANNOT_GO_ON);
}

static void hold(struct hvd_job *job, const struct hvd_rank_exit *exited)
{
	job->held = hvd_xrealloc(job->held, job->n_held + 1, sizeof(*job->held));
	job->held[job->n_held] = *exited;
	if (exited->error)
		job->held[job->n_held].error = hvd_xstrdup(exited->error);
	job->n_held++;
}

static void release(struct hvd_job *job)
{
	hvd_cleanup_free struct hvd_rank_exit *held = job->held;
	const size_t n = job->n_held;

	if (job->asking || hvd_timer_runs(job->late))
		return;
	job->held = NULL;
	job->n_held = 0;
	for (size_t i = 0; i < n; i++) {
		settle(job, &held[i]);
		free(held[i].error);
	}
}

static void on_unrequested_late(void *arg)
{
	release(arg);
}

/* In a job that is being preempted the other ranks go on. */
void hvd_job_terminated(void *arg)
{
	struct hvd_job *job = arg;

	job->asking |= !job->ending && hvd_job_watch_ask(job->watch);
}

void hvd_rank_exits_answered(struct hvd_job *job)
{
	job->asking = false;
	release(job);
}

/* Slurm ends the ranks of a job that it preempts by SIGTERM. */
static bool may_be_preempted(const struct hvd_job *job, const struct hvd_rank_exit *exited)
{
	return (exited->first && job->starter->ends_after_failure) ||
	       (job->policy->in_slurm_job && !exited->told && hvd_status_exit(exited->status) == 128 + SIGTERM &&
		!hvd_draining(&job->draining));
}

void hvd_job_rank_ended(struct hvd_job *job, unsigned world, const struct hvd_rank_end *end, uint32_t id,
			const char *host, bool told)
{
	const struct hvd_starter *starter = job->starter;
	const bool failed = end->status != 0 && !told && !job->ending;
	struct hvd_rank_exit exited = {.world = world,
				       .id = id,
				       .rank = end->rank,
				       .status = end->status,
				       .told = told,
				       .first = failed && !job->result->rank_failed && !job->ends_expected,
				       .error = end->error};

	snprintf(exited.host, sizeof(exited.host), "%s", host);
	hvd_failure_report_add(hvd_failures_now(&job->failures[world]), end, host);
	hvd_event_log_rank_ended(job->events, world, end, end->rank, host);
	hvd_requeue_rank_ended(&job->result->requeue, job->spec, end->status);
	if (exited.first && starter->ops->interrupts && hvd_rank_end_cancelled(end) &&
	    starter->ops->interrupts(job->starter))
		exited.first = false;
	if (exited.first && end->cause == HVD_END_WITH_ALL && starter->agents_start_ranks) {
		/* Its process here is about to end, and is not to be taken for one whose ranks have ended by themselves. */
		if (!hvd_timer_runs(job->late))
			hvd_timer_in_ms(job->late, UNREQUESTED_SECONDS * 1000);
		hold(job, &exited);
		return;
	}
	if (starter->procs && !job->policy->hosts_change)
		hvd_procs_rank_ended(starter->procs, host);
	/* The caller of a function wants to know which of its ranks have failed by themselves, also while they were told to
	 * end. */
	if (job->opts.func && world == 0 && (failed || (told && end->status != 0 && end->error)))
		hvd_runfunc_failed(job->opts.func, end->rank, host, end->status);
	if (may_be_preempted(job, &exited))
		hvd_job_terminated(job);
	if (job->asking && !told)
		hold(job, &exited);
	else
		settle(job, &exited);
}

/* ---- life ---- */

static void on_drained(int status, void *arg)
{
	static const struct hvd_err none = {0};

	hvd_job_end(arg, &none, status);
}

void hvd_rank_exits_init(struct hvd_job *job)
{
	job->late = hvd_timer_new(job->opts.base, on_unrequested_late, job);
	job->draining = (struct hvd_draining){.wish = &job->result->requeue,
					      .restarts = job->policy->ops->rank_ended != NULL,
					      .over = on_drained,
					      .arg = job};
	hvd_draining_init(&job->draining, job->opts.base);
}

void hvd_rank_exits_clear(struct hvd_job *job)
{
	hvd_draining_clear(&job->draining);
	hvd_timer_free(job->late);
	for (size_t i = 0; i < job->n_held; i++)
		free(job->held[i].error);
	free(job->held);
}
