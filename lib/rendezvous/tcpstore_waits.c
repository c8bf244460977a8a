/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The waits of a connection: for keys, or for the other processes at a BARRIER.
 */
#include "tcpstore.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>

#define WAITS_FIRST 16 /* waits for which there is memory at first, besides the one in the connection */
#define WAITS_MOST  1024

void hvd_tcpstore_end_barrier(struct hvd_tcpstore_conn *c)
{
	if (!c->barrier_key)
		return;
	hvd_store_abandon(&c->ts->rv->store_api, &c->barrier);
	free(c->barrier_key);
	c->barrier_key = NULL;
}

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
	hvd_tcpstore_unwait(c);      /* for the memory: none of them waits any longer */
	hvd_tcpstore_send(c, "", 1); /* a byte 0 */
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

enum hvd_rv_stored hvd_tcpstore_wait(struct hvd_tcpstore_conn *c, struct hvd_slice key)
{
	struct hvd_tcpstore_wait *w = new_wait(c);
	enum hvd_rv_stored why;

	if (!w)
		return HVD_RV_NO_ROOM;
	w->conn = c;
	w->waiter.wake = woken;
	why = hvd_rv_scope_wait(c->client.scope, key, &w->waiter);
	if (why == HVD_RV_STORED)
		c->awaited++;
	return why;
}
