/* SPDX-License-Identifier: Apache-2.0 */
#include "task_stderr.h"

#include "bind_line.h"
#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/base/xalloc.h"
#include "lib/process/call.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The capacity of a pipe by default. */
#define PIECE (64 * 1024)
/* slurmstepd waits for 0.3 s until the end of a task is acknowledged. */
#define FILE_SECONDS 0.15

/* ---- a pipe ---- */

int hvd_stderr_tee_view_open(struct hvd_stderr_tee_view *view)
{
	view->bytes = malloc(PIECE);
	if (view->bytes && pipe2(view->ends, O_CLOEXEC | O_NONBLOCK) == 0)
		return 0;
	free(view->bytes);
	*view = (struct hvd_stderr_tee_view){0};
	return -1;
}

void hvd_stderr_tee_view_close(struct hvd_stderr_tee_view *view)
{
	if (!view->bytes)
		return;
	close(view->ends[0]);
	close(view->ends[1]);
	free(view->bytes);
	*view = (struct hvd_stderr_tee_view){0};
}

/* Hand a piece, which begins so many bytes behind those that were passed on, to the reader. */
static void show(struct hvd_stderr_tee *st, const char *bytes, size_t len, size_t behind,
		 void (*on_bytes)(const char *bytes, size_t len, void *arg), void *arg)
{
	size_t at = len, n = 0;

	if (!st->drop && hvd_bind_line_find(bytes, len, &at, &n)) {
		st->keep = behind + at;
		st->drop = n;
	}
	if (on_bytes && at > 0)
		on_bytes(bytes, at, arg);
	if (on_bytes && at + n < len)
		on_bytes(bytes + at + n, len - at - n, arg);
}

/* Copy what the pipe has. Returns how much; 0 at its end, -1 with errno. */
static ssize_t read_ahead(struct hvd_stderr_tee *st, struct hvd_stderr_tee_view *view,
			  void (*on_bytes)(const char *bytes, size_t len, void *arg), void *arg)
{
	ssize_t n = tee(st->in, view->ends[1], PIECE, SPLICE_F_NONBLOCK), got;

	for (ssize_t left = n; left > 0; left -= got) {
		got = read(view->ends[0], view->bytes, (size_t)left);
		if (got <= 0)
			break;
		show(st, view->bytes, (size_t)got, (size_t)(n - left), on_bytes, arg);
	}
	return n;
}

/* Throw away so many bytes that were looked at. */
static ssize_t throw_away(struct hvd_stderr_tee *st, struct hvd_stderr_tee_view *view, size_t n)
{
	return read(st->in, view->bytes, n < PIECE ? n : PIECE);
}

/* Pass on what comes next of the bytes that were looked at, or throw it away. */
static ssize_t move_on(struct hvd_stderr_tee *st, struct hvd_stderr_tee_view *view)
{
	size_t next = st->drop && st->keep ? st->keep : st->drop ? st->drop : st->ahead;
	bool drops = st->drop && !st->keep;
	ssize_t n = drops || st->out < 0 ? throw_away(st, view, next)
					 : splice(st->in, NULL, st->out, NULL, next, SPLICE_F_NONBLOCK);

	if (n <= 0)
		return n;
	st->ahead -= (size_t)n;
	if (drops)
		st->drop -= (size_t)n;
	else if (st->drop)
		st->keep -= (size_t)n;
	return n;
}

static bool is_empty(int pipe)
{
	int n = 0;

	return ioctl(pipe, FIONREAD, &n) == 0 && n == 0;
}

enum hvd_stderr_tee_state hvd_stderr_tee_pass(struct hvd_stderr_tee *st, struct hvd_stderr_tee_view *view,
					      size_t budget, void (*on_bytes)(const char *bytes, size_t len, void *arg),
					      void *arg)
{
	ssize_t n;

	for (size_t passed = 0; passed < budget;) {
		if (st->ahead == 0) {
			n = read_ahead(st, view, on_bytes, arg);
			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				return n < 0 && errno == EAGAIN ? HVD_TEE_EMPTY : HVD_TEE_OVER;
			st->ahead = (size_t)n;
		}
		n = move_on(st, view);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			if (st->out >= 0 && !is_empty(st->in))
				return HVD_TEE_FULL;
			st->ahead = st->drop = st->keep = 0; /* the task itself has read it */
			return HVD_TEE_EMPTY;
		}
		if (n <= 0 && st->out < 0)
			return HVD_TEE_OVER;
		if (n <= 0) { /* its reader has gone */
			close(st->out);
			st->out = -1;
			continue;
		}
		passed += (size_t)n;
	}
	return HVD_TEE_MORE;
}

void hvd_stderr_tee_widen(struct hvd_stderr_tee *st)
{
	int in = fcntl(st->in, F_GETPIPE_SZ), out = st->out < 0 ? -1 : fcntl(st->out, F_GETPIPE_SZ);

	if (in > 0 && out > 0)
		fcntl(st->out, F_SETPIPE_SZ, in + out);
}

void hvd_stderr_tee_close(struct hvd_stderr_tee *st)
{
	if (st->in >= 0)
		close(st->in);
	if (st->out >= 0)
		close(st->out);
	st->in = st->out = -1;
}

/* ---- a file ---- */

/* A link of /proc, which is the file itself whatever its name is by now. */
static void link_of(const struct hvd_stderr_file *file, char link[40])
{
	snprintf(link, 40, "/proc/self/fd/%d", file->fd);
}

void hvd_stderr_file_open(struct hvd_stderr_file *file, int fds[2], int64_t from)
{
	char link[40], path[PATH_MAX];
	ssize_t n;

	*file = (struct hvd_stderr_file){.fd = fds[0], .from = from > 0 ? from : 0};
	fds[0] = -1;
	close(fds[1]);
	fds[1] = -1;
	link_of(file, link);
	n = readlink(link, path, sizeof(path));
	file->path = n > 0 ? hvd_xstrndup(path, (size_t)n) : hvd_xstrdup("a file");
}

void hvd_stderr_file_close(struct hvd_stderr_file *file)
{
	if (!file->path)
		return;
	close(file->fd);
	free(file->path);
	*file = (struct hvd_stderr_file){0};
}

/* The task's descriptor is for writing. */
static void read_end(int out, void *arg)
{
	static char text[HVD_STDERR_FILE_BYTES];
	const struct hvd_stderr_file *file = arg;
	struct stat st;
	char link[40];
	off_t at;
	ssize_t n;
	int fd;

	link_of(file, link);
	fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		_exit(1);
	at = st.st_size > (off_t)sizeof(text) ? st.st_size - (off_t)sizeof(text) : 0;
	n = pread(fd, text, sizeof(text), at > file->from ? at : (off_t)file->from);
	for (ssize_t done = 0, w; done < n; done += w)
		if ((w = write(out, text + done, (size_t)(n - done))) <= 0)
			_exit(1);
}

char *hvd_stderr_file_end(const struct hvd_stderr_file *file, size_t *len, bool *hangs)
{
	struct hvd_err err = {0};
	int status = 0;
	char *text = hvd_call(read_end, (void *)file, "the look at a file", HVD_STDERR_FILE_BYTES,
			      hvd_deadline_in(FILE_SECONDS), len, &status, &err);

	*hangs = !text && err.code == HVD_E_TIMEOUT;
	if (text && status == 0 && *len > 0)
		return text;
	free(text);
	return NULL;
}
