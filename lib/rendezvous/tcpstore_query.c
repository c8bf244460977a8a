/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the store answers to a query: what PyTorch's libuv server answers, also where that is odd (store_op.c). Further
 * differences are that a client that QUEUE_PUSH has woken does not stay in the list of those that wait, and that an
 * operation which is refused closes the connection.
 */
#include "tcpstore.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

#define WAITS_FIRST 16 /* waits for which there is memory at first, besides the one in the connection */
#define WAITS_MOST  1024

static const char init_key[] = "init/";

static void send_byte(struct hvd_tcpstore_conn *c, unsigned char byte)
{
	hvd_tcpstore_send(c, &byte, 1);
}

static void send_number(struct hvd_tcpstore_conn *c, int64_t n)
{
	char out[8];

	hvd_tcpstore_put_u64(&c->wire, (uint64_t)n, out);
	hvd_tcpstore_send(c, out, sizeof(out));
}

static void send_bytes(struct hvd_tcpstore_conn *c, struct hvd_slice bytes)
{
	send_number(c, (int64_t)bytes.n);
	hvd_tcpstore_send(c, bytes.p, bytes.n);
}

static void no_room(struct hvd_tcpstore_conn *c)
{
	hvd_tcpstore_close(c, HVD_LOG_WARN, "the store has no room left");
}

/* False when the connection was closed. */
static bool stored(struct hvd_tcpstore_conn *c, enum hvd_rv_stored why)
{
	if (why == HVD_RV_TOO_LONG)
		hvd_tcpstore_close(c, HVD_LOG_WARN, "a value would become longer than the store takes");
	else if (why != HVD_RV_STORED)
		no_room(c);
	return why == HVD_RV_STORED;
}

/* --- waits --- */

void hvd_tcpstore_unwait(struct hvd_tcpstore_conn *c)
{
	struct hvd_rv_budget *budget = hvd_rv_store_budget(c->ts->rv->store);

	hvd_tcpstore_end_barrier(c);
	hvd_rv_unwait(&c->wait.waiter);
	while (c->more) {
		struct hvd_tcpstore_waits *ws = c->more;

		c->more = ws->next;
		for (size_t i = 0; i < ws->n; i++)
			hvd_rv_unwait(&ws->waits[i].waiter);
		hvd_rv_refund(budget, sizeof(*ws) + ws->room * sizeof(ws->waits[0]));
		free(ws);
	}
	c->awaited = 0;
	c->waits_open = false;
}

static bool woken(struct hvd_rv_waiter *w, struct hvd_rv_value *value)
{
	struct hvd_tcpstore_conn *c = ((struct hvd_tcpstore_wait *)(void *)w)->conn;

	(void)value;
	if (--c->awaited > 0 || c->waits_open)
		return false;
	hvd_tcpstore_unwait(c); /* for the memory: none of them waits any longer */
	send_byte(c, 0);
	return true;
}

/* NULL when there is no memory. */
static struct hvd_tcpstore_wait *new_wait(struct hvd_tcpstore_conn *c)
{
	struct hvd_tcpstore_waits *ws = c->more;

	if (!c->wait.waiter.key)
		return &c->wait;
	if (!ws || ws->n == ws->room) {
		size_t room = !ws ? WAITS_FIRST : ws->room < WAITS_MOST ? 2 * ws->room : WAITS_MOST;
		size_t size = sizeof(*ws) + room * sizeof(ws->waits[0]);

		if (!hvd_rv_charge(hvd_rv_store_budget(c->ts->rv->store), size))
			return NULL;
		ws = hvd_xcalloc(1, size);
		ws->room = room;
		ws->next = c->more;
		c->more = ws;
	}
	return &ws->waits[ws->n++];
}

static void await(struct hvd_tcpstore_conn *c, struct hvd_slice key)
{
	struct hvd_tcpstore_wait *w = new_wait(c);

	if (!w) {
		no_room(c);
		return;
	}
	w->conn = c;
	w->waiter.wake = woken;
	if (stored(c, hvd_rv_scope_wait(c->place.scope, key, &w->waiter)))
		c->awaited++;
}

/* Is there a value or a queue? */
enum there {
	THERE,
	NOT_THERE,
	THERE_LATER, /* it is asked for, or the connection was closed */
};

