/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subcommand_connect.c - hvd-agent connect: a self-registering agent, which offers this host to a launch that waits for
 * agents (hvdrun --launcher=join).
 *
 * The steps: connect, and prove possession of the key (dial.h); offer the host; wait until the launch needs it, or does
 * not. When the launch needs the host, the agent becomes the host's agent (spawned.h), in its own directory and
 * environment. It serves one launch once. When the launcher's connection ends, or the agent gets SIGTERM, SIGINT or
 * SIGHUP, it ends its ranks and then itself.
 */
#include "dial.h"
#include "lib/base/digits.h"
#include "lib/base/size.h"
#include "lib/base/values.h"
#include "lib/host/join.h"
#include "lib/protocol/preamble.h"
#include "session_wrapper.h"
#include "spawned.h"
#include "subcommand.h"

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

struct connect_args {
	const char *address;  /* where the launch is (lib/host/join.h) */
	const char *key_file; /* "-": stdin has 64 hex digits and a newline, and the agent ends when stdin does */
	const char *name;     /* what the host is called; NULL = its host name */
	const char *slots;    /* a number; NULL = 1 */
	const char *index;    /* a number; NULL = none */
	const char *timeout;  /* seconds to reach the launcher; NULL = 30 */
	bool behind;          /* a session wrapper has started this process */
};

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
	if (hvd_preamble_parse_whole(data, len, &p, &why) != 0 ||
	    hvd_boot_parse(p.boot, &j->join->start.boot, &why) != 0) {
		fail(j, &why);
	} else {
		j->join->start.args = p.args;
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

static int read_args(struct joiner *j, const struct connect_args *args, struct hvd_err *err)
{
	int slots = 1, index = -1;
	double timeout = REACH_SECONDS;

	if (!args->key_file) {
		hvd_err_set(err, HVD_E_USAGE, "hvd-agent connect needs the key of hvdrun");
		return hvd_err_hint(err, "add --key-file=FILE, or --key-file=- to read the key from stdin");
	}
	if (hvd_join_address_parse(args->address, &j->join->start.boot, err) != 0 ||
	    (args->slots && hvd_value_int("option --slots", args->slots, 1, INT32_MAX, &slots, err) != 0) ||
	    (args->index && hvd_value_int("option --index", args->index, 0, HVD_JOIN_INDEX_MAX, &index, err) != 0) ||
	    (args->timeout && hvd_value_seconds("option --timeout", args->timeout, 1, TIMEOUT_MAX, &timeout, err) != 0))
		return -1;
	j->join->start.boot.timeout = timeout;
	j->offer.slots = slots;
	j->offer.index = index;
	if (args->name)
		snprintf(j->offer.host, sizeof(j->offer.host), "%s", args->name);
	else if (gethostname(j->offer.host, sizeof(j->offer.host) - 1) != 0)
		return hvd_err_sys(err, "cannot get this host's name");
	if (hvd_machine_id(j->offer.machine, err) != 0)
		return -1;
	return strcmp(args->key_file, "-") == 0 ? key_from_stdin(hvd_deadline_in((double)timeout), &j->key, err)
						: hvd_key_read_file(args->key_file, &j->key, err);
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
	memcpy(session->id, join->start.boot.session, sizeof(session->id));
	session->identity = (struct hvd_identity){.kind = HVD_ID_KEY, .key = j->key};
	hvd_session_bind_key(session);
	join->ending = hvd_ending_watch(join->base, starter, on_ending, j);
	j->dial = hvd_dial_create(join->base, &join->start.boot, session, hvd_deadline_in(join->start.boot.timeout),
				  on_up, on_down, j);
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

/* Returns GO_ON if the launch needs this agent: *join is set. Otherwise returns the exit status: 0 if the launch did not
 * need the agent, 1 and 2 after an error, 128 plus a signal's number; the user was told why. */
static int wait_for_launch(const struct connect_args *args, struct hvd_join *join, const struct hvd_log *log)
{
	struct joiner j = {.join = join, .log = log};
	struct hvd_err err = {0};

	*join = (struct hvd_join){.conn = NULL};
	if (read_args(&j, args, &err) == 0 && begin(&j, strcmp(args->key_file, "-") == 0, &err) == 0) {
		event_base_dispatch(join->base);
	} else {
		hvd_log_err(log, &err);
		j.status = hvd_err_status(&err);
	}
	clear(&j);
	return j.status;
}

/* ---- the command line ---- */

#define AT(field) offsetof(struct connect_args, field)

static const struct hvd_option_row options[] = {
	{"key-file", "FILE|-",
	 "file with the launch's key; -: read it from stdin (64 hex digits and a newline); the end of stdin ends the "
	 "ranks",
	 hvd_option_text, AT(key_file)},
	{"slots", "N", "how many ranks this host takes (1)", hvd_option_text, AT(slots)},
	{"index", "N", "the position of this host among the others, if possible", hvd_option_text, AT(index)},
	{"name", "HOST", "the name of this host (its host name)", hvd_option_text, AT(name)},
	{"timeout", "SECONDS", "how long to try to reach the launcher (30)", hvd_option_text, AT(timeout)},
	{"join", "ADDRESS", NULL, hvd_option_text, AT(address)}, /* hvd-task --join=ADDRESS */
	{"behind", NULL, NULL, hvd_option_flag, AT(behind)},     /* of the monitor */
	{NULL, NULL, NULL, NULL, 0},
};

static int run(int argc, char **argv, const struct hvd_log *log)
{
	struct connect_args args = {.behind = false};
	struct hvd_join join;
	char **address;
	pid_t wrapper = getppid(); /* of the process behind it */
	int status = hvd_subcommand_parse(&hvd_subcommand_connect, argc, argv, &args, &address, log);

	if (status >= 0)
		return status;
	if (*address && args.address)
		return hvd_subcommand_misused(&hvd_subcommand_connect, log, "unexpected argument '%s'", *address);
	if (*address)
		args.address = *address;
	if (!args.address)
		return hvd_subcommand_misused(&hvd_subcommand_connect, log, "ADDRESS is missing");
	if (!args.behind)
		return hvd_session_wrapper_run(argv, HVD_SESSION_WRAPPER_JOIN, log);
	status = wait_for_launch(&args, &join, log);
	if (status == GO_ON)
		status = hvd_subcommand_host_join(&join, log);
	hvd_session_wrapper_wake(wrapper);
	return status;
}

const struct hvd_subcommand hvd_subcommand_connect = {
	.name = "connect",
	.process = "hvd-agent",
	.operands = "ADDRESS",
	.summary = "offer this host to a launch that waits for agents",
	.about = "Offer this host to hvdrun --launcher=join, which waits for agents at ADDRESS, and run the ranks that "
		 "it\n"
		 "gives to this host. hvdrun prints the address, or writes it into the file of --join-file.",
	.options = options,
	.most = 1,
	.run = run,
};
