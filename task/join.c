/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps: connect and offer (link.h); accepted, the connection becomes a bare one again; a second handshake, with
 * whoever serves it then; a node agent (task/joined.c), unless none is needed.
 */
#include "join.h"

#include "joined.h"
#include "lib/base/hex.h"
#include "lib/base/size.h"
#include "lib/base/values.h"
#include "lib/job/join.h"
#include "lib/process/spawn.h"
#include "link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define REACH_SECONDS  30
#define ANSWER_SECONDS 15
/* What the ranks wrote last may wait for the reader of the launcher's output. */
#define FLUSH_SECONDS 600

static const int caught[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};
#define N_CAUGHT (sizeof(caught) / sizeof(caught[0]))

struct joiner {
	struct event_base *base;
	const struct hvd_log *log;
	struct hvd_boot boot;
	struct hvd_key key;
	struct hvd_session session;
	struct hvd_join_offer offer;
	struct hvd_link *link;
	struct hvd_conn *conn;
	struct hvd_handshake hs;
	struct hvd_joined *joined; /* the node agent */
	char run[HVD_BOOT_MAX];    /* the boot text for it; "" = it was not asked for */
	struct event *signals[N_CAUGHT], *parent;
	int status;
};

#define ENDED "the connection to the launcher has ended%s%s: ending the ranks"

static void stop(struct joiner *j, int status)
{
	j->status = status;
	event_base_loopbreak(j->base);
}

static void fail(struct joiner *j, const struct hvd_err *why)
{
	hvd_log_err(j->log, why);
	stop(j, hvd_err_status(why));
}

/* The launcher has ended, or does not speak as it should. */
static void launcher_gone(struct joiner *j, const struct hvd_err *why)
{
	struct hvd_err told = {0};

	hvd_conn_free(j->conn);
	j->conn = NULL;
	if (j->joined) {
		hvd_error(j->log, ENDED, *why->msg ? ": " : "", why->msg);
		hvd_joined_disconnect(j->joined);
		return;
	}
	if (why->code == HVD_E_AUTH || why->code == HVD_E_PROTO) {
		fail(j, why);
		return;
	}
	hvd_err_set(&told, HVD_E_NET, "the launcher has ended before it needed this agent%s%s", *why->msg ? ": " : "",
		    why->msg);
	fail(j, &told);
}

/* ---- the second handshake, and what follows ---- */

