/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_proc.c - an agent that came by itself (lib/host/join.h), in the place of a process of the job.
 *
 * It is told to run as the node agent of its host. The driver takes its connection over, which also carries what the
 * host's ranks write and read. It ends with its connection.
 */
#include "agent_proc.h"

#include "agent_pool.h"
#include "lib/base/xalloc.h"
#include "lib/host/join.h"
#include "stdin_forward.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct hvd_agent_proc {
	struct hvd_client_io io;
	const struct hvd_agent_proc_opts *opts;
	const char *host;
	const struct hvd_log *log;
	struct hvd_output_source *out[2]; /* of stdout and stderr */
	size_t owed[2];                   /* bytes that were taken, which the agent was not told */
	/* hvdrun's standard input, which rank 0 of the agent reads; waited for once the agent takes more. NULL: it
	 * reads nothing, or the end was sent. */
	struct event *input;
	int status; /* as it has said */
	void (*ended)(int status, void *arg);
	void *arg;
};

static struct hvd_agent_proc *of(struct hvd_client_io *io)
{
	_Static_assert(offsetof(struct hvd_agent_proc, io) == 0, "io comes first");
	return (struct hvd_agent_proc *)io;
}

/* ---- input ---- */

static void end_input(struct hvd_agent_proc *j)
{
	if (j->input)
		event_free(j->input);
	j->input = NULL;
}

/* A file is always ready, and cannot be waited for. */
static void await_input(struct hvd_agent_proc *j)
{
	if (event_get_fd(j->input) >= 0)
		event_add(j->input, NULL);
	else
		event_active(j->input, EV_READ, 0);
}

static void on_input(evutil_socket_t fd, short what, void *arg)
{
	static const unsigned char stream = HVD_JOIN_STDIN;
	struct hvd_agent_proc *j = arg;
	char buf[HVD_JOIN_PIECE];
	ssize_t n = hvd_stdin_forward_read(STDIN_FILENO, buf, sizeof(buf));

	(void)fd;
	(void)what;
	if (n < 0 && errno == EAGAIN) {
		await_input(j);
		return;
	}
	hvd_conn_send_bytes(j->io.client->conn, (const struct hvd_piece[]){{&stream, 1}, {buf, n > 0 ? (size_t)n : 0}},
			    2);
	if (n <= 0)
		end_input(j);
}

/* ---- output ---- */

void hvd_agent_proc_acknowledge(struct hvd_agent_proc *j)
{
	size_t n = 0;

	for (int s = 0; s < 2; s++) {
		if (!j->owed[s] || hvd_output_mux_is_full(j->opts->out[s]))
			continue;
		n += j->owed[s];
		j->owed[s] = 0;
	}
	if (n && j->io.client)
		hvd_conn_send(j->io.client->conn, json_pack("{s:s, s:I}", "t", "took", "n", (json_int_t)n));
}

static void on_bytes(struct hvd_client_io *io, const unsigned char *data, size_t len)
{
	struct hvd_agent_proc *j = of(io);
	int s = data[0] == HVD_JOIN_STDERR;

	if (data[0] != HVD_JOIN_STDOUT && data[0] != HVD_JOIN_STDERR)
		return;
	hvd_output_mux_put(j->out[s], (const char *)data + 1, len - 1);
	j->owed[s] += len - 1;
	hvd_agent_proc_acknowledge(j);
}

/* ---- what the agent says ---- */

static bool on_message(struct hvd_client_io *io, const char *type, const json_t *msg)
{
	struct hvd_agent_proc *j = of(io);
	const char *because;
	int64_t status;

	if (strcmp(type, "took") == 0) {
		if (j->input)
			await_input(j);
	} else if (strcmp(type, "ending") == 0) {
		if (hvd_get_str(msg, "why", 256, &because, NULL) == 0)
			hvd_error(j->log, "%s: the agent ends its ranks: %s", j->host, because);
	} else if (strcmp(type, "ended") == 0) {
		if (hvd_get_int(msg, "status", 0, 255, &status, NULL) == 0)
			j->status = (int)status;
	} else {
		return false;
	}
	return true;
}

static void on_gone(struct hvd_client_io *io, const struct hvd_err *why)
{
	struct hvd_agent_proc *j = of(io);
	struct hvd_err lost = {0};

	end_input(j);
	for (int s = 0; s < 2; s++) {
		hvd_output_mux_end(j->out[s]);
		j->out[s] = NULL;
	}
	if (j->status < 0) {
		hvd_err_set(&lost, HVD_E_NET, "the connection to its agent has ended%s%s", *why->msg ? ": " : "",
			    why->msg);
		hvd_err_hint(&lost, "was the agent, or what had started it, ended? Did its host go down?");
		hvd_err_host(&lost, j->host);
		hvd_log_err(j->log, &lost);
	}
	j->ended(j->status, j->arg);
}

/* ---- life ---- */

static void run(struct hvd_agent_proc *j, char *const *argv)
{
	struct hvd_conn *conn = j->io.client->conn;
	size_t n;
	char *args = hvd_join_args(argv + 1, &n);

	hvd_conn_send(conn, json_pack("{s:s, s:s}", "t", "run", "boot", j->opts->boot));
	hvd_conn_send_bytes(conn, &(const struct hvd_piece){args, n}, 1);
	free(args);
}

struct hvd_agent_proc *hvd_agent_proc_start(struct event_base *base, struct hvd_launch *launch,
					    const struct hvd_proc *proc, const struct hvd_agent_proc_opts *opts,
					    bool input, void (*ended)(int status, void *arg), void *arg,
					    struct hvd_err *err)
{
	struct hvd_conn *conn = hvd_agent_pool_conn(launch->agent_pool, proc->host);
	struct hvd_agent_proc *j;

	if (!conn) {
		hvd_err_set(err, HVD_E_NOENT, "its agent has left");
		return NULL;
	}
	j = hvd_xcalloc(1, sizeof(*j));
	*j = (struct hvd_agent_proc){.io = {.bytes = on_bytes, .message = on_message, .gone = on_gone},
				     .opts = opts,
				     .host = proc->host,
				     .log = launch->log,
				     .status = -1,
				     .ended = ended,
				     .arg = arg};
	if (input)
		j->input = event_new(base, hvd_stdin_forward_can_poll(STDIN_FILENO) ? STDIN_FILENO : -1, EV_READ,
				     on_input, j);
	for (int s = 0; s < 2; s++)
		j->out[s] = hvd_output_mux_add(opts->out[s]);
	opts->joined(conn, &j->io, opts->arg);
	run(j, proc->argv.v);
	return j;
}

/* An agent that has registered is told to end by the driver. */
void hvd_agent_proc_signal(struct hvd_agent_proc *j, int sig)
{
	if (j->io.client && (sig == SIGKILL || j->io.client->role == HVD_ROLE_NONE))
		shutdown(hvd_conn_fd(j->io.client->conn), SHUT_RDWR);
}

void hvd_agent_proc_destroy(struct hvd_agent_proc *j)
{
	if (!j)
		return;
	hvd_client_release(&j->io);
	end_input(j);
	for (int s = 0; s < 2; s++)
		hvd_output_mux_end(j->out[s]);
	free(j);
}
