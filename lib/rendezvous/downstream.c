/* SPDX-License-Identifier: Apache-2.0 */
#include "downstream_internal.h"

#include "lib/base/xalloc.h"
#include "lib/protocol/conn.h"

#include <stdlib.h>
#include <string.h>

#define BEGIN_SECONDS 10.0        /* for BEGIN */
#define HIGH          (512 << 10) /* bytes with which a connection has enough to send */
#define LOW           (128 << 10)
#define TURN          (4 << 20) /* bytes for all connections per wake-up */
#define ORIGINS_MAX   65536
#define SAID_MAX      100 /* messages for the user from one connection */
#define WAITS_SECONDS 1.0
#define WAITS_BELOW   0.6 /* in a relay, so that its own answer is in time */

/* An answer that came from the parent. */
struct passed {
	struct item item;
	uint32_t origin;
	uint64_t call;
	struct hvd_store_result result;
};

/* --- what waits to be sent --- */

static void wake_up(struct hvd_downstream *down)
{
	event_active(down->flush, EV_TIMEOUT, 1);
}

void hvd_down_queue(struct child *child, struct item *item, enum item_kind kind, struct item *before)
{
	item->kind = kind;
	item->child = child;
	item->next = before;
	item->prev = before ? before->prev : child->last;
	if (item->prev)
		item->prev->next = item;
	else
		child->first = item;
	if (before)
		before->prev = item;
	else
		child->last = item;
	if (!child->full)
		wake_up(child->down);
}

void hvd_down_unqueue(struct item *item)
{
	struct child *child = item->child;

	if (!child)
		return;
	if (item->prev)
		item->prev->next = item->next;
	else
		child->first = item->next;
	if (item->next)
		item->next->prev = item->prev;
	else
		child->last = item->prev;
	item->child = NULL;
	item->prev = item->next = NULL;
}

static void free_passed(struct passed *p)
{
	hvd_store_result_clear(&p->result);
	free(p);
}

static struct passed *passed_of(struct item *item)
{
	return (struct passed *)item;
}

static void send_passed(struct child *child, struct passed *p)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_ANSWER, .origin = p->origin, .call = p->call};

	msg.result = p->result;
	hvd_relay_send(child->conn, &msg);
	free_passed(p);
}

static void send_item(struct child *child, struct item *item)
{
	static const struct hvd_relay_msg renew = {.type = HVD_RELAY_RENEW};

	hvd_down_unqueue(item);
	switch (item->kind) {
	case ITEM_CALL:
		hvd_down_send_call(child, item);
		break;
	case ITEM_PASS:
		send_passed(child, passed_of(item));
		break;
	case ITEM_RENEW:
		hvd_relay_send(child->conn, &renew);
		free(item);
		break;
	default:
		hvd_down_send_key(item);
		break;
	}
}

/* Send what the connection takes, and about `most` bytes at most. Returns how many these were. */
static size_t flush(struct child *child, size_t most)
{
	size_t queued = hvd_conn_queued(child->conn), sent = 0;

	while (child->first && queued < HIGH && sent < most) {
		size_t now;

		send_item(child, child->first);
		now = hvd_conn_queued(child->conn);
		sent += now - queued;
		queued = now;
	}
	child->full = queued >= HIGH;
	return sent;
}

static void drop_items(struct child *child)
{
	while (child->first) {
		struct item *item = child->first;

		hvd_down_unqueue(item);
		if (item->kind == ITEM_PASS)
			free_passed(passed_of(item));
		else if (item->kind == ITEM_RENEW)
			free(item);
	}
}

/* --- origins --- */

static uint64_t hash_of(const struct hvd_downstream *down, uint32_t number)
{
	return hvd_hash(down->seed, &number, sizeof(number));
}

static struct origin *find_origin(const struct hvd_downstream *down, uint32_t number)
{
	struct hvd_hash_node *node = hvd_hash_first(&down->origins, hash_of(down, number));

	while (node && ((struct origin *)node)->number != number)
		node = hvd_hash_next(node);
	return (struct origin *)node;
}

