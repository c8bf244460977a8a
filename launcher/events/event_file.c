/* SPDX-License-Identifier: Apache-2.0 */
#include "event_file.h"

#include "event_log.h"
#include "lib/base/cleanup.h"
#include "lib/base/file.h"
#include "lib/base/xalloc.h"
#include "lib/process/call.h"
#include "lib/process/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Events that the writer may be behind: as much as an unprivileged process may have in a pipe. */
#define PIPE_SIZE (1 << 20)
/* How long the end of the launch waits for the writer. */
#define END_SECONDS 2.0
/* How long its begin waits to hear that the file cannot be written. */
#define OPEN_MS    1000
#define MAX_ANSWER 1024

/* The writer's, which has a copy of it all. */
struct writer {
	const char *path, *launch;
	int fd;                          /* the file; -1: it could not be opened */
	unsigned long long lost, n_lost; /* since the last line that was written; in all */
	char why[1024];                  /* the last one was lost */
};

struct hvd_event_file {
	char *path, *launch;
	int lines, answer;               /* -1 = there is no writer */
	unsigned long long lost, n_lost; /* that had no room: since the writer was told; in all */
	const struct hvd_log *log;
};

/* ---- the writer ---- */

static bool fail(struct writer *w, int error)
{
	snprintf(w->why, sizeof(w->why), "%s", error == EAGAIN ? "its reader has stopped reading" : strerror(error));
	return false;
}

/* A part of a line has found room: take it back, unless others have written behind it. */
static void take_back(const struct writer *w, off_t n)
{
	off_t end = lseek(w->fd, 0, SEEK_CUR);
	struct stat st;

	if (end >= n && fstat(w->fd, &st) == 0 && st.st_size == end && ftruncate(w->fd, end - n) != 0)
		return; /* it stays */
}

static bool is_open(struct writer *w)
{
	struct hvd_err err = {0};

	if (w->fd < 0)
		w->fd = hvd_open_written(AT_FDCWD, w->path, O_APPEND, true, 0666, &err);
	if (w->fd < 0)
		snprintf(w->why, sizeof(w->why), "%s", err.msg);
	return w->fd >= 0;
}

static bool put(struct writer *w, const char *line, size_t len, bool bounded)
{
	struct stat st;
	ssize_t n;

	if (!is_open(w))
		return false;
	if (bounded && fstat(w->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size + (off_t)len > HVD_EVENT_FILE_MAX)
		return fail(w, EFBIG);
	do
		n = write(w->fd, line, len);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)len)
		return true;
	if (n > 0) {
		take_back(w, n);
		return fail(w, ENOSPC);
	}
	fail(w, errno);
	if (errno == EPIPE) { /* another reader may come */
		close(w->fd);
		w->fd = -1;
	}
	return false;
}

static bool put_lost(struct writer *w, unsigned long long n, bool bounded)
{
	const struct hvd_event event = {.name = HVD_EV_EVENTS_LOST, .at = hvd_now(), .count = (int64_t)n};
	char line[HVD_EVENT_LINE + 1];

	return put(w, line, hvd_event_line(w->launch, &event, line), bounded);
}

static void put_line(struct writer *w, const char *line, size_t len)
{
	if (w->lost > 0 && put_lost(w, w->lost, true))
		w->lost = 0;
	if (w->lost == 0 && put(w, line, len, true))
		return;
	w->lost++;
	w->n_lost++;
}

static void write_events(int out, void *arg)
{
	struct writer w = *(struct writer *)arg;
	char buf[16 * HVD_EVENT_LINE], *end;
	size_t have = 0, used;
	struct stat st;
	ssize_t n;

	/* A FIFO may get its reader later. */
	dprintf(out, "%s\n", is_open(&w) || (stat(w.path, &st) == 0 && S_ISFIFO(st.st_mode)) ? "" : w.why);
	while ((n = read(STDIN_FILENO, buf + have, sizeof(buf) - have)) > 0 || (n < 0 && errno == EINTR)) {
		have += n > 0 ? (size_t)n : 0;
		used = 0;
		while ((end = memchr(buf + used, '\n', have - used))) {
			put_line(&w, buf + used, (size_t)(end - buf) + 1 - used);
			used = (size_t)(end - buf) + 1;
		}
		have -= used;
		memmove(buf, buf + used, have);
	}
	if (w.lost > 0)
		put_lost(&w, w.lost, false);
	dprintf(out, "%llu %s", w.n_lost, w.why);
}

