/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_mux.c - a source is the pipe of one process, or bytes that the caller brings; it lives until its end of file,
 * or until the caller or the mux ends it. Whole lines go to the buffer `out`, which all sources share. While `out` is
 * full, no pipe is read.
 */
#include "output_mux.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/output_frame.h"
#include "stdin_forward.h"

#include <errno.h>
#include <event2/buffer.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_AT_ONCE 65536
#define OUT_MOST     (1024 * 1024)
#define TASKS_MOST   (1 << 20)
/* How long the beginning of a line may wait for its end (HVD_OUTPUT_MUX_PLAIN). */
#define SILENT_MS 100
#define PIECES    64 /* writes at a time, before other events have their turn */

struct task {
	struct evbuffer *line; /* NULL before its first byte */
	bool inside;           /* a frame has begun */
	bool escaped;          /* the byte before began an escape */
};

struct hvd_output_source {
	struct hvd_output_mux *mux;
	struct hvd_output_source *next;
	int fd; /* -1: the caller brings the bytes */
	struct event *readable;
	struct hvd_timer *silent; /* of the form PLAIN; pending: `rest` waits for the end of its line */
	struct evbuffer *rest;    /* the beginning of a line that is not complete */
	struct task *tasks;
	size_t n_tasks;
};

struct hvd_output_mux {
	struct event_base *base;
	enum hvd_output_mux_form form;
	int to;
	bool paused; /* no pipe is read */
	bool gone;   /* nothing can be written to `to` any more */
	int error;   /* the errno because of which it is gone; 0: nobody reads it */
	struct evbuffer *out;
	struct event *writable; /* NULL: a file, which takes everything at once */
	struct hvd_output_source *sources;
	void (*has_room)(void *arg);
	void *arg;
};

/* ---- to ---- */

static void pause_sources(struct hvd_output_mux *mux, bool pause)
{
	if (mux->paused == pause)
		return;
	mux->paused = pause;
	for (struct hvd_output_source *src = mux->sources; src; src = src->next) {
		if (!src->readable)
			continue;
		if (pause)
			event_del(src->readable);
		else
			event_add(src->readable, NULL);
	}
	if (!pause && mux->has_room)
		mux->has_room(mux->arg);
}

/* At most as much as a writable pipe surely has room for. */
static void write_piece(struct hvd_output_mux *mux, ev_ssize_t most)
{
	int n = mux->gone ? 0 : evbuffer_write_atmost(mux->out, mux->to, most);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		mux->gone = true;
		mux->error = errno == EPIPE ? 0 : errno;
	}
	if (mux->gone)
		evbuffer_drain(mux->out, evbuffer_get_length(mux->out));
}

bool hvd_output_mux_has_room(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLOUT};

	return poll(&pfd, 1, 0) > 0;
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_output_mux *mux = arg;

	(void)what;
	for (int i = 0; i < PIECES && evbuffer_get_length(mux->out) && (i == 0 || hvd_output_mux_has_room(fd)); i++)
		write_piece(mux, PIPE_BUF);
	if (evbuffer_get_length(mux->out))
		event_add(mux->writable, NULL);
	if (evbuffer_get_length(mux->out) < OUT_MOST)
		pause_sources(mux, false);
}

/* The loop does not run now: let signals end this process if the user is tired of waiting for the reader. */
static void wait_for_reader(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLOUT};
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigaddset(&ends, SIGQUIT);
	if (hvd_output_mux_has_room(fd))
		return;
	sigprocmask(SIG_UNBLOCK, &ends, NULL);
	poll(&pfd, 1, -1);
	sigprocmask(SIG_BLOCK, &ends, NULL);
}

static void write_all(struct hvd_output_mux *mux)
{
	while (evbuffer_get_length(mux->out)) {
		write_piece(mux, PIPE_BUF);
		wait_for_reader(mux->to);
	}
}

static void pass_on(struct hvd_output_mux *mux)
{
	if (!evbuffer_get_length(mux->out))
		return;
	if (!mux->writable) {
		write_all(mux);
		return;
	}
	event_add(mux->writable, NULL);
	if (evbuffer_get_length(mux->out) >= OUT_MOST)
		pause_sources(mux, true);
}

/* ---- lines ---- */

/* Keep the beginning of a line; a line that is too long is passed on in pieces. */
static void keep(struct hvd_output_mux *mux, struct evbuffer *rest, const char *p, size_t n)
{
	evbuffer_add(rest, p, n);
	if (evbuffer_get_length(rest) > HVD_FRAME_LINE + READ_AT_ONCE)
		evbuffer_add_buffer(mux->out, rest);
}

