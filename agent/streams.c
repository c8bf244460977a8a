/* SPDX-License-Identifier: Apache-2.0 */
#include "streams.h"

#include "lib/process/rlimits.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Which of the streams get a pipe. */
enum route {
	NONE,
	ONLY_STDERR,
	ONE_PIPE, /* for both */
	TWO_PIPES,
};

static bool same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool is_pipe(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

static enum route route_of(const struct hvd_output_style *style, bool tap)
{
	if (hvd_output_wanted(style))
		return TWO_PIPES;
	if (!style->read_stderr || fcntl(STDERR_FILENO, F_GETFD) < 0 || isatty(STDERR_FILENO) ||
	    (tap && is_pipe(STDERR_FILENO)))
		return NONE;
	return same_file(STDOUT_FILENO, STDERR_FILENO) ? ONE_PIPE : ONLY_STDERR;
}

int hvd_streams_fds(const struct hvd_output_style *style)
{
	enum route route = route_of(style, false);

	return route == TWO_PIPES ? style->dir ? 4 : 2 : route != NONE;
}

static void on_output_end(void *arg)
{
	*(struct hvd_output **)arg = NULL;
}

static int open_pipe(struct hvd_streams *streams, struct event_base *base, struct hvd_output_rank rank,
		     enum hvd_stream stream, const struct hvd_output_style *style, struct hvd_err *err)
{
	struct hvd_output **out = &streams->out[stream];
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0) {
		int error = errno;

		hvd_err_sys(err, "cannot make a pipe");
		hvd_limits_explain(error, err);
		return -1;
	}
	streams->child[stream] = ends[1];
	*out = hvd_output_create(base, ends[0], rank, stream, style, on_output_end, out, err);
	return *out ? 0 : -1;
}

/* The descriptor that takes standard error: `to`, or with 0 this process's own. If somebody reads standard error,
 * returns the writing end of a pipe in front of it; otherwise `to`, or 0. */
static int put_tap(int to, hvd_streams_tap_fn *tap, void *arg)
{
	int ends[2], fds[2] = {-1, -1}, rc = to;

	if ((!to && !is_pipe(STDERR_FILENO)) || pipe2(ends, O_CLOEXEC) != 0)
		return to;
	fcntl(ends[0], F_SETFL, O_NONBLOCK); /* the writing end has flags of its own */
	fds[0] = ends[0];
	fds[1] = to ? to : STDERR_FILENO;
	if (tap(fds, arg)) {
		rc = ends[1];
		if (to)
			close(to);
	} else {
		close(ends[1]);
	}
	close(ends[0]);
	return rc;
}

int hvd_streams_open(struct hvd_streams *streams, struct event_base *base, struct hvd_output_rank rank,
		     const struct hvd_output_style *style, hvd_output_bytes_fn *on_bytes, hvd_streams_tap_fn *tap,
		     void *arg, struct hvd_spawn *spawn, struct hvd_err *err)
{
	enum route route = route_of(style, tap != NULL);
	bool one = route == ONE_PIPE || (route == NONE && same_file(STDOUT_FILENO, STDERR_FILENO));

	for (int s = HVD_STDOUT; s <= HVD_STDERR; s++) {
		if (route == NONE || (s == HVD_STDOUT && route != TWO_PIPES))
			continue;
		if (open_pipe(streams, base, rank, (enum hvd_stream)s, style, err) != 0)
			return -1;
		hvd_output_on_bytes(streams->out[s], on_bytes, arg);
	}
	if (tap && style->read_stderr)
		streams->child[HVD_STDERR] = put_tap(streams->child[HVD_STDERR], tap, arg);
	for (int s = HVD_STDOUT; s <= HVD_STDERR; s++)
		if (streams->child[s])
			hvd_spawn_fd(spawn, streams->child[s], s + 1);
	if (one && streams->child[HVD_STDERR])
		hvd_spawn_fd(spawn, streams->child[HVD_STDERR], STDOUT_FILENO);
	streams->all = route == TWO_PIPES || (route != NONE && one);
	return 0;
}

void hvd_streams_started(struct hvd_streams *streams)
{
	for (int s = HVD_STDOUT; s <= HVD_STDERR; s++) {
		if (streams->child[s])
			close(streams->child[s]);
		streams->child[s] = 0;
	}
}

bool hvd_streams_ended(const struct hvd_streams *streams)
{
	return !streams->out[HVD_STDOUT] && !streams->out[HVD_STDERR];
}

void hvd_streams_close(struct hvd_streams *streams)
{
	hvd_streams_started(streams);
	for (int s = HVD_STDOUT; s <= HVD_STDERR; s++) {
		hvd_output_destroy(streams->out[s]);
		streams->out[s] = NULL;
	}
}
