/* SPDX-License-Identifier: Apache-2.0 */
#include "downstream.h"

#include "lib/base/xalloc.h"
#include "lib/protocol/conn.h"

#include <stdlib.h>
#include <string.h>

#define BEGIN_SECONDS 10.0 /* for BEGIN */
#define LOW           (128 << 10)
#define TURN          (4 << 20) /* bytes for all connections per wake-up */
#define RELAYS_MAX    65536

/* --- relays --- */

static uint64_t hash_of(const struct hvd_downstream *down, uint32_t number)
{
	return hvd_hash(down->seed, &number, sizeof(number));
}

static struct relay *find_relay(const struct hvd_downstream *down, uint32_t number)
{
	struct hvd_hash_node *node = hvd_hash_first(&down->relays, hash_of(down, number));

	while (node && ((struct relay *)node)->number != number)
		node = hvd_hash_next(node);
	return (struct relay *)node;
}

/* Its processes have left the store. */
static void end_relay(struct relay *relay)
{
	struct hvd_downstream *down = relay->down;

	hvd_rv_timer_wheel_remove(&down->rv->wheel, &relay->timer);
	hvd_down_leave(relay, true);
	hvd_hash_table_remove(&down->relays, &relay->node);
	free(relay);
}

static void send_gone(struct relay *relay)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_GONE, .relay_id = relay->number};

	hvd_store_pass(&relay->down->rv->store_api, &msg);
	end_relay(relay);
}

static void on_not_back(struct hvd_rv_timer *s)
{
	struct relay *relay = (struct relay *)(void *)((char *)s - offsetof(struct relay, timer));
	char addr[HVD_ADDR_TEXT];

	hvd_verbose(relay->down->rv->log, "the rendezvous relay at %s has not reconnected",
		    hvd_addr_text(&relay->addr, addr));
	send_gone(relay);
}

static bool is_admitted(const struct hvd_downstream *down, uint32_t number)
{
	for (size_t i = 0; i < down->n_admitted; i++)
		if (down->admitted[i] == number)
			return true;
	return down->any;
}

/* NULL: there are too many. */
static struct relay *need_relay(struct hvd_rv_child *child, const struct hvd_relay_msg *msg)
{
	struct hvd_downstream *down = child->down;
	struct relay *relay = find_relay(down, msg->relay_id);

	if (!relay) {
		if (down->relays.n >= RELAYS_MAX)
			return NULL;
		relay = hvd_xcalloc(1, sizeof(*relay));
		relay->down = down;
		relay->number = msg->relay_id;
		relay->timer.due = on_not_back;
		hvd_hash_table_init(&relay->clients, 16);
		hvd_hash_table_add(&down->relays, &relay->node, hash_of(down, relay->number));
	}
	relay->addr = msg->addr;
	relay->refused = !is_admitted(down, relay->number);
	relay->route = child;
	hvd_rv_timer_wheel_remove(&down->rv->wheel, &relay->timer);
	return relay;
}

/* --- the end of a connection --- */

static void end_child_because(struct hvd_rv_child *child, bool may_come_back, bool broken)
{
	struct hvd_downstream *down = child->down;

	hvd_down_asks_end(child);
	hvd_down_unwatch_all(child, false);
	hvd_down_drop_items(child);
	for (size_t i = 0; i < down->relays.room; i++)
		for (struct hvd_hash_node *node = down->relays.slots[i], *chain; node; node = chain) {
			struct relay *relay = (struct relay *)node;

			chain = node->chain;
			if (relay->route != child)
				continue;
			relay->route = NULL;
			if (may_come_back)
				hvd_rv_arm(down->rv, &relay->timer, hvd_deadline_in(down->rv->cfg.relay_back));
			else
				end_relay(relay);
		}
	down->rv->stats.relays_now -= child->relay != NULL;
	TAILQ_REMOVE(&down->children, child, link);
	if (child->dropped) {
		hvd_conn_mute(child->conn, down->rv->cfg.channel);
		child->dropped(broken, child->arg);
	} else {
		hvd_conn_free(child->conn);
	}
	hvd_hash_table_free(&child->watches);
	free(child);
}