static void take_lines(struct hvd_output_source *src, const char *p, size_t n)
{
	const char *last = memrchr(p, '\n', n);
	const char *cr = src->mux->form != HVD_OUTPUT_MUX_LINES ? memrchr(p, '\r', n) : NULL;
	size_t whole;

	if (cr && (!last || cr > last))
		last = cr;
	whole = last ? (size_t)(last - p) + 1 : 0;

	if (whole) {
		evbuffer_add_buffer(src->mux->out, src->rest);
		evbuffer_add(src->mux->out, p, whole);
	}
	keep(src->mux, src->rest, p + whole, n - whole);
	if (src->silent && evbuffer_get_length(src->rest))
		hvd_timer_in_ms(src->silent, SILENT_MS);
}

static void on_silent(void *arg)
{
	struct hvd_output_source *src = arg;

	evbuffer_add_buffer(src->mux->out, src->rest);
	pass_on(src->mux);
}

/* ---- tasks ---- */

static struct task *task_of(struct hvd_output_source *src, size_t number)
{
	if (number >= src->n_tasks) {
		size_t n = number * 2 + 16;

		src->tasks = hvd_xrealloc(src->tasks, n, sizeof(*src->tasks));
		memset(src->tasks + src->n_tasks, 0, (n - src->n_tasks) * sizeof(*src->tasks));
		src->n_tasks = n;
	}
	if (!src->tasks[number].line)
		src->tasks[number].line = evbuffer_new();
	return &src->tasks[number];
}

static void take_escape(struct hvd_output_mux *mux, struct task *task, char c)
{
	switch (c) {
	case HVD_FRAME_BEGIN:
	case HVD_FRAME_END:
		task->inside = c == HVD_FRAME_BEGIN;
		break;
	case HVD_FRAME_LF:
	case HVD_FRAME_CR:
		keep(mux, task->line, c == HVD_FRAME_CR ? "\r" : "\n", 1);
		evbuffer_add_buffer(mux->out, task->line);
		break;
	default:
		keep(mux, task->line, (const char[]){HVD_FRAME_ESC}, 1);
	}
}

static void unescape(struct hvd_output_mux *mux, struct task *task, const char *p, size_t n)
{
	while (n > 0) {
		const char *esc = memchr(p, HVD_FRAME_ESC, n);
		size_t len = esc ? (size_t)(esc - p) : n;

		if (task->escaped) {
			task->escaped = false;
			take_escape(mux, task, *p);
			p++;
			n--;
			continue;
		}
		keep(mux, task->line, p, len);
		task->escaped = esc != NULL;
		len += esc != NULL;
		p += len;
		n -= len;
	}
}

/* A line that srun printed: "3: " and what task 3 wrote, or a message of the rank shim, the step daemon or srun. */
static void take_srun_line(struct hvd_output_source *src, const char *line, size_t n)
{
	struct hvd_output_mux *mux = src->mux;
	size_t at = 0, number = 0;

	while (at < n && line[at] == ' ')
		at++;
	for (; at < n && line[at] >= '0' && line[at] <= '9' && number < TASKS_MOST; at++)
		number = number * 10 + (size_t)(line[at] - '0');
	if (at > 0 && line[at - 1] != ' ' && number < TASKS_MOST && n - at >= 2 && memcmp(line + at, ": ", 2) == 0) {
		struct task *task = task_of(src, number);

		line += at + 2;
		n -= at + 2;
		if (task->inside || task->escaped || (n > 0 && *line == HVD_FRAME_ESC)) {
			unescape(mux, task, line, n);
			return;
		}
	}
	evbuffer_add(mux->out, line, n);
	evbuffer_add(mux->out, "\n", 1);
}

static void take_tasks(struct hvd_output_source *src, const char *p, size_t n)
{
	size_t len;
	char *line;

	evbuffer_add(src->rest, p, n);
	while ((line = evbuffer_readln(src->rest, &len, EVBUFFER_EOL_LF))) {
		take_srun_line(src, line, len);
		free(line);
	}
	/* No line of srun's is that long: pass on what this is. */
	if (evbuffer_get_length(src->rest) > HVD_FRAME_LINE)
		evbuffer_add_buffer(src->mux->out, src->rest);
}

/* ---- sources ---- */

static void take(struct hvd_output_source *src, const char *p, size_t n)
{
	if (src->mux->form == HVD_OUTPUT_MUX_BYTES)
		evbuffer_add(src->mux->out, p, n);
	else if (src->mux->form == HVD_OUTPUT_MUX_TASKS)
		take_tasks(src, p, n);
	else
		take_lines(src, p, n);
}

