/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The items that are queued for a child. No more is encoded than its connection takes.
 */
#include "downstream.h"

#include "lib/base/xalloc.h"
#include "lib/protocol/conn.h"

#include <assert.h>
#include <stdlib.h>

#define HIGH (512 << 10) /* bytes with which a connection has enough to send */

/* A whole message. */
struct passed {
	struct item item;
	struct hvd_relay_msg msg;
};

void hvd_down_wake(struct hvd_downstream *down)
{
	hvd_timer_soon(down->flush);
}

void hvd_down_queue(struct hvd_rv_child *child, struct item *item, struct item *before)
{
	assert(!item->child && (!before || before->child == child)); /* I8 of COHERENCE.md */
	item->child = child;
	if (before)
		TAILQ_INSERT_BEFORE(before, item, link);
	else
		TAILQ_INSERT_TAIL(&child->items, item, link);
	if (!child->full)
		hvd_down_wake(child->down);
}

void hvd_down_unqueue(struct item *item)
{
	if (!item->child)
		return;
	TAILQ_REMOVE(&item->child->items, item, link);
	item->child = NULL;
}

static void drop_passed(struct item *item)
{
	struct passed *p = (struct passed *)item;

	hvd_relay_msg_clear(&p->msg);
	free(p);
}

void hvd_down_send(const struct hvd_rv_child *child, const struct hvd_relay_msg *msg)
{
	hvd_relay_send(child->conn, child->down->rv->cfg.channel, msg);
}

static void send_passed(struct hvd_rv_child *child, struct item *item)
{
	hvd_down_send(child, &((const struct passed *)item)->msg);
	drop_passed(item);
}

void hvd_down_pass(struct hvd_rv_child *child, const struct hvd_relay_msg *msg)
{
	struct passed *p = hvd_xcalloc(1, sizeof(*p));

	*p = (struct passed){.item = {.send = send_passed, .drop = drop_passed}, .msg = *msg};
	if (p->msg.result.value)
		hvd_rv_value_ref(p->msg.result.value);
	hvd_down_queue(child, &p->item, NULL);
}

size_t hvd_down_flush(struct hvd_rv_child *child, size_t most)
{
	size_t queued = hvd_conn_queued(child->conn), sent = 0;

	while (!TAILQ_EMPTY(&child->items) && queued < HIGH && sent < most) {
		struct item *item = TAILQ_FIRST(&child->items);
		size_t now;

		hvd_down_unqueue(item);
		item->send(child, item);
		now = hvd_conn_queued(child->conn);
		sent += now - queued;
		queued = now;
	}
	child->full = queued >= HIGH;
	return sent;
}

void hvd_down_drop_items(struct hvd_rv_child *child)
{
	while (!TAILQ_EMPTY(&child->items)) {
		struct item *item = TAILQ_FIRST(&child->items);

		hvd_down_unqueue(item);
		if (item->drop)
			item->drop(item);
	}
}
