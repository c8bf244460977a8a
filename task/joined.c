/* SPDX-License-Identifier: Apache-2.0 */
#include "joined.h"

#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/job/join.h"
#include "lib/process/spawn.h"
#include "lib/protocol/preamble.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* It gives its ranks five seconds, and then gets this long in all to end itself. */
#define END_SECONDS 10
/* Something that a rank has left behind may keep its output open. */
#define LATE_SECONDS 1

struct stream {
	struct hvd_joined *joined;
	int number; /* 1 or 2 */
	int fd;     /* -1: it has ended */
	struct event *readable;
};

struct hvd_joined {
	struct event_base *base;
	struct hvd_conn *conn; /* NULL: it is gone */
	const struct hvd_joined_ops *ops;
	void *arg;
	pid_t pid; /* 0: reaped */
	int status;
	struct stream streams[2];
	int in; /* -1: closed */
	struct event *writable;
	char *input; /* is being written */
	size_t n_input, at_input;
	struct event *overdue, *late;
	bool told;
};

static void stream_close(struct stream *s)
{
	if (s->readable)
		event_free(s->readable);
	s->readable = NULL;
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

static void tell_end(struct hvd_joined *joined)
{
	if (joined->told || joined->pid)
		return;
	joined->told = true;
	joined->ops->ended(joined->status, joined->arg);
}

static void end_if_over(struct hvd_joined *joined)
{
	if (joined->streams[0].fd < 0 && joined->streams[1].fd < 0)
		tell_end(joined);
}

/* ---- output ---- */

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct stream *s = arg;
	struct hvd_joined *joined = s->joined;
	char buf[HVD_JOIN_PIECE], number = (char)s->number;
	ssize_t n = read(fd, buf, sizeof(buf));

	(void)what;
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		stream_close(s);
		end_if_over(joined);
		return;
	}
	if (!joined->conn)
		return;
	hvd_conn_send_bytes(joined->conn, (const struct hvd_piece[]){{&number, 1}, {buf, (size_t)n}}, 2);
	if (hvd_conn_queued(joined->conn) < HVD_JOIN_QUEUE)
		return;
	for (int i = 0; i < 2; i++)
		if (joined->streams[i].readable)
			event_del(joined->streams[i].readable);
}

void hvd_joined_drained(struct hvd_joined *joined)
{
	for (int i = 0; i < 2; i++)
		if (joined->streams[i].readable)
			event_add(joined->streams[i].readable, NULL);
}

/* ---- input ---- */

static void input_done(struct hvd_joined *joined)
{
	free(joined->input);
	joined->input = NULL;
	if (joined->conn)
		hvd_conn_send(joined->conn, json_pack("{s:s}", "t", "took"));
}

static void close_input(struct hvd_joined *joined)
{
	if (joined->writable)
		event_free(joined->writable);
	joined->writable = NULL;
	if (joined->in >= 0)
		close(joined->in);
	joined->in = -1;
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_joined *joined = arg;
	ssize_t n = write(fd, joined->input + joined->at_input, joined->n_input - joined->at_input);

	(void)what;
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n > 0)
		joined->at_input += (size_t)n;
	if (n >= 0 && joined->at_input < joined->n_input)
		return;
	event_del(joined->writable);
	if (n < 0)
		close_input(joined); /* nobody reads it */
	input_done(joined);
}

void hvd_joined_input(struct hvd_joined *joined, const char *data, size_t len)
{
	if (len == 0) {
		close_input(joined);
		return;
	}
	if (joined->input)
		return; /* not as agreed */
	joined->input = hvd_xcalloc(len, 1);
	memcpy(joined->input, data, len);
	joined->n_input = len;
	joined->at_input = 0;
	if (joined->in < 0)
		input_done(joined);
	else
		event_add(joined->writable, NULL);
}

/* ---- the process ---- */

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	tell_end(arg);
}

void hvd_joined_reap(struct hvd_joined *joined)
{
	int status;

	if (joined->pid <= 0 || waitpid(joined->pid, &status, WNOHANG) != joined->pid)
		return;
	joined->pid = 0;
	joined->status = status;
	evtimer_add(joined->late, &(struct timeval){.tv_sec = LATE_SECONDS});
	end_if_over(joined);
}

static void on_overdue(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_joined *joined = arg;

	(void)fd;
	(void)what;
	if (joined->pid > 0)
		kill(-joined->pid, SIGKILL);
}

