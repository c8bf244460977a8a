/* SPDX-License-Identifier: Apache-2.0 */
/* The steps: connect, and prove possession of the key (dial.h); offer the host; wait until the launch needs it, or does
 * not. */
#include "join.h"

#include "dial.h"
#include "lib/base/hex.h"
#include "lib/base/size.h"
#include "lib/base/timer.h"
#include "lib/base/values.h"
#include "lib/host/join.h"
#include "lib/protocol/preamble.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REACH_SECONDS 30
#define TIMEOUT_MAX   (86400 * 365) /* seconds */

#define GO_ON (-1) /* in place of an exit status */

struct joiner {
	struct hvd_join *join;
	const struct hvd_log *log;
	struct hvd_key key;
	struct hvd_join_offer offer;
	struct hvd_dial *dial;
	int status;
};

static void stop(struct joiner *j, int status)
{
	j->status = status;
	event_base_loopbreak(j->join->base);
}

static void fail(struct joiner *j, const struct hvd_err *why)
{
	hvd_log_err(j->log, why);
	stop(j, hvd_err_status(why));
}

/* ---- what the launcher says ---- */

/* The launch needs this agent. */
static void on_preamble(unsigned channel, const void *data, size_t len, void *arg)
{
	struct joiner *j = arg;
	struct hvd_preamble p;
	struct hvd_err why = {0};

	hvd_conn_mute(j->join->conn, channel);
	if (hvd_preamble_parse_whole(data, len, &p, &why) != 0 || hvd_boot_parse(p.boot, &j->join->boot, &why) != 0) {
		fail(j, &why);
	} else {
		j->join->args = p.args;
		p.args = (struct hvd_strv){0};
		stop(j, GO_ON);
	}
	hvd_preamble_clear(&p);
}

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct joiner *j = arg;
	struct hvd_err why = {0};
	const char *type;

	(void)conn;
	if (hvd_get_str(msg, "t", 16, &type, &why) != 0) {
		fail(j, &why);
	} else if (strcmp(type, "plan") == 0) {
		hvd_info(j->log, "the launch has enough agents, and does not need this one");
		stop(j, 0);
	} else if (strcmp(type, "failed") == 0) {
		hvd_join_refusal_read(msg, &why);
		fail(j, &why);
	}
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct hvd_err shown = *why;

	(void)conn;
	if (why->code != HVD_E_AUTH && why->code != HVD_E_PROTO)
		hvd_err_set(&shown, HVD_E_NET, "the launcher has ended before it needed this agent%s%s",
			    *why->msg ? ": " : "", why->msg);
	fail(arg, &shown);
}

static void on_up(struct hvd_conn *conn, void *arg)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};
	struct joiner *j = arg;

	j->join->conn = conn;
	hvd_conn_set_ops(conn, &ops, j);
	hvd_conn_open(conn, HVD_CHANNEL_PREAMBLE, 2 * HVD_PREAMBLE_MAX, on_preamble, j);
	hvd_conn_send(conn, hvd_join_offer(&j->offer));
}

static void on_down(const struct hvd_err *why, void *arg)
{
	struct hvd_err shown = *why;

	hvd_err_hint(&shown,
		     "does hvdrun still wait at this address, with this key? Does a firewall block the connection?");
	fail(arg, &shown);
}

static void on_ending(int sig, void *arg)
{
	stop(arg, 128 + (sig == HVD_ENDING_STARTER ? SIGHUP : sig));
}

/* ---- life ---- */

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
			return hvd_err_set(err, HVD_E_TIMEOUT, "no key arrived on stdin in time");
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
	return rc == 0 ? 0
		       : hvd_err_set(err, HVD_E_USAGE,
				     "the input on stdin is not a key of 64 hex digits and a newline");
}

static int read_opts(struct joiner *j, const struct hvd_join_opts *opts, struct hvd_err *err)
{
	int slots = 1, index = -1;
	double timeout = REACH_SECONDS;

	if (!opts->key_file) {
		hvd_err_set(err, HVD_E_USAGE, "hvd-agent connect needs the key of hvdrun");
		return hvd_err_hint(err, "add --key-file=FILE, or --key-file=- to read the key from stdin");
	}
	if (hvd_join_address_parse(opts->address, &j->join->boot, err) != 0 ||
	    (opts->slots && hvd_value_int("option --slots", opts->slots, 1, INT32_MAX, &slots, err) != 0) ||
	    (opts->index && hvd_value_int("option --index", opts->index, 0, HVD_JOIN_INDEX_MAX, &index, err) != 0) ||
	    (opts->timeout && hvd_value_seconds("option --timeout", opts->timeout, 1, TIMEOUT_MAX, &timeout, err) != 0))
		return -1;
	j->join->boot.timeout = timeout;
	j->offer.slots = slots;
	j->offer.index = index;
	if (opts->name)
		snprintf(j->offer.host, sizeof(j->offer.host), "%s", opts->name);
	else if (gethostname(j->offer.host, sizeof(j->offer.host) - 1) != 0)
		return hvd_err_sys(err, "cannot get this host's name");
	if (hvd_machine_id(j->offer.machine, err) != 0)
		return -1;
	return strcmp(opts->key_file, "-") == 0 ? key_from_stdin(hvd_deadline_in((double)timeout), &j->key, err)
						: hvd_key_read_file(opts->key_file, &j->key, err);
}

static int begin(struct joiner *j, bool with_starter, struct hvd_err *err)
{
	struct hvd_join *join = j->join;
	struct hvd_session *session = &join->session;
	int starter = -1; /* ends when what has started the agent does */

	join->base = event_base_new();
	if (!join->base)
		return hvd_err_set(err, HVD_E_SYS, "cannot make an event loop");
	/* Standard input becomes that of a rank. */
	if (with_starter && (starter = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)) < 0)
		return hvd_err_sys(err, "cannot copy the standard input");
	memcpy(session->id, join->boot.session, sizeof(session->id));
	session->identity = (struct hvd_identity){.kind = HVD_ID_KEY, .key = j->key};
	hvd_session_bind_key(session);
	join->ending = hvd_ending_watch(join->base, starter, on_ending, j);
	j->dial = hvd_dial_create(join->base, &join->boot, session, hvd_deadline_in(join->boot.timeout), on_up, on_down,
				  j);
	return 0;
}

static void clear(struct joiner *j)
{
	struct hvd_join *join = j->join;

	hvd_dial_destroy(j->dial);
	explicit_bzero(&j->key, sizeof(j->key));
	if (j->status == GO_ON)
		return;
	hvd_ending_unwatch(join->ending);
	hvd_conn_free(join->conn);
	if (join->base)
		event_base_free(join->base);
	explicit_bzero(&join->session, sizeof(join->session));
}

int hvd_join_wait(const struct hvd_join_opts *opts, struct hvd_join *join, const struct hvd_log *log)
{
	struct joiner j = {.join = join, .log = log};
	struct hvd_err err = {0};

	*join = (struct hvd_join){.conn = NULL};
	if (read_opts(&j, opts, &err) == 0 && begin(&j, strcmp(opts->key_file, "-") == 0, &err) == 0) {
		event_base_dispatch(join->base);
	} else {
		hvd_log_err(log, &err);
		j.status = hvd_err_status(&err);
	}
	clear(&j);
	return j.status;
}
