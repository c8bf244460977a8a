/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stdin_forward.c - one block at a time: a block is read when the last one has been written, so that a slow reader
 * slows down whoever writes to hvdrun's stdin, and nothing piles up here. A file or /dev/null cannot be polled, and is
 * read as always ready.
 */
#include "stdin_forward.h"

#include "lib/base/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BLOCK 65536

struct hvd_stdin_forward {
	unsigned char *buf; /* n bytes, of which `done` are written */
	size_t n, done;
	int from, to; /* -1: at its end, or closed */
	struct event *readable, *writable;
};

static void finish(struct hvd_stdin_forward *forward)
{
	if (forward->readable)
		event_free(forward->readable);
	if (forward->writable)
		event_free(forward->writable);
	forward->readable = forward->writable = NULL;
	if (forward->to >= 0)
		close(forward->to);
	forward->to = -1;
	if (forward->buf)
		explicit_bzero(forward->buf, forward->n);
	free(forward->buf);
	forward->buf = NULL;
}

/* A process in the background that reads from the terminal gets SIGTTIN, and would stop. With SIGTTIN blocked the read
 * fails instead, and forwarding ends. */
ssize_t hvd_stdin_forward_read(int from, void *to, size_t most)
{
	sigset_t tty, old;
	ssize_t n;
	int error;

	sigemptyset(&tty);
	sigaddset(&tty, SIGTTIN);
	sigprocmask(SIG_BLOCK, &tty, &old);
	do
		n = read(from, to, most);
	while (n < 0 && errno == EINTR);
	error = errno;
	sigprocmask(SIG_SETMASK, &old, NULL);
	errno = error;
	return n;
}

static void take_block(struct hvd_stdin_forward *forward)
{
	ssize_t n = hvd_stdin_forward_read(forward->from, forward->buf, BLOCK);

	if (n < 0 && errno == EAGAIN && forward->readable) {
		event_add(forward->readable, NULL);
	} else if (n <= 0) {
		finish(forward);
	} else {
		forward->n = (size_t)n;
		forward->done = 0;
		event_add(forward->writable, NULL);
	}
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	take_block(arg);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_stdin_forward *forward = arg;
	ssize_t n = write(fd, forward->buf + forward->done, forward->n - forward->done);

	(void)what;
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		finish(forward); /* the process has gone, which hvd_procs_reap() notices */
		return;
	}
	forward->done += n > 0 ? (size_t)n : 0;
	if (forward->done < forward->n) {
		event_add(forward->writable, NULL);
		return;
	}
	explicit_bzero(forward->buf, forward->n);
	if (forward->from < 0) {
		finish(forward);
		return;
	}
	if (forward->n < BLOCK)
		forward->buf = hvd_xrealloc(forward->buf, BLOCK, 1);
	if (forward->readable)
		event_add(forward->readable, NULL);
	else
		take_block(forward);
}

int hvd_stdin_forward_can_poll(int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int ep = epoll_create1(EPOLL_CLOEXEC), rc = ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) == 0;

	if (ep >= 0)
		close(ep);
	return rc;
}

struct hvd_stdin_forward *hvd_stdin_forward_create(struct event_base *base, unsigned char *bytes, size_t n, int from,
						   int *out, struct hvd_err *err)
{
	struct hvd_stdin_forward *forward;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0) {
		explicit_bzero(bytes, n);
		free(bytes);
		hvd_err_sys(err, "cannot make a pipe");
		return NULL;
	}
	fcntl(fds[1], F_SETFL, O_NONBLOCK);
	forward = hvd_xcalloc(1, sizeof(*forward));
	forward->buf = bytes;
	forward->n = n;
	forward->from = from;
	forward->to = fds[1];
	forward->writable = event_new(base, forward->to, EV_WRITE, on_writable, forward);
	if (from >= 0 && hvd_stdin_forward_can_poll(from))
		forward->readable = event_new(base, from, EV_READ, on_readable, forward);
	event_add(forward->writable, NULL);
	*out = fds[0];
	return forward;
}

void hvd_stdin_forward_destroy(struct hvd_stdin_forward *forward)
{
	if (!forward)
		return;
	finish(forward);
	free(forward);
}
