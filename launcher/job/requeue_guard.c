/* SPDX-License-Identifier: Apache-2.0 */
#include "requeue_guard.h"

#include "launcher/scheduler/scheduler.h"
#include "lib/process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

extern char **environ;

int hvd_requeue_guard_start(const struct hvd_launch_spec *spec, const char *program, const struct hvd_log *log)
{
	struct hvd_batch_job job = hvd_batch_job_of(spec, 0);
	struct hvd_err err = {0};
	char *argv[] = {(char *)"hvd-requeue", (char *)job.scheduler->key, job.name, NULL};
	struct hvd_spawn spawn = {.path = program, .argv = argv, .new_session = 1, .ignore_ends = 1, .ignore_user = 1};
	int ends[2];

	if (!(spec->requeue_on & 1U << HVD_REQUEUE_NODE) || !job.scheduler->requeue)
		return -1;
	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
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

/* Wait for hvdrun's end. True: it has ended without a word. */
static bool was_killed(void *arg)
{
	const int *fd = arg;
	ssize_t n;
	char word;

	while ((n = read(*fd, &word, 1)) < 0 && errno == EINTR)
		;
	return n == 0;
}

int hvd_requeue_guard(const char *scheduler, const char *name, int fd, const struct hvd_log *log)
{
	static const struct hvd_requeue_order order = {.why = "hvdrun was killed"};
	struct hvd_batch_job job = {.scheduler = hvd_scheduler_named(scheduler)};
	struct hvd_err err = {0};
	int rc = 0;

	if (!job.scheduler->requeue || !job.scheduler->find(name, environ, &job))
		rc = hvd_err_set(&err, HVD_E_USAGE, "there is no job %s of %s", name, job.scheduler->name);
	else if (job.scheduler->requeue_after)
		rc = job.scheduler->requeue_after(&job, &order, was_killed, &fd, log, &err);
	else if (was_killed(&fd))
		rc = job.scheduler->requeue(&job, &order, log, &err);
	if (rc < 0)
		hvd_log_err(log, &err);
	return rc < 0;
}