/* Has the launcher ended, which was not heard yet? */
static bool has_ended(const struct hvd_conn *conn)
{
	char byte;
	ssize_t n = recv(hvd_conn_fd(conn), &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static void on_joined_ended(int status, void *arg)
{
	struct joiner *j = arg;

	char text[64];

	/* It may have noticed first that the launcher has ended. */
	if (j->conn && status != 0 && has_ended(j->conn))
		hvd_error(j->log, ENDED, "", "");
	else if (j->conn && status != 0)
		hvd_info(j->log, "the node agent has ended: %s", hvd_status_text(status, text, sizeof(text)));
	if (j->conn)
		hvd_conn_send(j->conn, json_pack("{s:s, s:i}", "t", "exit", "status", status));
	stop(j, hvd_status_exit(status));
}

static void on_order(struct joiner *j, const json_t *msg)
{
	struct hvd_err why = {0};
	const char *type;

	if (hvd_get_str(msg, "t", 16, &type, &why) != 0) {
		launcher_gone(j, &why);
	} else if (strcmp(type, "enough") == 0) {
		hvd_info(j->log, "the launch has enough agents, and does not need this one");
		stop(j, 0);
	} else if (strcmp(type, "declined") == 0) {
		hvd_join_declined_read(msg, &why);
		fail(j, &why);
	} else if (strcmp(type, "run") == 0 && !*j->run) {
		if (hvd_join_run_read(msg, j->run, &why) == 0)
			hvd_conn_set_bytes_max(j->conn, HVD_JOIN_ARGS_MAX);
		else
			launcher_gone(j, &why);
	}
}

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct joiner *j = arg;
	struct hvd_err why = {0};
	int rc;

	if (j->hs.done) {
		on_order(j, msg);
		return;
	}
	rc = hvd_handshake_message(&j->hs, conn, msg, &why);
	if (rc > 0)
		hvd_conn_set_deadline(conn, hvd_deadline_in(ANSWER_SECONDS));
	else if (rc < 0)
		launcher_gone(j, &why);
}

static void start(struct joiner *j, const void *data, size_t len)
{
	static const struct hvd_joined_ops ops = {.ended = on_joined_ended};
	struct hvd_strv args = {0};
	struct hvd_err why = {0};

	if (hvd_join_args_read(data, len, &args, &why) == 0)
		j->joined = hvd_joined_start(j->base, j->conn, args.v, &j->key, j->run, &ops, j, &why);
	hvd_strv_free(&args);
	if (!j->joined) {
		fail(j, &why);
		return;
	}
	hvd_conn_set_deadline(j->conn, 0);
	hvd_conn_set_bytes_max(j->conn, HVD_JOIN_PIECE + 1);
}

static void on_bytes(struct hvd_conn *conn, const void *data, size_t len, void *arg)
{
	struct joiner *j = arg;

	(void)conn;
	if (!*j->run)
		return;
	if (!j->joined)
		start(j, data, len);
	else if (len > 0 && *(const char *)data == 0)
		hvd_joined_input(j->joined, (const char *)data + 1, len - 1);
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	(void)conn;
	launcher_gone(arg, why);
}

static void on_drained(struct hvd_conn *conn, void *arg)
{
	struct joiner *j = arg;

	(void)conn;
	if (j->joined)
		hvd_joined_drained(j->joined);
}

/* ---- the offer ---- */

/* Say that the agent is ready, which is the last that is said with this key. The answer to it comes on the second
 * connection: the first reads nothing after it has written that. */
static void become_ready(struct joiner *j)
{
	static const struct hvd_conn_ops ops = {
		.message = on_message, .closed = on_closed, .bytes = on_bytes, .drained = on_drained};
	struct hvd_conn *first = j->conn;
	struct hvd_err why = {0};
	int fd = fcntl(hvd_conn_fd(first), F_DUPFD_CLOEXEC, 0);

	j->conn = NULL;
	if (fd < 0) {
		hvd_err_sys(&why, "cannot copy a descriptor");
		hvd_conn_free(first);
		fail(j, &why);
		return;
	}
	hvd_conn_send(first, json_pack("{s:s}", "t", "ready"));
	hvd_conn_finish(first, hvd_deadline_in(ANSWER_SECONDS));
	j->conn = hvd_conn_new(j->base, fd, false, &ops, j);
	hvd_conn_set_low(j->conn, HVD_JOIN_QUEUE / 2);
	if (hvd_handshake_start(&j->hs, &j->session, j->conn, false, &why) != 0)
		fail(j, &why);
}

static void on_answer(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct joiner *j = arg;
	const char *type;

	(void)conn;
	if (hvd_get_str(msg, "t", 16, &type, NULL) == 0 && strcmp(type, "accepted") == 0)
		become_ready(j);
	else
		on_order(j, msg);
}

static void on_up(struct hvd_conn *conn, void *arg)
{
	static const struct hvd_conn_ops ops = {.message = on_answer, .closed = on_closed};
	struct joiner *j = arg;

	j->conn = conn;
	hvd_conn_set_ops(conn, &ops, j);
	hvd_conn_set_deadline(conn, hvd_deadline_in(ANSWER_SECONDS));
	hvd_conn_send(conn, hvd_join_offer(&j->offer));
}

static void on_down(const struct hvd_err *why, void *arg)
{
	struct hvd_err told = *why;

	hvd_err_hint(&told,
		     "does hvdrun still wait there, at this address and with this key? Is a firewall between the "
		     "hosts?");
	fail(arg, &told);
}

/* ---- what ends the agent ---- */

static void end(struct joiner *j, int sig, const char *because)
{
	if (!j->joined) {
		stop(j, 128 + sig);
		return;
	}
	if (j->conn)
		hvd_conn_send(j->conn, json_pack("{s:s, s:s}", "t", "ending", "why", because));
	hvd_joined_end(j->joined);
}

static void on_signal(evutil_socket_t sig, short what, void *arg)
{
	struct joiner *j = arg;

	(void)what;
	if (sig != SIGCHLD)
		end(j, (int)sig, strsignal((int)sig));
	else if (j->joined)
		hvd_joined_reap(j->joined);
}

/* What comes on stdin after the key has no meaning; that it ends tells that whoever has started the agent is gone. */
static void on_parent(evutil_socket_t fd, short what, void *arg)
{
	struct joiner *j = arg;
	char buf[4096];
	ssize_t n = read(fd, buf, sizeof(buf));

	(void)what;
	if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)))
		return;
	event_del(j->parent);
	end(j, SIGHUP, "what has started it is gone");
}

/* ---- life ---- */

static int read_number(const char *option, const char *text, long min, long max, long *out, struct hvd_err *err)
{
	char *rest;

	if (!text)
		return 0;
	errno = 0;
	*out = strtol(text, &rest, 10);
	if (!errno && rest != text && !*rest && *out >= min && *out <= max)
		return 0;
	return hvd_err_set(err, HVD_E_USAGE, "--%s=%.40s is no number from %ld to %ld", option, text, min, max);
}

