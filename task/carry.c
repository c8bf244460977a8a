/* SPDX-License-Identifier: Apache-2.0 */
#include "carry.h"

#include "lib/job/join.h"
#include "lib/process/spawn.h"
#include "lib/protocol/handshake.h"
#include "lib/protocol/preamble.h"

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The launcher writes the preamble at once. An agent that waits answers at once, too. */
#define PREAMBLE_SECONDS 20
#define ANSWER_SECONDS   30

struct carry {
	struct event_base *base;
	char *const *argv;
	const char *host;
	const struct hvd_log *log;
	struct hvd_preamble preamble;
	struct hvd_session session;
	struct hvd_handshake hs;
	struct hvd_conn *conn;
	struct event *input;
	bool write_failed;
	int status;
};

static void on_input(evutil_socket_t fd, short what, void *arg)
{
	static const char stdin_stream = 0;
	struct carry *c = arg;
	char buf[HVD_JOIN_PIECE];
	ssize_t n = read(fd, buf, sizeof(buf));

	(void)what;
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	event_del(c->input); /* until the agent has passed it on */
	hvd_conn_send_bytes(c->conn, (const struct hvd_piece[]){{&stdin_stream, 1}, {buf, n > 0 ? (size_t)n : 0}}, 2);
	if (n <= 0) {
		event_free(c->input);
		c->input = NULL;
	}
}

static void run(struct carry *c)
{
	size_t n;
	char *args = hvd_join_args(c->argv + 1, &n);

	hvd_conn_set_deadline(c->conn, 0);
	hvd_conn_set_bytes_max(c->conn, HVD_JOIN_PIECE + 1);
	hvd_conn_send(c->conn, json_pack("{s:s, s:s}", "t", "run", "boot", c->preamble.boot));
	hvd_conn_send_bytes(c->conn, &(const struct hvd_piece){args, n}, 1);
	free(args);
	c->input = event_new(c->base, STDIN_FILENO, EV_READ | EV_PERSIST, on_input, c);
	event_add(c->input, NULL);
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct carry *c = arg;
	struct hvd_err told = {0};

	(void)conn;
	hvd_err_set(&told, HVD_E_NET, "the connection to its agent has ended%s%s", *why->msg ? ": " : "", why->msg);
	hvd_err_hint(&told, "was the agent, or what had started it, ended? Did its host go down?");
	hvd_err_host(&told, c->host);
	hvd_log_err(c->log, &told);
	event_base_loopbreak(c->base);
}

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct carry *c = arg;
	struct hvd_err why = {0};
	const char *type, *because;
	int64_t status;
	int rc;

	if (!c->hs.done) {
		rc = hvd_handshake_message(&c->hs, conn, msg, &why);
		if (rc > 0)
			run(c);
		else if (rc < 0)
			on_closed(conn, &why, c);
	} else if (hvd_get_str(msg, "t", 16, &type, NULL) == 0 && strcmp(type, "took") == 0) {
		if (c->input)
			event_add(c->input, NULL);
	} else if (type && strcmp(type, "ending") == 0 && hvd_get_str(msg, "why", 256, &because, NULL) == 0) {
		hvd_error(c->log, "%s: the agent ends its ranks: %s", c->host, because);
	} else if (type && strcmp(type, "exit") == 0 && hvd_get_int(msg, "status", 0, INT32_MAX, &status, NULL) == 0) {
		c->status = hvd_status_exit((int)status);
		event_base_loopbreak(c->base);
	}
}

/* Blocks while the reader does not read: then the agent's connection fills up, and the ranks wait. */
static int write_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		struct pollfd pfd = {.fd = fd, .events = POLLOUT};
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -1;
		if (n < 0 && errno == EAGAIN)
			poll(&pfd, 1, -1);
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

static void on_bytes(struct hvd_conn *conn, const void *data, size_t len, void *arg)
{
	struct carry *c = arg;
	const char *bytes = data;

	(void)conn;
	if (len < 1 || (bytes[0] != STDOUT_FILENO && bytes[0] != STDERR_FILENO) || c->write_failed)
		return;
	if (write_all(bytes[0], bytes + 1, len - 1) == 0)
		return;
	hvd_error(c->log, "output of ranks is lost: cannot write to standard %s: %s",
		  bytes[0] == STDOUT_FILENO ? "output" : "error", strerror(errno));
	c->write_failed = true;
}

static int begin(struct carry *c, const char *at, struct hvd_err *err)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed, .bytes = on_bytes};
	int fd, used = 0;

	if (sscanf(at, "%d:%n", &fd, &used) != 1 || !used || fd < 0 || strlen(at + used) <= HVD_SESSION_LEN ||
	    at[used + HVD_SESSION_LEN] != ':')
		return hvd_err_set(err, HVD_E_USAGE, "\"%s\" is no descriptor, session and host", at);
	c->host = at + used + HVD_SESSION_LEN + 1;
	if (hvd_preamble_read(STDIN_FILENO, hvd_deadline_in(PREAMBLE_SECONDS), &c->preamble, err) != 0)
		return -1;
	memcpy(c->session.id, at + used, HVD_SESSION_LEN);
	c->session.identity = (struct hvd_identity){.kind = HVD_ID_KEY, .key = c->preamble.key};
	hvd_session_bind_key(&c->session);
	c->session.key = c->session.identity.key;
	c->base = event_base_new();
	if (!c->base)
		return hvd_err_set(err, HVD_E_SYS, "cannot make an event loop");
	c->conn = hvd_conn_new(c->base, fd, true, &ops, c);
	hvd_conn_set_deadline(c->conn, hvd_deadline_in(ANSWER_SECONDS));
	return hvd_handshake_start(&c->hs, &c->session, c->conn, true, err);
}

int hvd_carry_run(const char *at, char *const *argv, const struct hvd_log *log)
{
	struct carry c = {.argv = argv, .log = log, .status = HVD_JOIN_LOST};
	struct hvd_err err = {0};

	if (begin(&c, at, &err) == 0)
		event_base_dispatch(c.base);
	else
		hvd_log_err(log, &err);
	hvd_conn_free(c.conn);
	if (c.input)
		event_free(c.input);
	if (c.base)
		event_base_free(c.base);
	explicit_bzero(&c.session, sizeof(c.session));
	hvd_preamble_clear(&c.preamble);
	return c.status == 0 && c.write_failed ? 1 : c.status;
}
