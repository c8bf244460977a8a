/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's answer to a query. It is the answer of PyTorch's libuv server, even where that is odd (store_op.c). There
 * are two further differences: a client that QUEUE_PUSH has woken does not stay in the list of waiting clients, and an
 * operation that is refused closes the connection.
 */
#include "tcpstore.h"

#include <string.h>

static const char init_key[] = "init/";

/* --- reading --- */

/* Is there a value or a queue? */
enum there {
	THERE,
	NOT_THERE,
	THERE_LATER, /* it is asked for, or the connection was closed */
};

static enum there is_there(struct hvd_tcpstore_conn *c, struct hvd_slice key, bool waits)
{
	switch (hvd_tcpstore_know(c, key, waits)) {
	case HVD_CACHE_NO_ROOM:
		hvd_tcpstore_done(c, HVD_OP_NO_ROOM);
		return THERE_LATER;
	case HVD_CACHE_PENDING:
		return THERE_LATER;
	case HVD_CACHE_REMOTE:
		return THERE;
	case HVD_CACHE_REMOTE_EMPTY:
		return NOT_THERE;
	case HVD_CACHE_HIT:
		break;
	}
	return hvd_rv_scope_has(c->client.scope, key) ? THERE : NOT_THERE;
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
		hvd_tcpstore_done(c, hvd_store_status(hvd_tcpstore_wait(c, item->key)));
	if (c->s.closed || !item->last)
		return true;
	c->waits_open = false;
	if (c->awaited == 0) {
		hvd_tcpstore_unwait(c);
		hvd_tcpstore_send_byte(c, 0);
	}
	return true;
}

/* --- operations --- */

static bool carry_out(struct hvd_tcpstore_conn *c, enum hvd_store_op_kind kind, const struct hvd_tcpstore_item *item)
{
	struct hvd_store_op op = {.kind = kind, .key = item->key, .expected = item->expected, .number = item->number};
	enum hvd_rv_stored why;

	if (hvd_store_op_has_value(kind)) {
		op.value = hvd_rv_value_new(hvd_tcpstore_budget(c), item->value.p, item->value.n, &why);
		if (!op.value) {
			hvd_tcpstore_done(c, hvd_store_status(why));
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
	case HVD_CACHE_PENDING:
		return false;
	case HVD_CACHE_HIT:
		result.value = hvd_rv_scope_get(c->client.scope, item->key);
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
		hvd_tcpstore_send_byte(c, c->list_there ? 0 : 1);
	return true;
}

/* --- which epoch --- */

/* The first query that needs one decides. False when it has none yet: the connection was closed, or it asks. */
static bool enter(struct hvd_tcpstore_conn *c, const struct hvd_tcpstore_item *item)
{
	bool arrives = item->query == HVD_TCPSTORE_ADD && item->key.n == sizeof(init_key) - 1 &&
		       memcmp(item->key.p, init_key, item->key.n) == 0;

	return hvd_tcpstore_enter(c, arrives ? HVD_OP_ARRIVE : HVD_OP_VISIT);
}

/* Is this its first key of a default process group? While it waits for others it stays where these are. */
static bool begins_group(const struct hvd_tcpstore_conn *c, const struct hvd_tcpstore_item *item)
{
	return !c->client.begun && item->key.p && c->awaited == 0 && !c->barrier_key &&
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
		if (!c->client.scope)
			c->pid = (uint32_t)item->number;
		hvd_tcpstore_put_u32(&c->wire, (uint32_t)item->number, nonce);
		hvd_tcpstore_send(c, nonce, sizeof(nonce));
		return true;
	default:
		break;
	}
	if (!c->client.scope && !enter(c, item))
		return c->s.closed;
	if (begins_group(c, item) && !hvd_tcpstore_enter(c, HVD_OP_BEGIN_GROUP))
		return c->s.closed;
	switch (item->query) {
	case HVD_TCPSTORE_CHECK:
		return do_check(c, item);
	case HVD_TCPSTORE_WAIT:
		return do_wait(c, item);
	case HVD_TCPSTORE_CANCEL_WAIT:
		hvd_tcpstore_unwait(c);
		hvd_tcpstore_send_byte(c, 1);
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
