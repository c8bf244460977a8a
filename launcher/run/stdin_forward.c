/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stdin_forward.c - one block at a time: it is read when the last one has been written, so that a slow reader slows the
 * source down and nothing piles up here. A source that cannot be polled (a file, /dev/null) is always ready.
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
	int from, to; /* -1: there is none any more */
	struct event *readable, *writable;
};

static void finish(struct hvd_stdin_forward *feed)
{
	if (feed->readable)
		event_free(feed->readable);
	if (feed->writable)
		event_free(feed->writable);
	feed->readable = feed->writable = NULL;
	if (feed->to >= 0)
		close(feed->to);
	feed->to = -1;
	if (feed->buf)
		explicit_bzero(feed->buf, feed->n);
	free(feed->buf);
	feed->buf = NULL;
}

/* A terminal may belong to others now: then nothing comes from it any more, rather than that we are stopped. */
static ssize_t read_block(struct hvd_stdin_forward *feed)
{
	sigset_t tty, old;
	ssize_t n;
	int error;

	sigemptyset(&tty);
	sigaddset(&tty, SIGTTIN);
	sigprocmask(SIG_BLOCK, &tty, &old);
	do
		n = read(feed->from, feed->buf, BLOCK);
	while (n < 0 && errno == EINTR);
	error = errno;
	sigprocmask(SIG_SETMASK, &old, NULL);
	errno = error;
	return n;
}

/* The first block, ours, may be of any size; those that follow have a buffer of their own. */
static void take_block(struct hvd_stdin_forward *feed)
{
	ssize_t n = read_block(feed);

	if (n < 0 && errno == EAGAIN && feed->readable) {
		event_add(feed->readable, NULL);
	} else if (n <= 0) {
		finish(feed);
	} else {
		feed->n = (size_t)n;
		feed->done = 0;
		event_add(feed->writable, NULL);
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
	struct hvd_stdin_forward *feed = arg;
	ssize_t n = write(fd, feed->buf + feed->done, feed->n - feed->done);

	(void)what;
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		finish(feed); /* the reader is gone, and whoever waits for it sees that */
		return;
	}
	feed->done += n > 0 ? (size_t)n : 0;
	if (feed->done < feed->n) {
		event_add(feed->writable, NULL);
		return;
	}
	explicit_bzero(feed->buf, feed->n);
	if (feed->from < 0) {
		finish(feed);
		return;
	}
	if (feed->n < BLOCK)
		feed->buf = hvd_xrealloc(feed->buf, BLOCK, 1);
	if (feed->readable)
		event_add(feed->readable, NULL);
	else
		take_block(feed);
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
	struct hvd_stdin_forward *feed;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0) {
		explicit_bzero(bytes, n);
		free(bytes);
		hvd_err_sys(err, "cannot make a pipe");
		return NULL;
	}
	fcntl(fds[1], F_SETFL, O_NONBLOCK);
	feed = hvd_xcalloc(1, sizeof(*feed));
	feed->buf = bytes;
	feed->n = n;
	feed->from = from;
	feed->to = fds[1];
	feed->writable = event_new(base, feed->to, EV_WRITE, on_writable, feed);
	if (from >= 0 && hvd_stdin_forward_can_poll(from))
		feed->readable = event_new(base, from, EV_READ, on_readable, feed);
	event_add(feed->writable, NULL);
	*out = fds[0];
	return feed;
}

void hvd_stdin_forward_destroy(struct hvd_stdin_forward *feed)
{
	if (!feed)
		return;
	finish(feed);
	free(feed);
}
