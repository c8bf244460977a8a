/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection to the parent. There is at most one. It begins with hvd_rv_relay_up(), and ends when the parent closes
 * it, breaks the protocol, or owes an answer for too long. Then the relay knows nothing of any key, and closes the
 * relays below, because their calls went over this connection. It calls its owner, who may give it another parent.
 */
#include "upstream.h"

#include "downstream.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/conn.h"
#include "tcpstore.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- the parent --- */

/* A shared connection stays its owner's. */
static void leave_conn(struct hvd_upstream *up)
{
	if (!up->shared)
		hvd_conn_free(up->conn);
	else if (up->conn)
		hvd_conn_mute(up->conn, up->rv->cfg.channel);
	up->conn = NULL;
}

/* There is no parent any longer. */
static void without_parent(struct hvd_upstream *up)
{
	leave_conn(up);
	up->asked_waits = 0;
	hvd_rv_timer_wheel_remove(&up->rv->wheel, &up->timer);
	hvd_downstream_drop(up->rv->downstream);
	hvd_upstream_keys_unknown(up);
}

static void lose_parent(struct hvd_upstream *up, const char *why)
{
	const struct hvd_rv_config *cfg = &up->rv->cfg;

	hvd_verbose(up->rv->log, "the rendezvous' connection to its parent has ended: %s", why);
	without_parent(up);
	if (cfg->parent_lost)
		cfg->parent_lost(cfg->parent_lost_arg);
}

static void on_parent_silent(struct hvd_rv_timer *s)
{
	struct hvd_upstream *up = (struct hvd_upstream *)(void *)((char *)s - offsetof(struct hvd_upstream, timer));
	char why[80];

	snprintf(why, sizeof(why), "it has not answered for %g seconds", up->rv->cfg.parent_wait);
	lose_parent(up, why);
}

/* --- what comes from the parent --- */

static void send_waits(char *text, void *arg)
{
	struct hvd_upstream *up = arg;
	struct hvd_relay_msg msg = {.type = HVD_RELAY_WAITS, .text = {text ? text : "", text ? strlen(text) : 0}};

	if (msg.text.n > HVD_RELAY_TEXT_MAX)
		msg.text.n = HVD_RELAY_TEXT_MAX;
	if (up->asked_waits > 0) {
		up->asked_waits--;
		hvd_upstream_send(up, &msg);
	}
	free(text);
}

static void handle(struct hvd_upstream *up, const struct hvd_relay_msg *msg)
{
	switch (msg->type) {
	case HVD_RELAY_VALUE:
		hvd_upstream_key_value(up, msg->watch, msg->result.value);
		break;
	case HVD_RELAY_ABSENT:
		hvd_upstream_key_none(up, msg->watch, HVD_CACHE_HIT);
		break;
	case HVD_RELAY_ASK:
		hvd_upstream_key_none(up, msg->watch, msg->flag ? HVD_CACHE_REMOTE : HVD_CACHE_REMOTE_EMPTY);
		break;
	case HVD_RELAY_WAKE:
		hvd_upstream_key_wake(up, msg->watch, msg->flag);
		break;
	case HVD_RELAY_ANSWER:
		if (msg->relay_id == up->rv->cfg.relay_id)
			hvd_upstream_answer(up, msg->call, &msg->result);
		else
			hvd_downstream_pass(up->rv->downstream, msg);
		break;
	case HVD_RELAY_RENEW:
		hvd_rv_tcpstore_reset(up->rv);
		up->handling = false; /* it is about no key */
		hvd_upstream_epochs_tidy(up, true);
		break;
	case HVD_RELAY_ASK_WAITS:
		up->asked_waits++;
		hvd_rv_tcpstore_ask_waits(up->rv, msg->level, send_waits, up);
		break;
	default: /* the parser takes no others */
		break;
	}
}

void hvd_upstream_bytes(unsigned channel, const void *data, size_t len, void *arg)
{
	struct hvd_upstream *up = arg;
	struct hvd_rv_budget *budget = hvd_rv_store_budget(up->rv->store);
	struct hvd_relay_msg msg;
	struct hvd_err err = {0};
	int rc;

	(void)channel;
	hvd_rv_reap(up->rv);
	rc = hvd_relay_parse(data, len, false, budget, &msg, &err);
	if (rc == 0 && msg.stored == HVD_RV_NO_ROOM) {
		hvd_upstream_make_room(up, budget->value_max);
		hvd_relay_msg_clear(&msg);
		rc = hvd_relay_parse(data, len, false, budget, &msg, &err);
	}
	if (rc != 0) {
		lose_parent(up, err.msg);
		return;
	}
	if (msg.stored != HVD_RV_STORED)
		msg.result.status = HVD_OP_NO_ROOM;
	hvd_upstream_expect(up);
	up->handling = true;
	handle(up, &msg);
	up->handling = false;
	hvd_upstream_epochs_tidy(up, false);
	hvd_relay_msg_clear(&msg);
}

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	(void)conn;
	(void)msg;
	lose_parent(arg, "it sent data that is not a rendezvous message");
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	(void)conn;
	lose_parent(arg, why->code == HVD_OK ? "the parent has closed it" : why->msg);
}

/* --- for the server --- */

static void send_begin(struct hvd_upstream *up)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_BEGIN, .level = HVD_RELAY_VERSION};

	msg.relay_id = up->rv->cfg.relay_id;
	msg.addr = up->rv->cfg.relay_addr;
	hvd_upstream_send(up, &msg);
}

void hvd_upstream_connect(struct hvd_upstream *up, struct hvd_conn *conn, bool shared)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};

	if (up->conn)
		without_parent(up);
	up->conn = conn;
	up->shared = shared;
	up->lost = !conn;
	if (!conn)
		return;
	if (!shared)
		hvd_conn_set_ops(conn, &ops, up);
	hvd_conn_open(conn, up->rv->cfg.channel, HVD_RELAY_MSG_MAX(up->rv->cfg.store.value_max), hvd_upstream_bytes,
		      up);
	hvd_conn_watch_host(conn);
	send_begin(up);
	hvd_upstream_keys_begin(up);
	hvd_upstream_calls_begin(up);
	hvd_upstream_expect(up);
}

struct hvd_upstream *hvd_upstream_create(struct hvd_rv *rv)
{
	struct hvd_upstream *up = hvd_xcalloc(1, sizeof(*up));

	up->rv = rv;
	up->timer.due = on_parent_silent;
	hvd_upstream_keys_init(up);
	hvd_upstream_calls_init(up);
	return up;
}

void hvd_upstream_destroy(struct hvd_upstream *up)
{
	if (!up)
		return;
	leave_conn(up);
	hvd_upstream_calls_free(up);
	hvd_upstream_keys_free(up);
	assert(up->owed == 0); /* I6 of COHERENCE.md */
	hvd_upstream_epochs_tidy(up, true);
	hvd_rv_timer_wheel_remove(&up->rv->wheel, &up->timer);
	free(up);
}
