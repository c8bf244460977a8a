/* SPDX-License-Identifier: Apache-2.0 */
/* scheduler_slurm.c - Slurm as a row of the table (scheduler.h), which asks it by slurm/slurm.h. */
#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"
#include "scheduler.h"
#include "slurm/alloc_slurm.h"
#include "slurm/slurm.h"
#include "slurm/slurm_step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A job without a limit ends, as Slurm has it, in a year. */
#define NO_LIMIT_SECONDS (300 * INT64_C(86400))

static hvd_time patience(void)
{
	return hvd_deadline_in(HVD_SLURM_SECONDS);
}

static bool find(const char *given, char *const *envp, struct hvd_batch_job *job)
{
	const char *text = given ? given : hvd_envp_get(envp, "SLURM_JOB_ID");

	job->number = text ? (uint32_t)strtoul(text, NULL, 10) : 0;
	snprintf(job->name, sizeof(job->name), "%u", (unsigned)job->number);
	return job->number != 0;
}

static int hosts(char *const *envp, int slots_per_host, struct hvd_alloc *out, struct hvd_lsf *facts,
		 struct hvd_err *err)
{
	(void)facts;
	return hvd_alloc_from_slurm(out, envp, slots_per_host, true, err);
}

static void add_gpus(uint32_t job, struct hvd_strv *out)
{
	const hvd_time until = patience();
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job info = {0};

	if (hvd_slurm_job_get(job, &info, until, NULL) != 0)
		return;
	hvd_slurm_job_gpus(&info, until);
	for (size_t i = 0; info.gpus && i < info.hosts.n; i++)
		hvd_env_setf(out, info.hosts.v[i], "%d", info.gpus[i]);
}

/* A component of a heterogeneous job has variables of its own. */
static void gpus(const struct hvd_batch_job *job, char *const *envp, struct hvd_strv *out)
{
	const char *size = hvd_envp_get(envp, "SLURM_HET_SIZE"), *id;
	const int components = size ? (int)hvd_digits(size, strlen(size), HVD_MAX_HOSTS) : 0;

	if (hvd_envp_get(envp, "SLURM_GPUS"))
		add_gpus(job->number, out);
	for (int i = 0; i < components; i++) {
		char name[64];

		snprintf(name, sizeof(name), "SLURM_GPUS_HET_GROUP_%d", i);
		if (!hvd_envp_get(envp, name))
			continue;
		snprintf(name, sizeof(name), "SLURM_JOB_ID_HET_GROUP_%d", i);
		if ((id = hvd_envp_get(envp, name)))
			add_gpus((uint32_t)strtoul(id, NULL, 10), out);
	}
}

static void clean_env(void)
{
	hvd_slurm_forget_other_step(getpid(), "/proc");
}

static int kill_wait(hvd_time deadline)
{
	struct hvd_slurm_site site;

	hvd_slurm_site_get(&site, deadline, NULL);
	return site.kill_wait;
}

static int facts(const struct hvd_batch_job *job, struct hvd_job_facts *out, hvd_time deadline, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job info = {0};

	if (hvd_slurm_job_get(job->number, &info, deadline, err) != 0)
		return -1;
	if (info.ends > 0 && info.ends - info.now <= NO_LIMIT_SECONDS)
		out->left = info.ends > info.now ? (double)(info.ends - info.now) : 0;
	out->paused = info.paused;
	out->preempted = info.preempted;
	out->over = info.state != HVD_SLURM_RUNNING;
	out->requeued = info.state == HVD_SLURM_PENDING;
	out->fate = info.fate;
	return 0;
}

/* Slurm sets no variable for the first cycle. */
static long restarts(const struct hvd_batch_job *job)
{
	const char *own = getenv("SLURM_JOB_ID"), *count = getenv("SLURM_RESTART_COUNT");

	if (!own || strtoul(own, NULL, 10) != job->number)
		return -1;
	return count ? strtol(count, NULL, 10) : 0;
}

/* ---- requeueing ---- */

static int refuse(const struct hvd_slurm_job *job, struct hvd_err *err)
{
	if (!job->rerun.batch) {
		hvd_err_set(err, HVD_E_FAILED, "job %s has no batch script, so Slurm cannot start it again",
			    job->rerun.name);
		return hvd_err_hint(err, "submit it with sbatch");
	}
	hvd_err_set(err, HVD_E_FAILED, "job %s may not be requeued", job->rerun.name);
	return hvd_err_hint(err, "it was submitted with --no-requeue, or this cluster's jobs need sbatch --requeue "
				 "(JobRequeue=0 in slurm.conf)");
}

/* The hosts that a requeued job is to be kept away from. */
struct exclusion {
	const struct hvd_strv *bad; /* HOST=REASON */
	struct hvd_strv hosts;
	struct hvd_err *errs; /* why that is impossible for a host */
	char *list;           /* for Slurm; NULL: nothing is to be changed */
};

static void clear_exclusion(struct exclusion *ex)
{
	hvd_strv_free(&ex->hosts);
	free(ex->errs);
	free(ex->list);
}

/* Slurm accepts the list only of a pending job, and ends this process as soon as the job is requeued. So all questions
 * come before that. */
