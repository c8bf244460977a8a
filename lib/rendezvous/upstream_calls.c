/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that the root carries out for this relay's clients.
 *
 * A call begins with hvd_upstream_submit() and ends with the root's answer. Until then it is kept, even if its caller
 * has gone. If the parent is lost, nobody knows whether the root has received the call, so it is sent again to the next
 * parent, with the same id. Ids grow, and calls are sent by rising id. Ids begin with the time, because another process
 * that becomes the same relay later, as the host's next one, must not use ids again.
 */
#include "upstream.h"

#include "lib/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct pending_call {
	struct hvd_hash_node node;
	TAILQ_ENTRY(pending_call) link;
	uint64_t id;
	struct hvd_store_call *call; /* NULL: the caller has gone */
	struct hvd_store_op op;
	size_t charged;
	bool cancelled;
	char names[];
};

void hvd_upstream_calls_init(struct hvd_upstream *up)
{
	/* Above those of an earlier process that was this relay. */
	up->last_call = (uint64_t)hvd_now();
	hvd_hash_table_init(&up->calls_by_id, 64);
	TAILQ_INIT(&up->calls);
}

static uint64_t hash_of(const struct hvd_upstream *up, uint64_t id)
{
	return hvd_hash(up->seed, &id, sizeof(id));
}

static struct pending_call *find(const struct hvd_upstream *up, uint64_t id)
{
	struct hvd_hash_node *node = hvd_hash_first(&up->calls_by_id, hash_of(up, id));

	while (node && ((struct pending_call *)node)->id != id)
		node = hvd_hash_next(node);
	return (struct pending_call *)node;
}

/* An operation that others must answer first, so that it may take any time. */
static bool may_last(const struct pending_call *p)
{
	return p->op.kind == HVD_OP_BARRIER || p->op.kind == HVD_OP_HTTP_GET;
}

/* I7 of COHERENCE.md. */
static void check_call(const struct pending_call *p)
{
	assert(!TAILQ_PREV(p, pending_calls, link) || TAILQ_PREV(p, pending_calls, link)->id < p->id);
	assert(!p->call || p->call->id == p->id);
	assert(!p->cancelled || (may_last(p) && !p->call));
	(void)p;
}

static void send_call(struct hvd_upstream *up, const struct pending_call *p)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_CALL, .relay_id = up->rv->cfg.relay_id, .call = p->id};

	msg.done = TAILQ_FIRST(&up->calls)->id;
	msg.op = p->op;
	hvd_upstream_send(up, &msg);
}

static void send_cancel(struct hvd_upstream *up, const struct pending_call *p)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_CANCEL, .relay_id = up->rv->cfg.relay_id, .call = p->id};

	hvd_upstream_send(up, &msg);
}

static struct hvd_slice copy_slice(char **at, struct hvd_slice s)
{
	struct hvd_slice kept = {*at, s.n};

	if (!s.p)
		return s;
	if (s.n > 0)
		memcpy(*at, s.p, s.n);
	*at += s.n;
	return kept;
}

/* Copies the names and takes a reference to the value. False when there was no room: the operation is not carried out.
 * A LEAVE always has room. */
static bool add_call(struct hvd_upstream *up, const struct hvd_store_op *op, struct hvd_store_call *call)
{
	size_t size = sizeof(struct pending_call) + op->scope.name.n + op->key.n + op->expected.n;
	struct hvd_rv_budget *budget = hvd_rv_store_budget(up->rv->store);
	bool must = op->kind == HVD_OP_LEAVE; /* there are no more of them than of connections that have asked */
	struct pending_call *p;
	char *at;

	if (!must) {
		hvd_upstream_make_room(up, size);
		if (!hvd_rv_charge(budget, size))
			return false;
	}
	p = hvd_xcalloc(1, size);
	at = p->names;
	p->charged = must ? 0 : size;
	p->id = ++up->last_call;
	p->call = call;
	p->op = *op;
	p->op.scope.name = copy_slice(&at, op->scope.name);
	p->op.key = copy_slice(&at, op->key);
	p->op.expected = copy_slice(&at, op->expected);
	if (op->value)
		hvd_rv_value_ref(op->value);
	if (call)
		call->id = p->id;
	TAILQ_INSERT_TAIL(&up->calls, p, link);
	hvd_hash_table_add(&up->calls_by_id, &p->node, hash_of(up, p->id));
	if (!may_last(p))
		hvd_upstream_owes(up, 1);
	check_call(p);
	send_call(up, p);
	return true;
}

