/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of an HTTP connection, and its end.
 */
#include "internal.h"

#define EXAMINED   64       /* connections that are examined, when one of a certain address is wanted */
#define SLOWEST    131072.0 /* bytes a second: the average rate that a body must have after SLOW_GRACE */
#define SLOW_GRACE 30.0     /* seconds */

void hvd_rv_conn_state(struct conn *c, enum conn_state state)
{
	struct hvd_rv *rv = c->s.rv;

	if (c->state == CONN_BODY) {
		c->s.entry.peer->pending -= c->pending;
		c->pending = 0;
	}
	rv->stats.waiting_now -= c->state == CONN_WAITING;
	rv->stats.waiting_now += state == CONN_WAITING;
	c->state = state;
	hvd_rv_stream_move(&c->s, &rv->lists[state]);
	hvd_rv_timer_wheel_remove(&rv->wheel, &c->s.timer);
	if (rv->stats.waiting_now > rv->stats.waiting_peak)
		rv->stats.waiting_peak = rv->stats.waiting_now;
}

void hvd_rv_conn_progress(struct conn *c, double stall)
{
	hvd_rv_arm(c->s.rv, &c->s.timer, hvd_earlier(c->limit, hvd_deadline_in(stall)));
}

hvd_time hvd_rv_body_limit(size_t len)
{
	return hvd_deadline_in(SLOW_GRACE + (double)len / SLOWEST);
}

void hvd_rv_conn_abandon(struct conn *c)
{
	hvd_store_lookup_end(&c->lookup);
	hvd_store_abandon(&c->s.rv->store_api, &c->call);
}

void hvd_rv_conn_close(struct conn *c)
{
	if (c->state == CONN_DEAD)
		return;
	hvd_rv_store_unwait(c->s.rv->store, &c->waiter);
	hvd_rv_owners_forget(&c->asked);
	hvd_rv_conn_state(c, CONN_DEAD);
	hvd_rv_stream_close(&c->s);
	hvd_rv_conn_abandon(c);
}

struct conn *hvd_rv_oldest_of_most(const struct hvd_rv *rv, enum conn_state state)
{
	const struct hvd_peer_entry *busiest = hvd_peer_table_busiest(rv->peers);
	struct hvd_rv_stream *s = busiest ? TAILQ_FIRST(&rv->lists[state]) : NULL;

	/* The address has most connections, so one of them is not far. */
	for (int i = 0; s && i < EXAMINED; i++, s = TAILQ_NEXT(s, link))
		if (s->entry.peer == busiest->peer)
			return conn_of(s);
	return NULL;
}
