/* SPDX-License-Identifier: Apache-2.0 */
#include "stderr_tee.h"

#include "bind_line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The capacity of a pipe by default. */
#define PIECE (64 * 1024)

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
