/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_agent.c - a self-registering agent.
 *
 * After its offer it waits: both ends are silent, and the end of the connection ends the agent. Then the agent gets the
 * message that it is not needed; or the job takes it, and it gets the command line of its host's agent. From then on the
 * driver reads its messages, beside what this file passes on.
 */
#include "agent_pool_internal.h"

#include "lib/base/cleanup.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/preamble.h"
#include "output_mux.h"
#include "stdin_forward.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NOT_OF_THIS_RELEASE "it does not speak the protocol of this release"

static struct hvd_pool_agent *of(struct hvd_client_io *io)
{
	_Static_assert(offsetof(struct hvd_pool_agent, io) == 0, "io comes first");
	return (struct hvd_pool_agent *)io;
}

/* ---- the list of agents ---- */

void hvd_pool_agent_free(struct hvd_pool_agent *j)
{
	struct hvd_client *cl = j->io.client;

	TAILQ_REMOVE(&j->pool->all, j, in);
	hvd_pool_agent_stop(j);
	if (cl && !j->opts)
		hvd_client_finish(cl);
	free(j->host);
	free(j);
}

int hvd_agent_pool_slots_waiting(const struct hvd_agent_pool *pool)
{
	const struct hvd_pool_agent *j;
	int slots = 0;

	TAILQ_FOREACH(j, &pool->all, in)
	slots += j->taken ? 0 : j->offer.slots;
	return slots;
}

void hvd_agent_pool_tell(struct hvd_agent_pool *pool)
{
	hvd_timer_soon(pool->tell);
}

void hvd_agent_pool_on_tell(void *arg)
{
	struct hvd_agent_pool *pool = arg;

	if (pool->want && hvd_agent_pool_slots_waiting(pool) >= pool->want)
		event_base_loopbreak(pool->base);
	if (pool->changed)
		pool->changed(pool->arg);
}

/* "n1", and for further agents with the same host name "n1-2", "n1-3" … The caller frees it. */
static char *new_name(struct hvd_agent_pool *pool, const char *host)
{
	char *name = hvd_xstrdup(host);

	for (unsigned i = 2; hvd_strv_has(&pool->names, name); i++) {
		free(name);
		name = hvd_xasprintf("%.240s-%u", host, i);
	}
	hvd_strv_add(&pool->names, name);
	return name;
}

/* May this offer be accepted in addition to those of the others? */
static int check_offer(const struct hvd_agent_pool *pool, const struct hvd_join_offer *offer, struct hvd_err *err)
{
	int hosts = 1, slots = offer->slots;
	const struct hvd_pool_agent *j;

	for (j = TAILQ_FIRST(&pool->all); j; j = TAILQ_NEXT(j, in)) {
		if (offer->index >= 0 && j->offer.index == offer->index) {
			hvd_err_set(err, HVD_E_USAGE, "another agent already has index %d: %s", offer->index, j->host);
			return hvd_err_hint(err, "use each --index once, or leave --index out");
		}
		hosts++;
		slots += j->offer.slots;
		if (hosts > HVD_MAX_HOSTS || slots > HVD_MAX_RANKS)
			return hvd_err_set(err, HVD_E_LIMIT, "cannot accept more agents: there are %d with %d slots",
					   hosts - 1, slots - offer->slots);
	}
	return 0;
}

/* ---- agents that are not needed ---- */

static void not_needed(const struct hvd_agent_pool *pool, struct hvd_client *cl)
{
	if (pool->failed)
		hvd_conn_send(cl->conn, json_pack("{s:s}", "t", "failed"));
	else
		hvd_conn_send(cl->conn, json_pack("{s:s, s:b}", "t", "plan", "spare", 1));
	hvd_client_finish(cl);
}

void hvd_pool_agent_decline(struct hvd_pool_agent *j)
{
	struct hvd_client *cl = j->io.client;

	hvd_client_release(&j->io);
	not_needed(j->pool, cl);
	hvd_pool_agent_free(j);
}

/* ---- offers ---- */

/* An agent without an index (-1) comes after all that have one. */
static void put_in_order(struct hvd_pool_agent *j)
{
	struct hvd_agent_pool *pool = j->pool;
	struct hvd_pool_agent *other = TAILQ_FIRST(&pool->all);

	while (other && (unsigned)other->offer.index <= (unsigned)j->offer.index)
		other = TAILQ_NEXT(other, in);
	if (other)
		TAILQ_INSERT_BEFORE(other, j, in);
	else
		TAILQ_INSERT_TAIL(&pool->all, j, in);
}