static ssize_t read_some(struct hvd_output_source *src)
{
	char buf[READ_AT_ONCE];
	ssize_t n = src->fd >= 0 ? read(src->fd, buf, sizeof(buf)) : 0;

	if (n > 0)
		take(src, buf, (size_t)n);
	return n;
}

static void end_source(struct hvd_output_source *src)
{
	struct hvd_output_source **at = &src->mux->sources;

	evbuffer_add_buffer(src->mux->out, src->rest);
	for (size_t i = 0; i < src->n_tasks; i++)
		if (src->tasks[i].line) {
			evbuffer_add_buffer(src->mux->out, src->tasks[i].line);
			evbuffer_free(src->tasks[i].line);
		}
	while (*at != src)
		at = &(*at)->next;
	*at = src->next;
	if (src->readable)
		event_free(src->readable);
	hvd_timer_free(src->silent);
	if (src->fd >= 0)
		close(src->fd);
	evbuffer_free(src->rest);
	free(src->tasks);
	free(src);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_output_source *src = arg;
	struct hvd_output_mux *mux = src->mux;
	ssize_t n = read_some(src);

	(void)fd;
	(void)what;
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		end_source(src);
	pass_on(mux);
}

struct hvd_output_source *hvd_output_mux_add(struct hvd_output_mux *mux)
{
	struct hvd_output_source *src = hvd_xcalloc(1, sizeof(*src));

	src->mux = mux;
	src->fd = -1;
	src->rest = evbuffer_new();
	if (mux->form == HVD_OUTPUT_MUX_PLAIN)
		src->silent = hvd_timer_new(mux->base, on_silent, src);
	src->next = mux->sources;
	mux->sources = src;
	return src;
}

void hvd_output_mux_put(struct hvd_output_source *src, const char *bytes, size_t n)
{
	take(src, bytes, n);
	pass_on(src->mux);
}

void hvd_output_mux_end(struct hvd_output_source *src)
{
	struct hvd_output_mux *mux = src ? src->mux : NULL;

	if (!src)
		return;
	end_source(src);
	pass_on(mux);
}

bool hvd_output_mux_is_full(const struct hvd_output_mux *mux)
{
	return mux->paused;
}

void hvd_output_mux_on_room(struct hvd_output_mux *mux, void (*has_room)(void *arg), void *arg)
{
	mux->has_room = has_room;
	mux->arg = arg;
}

int hvd_output_mux_open(struct hvd_output_mux *mux, struct hvd_err *err)
{
	struct hvd_output_source *src;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return hvd_err_sys(err, "cannot make a pipe");
	evutil_make_socket_nonblocking(fds[0]);
	src = hvd_output_mux_add(mux);
	src->fd = fds[0];
	src->readable = event_new(mux->base, src->fd, EV_READ | EV_PERSIST, on_readable, src);
	if (!mux->paused)
		event_add(src->readable, NULL);
	return fds[1];
}

/* ---- life ---- */

struct hvd_output_mux *hvd_output_mux_create(struct event_base *base, int to, enum hvd_output_mux_form form,
					     struct hvd_err *err)
{
	struct hvd_output_mux *mux = hvd_xcalloc(1, sizeof(*mux));

	mux->base = base;
	mux->form = form;
	mux->to = to;
	mux->out = evbuffer_new();
	if (hvd_stdin_forward_can_poll(to))
		mux->writable = event_new(base, to, EV_WRITE, on_writable, mux);
	if (mux->out && (mux->writable || !hvd_stdin_forward_can_poll(to)))
		return mux;
	hvd_output_mux_finish(mux);
	hvd_err_set(err, HVD_E_SYS, "cannot watch for output");
	return NULL;
}

void hvd_output_mux_drain(struct hvd_output_mux *mux)
{
	for (struct hvd_output_source *src = mux ? mux->sources : NULL; src; src = src->next)
		while (read_some(src) > 0)
			write_all(mux);
}

int hvd_output_mux_finish(struct hvd_output_mux *mux)
{
	int error;

	if (!mux)
		return 0;
	hvd_output_mux_drain(mux);
	while (mux->sources)
		end_source(mux->sources);
	if (mux->out) {
		write_all(mux);
		evbuffer_free(mux->out);
	}
	if (mux->writable)
		event_free(mux->writable);
	error = mux->error;
	free(mux);
	return error;
}