static enum there is_there(struct hvd_tcpstore_conn *c, struct hvd_slice key, bool waits)
{
	switch (hvd_tcpstore_know(c, key, waits)) {
	case HVD_KNOWN_NO_ROOM:
		no_room(c);
		return THERE_LATER;
	case HVD_KNOWN_LATER:
		return THERE_LATER;
	case HVD_KNOWN_ABOVE:
		return THERE;
	case HVD_KNOWN_ABOVE_ABSENT:
		return NOT_THERE;
	case HVD_KNOWN_HERE:
		break;
	}
	return hvd_rv_scope_has(c->place.scope, key) ? THERE : NOT_THERE;
}

static bool do_wait(struct hvd_tcpstore_conn *c, const struct hvd_tcpstore_item *item)
{
	enum there there;

	if (item->first) {
		hvd_tcpstore_unwait(c);
		c->waits_open = true;
	}
	there = item->key.p ? is_there(c, item->key, true) : THERE;
	if (there == THERE_LATER)
		return c->s.closed;
	if (there == NOT_THERE)
		await(c, item->key);
	if (c->s.closed || !item->last)
		return true;
	c->waits_open = false;
	if (c->awaited == 0) {
		hvd_tcpstore_unwait(c);
		send_byte(c, 0);
	}
	return true;
}

/* --- operations --- */

/* False when the connection was closed. */
static bool done(struct hvd_tcpstore_conn *c, enum hvd_store_status status)
{
	switch (status) {
	case HVD_OP_DONE:
		return true;
	case HVD_OP_TOO_LONG:
		return stored(c, HVD_RV_TOO_LONG);
	case HVD_OP_NO_NUMBER:
		hvd_tcpstore_close(c, HVD_LOG_WARN, "it counts with a value that is not a number, or too large");
		return false;
	case HVD_OP_CANCELLED:
		return false;
	case HVD_OP_NO_SCOPE:
		hvd_tcpstore_close(c, HVD_LOG_WARN,
				   "the store has forgotten its process, whose host was away for long");
		return false;
	default:
		return stored(c, HVD_RV_NO_ROOM);
	}
}

static void send_keys(struct hvd_tcpstore_conn *c, const struct hvd_store_result *result)
{
	const unsigned char *p = result->value->data, *end = p + result->value->len;

	send_number(c, result->number);
	while (p < end && !c->s.closed) {
		size_t n = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];

		send_bytes(c, (struct hvd_slice){(const char *)p + 4, n});
		p += 4 + n;
	}
}

void hvd_tcpstore_send_result(struct hvd_tcpstore_conn *c, enum hvd_store_op_kind kind,
			      const struct hvd_store_result *result)
{
	if (!done(c, result->status))
		return;
	switch (kind) {
	case HVD_OP_COMPARE_SET:
	case HVD_OP_GET:
		if (result->value)
			hvd_tcpstore_send_value(c, result->value);
		else
			send_number(c, 0);
		break;
	case HVD_OP_ADD:
	case HVD_OP_DELETE:
	case HVD_OP_NUM_KEYS:
	case HVD_OP_QUEUE_LEN:
		send_number(c, result->number);
		break;
	case HVD_OP_QUEUE_POP:
		send_number(c, result->number);
		if (result->value)
			hvd_tcpstore_send_value(c, result->value);
		break;
	case HVD_OP_LIST_KEYS:
		send_keys(c, result);
		break;
	case HVD_OP_BARRIER:
		send_byte(c, 0);
		break;
	default: /* has no answer */
		break;
	}
}

static bool carry_out(struct hvd_tcpstore_conn *c, enum hvd_store_op_kind kind, const struct hvd_tcpstore_item *item)
{
	struct hvd_store_op op = {.kind = kind, .key = item->key, .expected = item->expected, .number = item->number};
	enum hvd_rv_stored why;

	if (hvd_store_op_has_value(kind)) {
		op.value = hvd_rv_value_new(hvd_rv_store_budget(c->ts->rv->store), item->value.p, item->value.n, &why);
		if (!op.value) {
			stored(c, why);
			return true;
		}
	}
	hvd_tcpstore_call(c, &op);
	hvd_rv_value_unref(op.value);
	return true;
}

static bool do_get(struct hvd_tcpstore_conn *c, const struct hvd_tcpstore_item *item)
{
	struct hvd_store_result result = {.status = HVD_OP_DONE};

	switch (hvd_tcpstore_know(c, item->key, false)) {
	case HVD_KNOWN_LATER:
		return false;
	case HVD_KNOWN_HERE:
		result.value = hvd_rv_scope_get(c->place.scope, item->key);
		hvd_tcpstore_send_result(c, HVD_OP_GET, &result);
		return true;
	default:
		return carry_out(c, HVD_OP_GET, item);
	}
}