static void end_child(struct hvd_rv_child *child, bool may_come_back)
{
	end_child_because(child, may_come_back, false);
}

static const char not_admitted[] = "it does not belong to a host of the job";

/* A relay breaks the protocol, or wants too much. */
static void fail(struct hvd_rv_child *child, const char *why)
{
	char addr[HVD_ADDR_TEXT] = "an unknown address";
	struct hvd_addr peer;

	if (child->relay && child->relay->addr.family)
		hvd_addr_text(&child->relay->addr, addr);
	else if (hvd_addr_of_peer(hvd_conn_fd(child->conn), &peer) == 0)
		hvd_addr_text(&peer, addr);
	/* A relay whose host has left the job may not know that yet, and still has the job's key. */
	hvd_log(child->down->rv->log, why == not_admitted ? HVD_LOG_VERBOSE : HVD_LOG_WARN,
		"closed the connection of the rendezvous relay at %s: %s", addr, why);
	end_child_because(child, true, true);
}

/* --- messages --- */

static const char *do_begin(struct hvd_rv_child *child, struct hvd_relay_msg *msg)
{
	struct hvd_downstream *down = child->down;
	struct relay *relay = find_relay(down, msg->relay_id);
	struct hvd_rv_child *old = relay ? relay->route : NULL;

	if (!child->relay && !is_admitted(down, msg->relay_id))
		return not_admitted;
	if (child->relay && child->relay->number == msg->relay_id)
		return "it registered twice";
	if (msg->addr.family == AF_UNSPEC)
		hvd_addr_of_peer(hvd_conn_fd(child->conn), &msg->addr);
	relay = need_relay(child, msg);
	if (!relay)
		return "there are too many relays";
	/* It has another connection, of which only it knows that it has ended. */
	if (old && old != child && old->relay == relay) {
		old->relay = NULL;
		down->rv->stats.relays_now--;
		end_child(old, true);
	}
	if (!child->relay) {
		child->relay = relay;
		child->waits_seq = down->waits_seq;
		down->rv->stats.relays_now++;
		if (!child->dropped)
			hvd_conn_set_deadline(child->conn, 0);
		hvd_conn_watch_host(child->conn);
	}
	hvd_store_pass(&down->rv->store_api, msg);
	return NULL;
}

static const char *do_call(struct hvd_rv_child *child, const struct hvd_relay_msg *msg)
{
	struct hvd_downstream *down = child->down;
	struct relay *relay = find_relay(down, msg->relay_id);

	if (!relay)
		return "it sent a call of an unregistered relay";
	if (relay->route != child)
		return NULL; /* the relay is connected to another one by now, and has sent this again */
	if (down->rv->store_api.local)
		return hvd_down_call(relay, msg);
	if (msg->stored == HVD_RV_STORED) {
		hvd_store_pass(&down->rv->store_api, msg);
		return NULL;
	}
	hvd_downstream_pass(down, &(struct hvd_relay_msg){.type = HVD_RELAY_ANSWER,
							  .relay_id = msg->relay_id,
							  .call = msg->call,
							  .result.status = hvd_store_status(msg->stored)});
	return NULL;
}

static void do_cancel(const struct hvd_rv_child *child, const struct hvd_relay_msg *msg)
{
	struct relay *relay = find_relay(child->down, msg->relay_id);

	if (!relay || relay->route != child)
		return;
	if (!hvd_store_pass(&child->down->rv->store_api, msg))
		hvd_down_cancel(relay, msg->call);
}

static void do_gone(const struct hvd_rv_child *child, const struct hvd_relay_msg *msg)
{
	struct relay *relay = find_relay(child->down, msg->relay_id);

	/* It may be connected to another relay by now. */
	if (relay && relay->route == child && relay != child->relay)
		send_gone(relay);
}

