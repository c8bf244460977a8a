/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of a TCPStore connection on the store, which may take a while, and their answers to the client.
 *
 * While a connection asks, its input is not handled, and its socket is not read. So a client's requests take effect in
 * their order. A BARRIER that other processes have not reached yet is the exception, because CANCEL_WAIT may end it.
 */
#include "tcpstore.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>

#define AHEAD     1024 /* keys of a list that are looked at before it is their turn */
#define KEY_SHOWN 200  /* bytes of a BARRIER's key that are kept for messages */

/* --- answers --- */

void hvd_tcpstore_send_byte(struct hvd_tcpstore_conn *c, unsigned char byte)
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

bool hvd_tcpstore_done(struct hvd_tcpstore_conn *c, enum hvd_store_status status)
{
	const char *why = "the store has no room left";

	if (status == HVD_OP_TOO_LONG)
		why = "a value would become longer than the store allows";
	else if (status == HVD_OP_NO_NUMBER)
		why = "it counts with a value that is not a number, or too large";
	else if (status == HVD_OP_NO_SCOPE)
		why = "the store has forgotten its process, because its host was disconnected for too long";
	if (status != HVD_OP_DONE && status != HVD_OP_CANCELLED)
		hvd_tcpstore_close(c, HVD_LOG_WARN, why);
	return status == HVD_OP_DONE;
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
	if (!hvd_tcpstore_done(c, result->status))
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
		hvd_tcpstore_send_byte(c, 0);
		break;
	default: /* has no answer */
		break;
	}
}

/* --- asking --- */

static struct hvd_tcpstore_conn *of_call(struct hvd_store_call *call)
{
	return (struct hvd_tcpstore_conn *)(void *)((char *)call - offsetof(struct hvd_tcpstore_conn, call));
}

static const struct hvd_store *store_of(const struct hvd_tcpstore_conn *c)
{
	return &c->ts->rv->store_api;
}

/* Carry out an operation. True: *now is the result. False: the connection asks. */
static bool submit(struct hvd_tcpstore_conn *c, struct hvd_store_op *op, struct hvd_store_result *now,
		   void (*answered)(struct hvd_store_call *call, const struct hvd_store_result *result))
{
	op->client = &c->client;
	c->called = op->kind;
	c->call.answered = answered;
	c->asks = !hvd_store_submit(store_of(c), op, now, &c->call);
	return !c->asks;
}

/* The connection's call is answered: send the result, unless it is NULL, and handle more of its input. */
static void go_on(struct hvd_tcpstore_conn *c, enum hvd_store_op_kind kind, const struct hvd_store_result *result)
{
	c->asks = false;
	c->ts->current = c;
	if (result)
		hvd_tcpstore_send_result(c, kind, result);
	c->s.ops->ready(&c->s, 0);
}

/* --- which epoch --- */

static void on_entered(struct hvd_store_call *call, const struct hvd_store_result *result)
{
	struct hvd_tcpstore_conn *c = of_call(call);

	go_on(c, c->called, result->status == HVD_OP_DONE ? NULL : result);
}

bool hvd_tcpstore_enter(struct hvd_tcpstore_conn *c, enum hvd_store_op_kind kind)
{
	struct hvd_store_op op = {.kind = kind};
	struct hvd_store_result now;

	if (!c->client.scope) {
		c->client.from = *hvd_tcpstore_addr(c);
		c->client.pid = c->pid;
	}
	if (!submit(c, &op, &now, on_entered))
		return false;
	if (now.status != HVD_OP_DONE)
		hvd_tcpstore_send_result(c, kind, &now);
	return !c->s.closed;
}

/* --- keys --- */

static void on_known(struct hvd_store_lookup *lookup)
{
	struct hvd_tcpstore_conn *c =
		(struct hvd_tcpstore_conn *)(void *)((char *)lookup - offsetof(struct hvd_tcpstore_conn, lookup));

	go_on(c, HVD_OP_GET, NULL);
}

