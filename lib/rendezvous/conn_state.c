/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of an HTTP connection: its answer, what happens to it after the answer, and its end.
 */
#include "internal.h"

#include <sys/socket.h>

#define DRAIN_TIME  2.0
#define WRITE_STALL 10.0
#define EXAMINED    64       /* connections that are examined, when one of a certain address is wanted */
#define SLOWEST     131072.0 /* bytes a second: the average rate that a body must have after SLOW_GRACE */
#define SLOW_GRACE  30.0     /* seconds */

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

/* Nobody waits any longer for the answer to the connection's request of the store. */
static void abandon(struct conn *c)
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
	abandon(c);
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

/* --- answers --- */

/* The answer is sent: close the connection, or wait for the next request. */
static void answered(struct conn *c)
{
	if (!c->close_after) {
		c->has_asked = true;
		hvd_rv_conn_state(c, CONN_HEAD);
		return;
	}
	/* When input has not been read, close() sends a reset, and a client that has not read the answer yet loses it.
	 * So shut the connection for writing, and read until the client closes it. */
	if (!c->drain_after && c->s.in_len == 0) {
		hvd_rv_conn_close(c);
		return;
	}
	shutdown(c->s.fd, SHUT_WR);
	hvd_rv_conn_state(c, CONN_DRAIN);
	c->limit = hvd_deadline_in(DRAIN_TIME);
	hvd_rv_conn_progress(c, DRAIN_TIME);
	hvd_rv_stream_watch(&c->s, EV_READ);
}

/* With MSG_MORE the kernel keeps the answer until close(), and sends both in one segment. */
static int flags(const struct conn *c)
{
	return c->close_after ? MSG_MORE : 0;
}

/* The socket has taken what it takes now. */
static void sent(struct conn *c)
{
	if (c->state == CONN_DEAD)
		return;
	if (!c->s.first_out) {
		answered(c);
		return;
	}
	hvd_rv_conn_progress(c, WRITE_STALL);
	hvd_rv_stream_watch(&c->s, EV_WRITE);
}

void hvd_rv_conn_flush(struct conn *c)
{
	hvd_rv_stream_flush(&c->s, flags(c));
	sent(c);
}

static void count_answer(struct hvd_rv_stats *s, int status)
{
	if (status == 200) {
		s->ok++;
		return;
	}
	if (status == 404) {
		s->not_found++;
		return;
	}
	s->errors++;
	if (status == 413)
		s->refused_size++;
	else if (status == 507)
		s->refused_room++;
	else if (status == 408)
		s->timeouts++;
	else if (status < 500 || status == 501 || status == 505)
		s->refused_malformed++;
}

void hvd_rv_conn_send(struct conn *c, int status, struct hvd_rv_value *value)
{
	enum hvd_http_after after = HVD_HTTP_AFTER_KEEP;
	char head[HVD_HTTP_HEAD_ROOM];

	count_answer(&c->s.rv->stats, status);
	if (c->s.rv->stopping)
		c->close_after = true;
	if (c->close_after)
		after = HVD_HTTP_AFTER_CLOSE;
	else if (c->http10)
		after = HVD_HTTP_AFTER_KEEP_10;
	hvd_rv_value_unref(c->value);
	c->value = NULL;
	hvd_rv_stream_send(&c->s, head, hvd_http_head(head, status, value ? value->len : 0, after),
			   c->body_follows ? value : NULL, flags(c));
	if (c->s.first_out) {
		hvd_rv_conn_state(c, CONN_WRITE);
		c->limit = hvd_rv_body_limit(c->body_follows && value ? value->len : 0);
	}
	sent(c);
	/* Requests that came meanwhile are handled by a new callback: a call from here could nest once for each waiting
	 * connection. */
	if (c->state == CONN_HEAD) {
		if (c->s.in_len > 0 && c->s.watching)
			event_active(&c->s.ev, EV_READ, 1);
		hvd_rv_conn_progress(c, c->s.rv->cfg.idle);
	}
}

void hvd_rv_conn_refuse(struct conn *c, int status)
{
	c->close_after = c->drain_after = true;
	c->body_follows = false;
	hvd_rv_conn_send(c, status, NULL);
}

void hvd_rv_conn_release(struct conn *c, bool close_after)
{
	c->close_after |= close_after;
	if (c->state == CONN_WAITING) {
		hvd_rv_store_unwait(c->s.rv->store, &c->waiter);
		hvd_rv_conn_send(c, 404, NULL);
	} else if (c->state == CONN_TAKEN) {
		bool may_wait = c->lookup.key && c->s.rv->stopping; /* a GET, as far as is known */

		c->hooked = false;
		hvd_rv_conn_send(c, may_wait ? 404 : 503, NULL);
		abandon(c);
	}
}