/* 64 hex digits and a newline. Not a byte more is read. */
static int key_from_stdin(hvd_time deadline, struct hvd_key *key, struct hvd_err *err)
{
	char text[2 * HVD_KEY_LEN + 1];
	size_t n = 0;
	int rc = -1;

	while (n < sizeof(text)) {
		struct pollfd pfd = {.fd = STDIN_FILENO, .events = POLLIN};
		int ready = poll(&pfd, 1, hvd_left_ms(deadline));
		ssize_t got = ready > 0 ? read(STDIN_FILENO, text + n, 1) : -1;

		if (ready == 0)
			return hvd_err_set(err, HVD_E_TIMEOUT, "no key came on stdin in time");
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got <= 0 || text[n++] == '\n')
			break;
	}
	if (n == sizeof(text) && text[n - 1] == '\n') {
		text[n - 1] = '\0';
		rc = hvd_unhex(text, key->b, HVD_KEY_LEN);
	}
	explicit_bzero(text, sizeof(text));
	return rc == 0 ? 0 : hvd_err_set(err, HVD_E_USAGE, "no key of 64 hex digits and a newline came on stdin");
}

static int read_opts(struct joiner *j, const struct hvd_join_opts *opts, struct hvd_err *err)
{
	long slots = 1, index = -1, timeout = REACH_SECONDS;

	if (!opts->key_file) {
		hvd_err_set(err, HVD_E_USAGE, "hvd-task --join needs the key that hvdrun has");
		return hvd_err_hint(err, "--key-file=FILE names it; --key-file=- reads it from stdin");
	}
	if (hvd_join_address_parse(opts->address, &j->boot, err) != 0 ||
	    read_number("slots", opts->slots, 1, INT32_MAX, &slots, err) != 0 ||
	    read_number("index", opts->index, 0, HVD_JOIN_INDEX_MAX, &index, err) != 0 ||
	    read_number("timeout", opts->timeout, 1, 86400 * 365, &timeout, err) != 0)
		return -1;
	j->boot.timeout = (double)timeout;
	j->offer.slots = (int)slots;
	j->offer.index = (int)index;
	if (opts->name)
		snprintf(j->offer.host, sizeof(j->offer.host), "%s", opts->name);
	else if (gethostname(j->offer.host, sizeof(j->offer.host) - 1) != 0)
		return hvd_err_sys(err, "cannot tell this host's name");
	if (hvd_machine_id(j->offer.machine, err) != 0)
		return -1;
	return strcmp(opts->key_file, "-") == 0 ? key_from_stdin(hvd_deadline_in((double)timeout), &j->key, err)
						: hvd_key_read_file(opts->key_file, &j->key, err);
}

static void begin(struct joiner *j, bool with_parent)
{
	memcpy(j->session.id, j->boot.session, sizeof(j->session.id));
	j->session.identity = (struct hvd_identity){.kind = HVD_ID_KEY, .key = j->key};
	hvd_session_bind_key(&j->session);
	for (size_t i = 0; i < N_CAUGHT; i++) {
		j->signals[i] = evsignal_new(j->base, caught[i], on_signal, j);
		event_add(j->signals[i], NULL);
	}
	if (with_parent) {
		j->parent = event_new(j->base, STDIN_FILENO, EV_READ | EV_PERSIST, on_parent, j);
		event_add(j->parent, NULL);
	}
	j->link = hvd_link_create(j->base, &j->boot, &j->session, hvd_deadline_in(j->boot.timeout), on_up, on_down, j);
}

static void close_down(struct joiner *j)
{
	hvd_link_destroy(j->link);
	hvd_joined_destroy(j->joined);
	for (size_t i = 0; i < N_CAUGHT; i++)
		event_free(j->signals[i]);
	if (j->parent)
		event_free(j->parent);
	hvd_conn_finish(j->conn, hvd_deadline_in(FLUSH_SECONDS));
	event_base_dispatch(j->base); /* until the last messages are out */
	event_base_free(j->base);
	hvd_kill_adopted();
}

int hvd_join_run(const struct hvd_join_opts *opts, const struct hvd_log *log)
{
	struct joiner j = {.log = log};
	struct hvd_err err = {0};

	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (read_opts(&j, opts, &err) == 0 && !(j.base = event_base_new()))
		hvd_err_set(&err, HVD_E_SYS, "cannot make an event loop");
	if (err.code) {
		hvd_log_err(log, &err);
		return hvd_err_status(&err);
	}
	begin(&j, strcmp(opts->key_file, "-") == 0);
	event_base_dispatch(j.base);
	close_down(&j);
	explicit_bzero(&j.key, sizeof(j.key));
	explicit_bzero(&j.session, sizeof(j.session));
	return j.status;
}
