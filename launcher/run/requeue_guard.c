/* SPDX-License-Identifier: Apache-2.0 */
#include "requeue_guard.h"

#include "lib/base/cleanup.h"
#include "lib/process/spawn.h"
#include "lsf/lsf.h"
#include "requeue.h"
#include "slurm/slurm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

extern char **environ;

#define KILLED "hvdrun was killed"

int hvd_requeue_guard_start(const struct hvd_launch_spec *spec, const char *program, const struct hvd_log *log)
{
	const uint32_t job = hvd_requeue_job(spec, 0);
	struct hvd_err err = {0};
	char number[16];
	char *argv[] = {(char *)"hvd-requeue", number, NULL};
	struct hvd_spawn spawn = {.path = program, .argv = argv, .new_session = 1, .ignore_ends = 1, .ignore_user = 1};
	int ends[2];

	if (!(spec->requeue_on & 1U << HVD_REQUEUE_NODE) || (!job && !hvd_alloc_in_lsf(environ)))
		return -1;
	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	snprintf(number, sizeof(number), "%u", (unsigned)job);
	hvd_spawn_fd(&spawn, ends[0], STDIN_FILENO);
	hvd_spawn_fd(&spawn, -1, STDOUT_FILENO);
	if (hvd_spawn(&spawn, &err) < 0) {
		hvd_err_prefix(&err, "the job is not requeued if hvdrun is killed");
		hvd_log_err(log, &err);
		close(ends[1]);
		ends[1] = -1;
	}
	close(ends[0]);
	return ends[1];
}

void hvd_requeue_guard_end(int guard)
{
	if (guard < 0)
		return;
	if (write(guard, "e", 1) < 0) {
		/* It has ended before. */
	}
	close(guard);
}

/* The batch script may have ended before Slurm was asked, and the job with it. */
static int after_the_script(const struct hvd_slurm_job *before, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job job = {0};

	if (hvd_slurm_job_get(before->id, &job, hvd_deadline_in(HVD_SLURM_SECONDS), err) != 0)
		return -1;
	if (job.state != HVD_SLURM_ENDED || job.fate || job.rerun.restarts != before->rerun.restarts)
		return 0;
	return hvd_slurm_requeue(&job.rerun, true, hvd_deadline_in(HVD_SLURM_SECONDS), err);
}

int hvd_requeue_guard(uint32_t number, int fd, const struct hvd_log *log)
{
	HVD_CLEANUP(hvd_slurm_job_clear) struct hvd_slurm_job job = {0};
	const bool known = number && hvd_slurm_job_get(number, &job, hvd_deadline_in(HVD_SLURM_SECONDS), NULL) == 0;
	struct hvd_err err = {0};
	ssize_t n;
	char word;
	int rc;

	while ((n = read(fd, &word, 1)) < 0 && errno == EINTR)
		;
	if (n != 0)
		return 0;
	if (!number)
		rc = hvd_requeue_lsf(KILLED, log, &err);
	else if (!known && hvd_slurm_job_get(number, &job, hvd_deadline_in(HVD_SLURM_SECONDS), &err) != 0)
		rc = -1;
	else
		rc = hvd_requeue_slurm(&job, KILLED, false, log, &err);
	if (number && rc > 0)
		rc = after_the_script(&job, &err);
	if (rc < 0)
		hvd_log_err(log, &err);
	return rc < 0;
}
