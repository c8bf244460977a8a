/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_file.c - the writer reads texts from a pipe, each behind its length, and writes a line after each: why it could
 * not be written, or nothing. A text may be longer than a pipe, so it is sent as the pipe has room. */
#include "metrics_file.h"

#include "lib/base/cleanup.h"
#include "lib/base/deadline.h"
#include "lib/base/file.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How long the end of the launch waits for the writer. */
#define END_SECONDS 2.0
/* Sent in one turn of the event loop, at most. */
#define PER_WAKE (256 * 1024)
#define MAX_LINE 1024

struct hvd_metrics_file {
	char *path;
	const struct hvd_log *log;
	struct event_base *base; /* NULL = not in an event loop */
	int texts, answers;      /* pipes to and from the writer */
	struct event *writable, *readable;
	char *text; /* that is being sent, behind its length; NULL = none */
	size_t len, sent;
	bool awaited; /* the writer has a text, and has not answered */
	char line[MAX_LINE];
	size_t n_line;
	bool warned;
};

/* ---- the writer ---- */

static bool read_exactly(int fd, void *into, size_t len)
{
	size_t have = 0;

	while (have < len) {
		ssize_t n = read(fd, (char *)into + have, len - have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		have += (size_t)n;
	}
	return true;
}

static void write_texts(int out, void *arg)
{
	const char *path = arg;
	const mode_t mask = umask(0);
	uint64_t len;

	while (read_exactly(STDIN_FILENO, &len, sizeof(len))) {
		hvd_cleanup_free char *text = hvd_xcalloc(len + 1, 1);
		struct hvd_err err = {0};

		if (!read_exactly(STDIN_FILENO, text, len))
			return;
		hvd_replace_file_mode(path, "the metrics", text, len, 0666 & ~mask, &err);
		dprintf(out, "%s\n", err.msg);
	}
}

/* ---- the launch's side ---- */

/* True: it was sent, or never can be. */
static bool send_some(struct hvd_metrics_file *file, size_t most)
{
	const size_t left = file->len - file->sent;
	ssize_t n = write(file->texts, file->text + file->sent, left < most ? left : most);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	file->sent = n < 0 ? file->len : file->sent + (size_t)n;
	if (file->sent < file->len)
		return false;
	free(file->text);
	file->text = NULL;
	return true;
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_metrics_file *file = arg;

	(void)fd;
	(void)what;
	if (send_some(file, PER_WAKE))
		hvd_event_unwatch(&file->writable);
}

static void answered(struct hvd_metrics_file *file)
{
	file->awaited = false;
	file->line[file->n_line] = '\0';
	if (*file->line && !file->warned) {
		hvd_warn(file->log, "--metrics: %s", file->line);
		file->warned = true;
	}
	file->n_line = 0;
}

/* False: the writer has gone. */
static bool read_answer(struct hvd_metrics_file *file)
{
	char text[MAX_LINE];
	ssize_t n = read(file->answers, text, sizeof(text));

	for (ssize_t i = 0; i < n; i++) {
		if (text[i] == '\n')
			answered(file);
		else if (file->n_line < sizeof(file->line) - 1)
			file->line[file->n_line++] = text[i];
	}
	if (n == 0)
		hvd_event_unwatch(&file->readable);
	return n != 0;
}

static void on_answer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	read_answer(arg);
}

void hvd_metrics_file_put(struct hvd_metrics_file *file, char *text, size_t len)
{
	const uint64_t length = len;

	if (file->awaited || file->text) {
		free(text);
		return;
	}
	file->text = hvd_xcalloc(sizeof(length) + len, 1);
	memcpy(file->text, &length, sizeof(length));
	memcpy(file->text + sizeof(length), text, len);
	free(text);
	file->len = sizeof(length) + len;
	file->sent = 0;
	file->awaited = true;
	if (!send_some(file, PER_WAKE) && file->base)
		file->writable = hvd_event_watch(file->base, file->texts, EV_WRITE | EV_PERSIST, on_writable, file);
}

void hvd_metrics_file_attach(struct hvd_metrics_file *file, struct event_base *base)
{
	file->base = base;
	file->readable = hvd_event_watch(base, file->answers, EV_READ | EV_PERSIST, on_answer, file);
}

void hvd_metrics_file_detach(struct hvd_metrics_file *file)
{
	hvd_event_unwatch(&file->writable);
	hvd_event_unwatch(&file->readable);
	file->base = NULL;
}

struct hvd_metrics_file *hvd_metrics_file_open(const char *path, const struct hvd_log *log, struct hvd_err *err)
{
	struct hvd_metrics_file *file;
	int texts, answers;

	if (hvd_call_detached(write_texts, (void *)path, &texts, &answers, err) != 0)
		return NULL;
	fcntl(answers, F_SETFL, O_NONBLOCK);
	file = hvd_xcalloc(1, sizeof(*file));
	*file = (struct hvd_metrics_file){.path = hvd_xstrdup(path), .log = log, .texts = texts, .answers = answers};
	return file;
}

/* Until the writer has answered to what it has. */
static bool finish(struct hvd_metrics_file *file, hvd_time deadline)
{
	while (file->awaited && hvd_left(deadline) > 0) {
		struct pollfd fds[2] = {{.fd = file->answers, .events = POLLIN},
					{.fd = file->text ? file->texts : -1, .events = POLLOUT}};

		if (poll(fds, 2, hvd_left_ms(deadline)) < 0 && errno != EINTR)
			return false;
		if (fds[1].revents)
			send_some(file, PER_WAKE);
		if (fds[0].revents && !read_answer(file))
			return false;
	}
	return !file->awaited;
}

void hvd_metrics_file_close(struct hvd_metrics_file *file, char *text, size_t len)
{
	const hvd_time deadline = hvd_deadline_in(END_SECONDS);

	hvd_metrics_file_detach(file);
	if (finish(file, deadline)) {
		hvd_metrics_file_put(file, text, len);
		text = NULL;
	}
	if (!finish(file, deadline) && !file->warned)
		hvd_warn(file->log, "--metrics: the last figures may be missing in %s: it takes too long to write",
			 file->path);
	close(file->texts);
	close(file->answers);
	free(text);
	free(file->text);
	free(file->path);
	free(file);
}
