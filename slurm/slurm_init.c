/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurm_init.c - one slurm_init() in the life of a process, rehearsed by a child.
 *
 * slurm_init() ends its process when the configuration is not to be had or is wrong, so a child tries it first. When
 * the child came back, this process does the same and keeps what libslurm has read until it ends.
 */
#include "slurm.h"

#ifdef HVD_WITH_SLURM

#include "lib/base/deadline.h"
#include "lib/process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define REHEARSAL_SECONDS 30.0

/* libslurm has one state for the whole process. */
static struct {
	pthread_mutex_t lock;
	bool done;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Read what the child says until it ends, at most len - 1 bytes. False when the deadline passed. */
static bool read_words(int fd, char *text, size_t len, hvd_time deadline)
{
	size_t n = 0;
	bool late = false;

	while (n < len - 1) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t got;
		int rc = poll(&p, 1, hvd_left_ms(deadline));

		if (rc < 0 && errno == EINTR)
			continue;
		late = rc == 0;
		if (rc <= 0)
			break;
		got = read(fd, text + n, len - 1 - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	while (n > 0 && text[n - 1] == '\n')
		n--;
	text[n] = '\0';
	return !late;
}

/* Why the child did not come back. A killed one may have said nothing, so its end is always told. */
static int explain(bool late, const char *text, int status, struct hvd_err *err)
{
	char end[64];

	if (late)
		hvd_err_set(err, HVD_E_TIMEOUT, "Slurm's configuration cannot be read: the controller does not answer");
	else if (*text && WIFEXITED(status))
		hvd_err_set(err, HVD_E_SYS, "Slurm's configuration cannot be read: %s", text);
	else
		hvd_err_set(err, HVD_E_SYS, "Slurm's configuration cannot be read: %s%sa process in libslurm ended: %s",
			    text, *text ? "; " : "", hvd_status_text(status, end, sizeof(end)));
	return hvd_err_hint(err, "see whether 'scontrol show config' works here");
}

static int rehearse(struct hvd_err *err)
{
	char text[512];
	int fds[2], status = 0;
	bool in_time;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return hvd_err_sys(err, "cannot make a pipe");
	pid = fork();
	if (pid < 0) {
		hvd_err_sys(err, "cannot start a process");
		close(fds[0]);
		close(fds[1]);
		return -1;
	}
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fds[1], STDERR_FILENO);
		slurm_init(NULL);
		_exit(0);
	}
	close(fds[1]);
	in_time = read_words(fds[0], text, sizeof(text), hvd_deadline_in(REHEARSAL_SECONDS));
	close(fds[0]);
	if (!in_time)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return explain(!in_time, text, status, err);
}

int hvd_slurm_open(struct hvd_err *err)
{
	int rc = 0;

	pthread_mutex_lock(&process.lock);
	if (!process.done && (rc = rehearse(err)) == 0) {
		slurm_init(NULL);
		process.done = true;
	}
	pthread_mutex_unlock(&process.lock);
	return rc;
}

#endif