/* Its processes have left the store. */
static void end_origin(struct origin *o)
{
	struct hvd_downstream *down = o->down;

	hvd_rv_wheel_remove(&down->rv->wheel, &o->spoke);
	hvd_down_leave(o, true);
	hvd_hash_table_remove(&down->origins, &o->node);
	free(o);
}

static void say_gone(struct origin *o)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_GONE, .origin = o->number};

	if (o->down->rv->upstream)
		hvd_upstream_pass(o->down->rv->upstream, &msg);
	end_origin(o);
}

static void on_not_back(struct hvd_rv_spoke *s)
{
	struct origin *o = (struct origin *)(void *)((char *)s - offsetof(struct origin, spoke));
	char addr[HVD_ADDR_TEXT];

	hvd_verbose(o->down->rv->log, "the rendezvous' relay at %s has not come back", hvd_addr_text(&o->addr, addr));
	say_gone(o);
}

static bool is_admitted(const struct hvd_downstream *down, uint32_t number)
{
	for (size_t i = 0; i < down->n_admitted; i++)
		if (down->admitted[i] == number)
			return true;
	return down->any;
}

/* NULL: there are too many. */
static struct origin *need_origin(struct child *child, const struct hvd_relay_msg *msg)
{
	struct hvd_downstream *down = child->down;
	struct origin *o = find_origin(down, msg->origin);

	if (!o) {
		if (down->origins.n >= ORIGINS_MAX)
			return NULL;
		o = hvd_xcalloc(1, sizeof(*o));
		o->down = down;
		o->number = msg->origin;
		o->spoke.due = on_not_back;
		hvd_hash_table_init(&o->places, 16);
		hvd_hash_table_add(&down->origins, &o->node, hash_of(down, o->number));
	}
	o->addr = msg->addr;
	o->refused = !is_admitted(down, o->number);
	o->route = child;
	hvd_rv_wheel_remove(&down->rv->wheel, &o->spoke);
	return o;
}

/* --- what clients wait for --- */

/* Keep so many lines, at least one. */
static void cut_lines(char *text, unsigned max)
{
	char *p = text ? strchr(text, '\n') : NULL;

	for (unsigned n = 1; p && n < max; n++)
		p = strchr(p + 1, '\n');
	if (p)
		*p = '\0';
}

static void end_ask(struct ask *ask)
{
	struct ask **at = &ask->down->asks;

	while (*at != ask)
		at = &(*at)->next;
	*at = ask->next;
	hvd_rv_wheel_remove(&ask->down->rv->wheel, &ask->spoke);
	cut_lines(ask->text, ask->max);
	ask->done(ask->text, ask->arg);
	free(ask);
}

static void waits_answered(struct ask *ask)
{
	if (--ask->left == 0)
		end_ask(ask);
}

static void on_waits_due(struct hvd_rv_spoke *s)
{
	end_ask((struct ask *)(void *)((char *)s - offsetof(struct ask, spoke)));
}

/* --- the end of a connection --- */

static void end_child(struct child *child, bool may_come_back)
{
	struct hvd_downstream *down = child->down;

	for (struct ask *ask = down->asks, *next; ask; ask = next) {
		next = ask->next;
		if (child->origin && ask->seq >= child->waits_seq)
			waits_answered(ask);
	}
	hvd_down_unwatch_all(child, false);
	drop_items(child);
	for (size_t i = 0; i < down->origins.room; i++)
		for (struct hvd_hash_node *node = down->origins.slots[i], *chain; node; node = chain) {
			struct origin *o = (struct origin *)node;

			chain = node->chain;
			if (o->route != child)
				continue;
			o->route = NULL;
			if (may_come_back)
				hvd_rv_arm(down->rv, &o->spoke, hvd_deadline_in(down->rv->cfg.relay_back));
			else
				end_origin(o);
		}
	down->n_begun -= child->origin != NULL;
	if (child->prev)
		child->prev->next = child->next;
	else
		down->children = child->next;
	if (child->next)
		child->next->prev = child->prev;
	hvd_conn_free(child->conn);
	hvd_hash_table_free(&child->watches);
	free(child);
}