static void prepare_exclusion(const struct hvd_slurm_rerun *rerun, const struct hvd_strv *bad, struct exclusion *ex)
{
	ex->bad = bad;
	for (size_t i = 0; bad && i < bad->n; i++)
		hvd_strv_addf(&ex->hosts, "%.*s", (int)strcspn(bad->v[i], "="), bad->v[i]);
	ex->errs = hvd_xcalloc(ex->hosts.n + 1, sizeof(*ex->errs));
	if (ex->hosts.n > 0)
		ex->list = hvd_slurm_excludable(rerun, &ex->hosts, patience(), ex->errs);
}

/* The job was requeued. Slurm hears of all hosts at once. */
static void exclude(const struct hvd_slurm_rerun *rerun, const struct exclusion *ex, const struct hvd_log *log)
{
	struct hvd_err why = {0};

	if (ex->list)
		hvd_slurm_exclude(rerun, ex->list, patience(), &why);
	for (size_t i = 0; i < ex->hosts.n; i++) {
		const struct hvd_err *err = ex->errs[i].code ? &ex->errs[i] : &why;
		const char *host = ex->hosts.v[i], *reason = hvd_env_get(ex->bad, host);

		if (err->code)
			hvd_warn(log, "job %s may be given %s again (%s): %s", rerun->name, host, reason, err->msg);
		else
			hvd_info(log, "job %s will no longer run on %s: %s", rerun->name, host, reason);
	}
}

/* Returns as struct hvd_scheduler has it. `ended`: requeue the job also if it has ended. */
static int put_back(const struct hvd_slurm_job *job, const char *why, bool ended, const struct hvd_log *log,
		    struct hvd_err *err)
{
	if (!job->rerun.batch || !job->rerun.allowed)
		return refuse(job, err);
	hvd_info(log, "requeueing job %s (restart %u): %s", job->rerun.name, job->rerun.restarts + 1, why);
	if (hvd_slurm_requeue(&job->rerun, ended, patience(), err) == 0)
		return 1;
	if (err->code != HVD_E_NOENT)
		return hvd_err_prefix(err, "job %s", job->rerun.name);
	hvd_info(log, "job %s was requeued already", job->rerun.name);
	return 0;
}

static int requeue(const struct hvd_batch_job *job, const struct hvd_requeue_order *order, const struct hvd_log *log,
		   struct hvd_err *err)
{
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job info = {0};
	HVD_CLEANUP(clear_exclusion) struct exclusion ex = {0};
	const long cycle = restarts(job);
	bool after_end;
	int rc;

	if (hvd_slurm_job_get(job->number, &info, patience(), err) != 0)
		return -1;
	prepare_exclusion(&info.rerun, order->bad, &ex);
	/* At the end of its grace time a job may have ended before this process has. */
	after_end = order->preempted && info.state == HVD_SLURM_ENDED && info.preempted;
	if ((info.state != HVD_SLURM_RUNNING && !after_end) || (cycle >= 0 && info.rerun.restarts > (uint32_t)cycle)) {
		hvd_info(log, "job %s %s already: not requeueing it", info.rerun.name,
			 info.state == HVD_SLURM_ENDED ? "has ended" : "was requeued");
		if (info.state == HVD_SLURM_PENDING)
			exclude(&info.rerun, &ex, log);
		return 0;
	}
	rc = put_back(&info, order->why, after_end, log, err);
	if (rc > 0)
		exclude(&info.rerun, &ex, log);
	return rc;
}

/* The batch script may have ended before Slurm was asked, and the job with it. */
static int after_the_script(const struct hvd_slurm_job *before, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job job = {0};

	if (hvd_slurm_job_get(before->id, &job, patience(), err) != 0)
		return -1;
	if (job.state != HVD_SLURM_ENDED || job.fate || job.rerun.restarts != before->rerun.restarts)
		return 0;
	return hvd_slurm_requeue(&job.rerun, true, patience(), err);
}

/* The controller is asked about the job beforehand, while it is sure to know it. */
static int requeue_after(const struct hvd_batch_job *job, const struct hvd_requeue_order *order,
			 bool (*killed)(void *arg), void *arg, const struct hvd_log *log, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job info = {0};
	const bool known = hvd_slurm_job_get(job->number, &info, patience(), NULL) == 0;
	int rc;

	if (!killed(arg))
		return 0;
	if (!known && hvd_slurm_job_get(job->number, &info, patience(), err) != 0)
		return -1;
	rc = put_back(&info, order->why, false, log, err);
	return rc > 0 ? after_the_script(&info, err) : rc;
}

const struct hvd_scheduler hvd_scheduler_slurm = {
	.name = "Slurm",
	.key = "slurm",
	.host_command = "sinfo -N -n",
	.find = find,
	.has_hosts = hvd_alloc_in_slurm,
	.hosts = hosts,
	.own_starter_only = true,
	.gpus = gpus,
	.clean_env = clean_env,
	.kill_wait = kill_wait,
	.facts = facts,
	.reports_state = true,
	.restarts = restarts,
	.requeue = requeue,
	.requeue_after = requeue_after,
};
