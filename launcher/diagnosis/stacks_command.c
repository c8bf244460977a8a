/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks_command.h"

#include "control.h"
#include "lib/base/cleanup.h"
#include "lib/base/deadline.h"
#include "lib/base/file.h"
#include "lib/base/xalloc.h"
#include "lib/host/stack_pieces.h"
#include "lib/process/spawn.h"
#include "slurm/slurm.h"
#include "stack_groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern char **environ;

/* How long hosts may look at their ranks, and how long the whole may take. */
#define LOOK_SECONDS 15.0
#define ALL_SECONDS  18.0
#define MAX_OUTPUT   (256 << 20)
/* Between two samples. */
#define PAUSE_SECONDS 3

/* The step's environment: without the variables of Slurm or of a launch that describe this process. */
static void step_env(struct hvd_strv *env)
{
	static const char *const out[] = {"SLURM_", "SRUN_", "SPANK_", "_SLURM_SPANK", "HVD_", "PMI", "SBATCH_"};

	for (char **e = environ; *e; e++) {
		bool keep = true;

		for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++)
			keep &= strncmp(*e, out[i], strlen(out[i])) != 0;
		if (keep || strncmp(*e, "SLURM_CONF=", 11) == 0)
			hvd_strv_add(env, *e);
	}
}

static void step_command(const char *target, unsigned job, size_t hosts, const char *task, struct hvd_strv *argv)
{
	static const char *const options[] = {"--overlap",    "--ntasks-per-node=1",  "--cpus-per-task=1", "--mem=0",
					      "--gres=none",  "--mpi=none",           "--cpu-bind=none",   "--quiet",
					      "--input=none", "--kill-on-bad-exit=0", "--chdir=/"};

	hvd_strv_add(argv, "srun");
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		hvd_strv_add(argv, options[i]);
	hvd_strv_addf(argv, "--jobid=%u", job);
	hvd_strv_addf(argv, "--nodes=%zu", hosts);
	hvd_strv_addf(argv, "--ntasks=%zu", hosts);
	hvd_strv_add(argv, task);
	hvd_strv_add(argv, "inspect");
	hvd_strv_addf(argv, "%s@%g", target, LOOK_SECONDS);
}

/* Run the step. Returns an array of its tasks' answers up to their end or the time limit. NULL with err set if srun
 * cannot be started, or no task has answered. */
static json_t *run_step(const struct hvd_strv *argv, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv env = {0};
	hvd_cleanup_close int out = memfd_create("stacks", MFD_CLOEXEC);
	hvd_cleanup_close int said = memfd_create("messages", MFD_CLOEXEC);
	hvd_cleanup_free char *text = NULL, *messages = NULL;
	struct hvd_spawn sp = {.path = "srun", .argv = argv->v};
	char path[64];
	json_t *answers;
	size_t len;
	pid_t pid;

	if (out < 0 || said < 0) {
		hvd_err_sys(err, "cannot store the hosts' answers in memory");
		return NULL;
	}
	step_env(&env);
	hvd_strv_add(&env, "SLURM_EXIT_ERROR=1");
	sp.envp = env.v;
	sp.new_group = 1;
	hvd_spawn_fd(&sp, -1, STDIN_FILENO);
	hvd_spawn_fd(&sp, out, STDOUT_FILENO);
	hvd_spawn_fd(&sp, said, STDERR_FILENO);
	pid = hvd_spawn(&sp, err);
	if (pid < 0)
		return NULL;
	if (hvd_wait(pid, hvd_deadline_in(ALL_SECONDS - 1), NULL, NULL) != 0)
		hvd_end(pid, 1, NULL);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", out);
	text = hvd_read_file(path, MAX_OUTPUT, "the hosts' answers", &len, err);
	if (!text)
		return NULL;
	answers = hvd_stack_pieces_read(text, len);
	if (json_array_size(answers))
		return answers;
	json_decref(answers);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", said);
	messages = hvd_read_file(path, MAX_OUTPUT, "srun's messages", &len, NULL);
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

/* A job that runs. */
static int find_job(unsigned number, struct hvd_slurm_job *job, struct hvd_err *err)
{
	if (hvd_slurm_job_get(number, job, hvd_deadline_in(HVD_SLURM_SECONDS), err) != 0) {
		if (err->code == HVD_E_NOENT)
			err->code = HVD_E_USAGE;
		return -1;
	}
	if (job->state == HVD_SLURM_RUNNING && job->hosts.n)
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "job %u %s", number,
		    job->state == HVD_SLURM_ENDED ? "has ended" : "has not started");
	return hvd_err_hint(err, "squeue --me lists your jobs");
}

static json_t *ask_slurm(const char *target, const char *task, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job job = {0};
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv argv = {0};
	char *end;
	unsigned long number = strtoul(target, &end, 10), step = 0;
	json_t *answers, *silent;

	if (*end == '.')
		step = strtoul(end + 1, &end, 10);
	if (end == target || *end || number == 0 || number > UINT32_MAX || step > UINT32_MAX) {
		hvd_err_set(err, HVD_E_USAGE, "--stacks: '%s' is not a job", target);
		hvd_err_hint(err, "write the number of a job (123), of a step (123.0), or pid:PID");
		return NULL;
	}
	if (find_job((unsigned)number, &job, err) != 0)
		return NULL;
	step_command(target, (unsigned)number, job.hosts.n, task, &argv);
	answers = run_step(&argv, err);
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
	json_t *said = hvd_control_ask(target, LOOK_SECONDS, err);

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

/* One sample; NULL with err set if there is nothing to show. */
static json_t *take_sample(const char *target, const char *task, const struct hvd_log *log, struct hvd_err *err)
{
	json_t *said = ask(target, task, log, err);

	if (!said)
		return NULL;
	if (!count_ranks(said) && !json_array_size(json_object_get(said, "silent"))) {
		json_decref(said);
		hvd_err_set(err, HVD_E_USAGE, "no rank of job %s runs at the moment", target);
		hvd_err_hint(err, "only ranks that are yours and were started in a step (srun) are found");
		return NULL;
	}
	hvd_debug(log, "%zu ranks were found", count_ranks(said));
	return said;
}

/* A job that ends meanwhile is shown by the samples until then. NULL with err set: there is none. */
static json_t *take_samples(const char *target, int n, const char *task, const struct hvd_log *log, struct hvd_err *err)
{
	json_t *samples = json_array(), *said = NULL;

	for (int i = 0; i < n && (i == 0 || said); i++) {
		if (i > 0)
			sleep(PAUSE_SECONDS);
		said = take_sample(target, task, log, err);
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

int hvd_stacks_command(const char *target, int n, bool json, const char *task, const struct hvd_log *log,
		       struct hvd_err *err)
{
	json_auto_t *samples = take_samples(target, n, task, log, err), *groups = NULL;
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