/* A relay breaks the protocol, or wants too much. */
static void fail(struct child *child, const char *why)
{
	char addr[HVD_ADDR_TEXT] = "an unknown address";
	struct hvd_addr peer;

	if (child->origin && child->origin->addr.family)
		hvd_addr_text(&child->origin->addr, addr);
	else if (hvd_addr_of_peer(hvd_conn_fd(child->conn), &peer) == 0)
		hvd_addr_text(&peer, addr);
	hvd_warn(child->down->rv->log, "closed the connection of the rendezvous' relay at %s: %s", addr, why);
	end_child(child, true);
}

/* --- messages --- */

static const char *do_begin(struct child *child, struct hvd_relay_msg *msg)
{
	struct hvd_downstream *down = child->down;
	struct origin *o = find_origin(down, msg->origin);
	struct child *old = o ? o->route : NULL;

	if (!child->origin && !is_admitted(down, msg->origin))
		return "it is not of a host of the job";
	if (child->origin && child->origin->number == msg->origin)
		return "it has begun twice";
	if (msg->addr.family == AF_UNSPEC)
		hvd_addr_of_peer(hvd_conn_fd(child->conn), &msg->addr);
	o = need_origin(child, msg);
	if (!o)
		return "there are too many relays";
	/* It has another connection, of which only it knows that it has ended. */
	if (old && old != child && old->origin == o) {
		old->origin = NULL;
		down->n_begun--;
		end_child(old, true);
	}
	if (!child->origin) {
		child->origin = o;
		child->waits_seq = down->waits_seq;
		down->n_begun++;
		hvd_conn_set_deadline(child->conn, 0);
		hvd_conn_watch_host(child->conn);
	}
	if (down->rv->upstream)
		hvd_upstream_pass(down->rv->upstream, msg);
	return NULL;
}

static const char *do_call(struct child *child, const struct hvd_relay_msg *msg)
{
	struct hvd_downstream *down = child->down;
	struct origin *o = find_origin(down, msg->origin);
	struct hvd_store_result result = {0};

	if (!o)
		return "it calls for a relay that has not begun";
	if (o->route != child)
		return NULL; /* the relay is connected to another one by now, and has sent this again */
	if (!down->rv->upstream)
		return hvd_down_call(o, msg);
	if (msg->stored == HVD_RV_STORED) {
		hvd_upstream_pass(down->rv->upstream, msg);
		return NULL;
	}
	result.status = msg->stored == HVD_RV_TOO_LONG ? HVD_OP_TOO_LONG : HVD_OP_NO_ROOM;
	hvd_downstream_pass(
		down, &(struct hvd_relay_msg){
			      .type = HVD_RELAY_ANSWER, .origin = msg->origin, .call = msg->call, .result = result});
	return NULL;
}

static void do_cancel(const struct child *child, const struct hvd_relay_msg *msg)
{
	struct origin *o = find_origin(child->down, msg->origin);

	if (!o || o->route != child)
		return;
	if (child->down->rv->upstream)
		hvd_upstream_pass(child->down->rv->upstream, msg);
	else
		hvd_down_cancel(o, msg->call);
}

static void do_gone(const struct child *child, const struct hvd_relay_msg *msg)
{
	struct origin *o = find_origin(child->down, msg->origin);

	/* It may be connected to another relay by now. */
	if (o && o->route == child && o != child->origin)
		say_gone(o);
}

static void do_said(struct child *child, const struct hvd_relay_msg *msg)
{
	char *text = hvd_xstrndup(msg->text.p, msg->text.n);

	if (child->said < SAID_MAX && child->down->rv->upstream)
		hvd_upstream_pass(child->down->rv->upstream, msg);
	else if (child->said < SAID_MAX)
		hvd_log(child->down->rv->log, (enum hvd_log_level)msg->level, "%s", text);
	child->said += child->said < SAID_MAX;
	free(text);
}