/* NULL, or why the connection is to be closed. */
static const char *handle(struct hvd_rv_child *child, struct hvd_relay_msg *msg)
{
	if (!child->relay && msg->type != HVD_RELAY_BEGIN)
		return "it did not register";
	switch (msg->type) {
	case HVD_RELAY_BEGIN:
		return do_begin(child, msg);
	case HVD_RELAY_WATCH:
		return hvd_down_watch(child, msg);
	case HVD_RELAY_UNWATCH:
		hvd_down_unwatch(child, msg->watch);
		break;
	case HVD_RELAY_UNUSED:
		hvd_down_unused(child, msg->watch);
		break;
	case HVD_RELAY_CALL:
		return do_call(child, msg);
	case HVD_RELAY_CANCEL:
		do_cancel(child, msg);
		break;
	case HVD_RELAY_GONE:
		do_gone(child, msg);
		break;
	default: /* WAITS: the parser takes no others */
		hvd_down_waits(child, msg);
		break;
	}
	return NULL;
}

void hvd_downstream_bytes(unsigned channel, const void *data, size_t len, void *arg)
{
	struct hvd_rv_child *child = arg;
	struct hvd_rv *rv = child->down->rv;
	struct hvd_relay_msg msg;
	struct hvd_err err = {0};
	const char *why = err.msg;

	(void)channel;
	hvd_rv_reap(rv);
	if (hvd_relay_parse(data, len, true, hvd_rv_store_budget(rv->store), &msg, &err) == 0) {
		why = handle(child, &msg);
		hvd_relay_msg_clear(&msg);
	}
	if (why)
		fail(child, why);
}

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	(void)conn;
	(void)msg;
	fail(arg, "it sent data that is not a rendezvous message");
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct hvd_rv_child *child = arg;

	(void)conn;
	hvd_rv_reap(child->down->rv);
	hvd_verbose(child->down->rv->log, "the connection of a rendezvous relay has ended: %s",
		    why->code == HVD_OK ? "the relay has closed it" : why->msg);
	end_child(child, true);
}

void hvd_rv_child_over(struct hvd_rv_child *child)
{
	hvd_rv_reap(child->down->rv);
	end_child(child, true);
}

void hvd_rv_child_drained(struct hvd_rv_child *child)
{
	child->full = false;
	if (!TAILQ_EMPTY(&child->items))
		hvd_down_wake(child->down);
}

static void on_drained(struct hvd_conn *conn, void *arg)
{
	(void)conn;
	hvd_rv_child_drained(arg);
}

/* --- for the server --- */

static void disconnect_refused(struct hvd_downstream *down)
{
	down->check_admitted = false;
	for (size_t i = 0; i < down->relays.room; i++)
		for (struct hvd_hash_node *node = down->relays.slots[i]; node; node = node->chain) {
			struct relay *relay = (struct relay *)node;

			relay->refused = !is_admitted(down, relay->number);
			if (relay->refused)
				hvd_down_leave(relay, false);
		}
	for (struct hvd_rv_child *child = TAILQ_FIRST(&down->children), *next; child; child = next) {
		next = TAILQ_NEXT(child, link);
		if (child->relay && child->relay->refused)
			end_child(child, false);
	}
}

static void on_flush(void *arg)
{
	struct hvd_downstream *down = arg;
	struct hvd_rv_child *child;
	size_t left = TURN;
	bool more = false;

	hvd_rv_reap(down->rv);
	if (down->check_admitted)
		disconnect_refused(down);
	hvd_down_asks_due(down);
	for (child = TAILQ_FIRST(&down->children); child; child = TAILQ_NEXT(child, link)) {
		size_t sent = left > 0 ? hvd_down_flush(child, left) : 0;

		left -= sent < left ? sent : left;
		more = more || (!TAILQ_EMPTY(&child->items) && !child->full);
	}
	/* The first in the list were served first; the next time, others. */
	child = TAILQ_FIRST(&down->children);
	if (more && child) {
		TAILQ_REMOVE(&down->children, child, link);
		TAILQ_INSERT_TAIL(&down->children, child, link);
	}
	if (more)
		hvd_timer_in_ms(down->flush, 0);
}

