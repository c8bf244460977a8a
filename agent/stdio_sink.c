/* SPDX-License-Identifier: Apache-2.0 */
#include "stdio_sink.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <errno.h>
#include <event2/buffer.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* With so many bytes that wait the sink is full. */
#define WINDOW 65536

struct stream {
	struct stdio_sink *sink;
	struct event *writable; /* pending while bytes wait; NULL: a file, which always takes all */
	int fd;
	bool socket;
	struct evbuffer *waiting;
};

struct stdio_sink {
	struct hvd_output_sink sink; /* first: a pointer to it is one to the whole */
	struct hvd_output_losses *losses;
	struct stream streams[2]; /* by enum hvd_stream */
};

static size_t waiting(const struct stream *to)
{
	return evbuffer_get_length(to->waiting);
}

static void update(struct stdio_sink *sink)
{
	bool was = sink->sink.full;

	sink->sink.full = waiting(&sink->streams[HVD_STDOUT]) + waiting(&sink->streams[HVD_STDERR]) >= WINDOW;
	if (was && !sink->sink.full)
		hvd_output_sink_resume(&sink->sink);
}

/* Write the next piece, without waiting. The descriptor is also that of other processes, so it cannot be made
 * non-blocking; but a pipe that is writable has room for PIPE_BUF. Returns the bytes that were written, -1 with errno
 * set. */
static ssize_t write_piece(const struct stream *to, const char *p, size_t n)
{
	struct pollfd pfd = {.fd = to->fd, .events = POLLOUT};

	if (to->socket)
		return send(to->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (to->writable && poll(&pfd, 1, 0) == 0) {
		errno = EAGAIN;
		return -1;
	}
	return write(to->fd, p, to->writable && n > PIPE_BUF ? PIPE_BUF : n);
}

/* Returns how many bytes were written or, as nobody will ever read them, are lost. */
static size_t write_some(struct stream *to, const char *p, size_t n)
{
	size_t at = 0;

	while (at < n) {
		ssize_t done = write_piece(to, p + at, n - at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0 && errno == EAGAIN)
			return at;
		if (done <= 0) {
			/* A broken pipe is no failure: the reader wants no more. */
			hvd_output_lose(to->sink->losses,
					to == &to->sink->streams[HVD_STDOUT] ? HVD_STDOUT : HVD_STDERR,
					done == 0        ? EIO
					: errno == EPIPE ? 0
							 : errno);
			return n;
		}
		at += (size_t)done;
	}
	return n;
}

static void write_waiting(struct stream *to)
{
	evbuffer_drain(to->waiting, write_some(to, (char *)evbuffer_pullup(to->waiting, -1), waiting(to)));
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct stream *to = arg;

	(void)fd;
	(void)what;
	write_waiting(to);
	if (waiting(to) > 0)
		event_add(to->writable, NULL);
	update(to->sink);
}

static void on_output(struct hvd_output_sink *out, enum hvd_stream stream, const char *p, size_t n)
{
	struct stdio_sink *sink = (struct stdio_sink *)out;
	struct stream *to = &sink->streams[stream];
	size_t done = waiting(to) > 0 ? 0 : write_some(to, p, n);

	if (done < n) {
		if (evbuffer_add(to->waiting, p + done, n - done) != 0)
			abort();
		event_add(to->writable, NULL);
	}
	update(sink);
}

struct hvd_output_sink *hvd_stdio_sink_create(struct event_base *base, struct hvd_output_losses *losses)
{
	struct stdio_sink *sink = hvd_xcalloc(1, sizeof(*sink));

	sink->sink.write = on_output;
	sink->losses = losses;
	for (int s = HVD_STDOUT; s <= HVD_STDERR; s++) {
		struct stream *to = &sink->streams[s];
		struct stat st;

		to->sink = sink;
		to->fd = s + 1;
		to->waiting = evbuffer_new();
		if (!to->waiting)
			abort();
		if (fstat(to->fd, &st) != 0 || S_ISREG(st.st_mode))
			continue; /* epoll knows no files */
		to->socket = S_ISSOCK(st.st_mode);
		to->writable = event_new(base, to->fd, EV_WRITE, on_writable, to);
		if (!to->writable)
			abort();
	}
	return &sink->sink;
}

void hvd_stdio_sink_destroy(struct hvd_output_sink *out)
{
	struct stdio_sink *sink = (struct stdio_sink *)out;

	if (!sink)
		return;
	for (int s = HVD_STDOUT; s <= HVD_STDERR; s++) {
		struct stream *to = &sink->streams[s];
		struct pollfd pfd = {.fd = to->fd, .events = POLLOUT};

		while (waiting(to) > 0) {
			write_waiting(to);
			if (waiting(to) > 0)
				poll(&pfd, 1, -1);
		}
		hvd_event_unwatch(&to->writable);
		evbuffer_free(to->waiting);
	}
	free(sink);
}
