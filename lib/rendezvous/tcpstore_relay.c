/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a relay does for its TCPStore clients: it asks the root.
 *
 * While a connection asks, nothing of its input is handled, and its socket is not read. So a client's requests take
 * effect in their order. A BARRIER to which others have not come yet is the exception, since CANCEL_WAIT may end it.
 */
#include "tcpstore.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

#define AHEAD     1024 /* keys of a list that are looked at before it is their turn */
#define KEY_SHOWN 200  /* bytes of a BARRIER's key that are kept for messages */

static struct hvd_tcpstore_conn *of_call(struct hvd_upstream_call *call)
{
	return (struct hvd_tcpstore_conn *)(void *)((char *)call - offsetof(struct hvd_tcpstore_conn, call));
}

static struct hvd_upstream *upstream_of(const struct hvd_tcpstore_conn *c)
{
	return c->ts->rv->upstream;
}

static const struct hvd_store_result no_room = {.status = HVD_OP_NO_ROOM};

/* --- which generation --- */

static void on_place(struct hvd_upstream_call *call, const struct hvd_store_result *result)
{
	struct hvd_tcpstore_conn *c = of_call(call);
	struct hvd_rv_scope *scope = NULL;

	if (result->status == HVD_OP_DONE && result->number >= 0 && result->number <= UINT32_MAX) {
		c->generation = (uint32_t)result->number;
		scope = hvd_upstream_generation(upstream_of(c), c->generation);
	}
	c->scope = scope;
	hvd_tcpstore_go_on(c, c->called, scope ? NULL : &no_room);
}

void hvd_tcpstore_ask_place(struct hvd_tcpstore_conn *c, bool arrives)
{
	struct hvd_store_op op = {.kind = arrives ? HVD_OP_ARRIVE : HVD_OP_VISIT, .number = c->pid};

	char addr[HVD_ADDR_TEXT];

	if (!hvd_tcpstore_at_relay(c)) {
		hvd_addr_text(hvd_tcpstore_addr(c), addr);
		op.expected = (struct hvd_slice){addr, strlen(addr)};
	}
	op.place = c->root_place = ++c->ts->places;
	c->called = op.kind;
	c->call.answered = on_place;
	c->placed = c->asks = hvd_upstream_call(upstream_of(c), &op, &c->call);
	if (!c->asks)
		hvd_tcpstore_send_result(c, op.kind, &no_room);
}

static void on_group(struct hvd_upstream_call *call, const struct hvd_store_result *result)
{
	struct hvd_tcpstore_conn *c = of_call(call);
	struct hvd_rv_scope *scope = NULL, *old = c->scope;

	if (result->status == HVD_OP_DONE && result->number >= 0 && result->number <= UINT32_MAX)
		scope = hvd_upstream_generation(upstream_of(c), (uint32_t)result->number);
	if (scope) {
		c->grouped = true;
		c->generation = (uint32_t)result->number;
		c->scope = scope;
		hvd_upstream_generation_unref(upstream_of(c), old);
	}
	hvd_tcpstore_go_on(c, c->called, scope ? NULL : &no_room);
}

void hvd_tcpstore_ask_group(struct hvd_tcpstore_conn *c)
{
	struct hvd_store_op op = {.kind = HVD_OP_BEGIN_GROUP, .place = c->root_place};

	c->called = op.kind;
	c->call.answered = on_group;
	c->asks = hvd_upstream_call(upstream_of(c), &op, &c->call);
	if (!c->asks)
		hvd_tcpstore_send_result(c, op.kind, &no_room);
}

void hvd_tcpstore_leave_root(struct hvd_tcpstore_conn *c)
{
	struct hvd_store_op op = {.kind = HVD_OP_LEAVE, .place = c->root_place};

	if (c->asks) {
		hvd_upstream_unwait(&c->unknown);
		hvd_upstream_abandon(upstream_of(c), &c->call);
	}
	if (c->placed)
		hvd_upstream_call(upstream_of(c), &op, NULL);
	c->asks = c->placed = false;
}

/* --- keys --- */

static void on_known(struct hvd_upstream_wait *w)
{
	struct hvd_tcpstore_conn *c =
		(struct hvd_tcpstore_conn *)(void *)((char *)w - offsetof(struct hvd_tcpstore_conn, unknown));

	hvd_tcpstore_go_on(c, HVD_OP_GET, NULL);
}

