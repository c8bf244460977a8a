/* SPDX-License-Identifier: Apache-2.0 */
#include "requeue.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/process/capture.h"
#include "lsf/lsf.h"
#include "slurm/slurm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* How long Slurm may take to end a process of a job that it has requeued. */
#define END_SECONDS  10
#define KILL_SECONDS 2
/* How long brequeue may take. */
#define BREQUEUE_SECONDS 30.0
#define BREQUEUE_MAX     65536
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

static bool wanted(const struct hvd_launch_spec *spec, enum hvd_requeue_reason reason)
{
	return (spec->requeue_on & 1U << reason) != 0;
}

uint32_t hvd_requeue_job(const struct hvd_launch_spec *spec, uint32_t job)
{
	const char *text = spec->srun.jobid ? spec->srun.jobid : getenv("SLURM_JOB_ID");

	if (job)
		return job;
	return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

/* How often the job had begun again when this process was started; -1 if that is not known. Slurm sets no variable for
 * the first cycle. */
static long cycle_of(uint32_t job)
{
	const char *own = getenv("SLURM_JOB_ID"), *count = getenv("SLURM_RESTART_COUNT");

	if (!own || strtoul(own, NULL, 10) != job)
		return -1;
	return count ? strtol(count, NULL, 10) : 0;
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

void hvd_requeue_begin(const struct hvd_launch_spec *spec, uint32_t job, const struct hvd_log *log)
{
	const char *file = spec->requeue_on ? own_file() : NULL;
	long cycle;

	job = hvd_requeue_job(spec, job);
	cycle = job ? cycle_of(job) : 0;
	if (cycle > 0)
		hvd_info(log, "this is restart %ld of job %u", cycle, job);
	if (file && unlink(file) == 0)
		hvd_verbose(log, "removed %s, which an earlier launch left behind", file);
}

void hvd_requeue_avoid(struct hvd_requeue_wish *wish, const char *host, const char *why)
{
	if (wish->bad.n < MOST_BAD && !hvd_env_get(&wish->bad, host))
		hvd_env_set(&wish->bad, host, why);
}

void hvd_requeue_pardon(struct hvd_requeue_wish *wish, const char *host)
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

/* ---- Slurm ---- */

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
static void prepare_exclusion(const struct hvd_slurm_rerun *rerun, const struct hvd_requeue_wish *wish,
			      struct exclusion *ex)
{
	for (size_t i = 0; i < wish->bad.n; i++)
		hvd_strv_addf(&ex->hosts, "%.*s", (int)strcspn(wish->bad.v[i], "="), wish->bad.v[i]);
	ex->errs = hvd_xcalloc(ex->hosts.n + 1, sizeof(*ex->errs));
	if (ex->hosts.n > 0)
		ex->list = hvd_slurm_excludable(rerun, &ex->hosts, hvd_deadline_in(HVD_SLURM_SECONDS), ex->errs);
}

/* The job was requeued. Slurm hears of all hosts at once. */
static void exclude(const struct hvd_slurm_rerun *rerun, const struct exclusion *ex,
		    const struct hvd_requeue_wish *wish, const struct hvd_log *log)
{
	const struct hvd_strv *hosts = &ex->hosts;
	struct hvd_err why = {0};

	if (ex->list)
		hvd_slurm_exclude(rerun, ex->list, hvd_deadline_in(HVD_SLURM_SECONDS), &why);
	for (size_t i = 0; i < hosts->n; i++) {
		const struct hvd_err *err = ex->errs[i].code ? &ex->errs[i] : &why;

		if (err->code)
			hvd_warn(log, "job %s may be given %s again (%s): %s", rerun->name, hosts->v[i],
				 hvd_env_get(&wish->bad, hosts->v[i]), err->msg);
		else
			hvd_info(log, "job %s will no longer run on %s: %s", rerun->name, hosts->v[i],
				 hvd_env_get(&wish->bad, hosts->v[i]));
	}
}

int hvd_requeue_slurm(const struct hvd_slurm_job *job, const char *why, bool ended, const struct hvd_log *log,
		      struct hvd_err *err)
{
	if (!job->rerun.batch || !job->rerun.allowed)
		return refuse(job, err);
	hvd_info(log, "requeueing job %s (restart %u): %s", job->rerun.name, job->rerun.restarts + 1, why);
	if (hvd_slurm_requeue(&job->rerun, ended, hvd_deadline_in(HVD_SLURM_SECONDS), err) == 0)
		return 1;
	if (err->code != HVD_E_NOENT)
		return hvd_err_prefix(err, "job %s", job->rerun.name);
	hvd_info(log, "job %s was requeued already", job->rerun.name);
	return 0;
}

static int requeue_slurm(uint32_t number, enum hvd_requeue_reason reason, const struct hvd_requeue_wish *wish,
			 const struct hvd_log *log, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job job = {0};
	HVD_CLEANUP(clear_exclusion) struct exclusion ex = {0};
	const char *host = reason == HVD_REQUEUE_NODE && wish->bad.n ? wish->bad.v[0] : "";
	const long cycle = cycle_of(number);
	bool after_end;
	char why[320];
	int rc;

	if (hvd_slurm_job_get(number, &job, hvd_deadline_in(HVD_SLURM_SECONDS), err) != 0)
		return -1;
	prepare_exclusion(&job.rerun, wish, &ex);
	/* At the end of its grace time a job may have ended before this process has. */
	after_end = reason == HVD_REQUEUE_PREEMPT && job.state == HVD_SLURM_ENDED && job.preempted;
	if ((job.state != HVD_SLURM_RUNNING && !after_end) || (cycle >= 0 && job.rerun.restarts > (uint32_t)cycle)) {
		hvd_info(log, "job %s %s already: not requeueing it", job.rerun.name,
			 job.state == HVD_SLURM_ENDED ? "has ended" : "was requeued");
		if (job.state == HVD_SLURM_PENDING)
			exclude(&job.rerun, &ex, wish, log);
		return 0;
	}
	snprintf(why, sizeof(why), "%s%s%.*s", reason_text(reason), *host ? ", " : "", (int)strcspn(host, "="), host);
	rc = hvd_requeue_slurm(&job, why, after_end, log, err);
	if (rc > 0)
		exclude(&job.rerun, &ex, wish, log);
	return rc;
}

/* ---- LSF ---- */

/* -r: only if the job runs. The text of brequeue goes to the user as it is. */
int hvd_requeue_lsf(const char *why, const struct hvd_log *log, struct hvd_err *err)
{
	hvd_cleanup_free char *name = hvd_lsf_job_name(environ);
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)"exec brequeue -r \"$1\" 2>&1", (char *)"sh", name, NULL};
	const struct hvd_spawn spawn = {.path = argv[0], .argv = argv};
	hvd_cleanup_free char *said = NULL;
	int status = 0;
	size_t len;

	hvd_info(log, "requeueing job %s: %s", name, why);
	said = hvd_capture(&spawn, BREQUEUE_MAX, hvd_deadline_in(BREQUEUE_SECONDS), &len, &status, err);
	if (!said)
		return hvd_err_prefix(err, "brequeue");
	if (status == 0)
		return 1;
	said[strcspn(said, "\n")] = '\0';
	hvd_err_set(err, HVD_E_FAILED, "brequeue refuses: %s", said);
	return hvd_err_hint(err, "interactive jobs (bsub -I) cannot be requeued");
}

