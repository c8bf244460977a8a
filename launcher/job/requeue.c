/* SPDX-License-Identifier: Apache-2.0 */
#include "requeue.h"

#include "launcher/scheduler/scheduler.h"
#include "lib/base/deadline.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How long Slurm may take to end a process of a job that it has requeued. */
#define END_SECONDS  10
#define KILL_SECONDS 2
/* How long the scheduler may take to answer. */
#define ASK_SECONDS 70.0
/* Hosts that a job can be kept away from. */
#define MOST_BAD 256

static const char *reason_text(enum hvd_requeue_reason reason)
{
	static const char *const texts[] = {
		[HVD_REQUEUE_LIMIT] = "its time limit",        [HVD_REQUEUE_NODE] = "a failed host",
		[HVD_REQUEUE_PREEMPT] = "it is preempted",     [HVD_REQUEUE_ASK] = "a rank asks for it",
		[HVD_REQUEUE_HANG] = "no rank makes progress",
	};

	return texts[reason];
}

/* With the role, if it is that of one. */
static const char *reason_of(const struct hvd_requeue_wish *wish, enum hvd_requeue_reason reason, char buf[128])
{
	const bool hung = reason == HVD_REQUEUE_HANG && *wish->role;

	snprintf(buf, 128, "%s%s%s", reason_text(reason), hung ? ", role " : "", hung ? wish->role : "");
	return buf;
}

static bool wanted(const struct hvd_launch_spec *spec, enum hvd_requeue_reason reason)
{
	return (spec->requeue_on & 1U << reason) != 0;
}

/* The user's HVD_REQUEUE_FILE, if it is there and the user's own; else NULL. */
static const char *own_file(void)
{
	const char *path = getenv("HVD_REQUEUE_FILE");
	struct stat st;

	if (!path || !*path || lstat(path, &st) != 0)
		return NULL;
	return S_ISREG(st.st_mode) && st.st_uid == geteuid() ? path : NULL;
}

void hvd_requeue_begin(const struct hvd_launch_spec *spec, uint32_t number, const struct hvd_log *log)
{
	const char *file = spec->requeue_on ? own_file() : NULL;
	const struct hvd_batch_job job = hvd_batch_job_of(spec, number);
	const long cycle = job.scheduler->restarts ? job.scheduler->restarts(&job) : 0;

	if (cycle > 0)
		hvd_info(log, "this is restart %ld of job %s", cycle, job.name);
	if (file && unlink(file) == 0)
		hvd_verbose(log, "removed %s, which an earlier launch left behind", file);
}

void hvd_requeue_avoid(struct hvd_requeue_wish *wish, const char *host, const char *why)
{
	if (wish->bad.n < MOST_BAD && !hvd_env_get(&wish->bad, host))
		hvd_env_set(&wish->bad, host, why);
}

void hvd_requeue_allow(struct hvd_requeue_wish *wish, const char *host)
{
	hvd_env_unset(&wish->bad, host);
}

void hvd_requeue_clear(struct hvd_requeue_wish *wish)
{
	hvd_strv_free(&wish->bad);
	*wish = (struct hvd_requeue_wish){0};
}

void hvd_requeue_want(struct hvd_requeue_wish *wish, const struct hvd_launch_spec *spec, enum hvd_requeue_reason reason,
		      const char *host)
{
	if (!wanted(spec, reason))
		return;
	wish->reasons |= 1U << reason;
	if (host)
		hvd_requeue_avoid(wish, host, "it has failed");
}

bool hvd_requeue_wanted(const struct hvd_requeue_wish *wish, enum hvd_requeue_reason reason)
{
	return (wish->reasons & 1U << reason) != 0;
}

bool hvd_requeue_leaving(const struct hvd_requeue_wish *wish)
{
	return wish->preempted || hvd_requeue_wanted(wish, HVD_REQUEUE_LIMIT) ||
	       hvd_requeue_wanted(wish, HVD_REQUEUE_ASK);
}

void hvd_requeue_unwant(struct hvd_requeue_wish *wish, enum hvd_requeue_reason reason)
{
	wish->reasons &= ~(1U << reason);
}