static void do_waits(struct child *child, const struct hvd_relay_msg *msg)
{
	struct hvd_downstream *down = child->down;
	struct ask *ask = down->asks;

	if (child->waits_seq >= down->waits_seq)
		return; /* nobody has asked */
	while (ask && ask->seq != child->waits_seq)
		ask = ask->next;
	child->waits_seq++;
	if (!ask)
		return; /* it comes too late */
	if (msg->text.n > 0) {
		char *text = hvd_xstrndup(msg->text.p, msg->text.n);

		hvd_xappendf(&ask->text, "%s%s", ask->text ? "\n" : "", text);
		free(text);
	}
	waits_answered(ask);
}

/* NULL, or why the connection is to be closed. */
static const char *handle(struct child *child, struct hvd_relay_msg *msg)
{
	if (!child->origin && msg->type != HVD_RELAY_BEGIN)
		return "it does not say which relay it is";
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
	case HVD_RELAY_WAITS:
		do_waits(child, msg);
		break;
	default:
		do_said(child, msg);
		break;
	}
	return NULL;
}

static void on_bytes(struct hvd_conn *conn, const void *data, size_t len, void *arg)
{
	struct child *child = arg;
	struct hvd_rv *rv = child->down->rv;
	struct hvd_relay_msg msg;
	struct hvd_err err = {0};
	const char *why = err.msg;

	(void)conn;
	hvd_rv_conn_reap(rv);
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
	fail(arg, "it has sent what is no message of a rendezvous");
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct child *child = arg;

	(void)conn;
	hvd_rv_conn_reap(child->down->rv);
	hvd_verbose(child->down->rv->log, "the connection of a relay of the rendezvous has ended: %s",
		    why->code == HVD_OK ? "the relay has closed it" : why->msg);
	end_child(child, true);
}

static void on_drained(struct hvd_conn *conn, void *arg)
{
	struct child *child = arg;

	(void)conn;
	child->full = false;
	if (child->first)
		wake_up(child->down);
}

/* --- for the server --- */

static void expel(struct hvd_downstream *down)
{
	down->check_admitted = false;
	for (size_t i = 0; i < down->origins.room; i++)
		for (struct hvd_hash_node *node = down->origins.slots[i]; node; node = node->chain) {
			struct origin *o = (struct origin *)node;

			o->refused = !is_admitted(down, o->number);
			if (o->refused)
				hvd_down_leave(o, false);
		}
	for (struct child *child = down->children, *next; child; child = next) {
		next = child->next;
		if (child->origin && child->origin->refused)
			end_child(child, false);
	}
}

static void on_flush(evutil_socket_t fd, short what, void *arg)
{
	static const struct timeval soon = {0};
	struct hvd_downstream *down = arg;
	size_t left = TURN;
	bool more = false;

	(void)fd;
	(void)what;
	hvd_rv_conn_reap(down->rv);
	if (down->check_admitted)
		expel(down);
	for (struct ask *ask = down->asks, *next; ask; ask = next) {
		next = ask->next;
		if (ask->left == 0)
			end_ask(ask);
	}
	for (struct child *child = down->children; child; child = child->next) {
		size_t sent = left > 0 ? flush(child, left) : 0;

		left -= sent < left ? sent : left;
		more = more || (child->first && !child->full);
	}
	/* The first in the list were served first; the next time, others. */
	if (more && down->children && down->children->next) {
		struct child *first = down->children, *last = first;

		while (last->next)
			last = last->next;
		down->children = first->next;
		down->children->prev = NULL;
		last->next = first;
		first->prev = last;
		first->next = NULL;
	}
	if (more)
		event_add(down->flush, &soon);
}

struct hvd_downstream *hvd_downstream_create(struct hvd_rv *rv)
{
	struct hvd_downstream *down = hvd_xcalloc(1, sizeof(*down));

	down->rv = rv;
	down->seed = hvd_hash_seed();
	down->any = true;
	hvd_hash_table_init(&down->origins, 64);
	down->flush = event_new(rv->base, -1, 0, on_flush, down);
	/* As xalloc.h has it: memory for a small structure is there. */
	if (!down->flush)
		abort();
	return down;
}

void hvd_downstream_destroy(struct hvd_downstream *down)
{
	if (!down)
		return;
	hvd_downstream_drop(down);
	while (down->asks) {
		struct ask *ask = down->asks;

		down->asks = ask->next;
		hvd_rv_wheel_remove(&down->rv->wheel, &ask->spoke);
		ask->done(ask->text, ask->arg);
		free(ask);
	}
	event_free(down->flush);
	hvd_hash_table_free(&down->origins);
	free(down->admitted);
	free(down);
}