void hvd_joined_end(struct hvd_joined *joined)
{
	if (joined->pid <= 0)
		return;
	kill(joined->pid, SIGTERM);
	if (!evtimer_pending(joined->overdue, NULL))
		evtimer_add(joined->overdue, &(struct timeval){.tv_sec = END_SECONDS});
}

void hvd_joined_disconnect(struct hvd_joined *joined)
{
	joined->conn = NULL;
	hvd_joined_drained(joined);
	hvd_joined_end(joined);
}

static int write_preamble(int fd, const struct hvd_key *key, const char *boot, struct hvd_err *err)
{
	struct hvd_preamble pre = {.key = *key, .directory = hvd_xstrdup("")};
	unsigned char *bytes;
	size_t n;
	int rc;

	snprintf(pre.boot, sizeof(pre.boot), "%s", boot);
	rc = hvd_preamble_format(&pre, &bytes, &n, err);
	hvd_preamble_clear(&pre);
	if (rc != 0)
		return -1;
	/* It fits into the pipe: there is no environment in it. */
	if (write(fd, bytes, n) != (ssize_t)n)
		rc = hvd_err_sys(err, "cannot hand over the launch's key");
	explicit_bzero(bytes, n);
	free(bytes);
	return rc;
}

static int spawn(struct hvd_joined *joined, int pipes[3][2], char *const *args, struct hvd_err *err)
{
	struct hvd_spawn spawn = {.path = "/proc/self/exe", .parent_death_signal = SIGTERM, .new_group = 1};
	struct hvd_strv argv = {0};

	hvd_strv_add(&argv, "hvd-task");
	hvd_strv_add_all(&argv, args);
	spawn.argv = argv.v;
	hvd_spawn_fd(&spawn, pipes[0][0], STDIN_FILENO);
	hvd_spawn_fd(&spawn, pipes[1][1], STDOUT_FILENO);
	hvd_spawn_fd(&spawn, pipes[2][1], STDERR_FILENO);
	joined->pid = hvd_spawn(&spawn, err);
	hvd_strv_free(&argv);
	return joined->pid > 0 ? 0 : -1;
}

static int start(struct hvd_joined *joined, char *const *args, const struct hvd_key *key, const char *boot,
		 struct hvd_err *err)
{
	int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}}, rc = 0;

	for (int i = 0; i < 3 && rc == 0; i++)
		if (pipe2(pipes[i], O_CLOEXEC) != 0)
			rc = hvd_err_sys(err, "cannot make a pipe");
	if (rc == 0)
		rc = write_preamble(pipes[0][1], key, boot, err);
	if (rc == 0)
		rc = spawn(joined, pipes, args, err);
	joined->in = pipes[0][1];
	joined->streams[0].fd = pipes[1][0];
	joined->streams[1].fd = pipes[2][0];
	for (int i = 0; i < 3; i++)
		if (pipes[i][i > 0] >= 0)
			close(pipes[i][i > 0]);
	return rc;
}

struct hvd_joined *hvd_joined_start(struct event_base *base, struct hvd_conn *conn, char *const *args,
				    const struct hvd_key *key, const char *boot, const struct hvd_joined_ops *ops,
				    void *arg, struct hvd_err *err)
{
	struct hvd_joined *joined = hvd_xcalloc(1, sizeof(*joined));

	joined->base = base;
	joined->conn = conn;
	joined->ops = ops;
	joined->arg = arg;
	joined->overdue = evtimer_new(base, on_overdue, joined);
	joined->late = evtimer_new(base, on_late, joined);
	if (start(joined, args, key, boot, err) != 0) {
		joined->pid = 0;
		hvd_joined_destroy(joined);
		return NULL;
	}
	evutil_make_socket_nonblocking(joined->in);
	joined->writable = event_new(base, joined->in, EV_WRITE | EV_PERSIST, on_writable, joined);
	for (int i = 0; i < 2; i++) {
		struct stream *s = &joined->streams[i];

		s->joined = joined;
		s->number = i + 1;
		evutil_make_socket_nonblocking(s->fd);
		s->readable = event_new(base, s->fd, EV_READ | EV_PERSIST, on_readable, s);
		event_add(s->readable, NULL);
	}
	return joined;
}

void hvd_joined_destroy(struct hvd_joined *joined)
{
	if (!joined)
		return;
	if (joined->pid > 0)
		hvd_end(joined->pid, END_SECONDS, NULL);
	close_input(joined);
	for (int i = 0; i < 2; i++)
		stream_close(&joined->streams[i]);
	event_free(joined->overdue);
	event_free(joined->late);
	free(joined->input);
	free(joined);
}
