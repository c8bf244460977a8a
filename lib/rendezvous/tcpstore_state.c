/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a TCPStore connection: its owner, its output, what it waits for (keys, or other processes at a BARRIER), and
 * its end. The answers to one read() collect in ts->out, and go out together.
 */
#include "tcpstore.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

#define OUT_HIGH  (1 << 20) /* bytes of answers that are not sent, with which no request is begun */
#define COPY_MAX  4096      /* a value that is longer is sent from where it is stored */
#define OUT_STALL 300.0     /* seconds without progress in the middle of an answer */

struct hvd_rv_budget *hvd_tcpstore_budget(const struct hvd_tcpstore_conn *c)
{
	return hvd_rv_store_budget(c->ts->rv->store);
}

/* Is it a relay's client of the relay's own host? */
static bool at_relay(const struct hvd_tcpstore_conn *c)
{
	return c->ts->rv->cfg.relay_addr.family && hvd_addr_loopback(&c->s.entry.peer->addr);
}

const struct hvd_addr *hvd_tcpstore_addr(const struct hvd_tcpstore_conn *c)
{
	const struct hvd_rv *rv = c->ts->rv;

	return at_relay(c) ? &rv->cfg.relay_addr : &c->s.entry.peer->addr;
}

/* --- output --- */

bool hvd_tcpstore_may_ask(const struct hvd_tcpstore_conn *c)
{
	return !c->asks && (c->wire.in_list || c->s.out_left <= OUT_HIGH);
}

void hvd_tcpstore_expect_output(struct hvd_tcpstore_conn *c)
{
	if (c->s.closed || !c->s.first_out)
		return;
	hvd_rv_arm(c->ts->rv, &c->s.timer, hvd_deadline_in(OUT_STALL));
	hvd_rv_stream_watch(&c->s, hvd_tcpstore_may_ask(c) ? EV_READ | EV_WRITE : EV_WRITE);
}

void hvd_tcpstore_send_current(struct hvd_tcpstore_conn *c, struct hvd_rv_value *v)
{
	size_t len = c->ts->out_len;

	c->ts->out_len = 0;
	hvd_rv_stream_send(&c->s, c->ts->out, len, v, 0);
}

void hvd_tcpstore_send(struct hvd_tcpstore_conn *c, const void *data, size_t len)
{
	struct hvd_tcpstore *ts = c->ts;

	if (!c->s.closed && !c->s.first_out && c == ts->current && len > sizeof(ts->out) - ts->out_len)
		hvd_tcpstore_send_current(c, NULL);
	if (c->s.closed || len == 0)
		return;
	if (!c->s.first_out && c == ts->current && len <= sizeof(ts->out)) {
		memcpy(ts->out + ts->out_len, data, len);
		ts->out_len += len;
		return;
	}
	hvd_rv_stream_send(&c->s, data, len, NULL, 0);
	if (c != ts->current)
		hvd_tcpstore_expect_output(c);
}

void hvd_tcpstore_send_value(struct hvd_tcpstore_conn *c, struct hvd_rv_value *v)
{
	char len[8];

	hvd_tcpstore_put_u64(&c->wire, v->len, len);
	hvd_tcpstore_send(c, len, sizeof(len));
	if (c->s.closed)
		return;
	if (v->len <= COPY_MAX)
		hvd_tcpstore_send(c, v->data, v->len);
	else
		hvd_tcpstore_send_current(c, v); /* values are sent to nobody else */
}

/* --- waits --- */

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
	struct hvd_tcpstore_wait *w;

	hvd_tcpstore_end_barrier(c);
	while ((w = STAILQ_FIRST(&c->waits))) {
		STAILQ_REMOVE_HEAD(&c->waits, link);
		hvd_rv_unwait(&w->waiter);
		hvd_rv_refund(hvd_tcpstore_budget(c), sizeof(*w));
		free(w);
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

enum hvd_rv_stored hvd_tcpstore_wait(struct hvd_tcpstore_conn *c, struct hvd_slice key)
{
	struct hvd_tcpstore_wait *w;
	enum hvd_rv_stored why;

	if (!hvd_rv_charge(hvd_tcpstore_budget(c), sizeof(*w)))
		return HVD_RV_NO_ROOM;
	w = hvd_xcalloc(1, sizeof(*w));
	w->conn = c;
	w->waiter.wake = woken;
	STAILQ_INSERT_TAIL(&c->waits, w, link);
	why = hvd_rv_scope_wait(c->client.scope, key, &w->waiter);
	if (why == HVD_RV_STORED)
		c->awaited++;
	return why;
}

/* --- the end --- */

static void log_closed(const struct hvd_tcpstore_conn *c, enum hvd_log_level level, const char *why)
{
	char addr[HVD_ADDR_TEXT];

	hvd_addr_text(hvd_tcpstore_addr(c), addr);
	if (c->pid)
		hvd_log(c->ts->rv->log, level, "closed the TCPStore connection of process %u at %s: %s",
			(unsigned)c->pid, addr, why);
	else
		hvd_log(c->ts->rv->log, level, "closed a TCPStore connection from %s: %s", addr, why);
}

void hvd_tcpstore_refund_input(struct hvd_tcpstore_conn *c)
{
	c->s.entry.peer->pending -= c->s.in_room;
	hvd_rv_refund(hvd_tcpstore_budget(c), c->s.in_room);
}

/* It asks for nothing any longer, and has left the store. */
static void depart(struct hvd_tcpstore_conn *c)
{
	hvd_store_lookup_end(&c->lookup);
	if (c->asks)
		hvd_store_abandon(&c->ts->rv->store_api, &c->call);
	hvd_store_depart(&c->ts->rv->store_api, &c->client);
	c->asks = false;
}

void hvd_tcpstore_close(struct hvd_tcpstore_conn *c, enum hvd_log_level level, const char *why)
{
	struct hvd_rv *rv = c->ts->rv;

	if (c->s.closed)
		return;
	if (why)
		log_closed(c, level, why);
	/* The answers to what it asked before: a part of them is as good as none. */
	if (c == c->ts->current && c->ts->out_len > 0) {
		ssize_t sent = send(c->s.fd, c->ts->out, c->ts->out_len, MSG_NOSIGNAL | MSG_DONTWAIT);

		rv->stats.bytes_out += sent > 0 ? (uint64_t)sent : 0;
		c->ts->out_len = 0;
	}
	hvd_tcpstore_refund_input(c);
	hvd_rv_stream_close(&c->s);
	rv->stats.tcpstore_now--;
	hvd_tcpstore_unwait(c);
	depart(c);
}
