/* SPDX-License-Identifier: Apache-2.0 */
#include "call.h"

#include "capture.h"
#include "close_fds.h"
#include "lib/base/cleanup.h"
#include "spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/* How long a child may take to fork. */
#define FORK_SECONDS 5.0

/* A handler of this process may write to a descriptor that the child shares with it, as libevent's do: then a signal to
 * the child would be taken for one to this process. So no signal comes before all handlers are gone. */
static _Noreturn void call(hvd_call_fn *fn, void *arg, int out, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	hvd_default_signals();
	fn(out, arg);
	_exit(0);
}

pid_t hvd_call_begin(hvd_call_fn *fn, void *arg, int *in, struct hvd_err *err)
{
	const pid_t parent = getpid();
	sigset_t all, mask;
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) != 0)
		return hvd_err_sys(err, "cannot make a pipe");
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &mask);
	pid = fork();
	if (pid == 0)
		call(fn, arg, fds[1], parent);
	if (pid < 0)
		hvd_err_sys(err, "cannot start a process");
	sigprocmask(SIG_SETMASK, &mask, NULL);
	close(fds[1]);
	if (pid < 0)
		close(fds[0]);
	else
		*in = fds[0];
	return pid;
}

struct detached {
	hvd_call_fn *fn;
	void *arg;
	int input; /* -1 = none */
};

static void detach(int out, void *arg)
{
	const struct detached *self = arg;
	int null;

	setsid();
	if (fork() != 0)
		return;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3; fd++)
		dup2(fd == STDIN_FILENO && self->input >= 0 ? self->input : null, fd);
	hvd_close_fds(3, (unsigned)out - 1, false);
	hvd_close_fds((unsigned)out + 1, ~0U, false);
	signal(SIGPIPE, SIG_IGN);
	self->fn(out, self->arg);
}

static int start_detached(struct detached *self, int *in, struct hvd_err *err)
{
	pid_t pid = hvd_call_begin(detach, self, in, err);

	if (pid > 0 && hvd_wait(pid, hvd_deadline_in(FORK_SECONDS), NULL, err) == 0)
		return 0;
	if (pid > 0)
		close(*in);
	return -1;
}

int hvd_call_detached(hvd_call_fn *fn, void *arg, int *to, int *in, struct hvd_err *err)
{
	struct detached self = {fn, arg, -1};
	int fds[2], rc;

	if (!to)
		return start_detached(&self, in, err);
	if (pipe2(fds, O_CLOEXEC) != 0)
		return hvd_err_sys(err, "cannot make a pipe");
	self.input = fds[0];
	rc = start_detached(&self, in, err);
	close(fds[0]);
	if (rc != 0) {
		close(fds[1]);
		return -1;
	}
	fcntl(fds[1], F_SETFL, O_NONBLOCK);
	*to = fds[1];
	return 0;
}

char *hvd_call(hvd_call_fn *fn, void *arg, const char *what, size_t max, hvd_time deadline, size_t *len, int *status,
	       struct hvd_err *err)
{
	hvd_cleanup_free char *text = NULL;
	int in;
	pid_t pid = hvd_call_begin(fn, arg, &in, err);

	if (pid < 0)
		return NULL;
	text = hvd_capture_fd(in, what, max, deadline, len, err);
	close(in);
	if (text && hvd_wait(pid, deadline, status, err) == 0)
		return hvd_take_ptr(&text);
	hvd_end(pid, 0, status);
	return NULL;
}
