/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "scontrol.h"
#include "slurm_command.h"
#include "squeue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ASK_JOB "cannot ask Slurm for the job"

/* How long an answer may be doubtful. Mostly all processes of the job end meanwhile, and Slurm says how it has ended; but
 * they may take KillWait, and this process may be one of them. */
#define SETTLE_SECONDS 1.0
/* Slurm has no event for that. So it is asked after this time, and then each time after twice as long. */
#define SETTLE_PAUSE_NS 100000000L

int hvd_slurm_site_get(struct hvd_slurm_site *site, hvd_time deadline, struct hvd_err *err)
{
	static const char *const argv[] = {"scontrol", "show", "config", NULL};
	hvd_cleanup_free char *text = hvd_slurm_command(argv, "Slurm's configuration cannot be read", deadline, err);

	*site = (struct hvd_slurm_site){0};
	if (!text)
		return hvd_err_hint(err, "check that 'scontrol show config' works here");
	hvd_scontrol_config_parse(text, site);
	return 0;
}

int hvd_slurm_step_signal(uint32_t job, uint32_t step, int signal, hvd_time deadline, struct hvd_err *err)
{
	char which[32], name[32];
	const char *argv[] = {"scancel", "--ctld", "--quiet", name, which, NULL};
	hvd_cleanup_free char *text = NULL;
	struct hvd_err why = {0};

	snprintf(name, sizeof(name), "--signal=%d", signal);
	snprintf(which, sizeof(which), "%u.%u", (unsigned)job, (unsigned)step);
	text = hvd_slurm_command(argv, "cannot signal the step", deadline, &why);
	if (text || why.code == HVD_E_NOENT)
		return 0;
	if (err)
		*err = why;
	return -1;
}

int hvd_slurm_srun_hosts(uint32_t job, struct hvd_strv *hosts, hvd_time deadline, struct hvd_err *err)
{
	char number[16];
	hvd_cleanup_free char *text = NULL;

	snprintf(number, sizeof(number), "%u", (unsigned)job);
	text = hvd_slurm_command((const char *[]){"scontrol", "--oneliner", "show", "step", number, NULL},
				 "cannot ask Slurm for the steps", deadline, err);
	if (!text)
		return -1;
	hvd_scontrol_srun_hosts(text, hosts);
	return 0;
}

/* ---- jobs ---- */

/* A job that is preempted ends after the grace time of its partition. That of its QOS, which a site may use in place of
 * it, is not known to users: then the job may live longer than this says. */
static void add_grace(struct hvd_slurm_job *job, hvd_time deadline)
{
	hvd_cleanup_free char *text =
		hvd_slurm_command((const char *[]){"scontrol", "--all", "show", "partition", job->grace_of, NULL},
				  ASK_JOB, deadline, NULL);

	job->ends += text ? hvd_scontrol_grace(text) : 0;
	free(job->grace_of);
	job->grace_of = NULL;
}

/* --local: no other cluster of a federation. --all: also in partitions that are hidden from this user. */
static int ask_squeue(const char *which, const char *states, struct hvd_slurm_job **jobs, size_t *n, hvd_time deadline,
		      struct hvd_err *err)
{
	hvd_cleanup_free char *format = NULL, *text = NULL;
	struct hvd_squeue_mark mark;

	*jobs = NULL;
	*n = 0;
	if (hvd_squeue_mark_make(&mark, err) != 0)
		return -1;
	format = hvd_squeue_format(&mark);
	text = hvd_slurm_command(
		(const char *[]){"squeue", "--noheader", "--local", "--all", which, states, "-O", format, NULL},
		ASK_JOB, deadline, err);
	if (!text || hvd_squeue_jobs_parse(text, &mark, jobs, n, err) != 0)
		return -1;
	for (size_t i = 0; i < *n; i++) {
		(*jobs)[i].now = time(NULL);
		if ((*jobs)[i].grace_of)
			add_grace(&(*jobs)[i], deadline);
	}
	return 0;
}

/* Does the batch script of a job still run? */
static bool has_script(uint32_t job, hvd_time deadline)
{
	char which[32], step[32];
	hvd_cleanup_free char *text = NULL;

	snprintf(which, sizeof(which), "--jobs=%u", (unsigned)job);
	snprintf(step, sizeof(step), "<%u.batch>", (unsigned)job);
	text = hvd_slurm_command(
		(const char *[]){"squeue", "--noheader", "--local", "--all", "--steps", which, "--format=<%i>", NULL},
		ASK_JOB, deadline, NULL);
	return text && strstr(text, step);
}

static int ask_job(uint32_t job, struct hvd_slurm_job *out, hvd_time deadline, struct hvd_err *err)
{
	struct hvd_slurm_job *jobs;
	char which[32];
	size_t n;

	memset(out, 0, sizeof(*out));
	snprintf(which, sizeof(which), "--jobs=%u", (unsigned)job);
	if (ask_squeue(which, "--states=all", &jobs, &n, deadline, err) != 0)
		return -1;
	/* There are several with an array or a heterogeneous job. */
	for (size_t i = 0; i < n; i++)
		if (jobs[i].id == job && !out->id) {
			*out = jobs[i];
			jobs[i] = (struct hvd_slurm_job){0};
		}
	hvd_slurm_jobs_free(jobs, n);
	if (!out->id)
		return hvd_err_set(err, HVD_E_NOENT, "Slurm knows no job %u", (unsigned)job);
	return 0;
}