void hvd_downstream_drop(struct hvd_downstream *down)
{
	while (down->children)
		end_child(down->children, false);
	for (size_t i = 0; i < down->origins.room; i++)
		while (down->origins.slots[i])
			end_origin((struct origin *)down->origins.slots[i]);
}

void hvd_downstream_take(struct hvd_downstream *down, struct hvd_conn *conn)
{
	static const struct hvd_conn_ops ops = {
		.message = on_message, .closed = on_closed, .bytes = on_bytes, .drained = on_drained};
	struct child *child = hvd_xcalloc(1, sizeof(*child));

	child->down = down;
	child->conn = conn;
	child->next = down->children;
	if (child->next)
		child->next->prev = child;
	down->children = child;
	hvd_hash_table_init(&child->watches, 64);
	hvd_conn_set_ops(conn, &ops, child);
	hvd_conn_set_bytes_max(conn, HVD_RELAY_MSG_MAX(down->rv->cfg.store.value_max));
	hvd_conn_set_low(conn, LOW);
	hvd_conn_set_deadline(conn, hvd_deadline_in(BEGIN_SECONDS));
}

void hvd_downstream_admit(struct hvd_downstream *down, const uint32_t *origins, size_t n)
{
	free(down->admitted);
	down->any = !origins;
	down->n_admitted = origins ? n : 0;
	down->admitted = hvd_xcalloc(down->n_admitted + 1, sizeof(*down->admitted));
	if (down->n_admitted > 0)
		memcpy(down->admitted, origins, n * sizeof(*origins));
	/* Not now: the caller may be called from a relay's call. */
	down->check_admitted = true;
	wake_up(down);
}

size_t hvd_downstream_count(const struct hvd_downstream *down)
{
	return down->n_begun;
}

void hvd_downstream_renew(struct hvd_downstream *down)
{
	for (struct child *child = down->children; child; child = child->next) {
		hvd_down_unwatch_all(child, true);
		if (child->origin)
			hvd_down_queue(child, hvd_xcalloc(1, sizeof(struct item)), ITEM_RENEW, NULL);
	}
	for (size_t i = 0; i < down->origins.room; i++)
		for (struct hvd_hash_node *node = down->origins.slots[i]; node; node = node->chain)
			hvd_down_leave((struct origin *)node, false);
}

void hvd_downstream_pass(struct hvd_downstream *down, const struct hvd_relay_msg *msg)
{
	const struct origin *o = find_origin(down, msg->origin);
	struct passed *p;

	if (!o || !o->route)
		return;
	p = hvd_xcalloc(1, sizeof(*p));
	p->origin = msg->origin;
	p->call = msg->call;
	p->result = msg->result;
	if (p->result.value)
		hvd_rv_value_ref(p->result.value);
	hvd_down_queue(o->route, &p->item, ITEM_PASS, NULL);
}

void hvd_downstream_ask_waits(struct hvd_downstream *down, unsigned max, void (*done)(char *text, void *arg), void *arg)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_ASK_WAITS, .level = max};
	struct ask *ask = hvd_xcalloc(1, sizeof(*ask));
	double seconds = down->rv->upstream ? WAITS_BELOW : WAITS_SECONDS;

	*ask = (struct ask){.next = down->asks,
			    .seq = down->waits_seq++,
			    .left = down->n_begun,
			    .max = max,
			    .spoke.due = on_waits_due,
			    .down = down,
			    .done = done,
			    .arg = arg};
	down->asks = ask;
	/* Not behind what waits to be sent: a relay that does not read is not asked for long. */
	for (struct child *child = down->children; child; child = child->next)
		if (child->origin)
			hvd_relay_send(child->conn, &msg);
	if (ask->left > 0)
		hvd_rv_arm(down->rv, &ask->spoke, hvd_deadline_in(seconds));
	else
		wake_up(down); /* there is nobody to ask */
}