/* ---- the launch's side ---- */

/* The writer's first line: why the file cannot be opened. A file system that does not answer, or a process that could not
 * be started, is no reason to refuse the launch. */
static int refused(int answer, const char *path, struct hvd_err *err)
{
	struct pollfd pfd = {.fd = answer, .events = POLLIN};
	char why[1024];
	ssize_t n = poll(&pfd, 1, OPEN_MS) > 0 ? read(answer, why, sizeof(why) - 1) : 0;

	if (n <= 1)
		return 0;
	why[n - 1] = '\0';
	hvd_err_set(err, HVD_E_USAGE, "--events %.200s cannot be written: %s", path, why);
	return hvd_err_hint(err, "name a file in an existing folder in which you can write");
}

static void free_file(struct hvd_event_file *file)
{
	free(file->path);
	free(file->launch);
	free(file);
}

struct hvd_event_file *hvd_event_file_open(const char *path, const char *launch, const struct hvd_log *log,
					   struct hvd_err *err)
{
	struct hvd_event_file *file = hvd_xcalloc(1, sizeof(*file));
	struct writer w = {.path = path, .launch = launch, .fd = -1};

	*file = (struct hvd_event_file){
		.path = hvd_xstrdup(path), .launch = hvd_xstrdup(launch), .lines = -1, .answer = -1, .log = log};
	if (hvd_call_detached(write_events, &w, &file->lines, &file->answer, NULL) != 0)
		return file;
	fcntl(file->lines, F_SETPIPE_SZ, PIPE_SIZE);
	if (refused(file->answer, path, err) == 0)
		return file;
	close(file->lines);
	close(file->answer);
	free_file(file);
	return NULL;
}

/* Tell the writer how many lines had no room. */
static void tell_lost(struct hvd_event_file *file)
{
	const struct hvd_event lost = {.name = HVD_EV_EVENTS_LOST, .at = hvd_now(), .count = (int64_t)file->lost};
	char text[HVD_EVENT_LINE + 1];
	size_t n;

	if (file->lost == 0)
		return;
	n = hvd_event_line(file->launch, &lost, text);
	if (write(file->lines, text, n) == (ssize_t)n)
		file->lost = 0;
}

void hvd_event_file_add(struct hvd_event_file *file, const char *line, size_t len)
{
	tell_lost(file);
	if (file->lost == 0 && write(file->lines, line, len) == (ssize_t)len)
		return;
	file->lost++;
	file->n_lost++;
}

/* `answer`: how many the writer has lost, and why, behind what it may have said late about the file's begin. */
static void warn(const struct hvd_event_file *file, const char *answer)
{
	const char *line = strrchr(answer, '\n') ? strrchr(answer, '\n') + 1 : answer;
	const char *why = strchr(line, ' ');
	unsigned long long n = file->n_lost + strtoull(line, NULL, 10);

	if (n > 0)
		hvd_warn(file->log, "%llu event%s could not be written to %s (--events): %s", n, n == 1 ? "" : "s",
			 file->path,
			 why && why[1]      ? why + 1
			 : file->lines >= 0 ? "there were too many at once"
					    : "no process could be started for it");
}

void hvd_event_file_close(struct hvd_event_file *file)
{
	hvd_cleanup_free char *answer = NULL;
	size_t len;

	if (!file)
		return;
	if (file->lines >= 0) {
		tell_lost(file);
		close(file->lines);
		answer = hvd_capture_fd(file->answer, "the file", MAX_ANSWER, hvd_deadline_in(END_SECONDS), &len, NULL);
		close(file->answer);
	}
	if (answer || file->lines < 0)
		warn(file, answer ? answer : "");
	else
		hvd_warn(file->log, "the last events may be missing in %s (--events): it takes too long to write",
			 file->path);
	free_file(file);
}
