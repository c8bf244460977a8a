/* SPDX-License-Identifier: Apache-2.0 */
#include "host_io.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/host/join.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct hvd_host_io {
	struct hvd_output_sink sink;
	struct hvd_conn *conn; /* NULL: it is lost, or the last message was sent */
	size_t unpassed;       /* bytes that were sent, and of which the launcher has not said that it passed them on */
	/* This process's own standard error. */
	int before; /* where it went before */
	int own;    /* the read end of a pipe, where it comes now; -1: it goes there again */
	struct event *readable;
	/* The standard input of rank 0. */
	int in; /* the write end of the pipe; -1: closed */
	struct event *writable;
	char *input; /* is being written; NULL: nothing is */
	size_t n_input, at_input;
};

/* ---- output ---- */

static void send_output(struct hvd_host_io *io, enum hvd_channel channel, const char *p, size_t n)
{
	while (n > 0 && io->conn) {
		size_t len = n < HVD_JOIN_PIECE ? n : HVD_JOIN_PIECE;

		hvd_conn_send_bytes(io->conn, channel, &(const struct hvd_piece){p, len}, 1);
		io->unpassed += len;
		p += len;
		n -= len;
	}
	io->sink.full = io->conn && io->unpassed >= HVD_JOIN_WINDOW;
}

static void on_output(struct hvd_output_sink *sink, enum hvd_stream stream, const char *p, size_t n)
{
	_Static_assert(offsetof(struct hvd_host_io, sink) == 0, "the sink comes first");
	send_output((struct hvd_host_io *)sink, stream == HVD_STDOUT ? HVD_CHANNEL_STDOUT : HVD_CHANNEL_STDERR, p, n);
}

struct hvd_output_sink *hvd_host_io_sink(struct hvd_host_io *io)
{
	return &io->sink;
}

/* It is read also while the sink is full, so that a message of this process never blocks it. */
static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_host_io *io = arg;
	char buf[HVD_JOIN_PIECE];
	ssize_t n = read(fd, buf, sizeof(buf));

	(void)what;
	if (n > 0)
		send_output(io, HVD_CHANNEL_STDERR, buf, (size_t)n);
}

static void restore_stderr(struct hvd_host_io *io)
{
	char buf[HVD_JOIN_PIECE];
	ssize_t n;

	if (io->own < 0)
		return;
	dup2(io->before, STDERR_FILENO);
	while ((n = read(io->own, buf, sizeof(buf))) > 0)
		send_output(io, HVD_CHANNEL_STDERR, buf, (size_t)n);
	event_free(io->readable);
	close(io->own);
	close(io->before);
	io->own = -1;
}

/* ---- input ---- */

static void close_input(struct hvd_host_io *io)
{
	hvd_event_unwatch(&io->writable);
	if (io->in >= 0)
		close(io->in);
	io->in = -1;
}

static void input_done(struct hvd_host_io *io)
{
	free(io->input);
	io->input = NULL;
	if (io->conn)
		hvd_conn_send(io->conn, json_pack("{s:s}", "t", "took"));
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_host_io *io = arg;
	ssize_t n = write(fd, io->input + io->at_input, io->n_input - io->at_input);

	(void)what;
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n > 0)
		io->at_input += (size_t)n;
	if (n >= 0 && io->at_input < io->n_input)
		return;
	event_del(io->writable);
	if (n < 0)
		close_input(io); /* nobody reads it */
	input_done(io);
}

static void on_input(unsigned channel, const void *data, size_t len, void *arg)
{
	struct hvd_host_io *io = arg;

	(void)channel;
	if (len == 0) {
		close_input(io);
		return;
	}
	if (io->input)
		return; /* not as agreed */
	io->input = hvd_xcalloc(len, 1);
	memcpy(io->input, data, len);
	io->n_input = len;
	io->at_input = 0;
	if (io->in < 0)
		input_done(io);
	else
		event_add(io->writable, NULL);
}

/* ---- what the launcher says ---- */

bool hvd_host_io_message(struct hvd_host_io *io, const char *type, const json_t *msg)
{
	int64_t n;

	if (strcmp(type, "took") != 0)
		return false;
	if (hvd_get_int(msg, "n", 0, (int64_t)io->unpassed, &n, NULL) == 0)
		io->unpassed -= (size_t)n;
	if (io->sink.full && io->unpassed < HVD_JOIN_WINDOW)
		hvd_output_sink_resume(&io->sink);
	return true;
}

/* ---- life ---- */

void hvd_host_io_lost(struct hvd_host_io *io)
{
	if (!io)
		return;
	io->conn = NULL;
	restore_stderr(io);
	close_input(io);
	hvd_output_sink_resume(&io->sink);
}

void hvd_host_io_end(struct hvd_host_io *io, int status)
{
	if (!io)
		return;
	restore_stderr(io);
	if (io->conn) {
		hvd_conn_mute(io->conn, HVD_CHANNEL_STDIN);
		hvd_conn_send(io->conn, json_pack("{s:s, s:i}", "t", "ended", "status", status));
	}
	io->conn = NULL;
}

/* Put one end of a new pipe in the place of the descriptor `std`. Returns the other one, or -1 with err set. */
static int replace(int std, int end, struct hvd_err *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return hvd_err_sys(err, "cannot make a pipe");
	if (dup2(ends[end], std) < 0) {
		hvd_err_sys(err, "cannot redirect the descriptor %d", std);
		close(ends[0]);
		close(ends[1]);
		return -1;
	}
	close(ends[end]);
	fcntl(ends[!end], F_SETFL, O_NONBLOCK);
	return ends[!end];
}

struct hvd_host_io *hvd_host_io_create(struct event_base *base, struct hvd_conn *conn, struct hvd_err *err)
{
	struct hvd_host_io *io = hvd_xcalloc(1, sizeof(*io));

	io->sink.write = on_output;
	io->sink.all = true;
	io->conn = conn;
	io->own = -1;
	io->before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	io->in = replace(STDIN_FILENO, 0, err);
	if (io->in >= 0)
		io->own = replace(STDERR_FILENO, 1, err);
	if (io->own < 0) {
		close_input(io);
		if (io->before >= 0)
			close(io->before);
		free(io);
		return NULL;
	}
	io->writable = event_new(base, io->in, EV_WRITE | EV_PERSIST, on_writable, io);
	io->readable = hvd_event_watch(base, io->own, EV_READ | EV_PERSIST, on_readable, io);
	hvd_conn_open(conn, HVD_CHANNEL_STDIN, HVD_JOIN_PIECE, on_input, io);
	input_done(io); /* for the first time: input may come */
	return io;
}

void hvd_host_io_destroy(struct hvd_host_io *io)
{
	if (!io)
		return;
	restore_stderr(io);
	close_input(io);
	free(io->input);
	free(io);
}