static void sleep_until(hvd_time at)
{
	const struct timespec ts = {.tv_sec = (time_t)(at / 1000000000), .tv_nsec = (long)(at % 1000000000)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

int hvd_slurm_job_get(uint32_t job, struct hvd_slurm_job *out, hvd_time deadline, struct hvd_err *err)
{
	const hvd_time settled = hvd_earlier(deadline, hvd_deadline_in(SETTLE_SECONDS));
	int rc = ask_job(job, out, deadline, err);
	hvd_time pause = SETTLE_PAUSE_NS;

	while (rc == 0 && out->doubtful) {
		if (out->rerun.batch && has_script(job, deadline)) {
			out->fate = HVD_SLURM_CANCELLED;
			break;
		}
		if (hvd_now() >= settled) {
			out->fate = out->rerun.batch ? NULL : HVD_SLURM_CANCELLED ", or its salloc has ended";
			break;
		}
		sleep_until(hvd_earlier(hvd_now() + pause, settled));
		pause *= 2;
		hvd_slurm_job_clear(out);
		rc = ask_job(job, out, deadline, err);
	}
	return rc;
}

void hvd_slurm_job_gpus(struct hvd_slurm_job *job, hvd_time deadline)
{
	char number[16];
	hvd_cleanup_free char *text = NULL;

	if (job->gpus || job->hosts.n == 0)
		return;
	snprintf(number, sizeof(number), "%u", (unsigned)job->id);
	text = hvd_slurm_command((const char *[]){"scontrol", "--details", "show", "job", number, NULL}, ASK_JOB,
				 deadline, NULL);
	if (text)
		job->gpus = hvd_scontrol_gpus(text, job->name, &job->hosts);
}

int hvd_slurm_jobs_get(struct hvd_slurm_job **jobs, size_t *n, hvd_time deadline, struct hvd_err *err)
{
	struct hvd_err why = {0};
	char which[32];

	snprintf(which, sizeof(which), "--user=%u", (unsigned)geteuid());
	if (ask_squeue(which, "--states=running,suspended,configuring,resizing,stopped,signaling", jobs, n, deadline,
		       &why) == 0 ||
	    why.code == HVD_E_NOENT) /* 22.05: the user has none */
		return 0;
	if (err)
		*err = why;
	return -1;
}

char *hvd_slurm_job_script(uint32_t job, hvd_time deadline, struct hvd_err *err)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", (unsigned)job);
	return hvd_slurm_command((const char *[]){"scontrol", "write", "batch_script", number, "-", NULL},
				 "cannot ask Slurm for the job's script", deadline, err);
}

/* ---- nodes ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int hvd_slurm_nodes_get(const struct hvd_strv *names, struct hvd_slurm_nodes *nodes, hvd_time deadline,
			struct hvd_err *err)
{
	hvd_cleanup_free char *list = hvd_hostlist_compress(names->v, names->n), *text = NULL;
	struct hvd_strv unusable = {0};
	struct hvd_err why = {0};

	if (names->n)
		text = hvd_slurm_command((const char *[]){"scontrol", "show", "node", list, NULL},
					 "cannot ask Slurm for the states of nodes", deadline, &why);
	if (names->n && !text && why.code != HVD_E_AUTH) {
		if (err)
			*err = why;
		return -1;
	}
	if (text)
		hvd_scontrol_unusable(text, &unusable);
	if (unusable.n)
		qsort(unusable.v, unusable.n, sizeof(*unusable.v), by_name);
	hvd_slurm_nodes_clear(nodes);
	nodes->unusable = unusable;
	nodes->hidden = names->n && !text;
	return 0;
}

char *hvd_slurm_node_down(const char *list, hvd_time deadline)
{
	const char *argv[] = {"sinfo", "--noheader", "--Node", "--states=down", "--format=%N", "--nodes", list, NULL};
	hvd_cleanup_free char *text =
		hvd_slurm_command(argv, "cannot ask Slurm for nodes that are down", deadline, NULL);

	if (!text || *text == '\n' || !*text)
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	return hvd_take_ptr(&text);
}

bool hvd_slurm_node_usable(const struct hvd_slurm_nodes *nodes, const char *name)
{
	return !nodes->unusable.n ||
	       !bsearch(&name, nodes->unusable.v, nodes->unusable.n, sizeof(*nodes->unusable.v), by_name);
}

void hvd_slurm_nodes_clear(struct hvd_slurm_nodes *nodes)
{
	if (!nodes)
		return;
	hvd_strv_free(&nodes->unusable);
	nodes->hidden = false;
}
