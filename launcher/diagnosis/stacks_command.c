/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks_command.h"

#include "control.h"
#include "lib/base/cleanup.h"
#include "lib/base/json_text.h"
#include "lib/base/xalloc.h"
#include "lib/host/rank_name.h"
#include "lib/host/stack_pieces.h"
#include "short_step.h"
#include "stack_groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long hosts may look at their ranks, and how long the whole may take. */
#define LOOK_SECONDS 15.0
#define ALL_SECONDS  18.0
/* Between two samples. */
#define PAUSE_SECONDS 3

/* Ask all hosts. Returns an array of their answers up to their end or the time limit. NULL with err set if srun cannot be
 * started, or no host has answered. */
static json_t *ask_hosts(const struct hvd_slurm_job *job, const char *target, const char *task, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv command = {0};
	hvd_cleanup_free char *text = NULL, *messages = NULL;
	json_t *answers;
	size_t len;

	hvd_strv_add(&command, task);
	hvd_strv_add(&command, "inspect");
	hvd_strv_addf(&command, "%s@%g", target, LOOK_SECONDS);
	text = hvd_short_step_run(job, NULL, job->hosts.n, &command, ALL_SECONDS - 1, &len, &messages, err);
	if (!text)
		return NULL;
	answers = hvd_stack_pieces_read(text, len);
	if (json_array_size(answers))
		return answers;
	json_decref(answers);
	hvd_err_set(err, HVD_E_FAILED, "no host of the job has answered within %.0f s%s%s", ALL_SECONDS,
		    messages && *messages ? ": " : "", messages ? messages : "");
	return NULL;
}

static json_t *silent_hosts(const struct hvd_slurm_job *job, const json_t *answers)
{
	json_t *silent = json_array(), *answer;
	size_t k;

	for (size_t i = 0; i < job->hosts.n; i++) {
		bool there = false;

		json_array_foreach(answers, k, answer)
		{
			const char *host = json_string_value(json_object_get(answer, "host"));

			there |= host && strcmp(host, job->hosts.v[i]) == 0;
		}
		if (!there)
			json_array_append_new(silent, json_string(job->hosts.v[i]));
	}
	return silent;
}

static json_t *ask_slurm(const char *target, const char *task, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job job = {0};
	json_t *answers, *silent;

	if (hvd_short_step_job(target, "--stacks", &job, err) != 0)
		return NULL;
	answers = ask_hosts(&job, target, task, err);
	if (!answers)
		return NULL;
	silent = silent_hosts(&job, answers);
	return json_pack("{s:o, s:o}", "hosts", answers, "silent", silent);
}

static size_t count_ranks(const json_t *said)
{
	size_t i, n = 0;
	json_t *host;

	json_array_foreach(json_object_get(said, "hosts"), i, host)
	{
		n += json_array_size(json_object_get(host, "ranks"));
	}
	return n;
}

/* The launch itself knows its ranks and the store. If it is not on this host, or has no ranks to show, Slurm is
 * asked. */
static json_t *ask(const char *target, const char *task, const struct hvd_log *log, struct hvd_err *err)
{
	json_t *said = hvd_control_ask(target, "stacks", LOOK_SECONDS, err);

	if (said && count_ranks(said))
		return said;
	hvd_verbose(log, "%s", said ? "the launch on this host has no ranks that it can show" : err->msg);
	if (strncmp(target, "pid:", 4) == 0) {
		if (!said && err->code == HVD_E_NOENT)
			hvd_err_set(err, HVD_E_USAGE, "process %s is not an hvdrun or srun --hvd of yours on this host",
				    target + 4);
		return said;
	}
	json_decref(said);
	return ask_slurm(target, task, err);
}

/* Leave only this rank. A host has an element for each role; the first has no `world`. */
static void choose_rank(json_t *said, const char *text)
{
	struct hvd_rank_name name = {.role = ""};
	size_t i;
	json_t *host;

	hvd_rank_name_parse(text, &name);
	json_array_foreach(json_object_get(said, "hosts"), i, host)
	{
		json_t *ranks = json_object_get(host, "ranks");
		const bool of = *name.role ? strcmp(hvd_json_text(host, "role"), name.role) == 0
					   : !json_object_get(host, "world");

		for (size_t r = json_array_size(ranks); r-- > 0;)
			if (!of || json_integer_value(json_object_get(json_array_get(ranks, r), "rank")) !=
					   (json_int_t)name.rank)
				json_array_remove(ranks, r);
	}
}

/* One sample; NULL with err set if there is nothing to show. */
static json_t *take_sample(const char *target, const char *rank, const char *task, const struct hvd_log *log,
			   struct hvd_err *err)
{
	json_t *said = ask(target, task, log, err);

	if (!said)
		return NULL;
	if (rank)
		choose_rank(said, rank);
	if (!count_ranks(said) && (rank || !json_array_size(json_object_get(said, "silent")))) {
		json_decref(said);
		if (rank) {
			hvd_err_set(err, HVD_E_USAGE, "rank %s of job %s does not run, or its host does not answer",
				    rank, target);
			return NULL;
		}
		hvd_err_set(err, HVD_E_USAGE, "no rank of job %s runs at the moment", target);
		hvd_err_hint(err, "only ranks that are yours and were started in a step (srun) are found");
		return NULL;
	}
	hvd_debug(log, "%zu ranks were found", count_ranks(said));
	return said;
}

/* A job that ends meanwhile is shown by the samples until then. NULL with err set: there is none. */
static json_t *take_samples(const char *target, const char *rank, int n, const char *task, const struct hvd_log *log,
			    struct hvd_err *err)
{
	json_t *samples = json_array(), *said = NULL;

	for (int i = 0; i < n && (i == 0 || said); i++) {
		if (i > 0)
			sleep(PAUSE_SECONDS);
		said = take_sample(target, rank, task, log, err);
		if (said)
			json_array_append_new(samples, said);
		else if (i > 0)
			hvd_warn(log, "sample %d of %d is the last: %s", i, n, err->msg);
	}
	if (json_array_size(samples))
		return samples;
	json_decref(samples);
	return NULL;
}

int hvd_stacks_command(const char *target, const char *rank, int n, bool json, const char *task,
		       const struct hvd_log *log, struct hvd_err *err)
{
	json_auto_t *samples = take_samples(target, rank, n, task, log, err), *groups = NULL;
	const json_t *first = json_array_get(samples, 0);
	hvd_cleanup_free char *text = NULL, *title = NULL;

	if (!samples)
		return -1;
	if (json) {
		groups = n > 1 ? hvd_stack_samples_json(samples) : hvd_stack_groups_json(first);
		text = json_dumps(groups, JSON_INDENT(2));
	} else {
		title = hvd_xasprintf("%s%s", strncmp(target, "pid:", 4) == 0 ? "" : "job ", target);
		text = n > 1 ? hvd_stack_samples_text(samples, title) : hvd_stack_groups_text(first, title);
	}
	if (!text || fputs(text, stdout) == EOF || (json && puts("") == EOF) || fflush(stdout) != 0)
		return hvd_err_sys(err, "cannot write the stacks");
	return 0;
}
