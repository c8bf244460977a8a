/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent starts as a connection that has proven possession of the key (preauth.h). After its offer was accepted it
 * waits: both ends are silent, and the end of the connection ends the agent. Then the job takes it as a host, with its
 * connection, and releases it at the end; or the agent gets the message that it is not needed.
 */
#include "agent_pool_internal.h"

#include "lib/base/size.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

/* How long an agent may take to make its offer. */
#define OFFER_SECONDS 10.0
#define TELL_SECONDS  1.0

/* ---- the list of agents ---- */

void hvd_pool_agent_free(struct hvd_pool_agent *j)
{
	TAILQ_REMOVE(&j->pool->all, j, in);
	hvd_conn_free(j->conn);
	free(j->host);
	free(j);
}

int hvd_agent_pool_slots_waiting(const struct hvd_agent_pool *pool)
{
	const struct hvd_pool_agent *j;
	int slots = 0;

	TAILQ_FOREACH(j, &pool->all, in)
	slots += j->state == POOL_AGENT_WAITING ? j->offer.slots : 0;
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

/* ---- messages of agents ---- */

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
		if (!j->host)
			continue;
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

/* Send the last message; the event loop closes the connection after it. */
static void send_last(struct hvd_pool_agent *j, json_t *msg)
{
	hvd_conn_send(j->conn, msg);
	hvd_conn_finish(j->conn, hvd_deadline_in(TELL_SECONDS));
	j->conn = NULL;
	hvd_pool_agent_free(j);
}

static json_t *not_needed(const struct hvd_agent_pool *pool)
{
	struct hvd_err why = {0};

	if (!pool->failed)
		return json_pack("{s:s}", "t", "enough");
	hvd_err_set(&why, HVD_E_FAILED, "its job could not start");
	hvd_err_hint(&why, "hvdrun has printed the reason");
	return hvd_join_declined(&why);
}

/* An agent without an index (-1) comes after all that have one. */
static void put_in_order(struct hvd_pool_agent *j)
{
	struct hvd_agent_pool *pool = j->pool;
	struct hvd_pool_agent *other;

	TAILQ_REMOVE(&pool->all, j, in);
	other = TAILQ_FIRST(&pool->all);
	while (other && other->host && (unsigned)other->offer.index <= (unsigned)j->offer.index)
		other = TAILQ_NEXT(other, in);
	if (other)
		TAILQ_INSERT_BEFORE(other, j, in);
	else
		TAILQ_INSERT_TAIL(&pool->all, j, in);
}

static void accept_offer(struct hvd_pool_agent *j)
{
	struct hvd_agent_pool *pool = j->pool;
	const char *s = j->offer.slots == 1 ? "" : "s";

	j->host = new_name(pool, j->offer.host);
	j->state = POOL_AGENT_WAITING;
	put_in_order(j);
	hvd_conn_set_deadline(j->conn, 0);
	hvd_conn_send(j->conn, json_pack("{s:s}", "t", "accepted"));
	if (pool->want)
		hvd_log(pool->opts.log, pool->opts.progress ? HVD_LOG_INFO : HVD_LOG_VERBOSE,
			"agent %s has joined with %d slot%s: %d of %d", j->host, j->offer.slots, s,
			hvd_agent_pool_slots_waiting(pool), pool->want);
	else
		hvd_verbose(pool->opts.log, "agent %s has joined with %d slot%s", j->host, j->offer.slots, s);
	hvd_agent_pool_tell(pool);
}

static void on_offer(struct hvd_pool_agent *j, const json_t *msg)
{
	struct hvd_agent_pool *pool = j->pool;
	struct hvd_err why = {0};

	if (pool->closed) {
		send_last(j, not_needed(pool));
	} else if (hvd_join_offer_read(msg, &j->offer, &why) != 0 || check_offer(pool, &j->offer, &why) != 0) {
		hvd_warn(pool->opts.log, "an agent was refused: %s", why.msg);
		send_last(j, hvd_join_declined(&why));
	} else {
		accept_offer(j);
	}
}

static void leave(struct hvd_pool_agent *j)
{
	struct hvd_agent_pool *pool = j->pool;

	hvd_pool_agent_free(j);
	hvd_agent_pool_tell(pool);
}

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct hvd_pool_agent *j = arg;
	const char *type;

	(void)conn;
	if (hvd_get_str(msg, "t", 16, &type, NULL) == 0 && j->state == POOL_AGENT_OFFERING &&
	    strcmp(type, "offer") == 0) {
		on_offer(j, msg);
	} else {
		hvd_warn(j->pool->opts.log, "an agent was refused: it does not speak the protocol of this release");
		leave(j);
	}
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct hvd_pool_agent *j = arg;

	(void)conn;
	if (j->host)
		hvd_verbose(j->pool->opts.log, "agent %s has left%s%s", j->host, *why->msg ? ": " : "", why->msg);
	else
		hvd_verbose(j->pool->opts.log, "an agent disconnected before it was ready%s%s", *why->msg ? ": " : "",
			    why->msg);
	leave(j);
}

void hvd_pool_agent_arrive(struct hvd_conn *conn, void *arg)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};
	struct hvd_agent_pool *pool = arg;
	struct hvd_pool_agent *j = hvd_xcalloc(1, sizeof(*j));

	j->pool = pool;
	j->conn = conn;
	TAILQ_INSERT_TAIL(&pool->all, j, in);
	hvd_conn_set_ops(conn, &ops, j);
	hvd_conn_set_deadline(conn, hvd_deadline_in(OFFER_SECONDS));
}

/* ---- agents that are not needed ---- */

void hvd_pool_agent_decline(struct hvd_pool_agent *j)
{
	send_last(j, not_needed(j->pool));
}

void hvd_agent_pool_decline_waiting(struct hvd_agent_pool *pool)
{
	struct hvd_pool_agent *next;

	pool->closed = true;
	for (struct hvd_pool_agent *j = TAILQ_FIRST(&pool->all); j; j = next) {
		next = TAILQ_NEXT(j, in);
		if (j->state == POOL_AGENT_WAITING)
			hvd_pool_agent_decline(j);
	}
}
