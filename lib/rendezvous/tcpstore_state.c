/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner of a TCPStore connection, and its end.
 */
#include "tcpstore.h"

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