enum hvd_cache hvd_tcpstore_know(struct hvd_tcpstore_conn *c, struct hvd_slice key, bool waits)
{
	struct hvd_store_scope_id scope = {.epoch = c->client.epoch};
	enum hvd_cache known;

	c->lookup.resume = on_known;
	known = hvd_store_know(store_of(c), &scope, key, waits, &c->lookup);
	c->asks = known == HVD_CACHE_PENDING;
	return known;
}

void hvd_tcpstore_look_ahead(struct hvd_tcpstore_conn *c, const struct hvd_tcpstore_item *item, const char *data,
			     size_t len)
{
	struct hvd_store_scope_id scope = {.epoch = c->client.epoch};
	struct hvd_tcpstore_wire wire = c->wire;
	struct hvd_tcpstore_item next;
	bool reads = item->query == HVD_TCPSTORE_MULTI_GET || item->query == HVD_TCPSTORE_CHECK ||
		     item->query == HVD_TCPSTORE_WAIT;
	const char *why;
	size_t n, need;

	if (!c->client.scope || !reads || (!c->client.begun && hvd_tcpstore_is_group_key(item->key)) ||
	    (!item->first && wire.left >= c->ahead_left))
		return;
	for (int i = 0; i < AHEAD && wire.in_list; i++) {
		if (hvd_tcpstore_parse(&wire, data, len, &n, &need, &next, &why) != HVD_TCPSTORE_ITEM)
			break;
		hvd_store_know(store_of(c), &scope, next.key, item->query == HVD_TCPSTORE_WAIT, NULL);
		data += n;
		len -= n;
	}
	c->ahead_left = wire.left;
}

/* --- operations --- */

static void on_answer(struct hvd_store_call *call, const struct hvd_store_result *result)
{
	struct hvd_tcpstore_conn *c = of_call(call);

	go_on(c, c->called, result);
}

static void on_barrier(struct hvd_store_call *call, const struct hvd_store_result *result)
{
	struct hvd_tcpstore_conn *c =
		(struct hvd_tcpstore_conn *)(void *)((char *)call - offsetof(struct hvd_tcpstore_conn, barrier));

	hvd_tcpstore_end_barrier(c);
	hvd_tcpstore_send_result(c, HVD_OP_BARRIER, result);
}

static void on_fence(struct hvd_store_call *call, const struct hvd_store_result *result)
{
	(void)result;
	go_on(of_call(call), HVD_OP_QUEUE_LEN, NULL);
}

/* If all have come, the answer is sent before those to the client's next requests: these wait for an operation behind
 * the BARRIER, which is carried out at once. */
static void call_barrier(struct hvd_tcpstore_conn *c, struct hvd_store_op *op)
{
	struct hvd_store_op fence = {.kind = HVD_OP_QUEUE_LEN, .scope = op->scope, .key = op->key};
	struct hvd_store_result now;

	op->client = &c->client;
	c->barrier.answered = on_barrier;
	if (hvd_store_submit(store_of(c), op, &now, &c->barrier)) {
		hvd_tcpstore_send_result(c, HVD_OP_BARRIER, &now);
		return;
	}
	c->barrier_key = hvd_xstrndup(op->key.p, op->key.n < KEY_SHOWN ? op->key.n : KEY_SHOWN);
	if (submit(c, &fence, &now, on_fence) && now.status != HVD_OP_DONE)
		hvd_tcpstore_send_result(c, HVD_OP_QUEUE_LEN, &now);
}

void hvd_tcpstore_call(struct hvd_tcpstore_conn *c, struct hvd_store_op *op)
{
	struct hvd_store_result now;

	op->scope.epoch = c->client.epoch;
	if (op->kind == HVD_OP_BARRIER) {
		call_barrier(c, op);
		return;
	}
	if (!submit(c, op, &now, on_answer))
		return;
	hvd_tcpstore_send_result(c, op->kind, &now);
	hvd_store_result_clear(&now);
}
