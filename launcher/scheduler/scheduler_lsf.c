/* SPDX-License-Identifier: Apache-2.0 */
/* scheduler_lsf.c - LSF, or a scheduler that sets the same variables, as a row of the table (scheduler.h). */
#include "lib/base/cleanup.h"
#include "lib/process/capture.h"
#include "lib/process/program.h"
#include "lsf/lists.h"
#include "scheduler.h"

#include <stdio.h>
#include <string.h>

/* How long brequeue may take. */
#define BREQUEUE_SECONDS 30.0
#define ANSWER_MAX       65536

static bool find(const char *given, char *const *envp, struct hvd_batch_job *job)
{
	hvd_cleanup_free char *name = NULL;

	(void)given; /* --jobid is Slurm's */
	if (!hvd_alloc_in_lsf(envp))
		return false;
	name = hvd_lsf_job_name(envp);
	snprintf(job->name, sizeof(job->name), "%s", name);
	return true;
}

static int hosts(char *const *envp, int slots_per_host, struct hvd_alloc *out, struct hvd_lsf *facts,
		 struct hvd_err *err)
{
	const struct hvd_alloc_lsf_opts opts = {.slots_per_host = slots_per_host,
						.jsrun = hvd_program_look("jsrun", envp) == 0};

	return hvd_alloc_from_lsf(out, facts, envp, &opts, err);
}

/* bjobs prints "-" for a job without a limit. */
static int facts(const struct hvd_batch_job *job, struct hvd_job_facts *out, hvd_time deadline, struct hvd_err *err)
{
	const char *argv[] = {"bjobs", "-noheader", "-o", "time_left", job->name, NULL};
	const struct hvd_spawn spawn = {.path = argv[0], .argv = (char *const *)argv};
	hvd_cleanup_free char *text = NULL;
	int status = 0;
	size_t len;

	text = hvd_capture(&spawn, ANSWER_MAX, deadline, &len, &status, err);
	if (!text)
		return -1;
	out->left = hvd_lsf_time_left(text);
	if (out->left < 0 && text[strspn(text, " ")] != '-')
		return hvd_err_set(err, HVD_E_PROTO, "the scheduler does not say");
	return 0;
}

/* -r: only if the job runs. The text of brequeue goes to the user as it is. */
static int requeue(const struct hvd_batch_job *job, const struct hvd_requeue_order *order, const struct hvd_log *log,
		   struct hvd_err *err)
{
	const char *argv[] = {"sh", "-c", "exec brequeue -r \"$1\" 2>&1", "sh", job->name, NULL};
	const struct hvd_spawn spawn = {.path = argv[0], .argv = (char *const *)argv};
	hvd_cleanup_free char *said = NULL;
	int status = 0;
	size_t len;

	hvd_info(log, "requeueing job %s: %s", job->name, order->why);
	said = hvd_capture(&spawn, ANSWER_MAX, hvd_deadline_in(BREQUEUE_SECONDS), &len, &status, err);
	if (!said)
		return hvd_err_prefix(err, "brequeue");
	if (status == 0)
		return 1;
	said[strcspn(said, "\n")] = '\0';
	hvd_err_set(err, HVD_E_FAILED, "brequeue refuses: %s", said);
	return hvd_err_hint(err, "interactive jobs (bsub -I) cannot be requeued");
}

const struct hvd_scheduler hvd_scheduler_lsf = {
	.name = "LSF",
	.key = "lsf",
	.host_command = "bhosts",
	.find = find,
	.has_hosts = hvd_alloc_in_lsf,
	.hosts = hosts,
	.kills_agents = true,
	.facts = facts,
	.requeue = requeue,
};
