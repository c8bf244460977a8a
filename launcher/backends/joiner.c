/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent starts as a connection that has proven possession of the key (preauth.h). After its offer was accepted it
 * waits: both ends are silent, and the end of the connection ends the agent. Then the job takes it as a host, with its
 * connection, and releases it at the end; or the agent gets the message that it is not needed.
 */
#include "joining_internal.h"

#include "lib/base/size.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

/* How long an agent may take to make its offer. */
#define OFFER_SECONDS 10.0
#define TELL_SECONDS  1.0

/* ---- the list of agents ---- */

void hvd_joiner_free(struct hvd_joiner *j)
{
	TAILQ_REMOVE(&j->joining->all, j, in);
	hvd_conn_free(j->conn);
	free(j->host);
	free(j);
}

int hvd_joining_slots_waiting(const struct hvd_joining *joining)
{
	const struct hvd_joiner *j;
	int slots = 0;

	TAILQ_FOREACH(j, &joining->all, in)
	slots += j->state == JOINER_WAITING ? j->offer.slots : 0;
	return slots;
}

void hvd_joining_tell(struct hvd_joining *joining)
{
	hvd_timer_soon(joining->tell);
}

void hvd_joining_on_tell(void *arg)
{
	struct hvd_joining *joining = arg;

	if (joining->want && hvd_joining_slots_waiting(joining) >= joining->want)
		event_base_loopbreak(joining->base);
	if (joining->changed)
		joining->changed(joining->arg);
}

/* ---- messages of agents ---- */

/* "n1", and for further agents with the same host name "n1-2", "n1-3" … The caller frees it. */
static char *new_name(struct hvd_joining *joining, const char *host)
{
	char *name = hvd_xstrdup(host);

	for (unsigned i = 2; hvd_strv_has(&joining->names, name); i++) {
		free(name);
		name = hvd_xasprintf("%.240s-%u", host, i);
	}
	hvd_strv_add(&joining->names, name);
	return name;
}

/* May this offer be accepted in addition to those of the others? */
static int check_offer(const struct hvd_joining *joining, const struct hvd_join_offer *offer, struct hvd_err *err)
{
	int hosts = 1, slots = offer->slots;
	const struct hvd_joiner *j;

	TAILQ_FOREACH(j, &joining->all, in)
	{
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
static void send_last(struct hvd_joiner *j, json_t *msg)
{
	hvd_conn_send(j->conn, msg);
	hvd_conn_finish(j->conn, hvd_deadline_in(TELL_SECONDS));
	j->conn = NULL;
	hvd_joiner_free(j);
}

static json_t *not_needed(const struct hvd_joining *joining)
{
	struct hvd_err why = {0};

	if (!joining->failed)
		return json_pack("{s:s}", "t", "enough");
	hvd_err_set(&why, HVD_E_FAILED, "its job could not start");
	hvd_err_hint(&why, "hvdrun has printed the reason");
	return hvd_join_declined(&why);
}

/* An agent without an index (-1) comes after all that have one. */
static bool comes_after(const struct hvd_joiner *j, const struct hvd_joiner *before)
{
	return j->host && (unsigned)j->offer.index > (unsigned)before->offer.index;
}

static void put_in_order(struct hvd_joiner *j)
{
	struct hvd_joining *joining = j->joining;
	struct hvd_joiner *other;

	TAILQ_REMOVE(&joining->all, j, in);
	TAILQ_FOREACH(other, &joining->all, in)
	if (!other->host || comes_after(other, j))
		break;
	if (other)
		TAILQ_INSERT_BEFORE(other, j, in);
	else
		TAILQ_INSERT_TAIL(&joining->all, j, in);
}

static void accept_offer(struct hvd_joiner *j)
{
	struct hvd_joining *joining = j->joining;
	const char *s = j->offer.slots == 1 ? "" : "s";

	j->host = new_name(joining, j->offer.host);
	j->state = JOINER_WAITING;
	put_in_order(j);
	hvd_conn_set_deadline(j->conn, 0);
	hvd_conn_send(j->conn, json_pack("{s:s}", "t", "accepted"));
	if (joining->want)
		hvd_log(joining->opts.log, joining->opts.progress ? HVD_LOG_INFO : HVD_LOG_VERBOSE,
			"agent %s has joined with %d slot%s: %d of %d", j->host, j->offer.slots, s,
			hvd_joining_slots_waiting(joining), joining->want);
	else
		hvd_verbose(joining->opts.log, "agent %s has joined with %d slot%s", j->host, j->offer.slots, s);
	hvd_joining_tell(joining);
}

static void on_offer(struct hvd_joiner *j, const json_t *msg)
{
	struct hvd_joining *joining = j->joining;
	struct hvd_err why = {0};

	if (joining->enough) {
		send_last(j, not_needed(joining));
	} else if (hvd_join_offer_read(msg, &j->offer, &why) != 0 || check_offer(joining, &j->offer, &why) != 0) {
		hvd_warn(joining->opts.log, "an agent was refused: %s", why.msg);
		send_last(j, hvd_join_declined(&why));
	} else {
		accept_offer(j);
	}
}

static void leave(struct hvd_joiner *j)
{
	struct hvd_joining *joining = j->joining;

	hvd_joiner_free(j);
	hvd_joining_tell(joining);
}

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct hvd_joiner *j = arg;
	const char *type;

	(void)conn;
	if (hvd_get_str(msg, "t", 16, &type, NULL) == 0 && j->state == JOINER_OFFERING && strcmp(type, "offer") == 0) {
		on_offer(j, msg);
	} else {
		hvd_warn(j->joining->opts.log, "an agent was refused: it does not speak the protocol of this release");
		leave(j);
	}
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct hvd_joiner *j = arg;

	(void)conn;
	if (j->host)
		hvd_verbose(j->joining->opts.log, "agent %s has left%s%s", j->host, *why->msg ? ": " : "", why->msg);
	else
		hvd_verbose(j->joining->opts.log, "an agent disconnected before it was ready%s%s",
			    *why->msg ? ": " : "", why->msg);
	leave(j);
}

void hvd_joiner_arrive(struct hvd_conn *conn, void *arg)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};
	struct hvd_joining *joining = arg;
	struct hvd_joiner *j = hvd_xcalloc(1, sizeof(*j));

	j->joining = joining;
	j->conn = conn;
	TAILQ_INSERT_TAIL(&joining->all, j, in);
	hvd_conn_set_ops(conn, &ops, j);
	hvd_conn_set_deadline(conn, hvd_deadline_in(OFFER_SECONDS));
}

/* ---- agents that are not needed ---- */

void hvd_joiner_turn_off(struct hvd_joiner *j)
{
	send_last(j, not_needed(j->joining));
}

void hvd_joining_turn_off_waiting(struct hvd_joining *joining)
{
	struct hvd_joiner *next;

	joining->enough = true;
	for (struct hvd_joiner *j = TAILQ_FIRST(&joining->all); j; j = next) {
		next = TAILQ_NEXT(j, in);
		if (j->state == JOINER_WAITING)
			hvd_joiner_turn_off(j);
	}
}
