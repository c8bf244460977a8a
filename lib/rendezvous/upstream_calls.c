/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that the root carries out for this relay's clients.
 *
 * A call begins with hvd_upstream_call() and ends with the root's answer. Until then it is kept, also when its caller
 * has gone: if the parent is lost, it is not known whether the root has got it, so it is sent again to the next parent,
 * with the same id. Ids grow, and calls are sent by rising id. They begin with the time, since another process that
 * becomes the same relay later, as the host's next one, must not use ids again.
 */
#include "upstream_internal.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct pending_call {
	struct hvd_hash_node node;
	struct pending_call *prev, *next;
	uint64_t id;
	struct hvd_upstream_call *call; /* NULL: the caller has gone */
	struct hvd_store_op op;
	size_t charged;
	bool cancelled;
	char names[];
};

void hvd_upstream_calls_init(struct hvd_upstream *up)
{
	/* Above those of an earlier process that was this relay. */
	up->last_call = (uint64_t)hvd_now();
	hvd_hash_table_init(&up->calls, 64);
}

static uint64_t hash_of(const struct hvd_upstream *up, uint64_t id)
{
	return hvd_hash(up->seed, &id, sizeof(id));
}

static struct pending_call *find(const struct hvd_upstream *up, uint64_t id)
{
	struct hvd_hash_node *node = hvd_hash_first(&up->calls, hash_of(up, id));

	while (node && ((struct pending_call *)node)->id != id)
		node = hvd_hash_next(node);
	return (struct pending_call *)node;
}

/* An operation that others must answer first, so that it may take any time. */
static bool may_last(const struct pending_call *p)
{
	return p->op.kind == HVD_OP_BARRIER || p->op.kind == HVD_OP_HTTP_GET;
}

static void send_call(struct hvd_upstream *up, const struct pending_call *p)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_CALL, .origin = up->rv->cfg.origin, .call = p->id};

	msg.done = up->first->id;
	msg.op = p->op;
	hvd_upstream_send(up, &msg);
}

static void send_cancel(struct hvd_upstream *up, const struct pending_call *p)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_CANCEL, .origin = up->rv->cfg.origin, .call = p->id};

	hvd_upstream_send(up, &msg);
}

static struct hvd_slice keep(char **at, struct hvd_slice s)
{
	struct hvd_slice kept = {*at, s.n};

	if (!s.p)
		return s;
	if (s.n > 0)
		memcpy(*at, s.p, s.n);
	*at += s.n;
	return kept;
}

bool hvd_upstream_call(struct hvd_upstream *up, const struct hvd_store_op *op, struct hvd_upstream_call *call)
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
	p->op.scope.name = keep(&at, op->scope.name);
	p->op.key = keep(&at, op->key);
	p->op.expected = keep(&at, op->expected);
	if (op->value)
		hvd_rv_value_ref(op->value);
	if (call)
		call->id = p->id;
	p->prev = up->last;
	if (up->last)
		up->last->next = p;
	else
		up->first = p;
	up->last = p;
	hvd_hash_table_add(&up->calls, &p->node, hash_of(up, p->id));
	if (!may_last(p))
		hvd_upstream_owes(up, 1);
	send_call(up, p);
	return true;
}

static void remove_call(struct hvd_upstream *up, struct pending_call *p)
{
	if (!may_last(p))
		hvd_upstream_owes(up, -1);
	hvd_hash_table_remove(&up->calls, &p->node);
	if (p->prev)
		p->prev->next = p->next;
	else
		up->first = p->next;
	if (p->next)
		p->next->prev = p->prev;
	else
		up->last = p->prev;
	if (p->call)
		p->call->id = 0;
	hvd_rv_value_unref(p->op.value);
	hvd_rv_refund(hvd_rv_store_budget(up->rv->store), p->charged);
	free(p);
}

void hvd_upstream_cancel(struct hvd_upstream *up, struct hvd_upstream_call *call)
{
	struct pending_call *p = call->id ? find(up, call->id) : NULL;

	if (!p || p->cancelled)
		return;
	p->cancelled = true;
	send_cancel(up, p);
}

void hvd_upstream_abandon(struct hvd_upstream *up, struct hvd_upstream_call *call)
{
	struct pending_call *p = call->id ? find(up, call->id) : NULL;

	if (!p)
		return;
	if (may_last(p))
		hvd_upstream_cancel(up, call);
	p->call = NULL;
	call->id = 0;
}

void hvd_upstream_answer(struct hvd_upstream *up, uint64_t id, const struct hvd_store_result *result)
{
	struct pending_call *p = find(up, id);
	struct hvd_upstream_call *call = p ? p->call : NULL;

	if (!p)
		return; /* it was sent to two parents, and both have answered */
	remove_call(up, p);
	if (call)
		call->answered(call, result);
}

void hvd_upstream_calls_begin(struct hvd_upstream *up)
{
	for (const struct pending_call *p = up->first; p; p = p->next) {
		send_call(up, p);
		if (p->cancelled)
			send_cancel(up, p);
	}
}

void hvd_upstream_calls_free(struct hvd_upstream *up)
{
	while (up->first)
		remove_call(up, up->first);
	hvd_hash_table_free(&up->calls);
}