static bool on_message(struct hvd_client_io *io, const char *type, const json_t *msg);
static void on_gone(struct hvd_client_io *io, const struct hvd_err *why);

static void accept_offer(struct hvd_agent_pool *pool, struct hvd_client *cl, const struct hvd_join_offer *offer)
{
	struct hvd_pool_agent *j = hvd_xcalloc(1, sizeof(*j));
	const char *s = offer->slots == 1 ? "" : "s";

	*j = (struct hvd_pool_agent){.io = {.message = on_message, .gone = on_gone},
				     .pool = pool,
				     .offer = *offer,
				     .host = new_name(pool, offer->host),
				     .status = -1};
	put_in_order(j);
	hvd_client_attach(cl, &j->io);
	if (pool->want)
		hvd_log(pool->opts.log, pool->opts.progress ? HVD_LOG_INFO : HVD_LOG_VERBOSE,
			"agent %s has joined with %d slot%s: %d of %d", j->host, offer->slots, s,
			hvd_agent_pool_slots_waiting(pool), pool->want);
	else
		hvd_verbose(pool->opts.log, "agent %s has joined with %d slot%s", j->host, offer->slots, s);
	hvd_agent_pool_tell(pool);
}

void hvd_pool_agent_offer(struct hvd_client *cl, const char *type, const json_t *msg, void *arg)
{
	struct hvd_agent_pool *pool = arg;
	struct hvd_join_offer offer;
	struct hvd_err why = {0};

	if (strcmp(type, "offer") != 0) {
		hvd_warn(pool->opts.log, "an agent was refused: " NOT_OF_THIS_RELEASE);
		hvd_client_finish(cl);
	} else if (pool->closed) {
		not_needed(pool, cl);
	} else if (hvd_join_offer_read(msg, &offer, &why) != 0 || check_offer(pool, &offer, &why) != 0) {
		hvd_warn(pool->opts.log, "an agent was refused: %s", why.msg);
		hvd_conn_send(cl->conn, hvd_join_refusal(&why));
		hvd_client_finish(cl);
	} else {
		accept_offer(pool, cl, &offer);
	}
}

/* ---- input ---- */

static void end_input(struct hvd_pool_agent *j)
{
	if (j->input)
		event_free(j->input);
	j->input = NULL;
}

/* A file is always ready, and cannot be waited for. */
static void await_input(struct hvd_pool_agent *j)
{
	if (event_get_fd(j->input) >= 0)
		event_add(j->input, NULL);
	else
		event_active(j->input, EV_READ, 0);
}

static void on_input(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_pool_agent *j = arg;
	char buf[HVD_JOIN_PIECE];
	ssize_t n = hvd_stdin_forward_read(STDIN_FILENO, buf, sizeof(buf));

	(void)fd;
	(void)what;
	if (n < 0 && errno == EAGAIN) {
		await_input(j);
		return;
	}
	hvd_conn_send_bytes(j->io.client->conn, HVD_CHANNEL_STDIN,
			    &(const struct hvd_piece){buf, n > 0 ? (size_t)n : 0}, 1);
	if (n <= 0)
		end_input(j);
}

/* ---- output ---- */

void hvd_pool_agent_acknowledge(struct hvd_pool_agent *j)
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

static void on_output(unsigned channel, const void *data, size_t len, void *arg)
{
	struct hvd_pool_agent *j = arg;
	const int s = channel == HVD_CHANNEL_STDERR;

	hvd_output_mux_put(j->out[s], data, len);
	j->owed[s] += len;
	hvd_pool_agent_acknowledge(j);
}

/* ---- what the agent says ---- */

