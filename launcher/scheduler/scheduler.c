/* SPDX-License-Identifier: Apache-2.0 */
/* scheduler.c - the table of all schedulers. */
#include "scheduler.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"

#include <stdio.h>
#include <string.h>

extern char **environ;

#define ANSWER_SECONDS 2.0

const struct hvd_scheduler hvd_scheduler_none = {.name = "no scheduler", .key = "none", .host_command = "ping"};

/* The first that knows the environment is taken. */
#define HVD_ROW(key) &hvd_scheduler_##key,
static const struct hvd_scheduler *const table[] = {HVD_SCHEDULERS(HVD_ROW)};

#define N_SCHEDULERS (sizeof(table) / sizeof(table[0]))

const struct hvd_scheduler *hvd_scheduler_of(char *const *envp)
{
	for (size_t i = 0; i < N_SCHEDULERS; i++)
		if (table[i]->has_hosts && table[i]->has_hosts(envp))
			return table[i];
	return &hvd_scheduler_none;
}

const struct hvd_scheduler *hvd_scheduler_named(const char *key)
{
	for (size_t i = 0; i < N_SCHEDULERS; i++)
		if (strcmp(table[i]->key, key) == 0)
			return table[i];
	return &hvd_scheduler_none;
}

void hvd_scheduler_clean_env(void)
{
	for (size_t i = 0; i < N_SCHEDULERS; i++)
		if (table[i]->clean_env)
			table[i]->clean_env();
}

static struct hvd_batch_job find_job(const char *given)
{
	struct hvd_batch_job job = {0};

	for (size_t i = 0; i < N_SCHEDULERS && !job.scheduler; i++)
		if (table[i]->find(given, environ, &job))
			job.scheduler = table[i];
	if (!job.scheduler)
		job = (struct hvd_batch_job){.scheduler = &hvd_scheduler_none};
	return job;
}

struct hvd_batch_job hvd_batch_job_here(void)
{
	return find_job(NULL);
}

/* srun reports the number of its job to the driver, and agents that of theirs: it counts as a job that the user names. */
static struct hvd_batch_job numbered(uint32_t number)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", (unsigned)number);
	return find_job(text);
}

struct hvd_batch_job hvd_batch_job_of(const struct hvd_launch_spec *spec, uint32_t number)
{
	return number ? numbered(number) : find_job(spec->srun.jobid);
}

int hvd_batch_job_facts(const struct hvd_batch_job *job, struct hvd_job_facts *facts, hvd_time deadline,
			struct hvd_err *err)
{
	*facts = (struct hvd_job_facts){.left = -1};
	if (!job->scheduler->facts)
		return hvd_err_set(err, HVD_E_NOENT, "there is no job of a scheduler that can be asked");
	return job->scheduler->facts(job, facts, deadline, err);
}

char *hvd_batch_job_fate(const struct hvd_batch_job *job)
{
	struct hvd_job_facts facts;
	const char *fate;

	if (!job->scheduler->reports_state ||
	    hvd_batch_job_facts(job, &facts, hvd_deadline_in(ANSWER_SECONDS), NULL) != 0)
		return NULL;
	fate = facts.fate ? facts.fate : facts.preempted ? "is being preempted" : NULL;
	return fate ? hvd_xasprintf("job %s %s", job->name, fate) : NULL;
}

bool hvd_batch_job_paused(uint32_t number, const struct hvd_log *log)
{
	const struct hvd_batch_job job = numbered(number);
	struct hvd_job_facts facts;
	struct hvd_err err = {0};

	if (hvd_batch_job_facts(&job, &facts, hvd_deadline_in(ANSWER_SECONDS), &err) == 0)
		return facts.paused;
	hvd_verbose(log, "cannot tell whether job %u is suspended: %s", (unsigned)number, err.msg);
	return false;
}