struct hvd_downstream *hvd_downstream_create(struct hvd_rv *rv)
{
	struct hvd_downstream *down = hvd_xcalloc(1, sizeof(*down));

	down->rv = rv;
	down->seed = hvd_hash_seed();
	down->any = true;
	TAILQ_INIT(&down->children);
	TAILQ_INIT(&down->asks);
	hvd_hash_table_init(&down->relays, 64);
	down->flush = hvd_timer_new(rv->base, on_flush, down);
	return down;
}

void hvd_downstream_destroy(struct hvd_downstream *down)
{
	if (!down)
		return;
	hvd_downstream_drop(down);
	hvd_down_asks_free(down);
	hvd_timer_free(down->flush);
	hvd_hash_table_free(&down->relays);
	free(down->admitted);
	free(down);
}

void hvd_downstream_drop(struct hvd_downstream *down)
{
	while (!TAILQ_EMPTY(&down->children))
		end_child(TAILQ_FIRST(&down->children), false);
	for (size_t i = 0; i < down->relays.room; i++)
		while (down->relays.slots[i])
			end_relay((struct relay *)down->relays.slots[i]);
}

static struct hvd_rv_child *add_child(struct hvd_downstream *down, struct hvd_conn *conn)
{
	struct hvd_rv_child *child = hvd_xcalloc(1, sizeof(*child));

	child->down = down;
	child->conn = conn;
	TAILQ_INIT(&child->items);
	TAILQ_INSERT_HEAD(&down->children, child, link);
	hvd_hash_table_init(&child->watches, 64);
	hvd_conn_open(conn, down->rv->cfg.channel, HVD_RELAY_MSG_MAX(down->rv->cfg.store.value_max),
		      hvd_downstream_bytes, child);
	hvd_conn_set_low(conn, LOW);
	return child;
}

void hvd_rv_relay_take(struct hvd_rv *rv, struct hvd_conn *conn)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed, .drained = on_drained};

	hvd_conn_set_ops(conn, &ops, add_child(rv->downstream, conn));
	hvd_conn_set_deadline(conn, hvd_deadline_in(BEGIN_SECONDS));
}

struct hvd_rv_child *hvd_rv_child_share(struct hvd_rv *rv, struct hvd_conn *conn,
					void (*dropped)(bool broken, void *arg), void *arg)
{
	struct hvd_rv_child *child = add_child(rv->downstream, conn);

	child->dropped = dropped;
	child->arg = arg;
	return child;
}

void hvd_rv_relay_admit(struct hvd_rv *rv, const uint32_t *relay_ids, size_t n)
{
	struct hvd_downstream *down = rv->downstream;

	free(down->admitted);
	down->any = !relay_ids;
	down->n_admitted = relay_ids ? n : 0;
	down->admitted = hvd_xcalloc(down->n_admitted + 1, sizeof(*down->admitted));
	if (down->n_admitted > 0)
		memcpy(down->admitted, relay_ids, n * sizeof(*relay_ids));
	/* on_flush() closes them: the caller may be called from a relay's call. */
	down->check_admitted = true;
	hvd_down_wake(down);
}

void hvd_downstream_renew(struct hvd_downstream *down)
{
	for (struct hvd_rv_child *child = TAILQ_FIRST(&down->children); child; child = TAILQ_NEXT(child, link)) {
		hvd_down_unwatch_all(child, true);
		if (child->relay)
			hvd_down_pass(child, &(struct hvd_relay_msg){.type = HVD_RELAY_RENEW});
	}
	for (size_t i = 0; i < down->relays.room; i++)
		for (struct hvd_hash_node *node = down->relays.slots[i]; node; node = node->chain)
			hvd_down_leave((struct relay *)node, false);
}

void hvd_downstream_pass(struct hvd_downstream *down, const struct hvd_relay_msg *msg)
{
	const struct relay *relay = find_relay(down, msg->relay_id);

	if (relay && relay->route)
		hvd_down_pass(relay->route, msg);
}