static bool on_message(struct hvd_client_io *io, const char *type, const json_t *msg)
{
	struct hvd_pool_agent *j = of(io);
	const char *because;
	int64_t status;

	if (!j->opts) {
		hvd_warn(j->pool->opts.log, "agent %s was refused: " NOT_OF_THIS_RELEASE, j->host);
		hvd_client_finish(io->client);
	} else if (strcmp(type, "took") == 0) {
		if (j->input)
			await_input(j);
	} else if (strcmp(type, "ending") == 0) {
		if (hvd_get_str(msg, "why", 256, &because, NULL) == 0)
			hvd_error(j->pool->opts.log, "%s: the agent ends its ranks: %s", j->host, because);
	} else if (strcmp(type, "ended") == 0) {
		if (hvd_get_int(msg, "status", 0, 255, &status, NULL) == 0)
			j->status = (int)status;
	} else {
		return false;
	}
	return true;
}

void hvd_agent_pool_release(struct hvd_pool_agent *agent)
{
	struct hvd_agent_pool *pool = agent->pool;

	hvd_pool_agent_free(agent);
	hvd_agent_pool_tell(pool);
}

static void on_gone(struct hvd_client_io *io, const struct hvd_err *why)
{
	struct hvd_pool_agent *j = of(io);
	struct hvd_err lost = {0};

	if (!j->opts) {
		hvd_verbose(j->pool->opts.log, "agent %s has left%s%s", j->host, *why->msg ? ": " : "", why->msg);
		if (!j->taken)
			hvd_agent_pool_release(j);
		return;
	}
	hvd_pool_agent_stop(j);
	if (j->status < 0) {
		hvd_err_set(&lost, HVD_E_NET, "the connection to its agent has ended%s%s", *why->msg ? ": " : "",
			    why->msg);
		hvd_err_hint(&lost, "was the agent, or what had started it, ended? Did its host go down?");
		hvd_err_host(&lost, j->host);
		hvd_log_err(j->pool->opts.log, &lost);
	}
	j->ended(j->status, j->arg);
}

/* ---- in the place of a process ---- */

static int send_preamble(struct hvd_conn *conn, const char *boot, const struct hvd_strv *argv, struct hvd_err *err)
{
	struct hvd_preamble pre = {.directory = hvd_xstrdup("")};
	hvd_cleanup_free unsigned char *bytes = NULL;
	size_t n;
	int rc;

	snprintf(pre.boot, sizeof(pre.boot), "%s", boot);
	hvd_strv_add_all(&pre.args, argv->v + 1);
	rc = hvd_preamble_format(&pre, &bytes, &n, err);
	hvd_preamble_clear(&pre);
	if (rc != 0)
		return -1;
	hvd_conn_send_bytes(conn, HVD_CHANNEL_PREAMBLE, &(const struct hvd_piece){bytes, n}, 1);
	return 0;
}

int hvd_pool_agent_start(struct hvd_pool_agent *j, const struct hvd_strv *argv, const struct hvd_pool_agent_opts *opts,
			 bool input, void (*ended)(int status, void *arg), void *arg, struct hvd_err *err)
{
	struct hvd_conn *conn = j->io.client ? j->io.client->conn : NULL;

	if (!conn)
		return hvd_err_set(err, HVD_E_NOENT, "its agent has left");
	if (send_preamble(conn, opts->boot, argv, err) != 0)
		return -1;
	j->opts = opts;
	j->ended = ended;
	j->arg = arg;
	if (input)
		j->input = event_new(j->pool->base, hvd_stdin_forward_can_poll(STDIN_FILENO) ? STDIN_FILENO : -1,
				     EV_READ, on_input, j);
	for (unsigned s = 0; s < 2; s++) {
		j->out[s] = hvd_output_mux_add(opts->out[s]);
		hvd_conn_open(conn, HVD_CHANNEL_STDOUT + s, HVD_JOIN_PIECE, on_output, j);
	}
	return 0;
}

/* An agent that has registered is told to end by the driver. */
void hvd_pool_agent_signal(struct hvd_pool_agent *j, int sig)
{
	if (j->io.client && (sig == SIGKILL || j->io.client->role == HVD_ROLE_NONE))
		shutdown(hvd_conn_fd(j->io.client->conn), SHUT_RDWR);
}

void hvd_pool_agent_stop(struct hvd_pool_agent *j)
{
	for (unsigned s = 0; s < 2 && j->io.client; s++)
		hvd_conn_mute(j->io.client->conn, HVD_CHANNEL_STDOUT + s);
	hvd_client_release(&j->io);
	end_input(j);
	for (int s = 0; s < 2; s++) {
		hvd_output_mux_end(j->out[s]);
		j->out[s] = NULL;
	}
}
