/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* What a pipe has by default. */
#define PIECE (64 * 1024)

int hvd_tap_view_open(struct hvd_tap_view *view)
{
	view->bytes = malloc(PIECE);
	if (view->bytes && pipe2(view->ends, O_CLOEXEC | O_NONBLOCK) == 0)
		return 0;
	free(view->bytes);
	*view = (struct hvd_tap_view){0};
	return -1;
}

void hvd_tap_view_close(struct hvd_tap_view *view)
{
	if (!view->bytes)
		return;
	close(view->ends[0]);
	close(view->ends[1]);
	free(view->bytes);
	*view = (struct hvd_tap_view){0};
}

/* Copy what the pipe has. Returns how much; 0 at its end, -1 with errno. */
static ssize_t look_ahead(struct hvd_tap *tap, struct hvd_tap_view *view,
			  void (*look)(const char *bytes, size_t len, void *arg), void *arg)
{
	ssize_t n = tee(tap->in, view->ends[1], PIECE, SPLICE_F_NONBLOCK), got;

	for (ssize_t left = n; left > 0; left -= got) {
		got = read(view->ends[0], view->bytes, (size_t)left);
		if (got <= 0)
			break;
		if (look)
			look(view->bytes, (size_t)got, arg);
	}
	return n;
}

/* Throw away what was looked at. */
static ssize_t throw_away(struct hvd_tap *tap, struct hvd_tap_view *view)
{
	return read(tap->in, view->bytes, tap->ahead < PIECE ? tap->ahead : PIECE);
}

static bool is_empty(int pipe)
{
	int n = 0;

	return ioctl(pipe, FIONREAD, &n) == 0 && n == 0;
}

enum hvd_tap_state hvd_tap_pass(struct hvd_tap *tap, struct hvd_tap_view *view, size_t budget,
				void (*look)(const char *bytes, size_t len, void *arg), void *arg)
{
	ssize_t n;

	for (size_t passed = 0; passed < budget;) {
		if (tap->ahead == 0) {
			n = look_ahead(tap, view, look, arg);
			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				return n < 0 && errno == EAGAIN ? HVD_TAP_EMPTY : HVD_TAP_OVER;
			tap->ahead = (size_t)n;
		}
		n = tap->out < 0 ? throw_away(tap, view)
				 : splice(tap->in, NULL, tap->out, NULL, tap->ahead, SPLICE_F_NONBLOCK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			if (tap->out >= 0 && !is_empty(tap->in))
				return HVD_TAP_FULL;
			tap->ahead = 0; /* the task itself has read it */
			return HVD_TAP_EMPTY;
		}
		if (n <= 0 && tap->out < 0)
			return HVD_TAP_OVER;
		if (n <= 0) { /* its reader has gone */
			close(tap->out);
			tap->out = -1;
			continue;
		}
		tap->ahead -= (size_t)n;
		passed += (size_t)n;
	}
	return HVD_TAP_MORE;
}

void hvd_tap_widen(struct hvd_tap *tap)
{
	int in = fcntl(tap->in, F_GETPIPE_SZ), out = tap->out < 0 ? -1 : fcntl(tap->out, F_GETPIPE_SZ);

	if (in > 0 && out > 0)
		fcntl(tap->out, F_SETPIPE_SZ, in + out);
}

void hvd_tap_close(struct hvd_tap *tap)
{
	if (tap->in >= 0)
		close(tap->in);
	if (tap->out >= 0)
		close(tap->out);
	tap->in = tap->out = -1;
}