/* Operations by which a connection gets its epoch. */
static bool enters(enum hvd_store_op_kind kind)
{
	return kind == HVD_OP_ARRIVE || kind == HVD_OP_VISIT || kind == HVD_OP_BEGIN_GROUP;
}

/* Tell the root who comes: a client of another host by its address. */
static void identify(struct hvd_upstream *up, struct hvd_store_op *op, char text[HVD_ADDR_TEXT])
{
	struct hvd_store_client *client = op->client;

	client->number = ++up->last_client;
	op->number = client->pid;
	if (hvd_addr_equal(&client->from, &up->rv->cfg.relay_addr))
		return;
	hvd_addr_text(&client->from, text);
	op->expected = (struct hvd_slice){text, strlen(text)};
}

bool hvd_upstream_submit(struct hvd_upstream *up, const struct hvd_store_op *op, struct hvd_store_result *now,
			 struct hvd_store_call *call)
{
	struct hvd_store_op sent = *op;
	char text[HVD_ADDR_TEXT];

	*now = (struct hvd_store_result){.status = up->lost ? HVD_OP_LOST : HVD_OP_NO_ROOM};
	if (up->lost)
		return true;
	if (op->kind == HVD_OP_ARRIVE || op->kind == HVD_OP_VISIT)
		identify(up, &sent, text);
	sent.client_number = op->client ? op->client->number : 0;
	return !add_call(up, &sent, call);
}

void hvd_upstream_depart(struct hvd_upstream *up, struct hvd_store_client *client)
{
	struct hvd_store_op op = {.kind = HVD_OP_LEAVE, .client_number = client->number};

	if (client->number)
		add_call(up, &op, NULL);
	client->number = 0;
}

static void remove_call(struct hvd_upstream *up, struct pending_call *p)
{
	if (!may_last(p))
		hvd_upstream_owes(up, -1);
	hvd_hash_table_remove(&up->calls_by_id, &p->node);
	TAILQ_REMOVE(&up->calls, p, link);
	if (p->call)
		p->call->id = 0;
	hvd_rv_value_unref(p->op.value);
	hvd_rv_refund(hvd_rv_store_budget(up->rv->store), p->charged);
	free(p);
}

void hvd_upstream_abandon(struct hvd_upstream *up, struct hvd_store_call *call)
{
	struct pending_call *p = call->id ? find(up, call->id) : NULL;

	if (!p)
		return;
	if (may_last(p) && !p->cancelled) {
		p->cancelled = true;
		send_cancel(up, p);
	}
	p->call = NULL;
	call->id = 0;
	check_call(p);
}

/* The connection has its epoch. */
static void set_epoch(struct hvd_upstream *up, struct hvd_store_client *client, enum hvd_store_op_kind kind,
		      struct hvd_store_result *result)
{
	struct hvd_rv_scope *scope = NULL, *old = client->scope;

	if (result->status == HVD_OP_DONE && result->number >= 0 && result->number <= UINT32_MAX)
		scope = hvd_upstream_epoch_ref(up, (uint32_t)result->number);
	if (!scope) {
		result->status = HVD_OP_NO_ROOM;
		return;
	}
	client->scope = scope;
	client->epoch = (uint32_t)result->number;
	client->begun = kind == HVD_OP_BEGIN_GROUP;
	if (old)
		hvd_upstream_epoch_unref(up, old);
}

void hvd_upstream_answer(struct hvd_upstream *up, uint64_t id, const struct hvd_store_result *result)
{
	struct pending_call *p = find(up, id);
	struct hvd_store_call *call = p ? p->call : NULL;
	struct hvd_store_result answer = *result;

	if (!p)
		return; /* it was sent to two parents, and both have answered */
	check_call(p);
	if (call && enters(p->op.kind))
		set_epoch(up, p->op.client, p->op.kind, &answer);
	remove_call(up, p);
	if (call)
		call->answered(call, &answer);
}

void hvd_upstream_calls_begin(struct hvd_upstream *up)
{
	for (const struct pending_call *p = TAILQ_FIRST(&up->calls); p; p = TAILQ_NEXT(p, link)) {
		send_call(up, p);
		if (p->cancelled)
			send_cancel(up, p);
	}
}

void hvd_upstream_calls_free(struct hvd_upstream *up)
{
	while (!TAILQ_EMPTY(&up->calls))
		remove_call(up, TAILQ_FIRST(&up->calls));
	hvd_hash_table_free(&up->calls_by_id);
}