void hvd_requeue_rank_ended(struct hvd_requeue_wish *wish, const struct hvd_launch_spec *spec, int status)
{
	wish->signalled |= status != 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == HVD_REQUEUE_STATUS)
		hvd_requeue_want(wish, spec, HVD_REQUEUE_ASK, NULL);
}

/* Returns as struct hvd_scheduler has it. */
static int requeue(const struct hvd_batch_job *job, const struct hvd_requeue_wish *wish, enum hvd_requeue_reason reason,
		   const struct hvd_log *log, struct hvd_err *err)
{
	const char *host = reason == HVD_REQUEUE_NODE && wish->bad.n ? wish->bad.v[0] : "";
	struct hvd_requeue_order order = {.bad = &wish->bad, .preempted = reason == HVD_REQUEUE_PREEMPT};
	char why[320], what[128];

	if (!job->scheduler->requeue) {
		hvd_err_set(err, HVD_E_FAILED, "this launch is not part of a batch job, so nothing can be requeued");
		return hvd_err_hint(err, "--requeue-on is for jobs that were submitted with sbatch or bsub");
	}
	snprintf(why, sizeof(why), "%s%s%.*s", reason_of(wish, reason, what), *host ? ", " : "",
		 (int)strcspn(host, "="), host);
	order.why = why;
	return job->scheduler->requeue(job, &order, log, err);
}

/* ---- the end ---- */

static bool preempted(const struct hvd_batch_job *job)
{
	struct hvd_job_facts facts;

	return job->scheduler->reports_state &&
	       hvd_batch_job_facts(job, &facts, hvd_deadline_in(ASK_SECONDS), NULL) == 0 && facts.preempted;
}

/* As soon as Slurm requeues the job it ends this process, which has more to tell it. */
static void block_end(sigset_t *ends)
{
	sigemptyset(ends);
	sigaddset(ends, SIGTERM);
	sigprocmask(SIG_BLOCK, ends, NULL);
}

/* Wait until the scheduler kills this process: it sends SIGTERM to the processes of a job one after the other, and the
 * batch script may be the last one. */
static void await_end(const sigset_t *ends)
{
	const struct timespec most = {.tv_sec = END_SECONDS};

	if (sigtimedwait(ends, NULL, &most) == SIGTERM)
		sleep(KILL_SECONDS);
}

/* Requeue the job if there is a reason; the status to end with. *requeued: its scheduler is about to end it. */
static int maybe_requeue(const struct hvd_launch_spec *spec, const struct hvd_requeue_wish *wish, int status,
			 struct hvd_event_log *events, const struct hvd_log *log, sigset_t *ends, bool *requeued)
{
	const char *file = spec->requeue_on ? own_file() : NULL;
	const struct hvd_batch_job job = hvd_batch_job_of(spec, wish->job);
	unsigned reasons = wish->reasons;
	struct hvd_err err = {0};
	int reason = 0, rc;
	char what[128];

	if (file && wanted(spec, HVD_REQUEUE_ASK) && unlink(file) == 0)
		reasons |= 1U << HVD_REQUEUE_ASK;
	if (!reasons && wanted(spec, HVD_REQUEUE_PREEMPT) && (status != 0 || wish->signalled) && preempted(&job))
		reasons |= 1U << HVD_REQUEUE_PREEMPT;
	if (!reasons)
		return status;
	while (!(reasons & 1U << reason))
		reason++;
	block_end(ends);
	rc = requeue(&job, wish, (enum hvd_requeue_reason)reason, log, &err);
	if (rc < 0)
		hvd_log_err(log, &err);
	*requeued = rc > 0;
	if (*requeued)
		hvd_event(events, REQUEUE, .job = job.number,
			  .why = reason_of(wish, (enum hvd_requeue_reason)reason, what));
	return rc >= 0 && status == 0 ? HVD_REQUEUE_STATUS : status;
}

int hvd_requeue_at_end(const struct hvd_launch_spec *spec, const struct hvd_requeue_wish *wish, int status, int seen,
		       struct hvd_event_log *events, const struct hvd_log *log)
{
	bool requeued = false;
	sigset_t ends;
	int with = maybe_requeue(spec, wish, status, events, log, &ends, &requeued);

	hvd_event(events, LAUNCH_ENDED, .status = with == status ? seen : with);
	if (requeued)
		await_end(&ends);
	return with;
}
