/* SPDX-License-Identifier: Apache-2.0 */
#include "status_command.h"

#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "short_step.h"
#include "status_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long a launch may take to answer, and a host. */
#define ASK_SECONDS  3.0
#define STEP_SECONDS 15.0
/* In front of a target: do not ask other hosts. */
#define HERE "here:"

static json_t *wrap(json_t *launches)
{
	return json_pack("{s:o}", "launches", launches);
}

/* Ask by a step on one of the job's hosts. NULL: no launch answers there. */
static json_t *ask_host(const struct hvd_slurm_job *job, const char *host, const char *target, const char *rank,
			const char *program, const struct hvd_log *log)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv command = {0};
	hvd_cleanup_free char *text = NULL, *messages = NULL;
	struct hvd_err err = {0};
	json_t *said;
	size_t len;

	hvd_strv_add(&command, program);
	hvd_strv_add(&command, "--json");
	hvd_strv_addf(&command, "--status=" HERE "%s", target);
	if (rank)
		hvd_strv_addf(&command, "--rank=%s", rank);
	text = hvd_short_step_run(job, host, 1, &command, STEP_SECONDS, &len, &messages, &err);
	said = text ? json_loadb(text, len, 0, NULL) : NULL;
	if (json_array_size(json_object_get(said, "launches")))
		return said;
	json_decref(said);
	hvd_verbose(log, "%s: %s", host, messages && *messages ? messages : err.msg);
	return NULL;
}

static bool is_here(const char *host)
{
	char name[256] = "";

	return gethostname(name, sizeof(name) - 1) == 0 && strcmp(name, host) == 0;
}

static json_t *nobody(const char *target, const struct hvd_strv *elsewhere, struct hvd_err *err)
{
	hvd_cleanup_free char *hosts = elsewhere->n ? hvd_strv_join(elsewhere, " or ") : NULL;

	hvd_err_set(err, HVD_E_FAILED, "no launch of job %s answers on its hosts", target);
	if (hosts)
		hvd_err_hint(err, "ask on %s, where srun or hvdrun runs", hosts);
	else
		hvd_err_hint(err, "ask on the host where hvdrun or srun --hvd runs, as its user");
	return NULL;
}

static json_t *ask_slurm(const char *target, const char *rank, const char *program, const struct hvd_log *log,
			 struct hvd_err *err)
{
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job job = {0};
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv hosts = {0}, sruns = {0}, elsewhere = {0};
	json_t *said = NULL;

	if (hvd_short_step_job(target, "--status", &job, err) != 0)
		return NULL;
	hvd_slurm_srun_hosts(job.id, &sruns, hvd_deadline_in(STEP_SECONDS), NULL);
	hvd_strv_add(&hosts, job.hosts.v[0]);
	for (size_t i = 0; i < sruns.n; i++)
		if (is_here(sruns.v[i]))
			continue;
		else if (!hvd_strv_has(&job.hosts, sruns.v[i]))
			hvd_strv_add(&elsewhere, sruns.v[i]);
		else if (!hvd_strv_has(&hosts, sruns.v[i]))
			hvd_strv_add(&hosts, sruns.v[i]);
	for (size_t i = 0; i < hosts.n && !said; i++)
		said = ask_host(&job, hosts.v[i], target, rank, program, log);
	return said ? said : nobody(target, &elsewhere, err);
}

/* The launches on this host. An hvdrun outside of a job knows its job, but has no name of it. NULL with err set. */
static json_t *ask_here(const char *target, const char *rank, struct hvd_err *err)
{
	json_t *launches = hvd_control_ask_each(target, "status", rank, ASK_SECONDS, err);
	struct hvd_err none;
	char *end;
	const unsigned long job = strtoul(target, &end, 10);

	if (launches || err->code != HVD_E_NOENT || job == 0 || *end)
		return launches;
	launches = hvd_control_ask_each(HVD_CONTROL_NO_JOB, "status", rank, ASK_SECONDS, &none);
	for (size_t i = json_array_size(launches); i-- > 0;)
		if (json_integer_value(json_object_get(json_array_get(launches, i), "job")) != (json_int_t)job)
			json_array_remove(launches, i);
	if (json_array_size(launches))
		return launches;
	json_decref(launches);
	return NULL;
}

json_t *hvd_job_status_get(const char *target, const char *rank, const char *program, const struct hvd_log *log,
			   struct hvd_err *err)
{
	const bool here = strncmp(target, HERE, strlen(HERE)) == 0;
	json_t *launches = ask_here(target + (here ? strlen(HERE) : 0), rank, err);

	if (launches)
		return wrap(launches);
	if (strncmp(target, "pid:", 4) == 0 && err->code == HVD_E_NOENT)
		hvd_err_set(err, HVD_E_USAGE, "process %s is not an hvdrun or srun --hvd of yours on this host",
			    target + 4);
	if (here || strncmp(target, "pid:", 4) == 0 || err->code != HVD_E_NOENT)
		return NULL;
	hvd_verbose(log, "%s", err->msg);
	return ask_slurm(target, rank, program, log, err);
}

static bool has_ranks(const json_t *said)
{
	size_t i;
	json_t *launch;

	json_array_foreach(json_object_get(said, "launches"), i, launch)
	{
		if (json_array_size(json_object_get(launch, "ranks")))
			return true;
	}
	return false;
}

int hvd_status_command(const char *target, const char *rank, bool json, const char *program, const struct hvd_log *log,
		       struct hvd_err *err)
{
	json_auto_t *said = hvd_job_status_get(target, rank, program, log, err);
	hvd_cleanup_free char *text = NULL;

	if (!said)
		return -1;
	if (rank && !has_ranks(said))
		return hvd_err_set(err, HVD_E_USAGE, "no launch of job %s has a rank %s now", target, rank);
	text = json ? json_dumps(said, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : hvd_job_status_text(said);
	if (!text || fputs(text, stdout) == EOF || (json && puts("") == EOF) || fflush(stdout) != 0)
		return hvd_err_sys(err, "cannot write the status");
	return 0;
}
