/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What waits to be sent to a child. Not more is encoded than its connection takes.
 */
#include "downstream_internal.h"

#include "lib/base/xalloc.h"
#include "lib/protocol/conn.h"

#include <assert.h>
#include <stdlib.h>

#define HIGH (512 << 10) /* bytes with which a connection has enough to send */

/* An answer that came from the parent. */
struct passed {
	struct item item;
	uint32_t origin;
	uint64_t call;
	struct hvd_store_result result;
};

void hvd_down_wake(struct hvd_downstream *down)
{
	event_active(down->flush, EV_TIMEOUT, 1);
}

void hvd_down_queue(struct hvd_rv_child *child, struct item *item, enum item_kind kind, struct item *before)
{
	assert(!item->child && (!before || before->child == child)); /* I8 of COHERENCE.md */
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
		hvd_down_wake(child->down);
}

void hvd_down_unqueue(struct item *item)
{
	struct hvd_rv_child *child = item->child;

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

static void send_passed(struct hvd_rv_child *child, struct passed *p)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_ANSWER, .origin = p->origin, .call = p->call};

	msg.result = p->result;
	hvd_relay_send(child->conn, &msg);
	free_passed(p);
}

void hvd_down_pass(struct hvd_rv_child *child, const struct hvd_relay_msg *msg)
{
	struct passed *p = hvd_xcalloc(1, sizeof(*p));

	p->origin = msg->origin;
	p->call = msg->call;
	p->result = msg->result;
	if (p->result.value)
		hvd_rv_value_ref(p->result.value);
	hvd_down_queue(child, &p->item, ITEM_PASS, NULL);
}

static void send_item(struct hvd_rv_child *child, struct item *item)
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

size_t hvd_down_flush(struct hvd_rv_child *child, size_t most)
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

void hvd_down_drop_items(struct hvd_rv_child *child)
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
