/* SPDX-License-Identifier: Apache-2.0 */
#include "short_step.h"

#include "lib/base/cleanup.h"
#include "lib/base/deadline.h"
#include "lib/base/file.h"
#include "lib/process/spawn.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern char **environ;

#define MAX_OUTPUT (256 << 20)

/* ---- the job ---- */

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

int hvd_short_step_job(const char *target, const char *option, struct hvd_slurm_job *job, struct hvd_err *err)
{
	char *end;
	unsigned long number = strtoul(target, &end, 10), step = 0;

	if (*end == '.')
		step = strtoul(end + 1, &end, 10);
	if (end == target || *end || number == 0 || number > UINT32_MAX || step > UINT32_MAX) {
		hvd_err_set(err, HVD_E_USAGE, "%s: '%s' is not a job", option, target);
		return hvd_err_hint(err, "write the number of a job (123), of a step (123.0), or pid:PID");
	}
	return find_job((unsigned)number, job, err);
}

/* ---- the step ---- */

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

static void step_command(const struct hvd_slurm_job *job, const char *nodelist, size_t nodes, struct hvd_strv *argv)
{
	static const char *const options[] = {"--overlap",    "--ntasks-per-node=1",  "--cpus-per-task=1", "--mem=0",
					      "--gres=none",  "--mpi=none",           "--cpu-bind=none",   "--quiet",
					      "--input=none", "--kill-on-bad-exit=0", "--chdir=/"};

	hvd_strv_add(argv, "srun");
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		hvd_strv_add(argv, options[i]);
	hvd_strv_addf(argv, "--jobid=%u", (unsigned)job->id);
	if (nodelist)
		hvd_strv_addf(argv, "--nodelist=%s", nodelist);
	hvd_strv_addf(argv, "--nodes=%zu", nodes);
	hvd_strv_addf(argv, "--ntasks=%zu", nodes);
}

static char *read_all(int fd, const char *what, size_t *len, struct hvd_err *err)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return hvd_read_file(path, MAX_OUTPUT, what, len, err);
}

char *hvd_short_step_run(const struct hvd_slurm_job *job, const char *nodelist, size_t nodes,
			 const struct hvd_strv *command, double seconds, size_t *len, char **messages,
			 struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv argv = {0}, env = {0};
	hvd_cleanup_close int out = memfd_create("answers", MFD_CLOEXEC);
	hvd_cleanup_close int said = memfd_create("messages", MFD_CLOEXEC);
	struct hvd_spawn sp = {.path = "srun", .new_group = 1};
	size_t said_len;
	pid_t pid;

	*messages = NULL;
	if (out < 0 || said < 0) {
		hvd_err_sys(err, "cannot store the hosts' answers in memory");
		return NULL;
	}
	step_command(job, nodelist, nodes, &argv);
	for (size_t i = 0; i < command->n; i++)
		hvd_strv_add(&argv, command->v[i]);
	step_env(&env);
	hvd_strv_add(&env, "SLURM_EXIT_ERROR=1");
	sp.argv = argv.v;
	sp.envp = env.v;
	hvd_spawn_fd(&sp, -1, STDIN_FILENO);
	hvd_spawn_fd(&sp, out, STDOUT_FILENO);
	hvd_spawn_fd(&sp, said, STDERR_FILENO);
	pid = hvd_spawn(&sp, err);
	if (pid < 0)
		return NULL;
	if (hvd_wait(pid, hvd_deadline_in(seconds), NULL, NULL) != 0)
		hvd_end(pid, 1, NULL);
	*messages = read_all(said, "srun's messages", &said_len, NULL);
	return read_all(out, "the hosts' answers", len, err);
}
