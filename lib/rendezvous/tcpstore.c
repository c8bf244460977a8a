/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All TCPStore connections of a server.
 */
#include "tcpstore.h"

#include "downstream.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

struct hvd_tcpstore *hvd_tcpstore_create(struct hvd_rv *rv)
{
	struct hvd_tcpstore *ts = hvd_xcalloc(1, sizeof(*ts));

	ts->rv = rv;
	TAILQ_INIT(&ts->conns);
	return ts;
}

void hvd_tcpstore_destroy(struct hvd_tcpstore *ts)
{
	free(ts);
}

bool hvd_tcpstore_speaks(char first)
{
	return first == HVD_TCPSTORE_FIRST_BYTE || first == HVD_TCPSTORE_OLD_FIRST_BYTE;
}

/* --- for the server's owner --- */

void hvd_rv_tcpstore_reset(struct hvd_rv *rv)
{
	if (!rv->tcpstore)
		return;
	hvd_downstream_renew(rv->downstream); /* its processes leave their epochs */
	/* A connection that is in no epoch yet is of the new ranks: the old ones' are closed first. */
	for (struct hvd_rv_stream *s = TAILQ_FIRST(&rv->tcpstore->conns), *next; s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (hvd_tcpstore_conn_of(s)->client.scope)
			hvd_tcpstore_close(hvd_tcpstore_conn_of(s), HVD_LOG_DEBUG, NULL);
	}
	hvd_tcpstore_closed_leave(rv->tcpstore);
	hvd_store_renew(&rv->store_api);
}

/* The first key that a connection waits for; it waits for one. */
static struct hvd_slice waits_for(const struct hvd_tcpstore_conn *c)
{
	if (c->barrier_key)
		return (struct hvd_slice){c->barrier_key, strlen(c->barrier_key)};
	if (c->wait.waiter.key)
		return hvd_rv_waiter_key(&c->wait.waiter);
	for (const struct hvd_tcpstore_waits *ws = c->more; ws; ws = ws->next)
		for (size_t i = 0; i < ws->n; i++)
			if (ws->waits[i].waiter.key)
				return hvd_rv_waiter_key(&ws->waits[i].waiter);
	return (struct hvd_slice){"", 0};
}

char *hvd_rv_tcpstore_waits(const struct hvd_rv *rv, size_t max)
{
	struct hvd_rv_stream *s = rv->tcpstore ? TAILQ_LAST(&rv->tcpstore->conns, hvd_rv_streams) : NULL;
	char *text = NULL;

	for (; s && max > 0; s = TAILQ_PREV(s, hvd_rv_streams, link)) {
		const struct hvd_tcpstore_conn *c = hvd_tcpstore_conn_of(s);
		char addr[HVD_ADDR_TEXT], pid[32] = "";
		struct hvd_slice key;

		if (c->awaited == 0 && !c->barrier_key)
			continue;
		key = waits_for(c);
		if (key.n > 0 && key.p[0] == '/') { /* the client's TCPStore puts it in front of all keys */
			key.p++;
			key.n--;
		}
		if (c->pid)
			snprintf(pid, sizeof(pid), " (pid %u)", (unsigned)c->pid);
		hvd_xappendf(&text, "%s%s%s waits for %.*s", text ? "\n" : "",
			     hvd_addr_text(hvd_tcpstore_addr(c), addr), pid, key.n > 200 ? 200 : (int)key.n, key.p);
		if (c->awaited > 1)
			hvd_xappendf(&text, " and %zu more", c->awaited - 1);
		max--;
	}
	return text;
}

void hvd_rv_tcpstore_ask_waits(struct hvd_rv *rv, size_t max, void (*done)(char *text, void *arg), void *arg)
{
	hvd_downstream_ask_waits(rv->downstream, hvd_rv_tcpstore_waits(rv, max), (unsigned)max, done, arg);
}