/* Returns 1 when the job is requeued, 0 if it was before, or has ended; -1 with err set if it cannot be. */
static int requeue(const struct hvd_launch_spec *spec, const struct hvd_requeue_wish *wish,
		   enum hvd_requeue_reason reason, const struct hvd_log *log, struct hvd_err *err)
{
	const uint32_t job = hvd_requeue_job(spec, wish->job);

	if (job)
		return requeue_slurm(job, reason, wish, log, err);
	if (hvd_alloc_in_lsf(environ))
		return hvd_requeue_lsf(reason_text(reason), log, err);
	hvd_err_set(err, HVD_E_FAILED, "this launch is not part of a batch job, so nothing can be requeued");
	return hvd_err_hint(err, "--requeue-on is for jobs that were submitted with sbatch or bsub");
}

/* ---- the end ---- */

static bool preempted(uint32_t number)
{
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job job = {0};

	return number && hvd_slurm_job_get(number, &job, hvd_deadline_in(HVD_SLURM_SECONDS), NULL) == 0 &&
	       job.preempted;
}

/* From the moment at which Slurm takes the job back it ends this process, which has more to tell it. */
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

int hvd_requeue_at_end(const struct hvd_launch_spec *spec, const struct hvd_requeue_wish *wish, int status,
		       const struct hvd_log *log)
{
	const char *file = spec->requeue_on ? own_file() : NULL;
	unsigned reasons = wish->reasons;
	struct hvd_err err = {0};
	int reason = 0, rc;
	sigset_t ends;

	if (file && wanted(spec, HVD_REQUEUE_ASK) && unlink(file) == 0)
		reasons |= 1U << HVD_REQUEUE_ASK;
	if (!reasons && wanted(spec, HVD_REQUEUE_PREEMPT) && (status != 0 || wish->signalled) &&
	    preempted(hvd_requeue_job(spec, wish->job)))
		reasons |= 1U << HVD_REQUEUE_PREEMPT;
	if (!reasons)
		return status;
	while (!(reasons & 1U << reason))
		reason++;
	block_end(&ends);
	rc = requeue(spec, wish, (enum hvd_requeue_reason)reason, log, &err);
	if (rc < 0)
		hvd_log_err(log, &err);
	if (rc > 0)
		await_end(&ends);
	return rc >= 0 && status == 0 ? HVD_REQUEUE_STATUS : status;
}