static bool do_check(struct hvd_tcpstore_conn *c, const struct hvd_tcpstore_item *item)
{
	enum there there = THERE;

	if (item->first)
		c->list_there = true;
	if (item->key.p && c->list_there)
		there = is_there(c, item->key, false);
	if (there == THERE_LATER)
		return c->s.closed;
	c->list_there = c->list_there && there == THERE;
	if (item->last)
		send_byte(c, c->list_there ? 0 : 1);
	return true;
}

/* --- which generation --- */

/* The first query that needs one decides. False when it has none yet: the connection was closed, or it asks. */
static bool find_place(struct hvd_tcpstore_conn *c, const struct hvd_tcpstore_item *item)
{
	bool arrives = item->query == HVD_TCPSTORE_ADD && item->key.n == sizeof(init_key) - 1 &&
		       memcmp(item->key.p, init_key, item->key.n) == 0;

	return hvd_tcpstore_find_place(c, arrives ? HVD_OP_ARRIVE : HVD_OP_VISIT);
}

/* Is this its first key of a default process group? While it waits for others it stays where these are. */
static bool begins_group(const struct hvd_tcpstore_conn *c, const struct hvd_tcpstore_item *item)
{
	return !c->place.begun && item->key.p && c->awaited == 0 && !c->barrier_key &&
	       hvd_tcpstore_is_group_key(item->key);
}

bool hvd_tcpstore_item(struct hvd_tcpstore_conn *c, const struct hvd_tcpstore_item *item)
{
	static const enum hvd_store_op_kind kinds[HVD_TCPSTORE_QUERIES] = {
		[HVD_TCPSTORE_SET] = HVD_OP_SET,
		[HVD_TCPSTORE_COMPARE_SET] = HVD_OP_COMPARE_SET,
		[HVD_TCPSTORE_ADD] = HVD_OP_ADD,
		[HVD_TCPSTORE_GETNUMKEYS] = HVD_OP_NUM_KEYS,
		[HVD_TCPSTORE_DELETE_KEY] = HVD_OP_DELETE,
		[HVD_TCPSTORE_APPEND] = HVD_OP_APPEND,
		[HVD_TCPSTORE_MULTI_SET] = HVD_OP_SET,
		[HVD_TCPSTORE_QUEUE_PUSH] = HVD_OP_QUEUE_PUSH,
		[HVD_TCPSTORE_QUEUE_POP] = HVD_OP_QUEUE_POP,
		[HVD_TCPSTORE_QUEUE_LEN] = HVD_OP_QUEUE_LEN,
		[HVD_TCPSTORE_LIST_KEYS] = HVD_OP_LIST_KEYS,
		[HVD_TCPSTORE_BARRIER] = HVD_OP_BARRIER,
	};
	char nonce[4];

	switch (item->query) {
	case HVD_TCPSTORE_VALIDATE:
		return true;
	case HVD_TCPSTORE_PING:
		if (!c->place.scope)
			c->pid = (uint32_t)item->number;
		hvd_tcpstore_put_u32(&c->wire, (uint32_t)item->number, nonce);
		hvd_tcpstore_send(c, nonce, sizeof(nonce));
		return true;
	default:
		break;
	}
	if (!c->place.scope && !find_place(c, item))
		return c->s.closed;
	if (begins_group(c, item) && !hvd_tcpstore_find_place(c, HVD_OP_BEGIN_GROUP))
		return c->s.closed;
	switch (item->query) {
	case HVD_TCPSTORE_CHECK:
		return do_check(c, item);
	case HVD_TCPSTORE_WAIT:
		return do_wait(c, item);
	case HVD_TCPSTORE_CANCEL_WAIT:
		hvd_tcpstore_unwait(c);
		send_byte(c, 1);
		return true;
	case HVD_TCPSTORE_GET:
	case HVD_TCPSTORE_MULTI_GET:
		return !item->key.p || do_get(c, item);
	case HVD_TCPSTORE_MULTI_SET:
		return !item->key.p || carry_out(c, kinds[item->query], item);
	default:
		if (item->query == HVD_TCPSTORE_BARRIER)
			hvd_tcpstore_unwait(c);
		return carry_out(c, kinds[item->query], item);
	}
}
