/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *hvd_capture_fd(int fd, const char *what, size_t max, hvd_time deadline, size_t *len, struct hvd_err *err)
{
	size_t room = 4096;
	hvd_cleanup_free char *text = hvd_xcalloc(room, 1);
	ssize_t n;

	*len = 0;
	for (;;) {
		struct pollfd pfd = {.fd = fd, .events = POLLIN};
		int rc = poll(&pfd, 1, hvd_left_ms(deadline));

		if (rc == 0) {
			hvd_err_set(err, HVD_E_TIMEOUT, "%s does not end", what);
			return NULL;
		}
		if (rc < 0 && errno == EINTR)
			continue;
		n = read(fd, text + *len, room - *len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			hvd_err_sys(err, "cannot read from %s", what);
			return NULL;
		}
		text[ *len += (size_t)n] = '\0';
		if (n == 0)
			return hvd_take_ptr(&text);
		if (*len > max) {
			hvd_err_set(err, HVD_E_LIMIT, "%s prints more than %zu bytes", what, max);
			return NULL;
		}
		if (room - *len < 2)
			text = hvd_xrealloc(text, room *= 2, 1);
	}
}

/* /dev/null, unless the caller has named another. */
static void close_default(struct hvd_spawn *sp, int fd)
{
	for (int i = 0; i < sp->n_fds; i++)
		if (sp->child_fd[i] == fd)
			return;
	hvd_spawn_fd(sp, -1, fd);
}

char *hvd_capture(const struct hvd_spawn *sp, size_t max, hvd_time deadline, size_t *len, int *status,
		  struct hvd_err *err)
{
	struct hvd_spawn mine = *sp;
	hvd_cleanup_free char *text = NULL;
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) != 0) {
		hvd_err_sys(err, "cannot make a pipe to %s", sp->path);
		return NULL;
	}
	mine.new_group = 1;
	mine.parent_death_signal = SIGKILL;
	close_default(&mine, STDIN_FILENO);
	hvd_spawn_fd(&mine, fds[1], STDOUT_FILENO);
	close_default(&mine, STDERR_FILENO);
	pid = hvd_spawn(&mine, err);
	close(fds[1]);
	if (pid > 0)
		text = hvd_capture_fd(fds[0], sp->path, max, deadline, len, err);
	close(fds[0]);
	if (text && hvd_wait(pid, deadline, status, err) == 0)
		return hvd_take_ptr(&text);
	if (pid > 0) {
		kill(-pid, SIGKILL);
		hvd_wait(pid, hvd_deadline_in(5), NULL, NULL);
	}
	return NULL;
}