enum hvd_known hvd_tcpstore_know(struct hvd_tcpstore_conn *c, struct hvd_slice key, bool waits)
{
	struct hvd_store_scope_id scope = {.generation = c->generation};
	enum hvd_known known;

	c->unknown.resume = on_known;
	known = hvd_upstream_know(upstream_of(c), &scope, key, waits, &c->unknown);
	c->asks = known == HVD_KNOWN_LATER;
	return known;
}

void hvd_tcpstore_look_ahead(struct hvd_tcpstore_conn *c, const struct hvd_tcpstore_item *item, const char *data,
			     size_t len)
{
	struct hvd_store_scope_id scope = {.generation = c->generation};
	struct hvd_tcpstore_wire wire = c->wire;
	struct hvd_tcpstore_item next;
	bool reads = item->query == HVD_TCPSTORE_MULTI_GET || item->query == HVD_TCPSTORE_CHECK ||
		     item->query == HVD_TCPSTORE_WAIT;
	const char *why;
	size_t n, need;

	if (!c->scope || !reads || (!c->grouped && hvd_tcpstore_is_group_key(item->key)) ||
	    (!item->first && wire.left >= c->ahead_left))
		return;
	for (int i = 0; i < AHEAD && wire.in_list; i++) {
		if (hvd_tcpstore_parse(&wire, data, len, &n, &need, &next, &why) != HVD_TCPSTORE_ITEM)
			break;
		hvd_upstream_know(upstream_of(c), &scope, next.key, item->query == HVD_TCPSTORE_WAIT, NULL);
		data += n;
		len -= n;
	}
	c->ahead_left = wire.left;
}

/* --- operations --- */

static void on_answer(struct hvd_upstream_call *call, const struct hvd_store_result *result)
{
	struct hvd_tcpstore_conn *c = of_call(call);

	hvd_tcpstore_go_on(c, c->called, result);
}

static void on_barrier(struct hvd_upstream_call *call, const struct hvd_store_result *result)
{
	struct hvd_tcpstore_conn *c =
		(struct hvd_tcpstore_conn *)(void *)((char *)call - offsetof(struct hvd_tcpstore_conn, barrier));

	hvd_tcpstore_end_barrier(c);
	hvd_tcpstore_send_result(c, HVD_OP_BARRIER, result);
}

static void call(struct hvd_tcpstore_conn *c, const struct hvd_store_op *op, struct hvd_upstream_call *one)
{
	if (!hvd_upstream_call(upstream_of(c), op, one))
		hvd_tcpstore_send_result(c, op->kind, &no_room);
}

static void on_fence(struct hvd_upstream_call *call, const struct hvd_store_result *result)
{
	(void)result;
	hvd_tcpstore_go_on(of_call(call), HVD_OP_QUEUE_LEN, NULL);
}

/* If all have come, the answer comes in front of those to the client's next requests: these wait for a call behind the
 * BARRIER, which is answered at once. */
static void call_barrier(struct hvd_tcpstore_conn *c, const struct hvd_store_op *op)
{
	struct hvd_store_op fence = {.kind = HVD_OP_QUEUE_LEN, .scope = op->scope, .key = op->key, .place = op->place};

	c->barrier.answered = on_barrier;
	c->barrier_key = hvd_xstrndup(op->key.p, op->key.n < KEY_SHOWN ? op->key.n : KEY_SHOWN);
	call(c, op, &c->barrier);
	if (c->dead)
		return;
	c->call.answered = on_fence;
	c->asks = true;
	call(c, &fence, &c->call);
}

void hvd_tcpstore_call(struct hvd_tcpstore_conn *c, struct hvd_store_op *op)
{
	op->scope.generation = c->generation;
	op->place = c->root_place;
	if (op->kind == HVD_OP_BARRIER) {
		call_barrier(c, op);
		return;
	}
	c->called = op->kind;
	c->call.answered = on_answer;
	c->asks = true;
	call(c, op, &c->call);
}

void hvd_tcpstore_end_barrier(struct hvd_tcpstore_conn *c)
{
	if (!c->barrier_key)
		return;
	hvd_upstream_abandon(upstream_of(c), &c->barrier);
	free(c->barrier_key);
	c->barrier_key = NULL;
}
