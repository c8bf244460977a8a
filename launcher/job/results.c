/* SPDX-License-Identifier: Apache-2.0 */
#include "results.h"

#include "lib/base/file.h"
#include "lib/base/xalloc.h"

#include <errno.h>
#include <event2/buffer.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* At the end, a reader that takes nothing for this long has stopped reading. */
#define READER_SECONDS 60

struct hvd_results {
	const struct hvd_log *log;
	int fd;
	bool stream; /* a pipe or socket, written without blocking */
	struct evbuffer *out;
	struct event *hangup, *writable;
	void (*gone)(void *arg);
	void *arg;
	int failed; /* errno of the write that did not work */
};

int hvd_open_or_take(const char *name, int flags)
{
	size_t digits = strspn(name, "0123456789");

	if (digits == 0 || name[digits])
		return open(name, flags | O_CLOEXEC | O_NOCTTY, 0600);
	if (digits > 6) {
		errno = EBADF;
		return -1;
	}
	return fcntl(atoi(name), F_SETFD, FD_CLOEXEC) == 0 ? atoi(name) : -1;
}

static void write_failed(struct hvd_results *res, int error)
{
	if (res->failed)
		return;
	res->failed = error;
	evbuffer_drain(res->out, evbuffer_get_length(res->out));
	if (res->writable)
		event_del(res->writable);
	if (res->hangup)
		event_del(res->hangup);
	hvd_error(res->log, "the results cannot be written (--results): %s",
		  error == EPIPE       ? "nobody reads them any longer"
		  : error == ETIMEDOUT ? "their reader has stopped reading"
				       : strerror(error));
	if (res->gone)
		res->gone(res->arg);
}

static void write_some(struct hvd_results *res)
{
	while (!res->failed && evbuffer_get_length(res->out) > 0) {
		int n = evbuffer_write(res->out, res->fd);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (n <= 0)
			write_failed(res, n < 0 ? errno : EIO);
	}
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_results *res = arg;

	(void)fd;
	(void)what;
	write_some(res);
	if (!res->failed && evbuffer_get_length(res->out) > 0)
		event_add(res->writable, NULL);
}

/* Nothing is read from the results. An event means that the reader has gone, or that it has written something, which is
 * ignored. */
static void on_hangup(evutil_socket_t fd, short what, void *arg)
{
	struct pollfd p = {.fd = fd};
	struct hvd_results *res = arg;

	(void)what;
	if (poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP)))
		write_failed(res, EPIPE);
	else
		event_del(res->hangup);
}

void hvd_results_add(struct hvd_results *res, json_t *head, const void *data, size_t len)
{
	char *line;

	json_object_set_new(head, "length", json_integer((json_int_t)len));
	line = json_dumps(head, JSON_COMPACT);
	json_decref(head);
	if (line && !res->failed) {
		evbuffer_add(res->out, line, strlen(line));
		evbuffer_add(res->out, "\n", 1);
		if (evbuffer_add(res->out, data, len) != 0)
			write_failed(res, ENOMEM);
	}
	free(line);
	if (!res->failed && res->stream)
		event_add(res->writable, NULL);
	else
		write_some(res);
}

static int open_results(struct hvd_results *res, struct event_base *base, const char *name, struct hvd_err *err)
{
	struct stat st;

	if (name[strspn(name, "0123456789")]) {
		res->fd = hvd_open_written(AT_FDCWD, name, O_TRUNC, true, 0600, err);
	} else {
		res->fd = hvd_open_or_take(name, 0);
		if (res->fd < 0)
			hvd_err_set(err, HVD_E_USAGE, "%s", strerror(errno));
	}
	if (res->fd < 0 || fstat(res->fd, &st) != 0 || (fcntl(res->fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
		if (res->fd >= 0)
			hvd_err_set(err, HVD_E_USAGE, "%s", strerror(EBADF));
		hvd_err_prefix(err, "cannot write to %s (--results)", name);
		hvd_err_hint(err, "it is a file that can be made, a pipe that is being read, or the number of an open "
				  "descriptor");
		if (err)
			err->code = HVD_E_USAGE;
		return -1;
	}
	res->stream = S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode);
	res->out = evbuffer_new();
	if (res->stream) {
		evutil_make_socket_nonblocking(res->fd);
		res->hangup = event_new(base, res->fd, EV_READ | EV_PERSIST, on_hangup, res);
		res->writable = event_new(base, res->fd, EV_WRITE, on_writable, res);
	}
	if (!res->out || (res->stream && (!res->hangup || !res->writable || event_add(res->hangup, NULL) != 0)))
		return hvd_err_set(err, HVD_E_SYS, "cannot watch the results");
	return 0;
}

struct hvd_results *hvd_results_open(struct event_base *base, const char *name, void (*gone)(void *arg), void *arg,
				     const struct hvd_log *log, struct hvd_err *err)
{
	struct hvd_results *res = hvd_xcalloc(1, sizeof(*res));

	res->log = log;
	res->gone = gone;
	res->arg = arg;
	if (open_results(res, base, name, err) == 0)
		return res;
	hvd_results_close(res);
	return NULL;
}

size_t hvd_results_unread(const struct hvd_results *res)
{
	return evbuffer_get_length(res->out);
}

bool hvd_results_failed(const struct hvd_results *res)
{
	return res->failed != 0;
}

int hvd_results_finish(struct hvd_results *res, json_t *last)
{
	struct pollfd p = {.fd = res->fd, .events = POLLOUT};

	res->gone = NULL;
	hvd_results_add(res, last, "", 0);
	while (write_some(res), evbuffer_get_length(res->out) > 0) {
		int n = poll(&p, 1, READER_SECONDS * 1000);

		if (n == 0 || (n < 0 && errno != EINTR))
			write_failed(res, n == 0 ? ETIMEDOUT : errno);
	}
	return res->failed ? -1 : 0;
}

void hvd_results_close(struct hvd_results *res)
{
	if (!res)
		return;
	if (res->hangup)
		event_free(res->hangup);
	if (res->writable)
		event_free(res->writable);
	if (res->out)
		evbuffer_free(res->out);
	if (res->fd >= 0)
		close(res->fd);
	free(res);
}
