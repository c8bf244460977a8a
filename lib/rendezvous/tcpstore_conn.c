/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TCPStore connections of a server: reading, deadlines, and what all of them wait for.
 *
 * A request costs a read() and a send(): the event stays registered, small requests are parsed in the buffer of the
 * read(), and the answers to all requests of one read() go out together. Memory is taken in two cases. If an item
 * arrives in pieces, at most twice as much is taken as has arrived. If the socket does not take the answers, they are
 * kept, and no further request is begun. A request that has begun is read to its end, however, because the client reads
 * no answer before it has sent the request.
 *
 * A closed connection keeps its epoch until it is freed (stream.h): callers further up the stack may be working on the
 * epoch's keys.
 */
#include "tcpstore.h"

#include "downstream.h"
#include "lib/base/xalloc.h"
#include "wait_line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BUDGET (256 << 10) /* bytes of one connection per wake-up */
#define IN_FIRST    4096        /* bytes of memory for an item in pieces at first */
#define OUT_MAX     (64 << 20)  /* bytes of memory for answers, without the values */
#define IN_STALL    120.0       /* seconds without progress in the middle of a request */

/* --- the end --- */

static void on_close(struct hvd_rv_stream *s, enum hvd_log_level level, const char *why)
{
	hvd_tcpstore_close(hvd_tcpstore_conn_of(s), level, why);
}

static void free_conn(struct hvd_rv_stream *s)
{
	struct hvd_tcpstore_conn *c = hvd_tcpstore_conn_of(s);

	hvd_store_leave(&s->rv->store_api, &c->client);
	free(c);
}

/* --- input --- */

/* Make room for more of an item, of which this much has come. False when the connection was closed. */
static bool grow_input(struct hvd_tcpstore_conn *c, size_t len)
{
	struct hvd_rv *rv = c->ts->rv;
	size_t room = 2 * len > IN_FIRST ? 2 * len : IN_FIRST;

	/* Take what the item needs, but at most twice as much as has arrived. */
	if (room > c->in_need && c->in_need > len)
		room = c->in_need > IN_FIRST ? c->in_need : IN_FIRST;
	if (c->s.entry.peer->pending - c->s.in_room + room > rv->cfg.pending_max ||
	    !hvd_rv_charge(hvd_tcpstore_budget(c), room - c->s.in_room)) {
		hvd_tcpstore_close(c, HVD_LOG_WARN, "the store has no room left for what it is sending");
		return false;
	}
	c->s.entry.peer->pending += room - c->s.in_room;
	hvd_rv_stream_make_room(&c->s, room);
	return true;
}

/* Keep the input that is left over. `data` may be a part of the input itself. */
static void stash(struct hvd_tcpstore_conn *c, const char *data, size_t len)
{
	if (len == 0)
		hvd_tcpstore_refund_input(c);
	while (c->s.in_room < len)
		if (!grow_input(c, c->s.in_room))
			return;
	hvd_rv_stream_keep(&c->s, data, len);
}

/* Handle the items at the front of the input. Returns how many bytes they took. */
static size_t consume(struct hvd_tcpstore_conn *c, const char *data, size_t len)
{
	size_t used = 0;

	while (used < len && !c->s.closed && hvd_tcpstore_may_ask(c)) {
		struct hvd_tcpstore_wire before = c->wire;
		struct hvd_tcpstore_item item;
		const char *why;
		size_t n;

		switch (hvd_tcpstore_parse(&c->wire, data + used, len - used, &n, &c->in_need, &item, &why)) {
		case HVD_TCPSTORE_MORE:
			return used;
		case HVD_TCPSTORE_BAD:
			hvd_tcpstore_close(c, HVD_LOG_VERBOSE, why);
			return len;
		case HVD_TCPSTORE_ITEM:
			if (!hvd_tcpstore_item(c, &item)) { /* it comes again */
				hvd_tcpstore_look_ahead(c, &item, data + used + n, len - used - n);
				c->wire = before;
				return used;
			}
			c->ts->rv->stats.tcpstore_requests += item.first;
			used += n;
			break;
		}
	}
	return used;
}

static void consume_and_stash(struct hvd_tcpstore_conn *c, const char *data, size_t len)
{
	size_t used = consume(c, data, len);

	if (!c->s.closed && (used < len || c->s.in))
		stash(c, data + used, len - used);
}

/* Send the answers, and wait for what comes next. */
static void finish(struct hvd_tcpstore_conn *c)
{
	struct hvd_rv *rv = c->ts->rv;

	if (!c->s.closed && c->ts->out_len > 0)
		hvd_tcpstore_send_current(c, NULL);
	c->ts->out_len = 0;
	c->ts->current = NULL;
	if (c->s.closed)
		return;
	if (c->s.first_out) {
		hvd_tcpstore_expect_output(c);
		return;
	}
	if (c->asks) { /* what it waits for has a deadline of its own */
		hvd_rv_stream_watch(&c->s, 0);
		hvd_rv_timer_wheel_remove(&rv->wheel, &c->s.timer);
		return;
	}
	hvd_rv_stream_watch(&c->s, EV_READ);
	if (!c->wire.validated) {
		if (!c->s.timer.next)
			hvd_rv_arm(rv, &c->s.timer, hvd_deadline_in(rv->cfg.head_time));
	} else if (c->s.in || c->wire.in_list) {
		hvd_rv_arm(rv, &c->s.timer, hvd_deadline_in(IN_STALL));
	} else {
		hvd_rv_timer_wheel_remove(&rv->wheel, &c->s.timer);
	}
}

static void input(struct hvd_tcpstore_conn *c)
{
	struct hvd_tcpstore *ts = c->ts;
	size_t budget = READ_BUDGET;

	if (c->s.in_len > 0) /* it was left because the socket did not take the answers */
		consume_and_stash(c, c->s.in, c->s.in_len);
	while (budget > 0 && !c->s.closed && hvd_tcpstore_may_ask(c)) {
		char *into = ts->rv->scratch;
		size_t room = sizeof(ts->rv->scratch);
		ssize_t n;

		if (c->s.in) {
			if (c->s.in_len == c->s.in_room && !grow_input(c, c->s.in_len))
				return;
			into = c->s.in + c->s.in_len;
			room = c->s.in_room - c->s.in_len;
		}
		n = hvd_rv_stream_read(&c->s, into, room);
		if (n == 0)
			hvd_tcpstore_close(c, HVD_LOG_DEBUG, "the client has closed it");
		if (n <= 0)
			return;
		budget -= (size_t)n < budget ? (size_t)n : budget;
		if (into == ts->rv->scratch)
			consume_and_stash(c, into, (size_t)n);
		else
			consume_and_stash(c, c->s.in, c->s.in_len += (size_t)n);
		if ((size_t)n < room)
			return; /* no more is there */
	}
}

static void on_ready(struct hvd_rv_stream *s, short events)
{
	struct hvd_tcpstore_conn *c = hvd_tcpstore_conn_of(s);

	if (events & EV_WRITE)
		hvd_rv_stream_flush(&c->s, 0);
	c->ts->current = c;
	if (!c->s.closed)
		input(c);
	finish(c);
}

static void on_due(struct hvd_rv_stream *s)
{
	struct hvd_tcpstore_conn *c = hvd_tcpstore_conn_of(s);

	c->ts->rv->stats.timeouts++;
	if (c->s.first_out)
		hvd_tcpstore_close(c, HVD_LOG_WARN, "it did not read its answers for too long");
	else
		hvd_tcpstore_close(c, HVD_LOG_VERBOSE, "the rest of its request did not arrive");
}

static const struct hvd_rv_stream_ops ops = {
	.ready = on_ready, .due = on_due, .close = on_close, .free = free_conn, .out_max = OUT_MAX};

/* A client of PyTorch before 2.2. Users are told once of each address. */
static void refuse_old(struct hvd_tcpstore_conn *c)
{
	struct hvd_tcpstore *ts = c->ts;
	const struct hvd_addr *addr = hvd_tcpstore_addr(c);
	char text[HVD_ADDR_TEXT];
	size_t i = 0;

	ts->rv->stats.tcpstore_old++;
	while (i < ts->n_old && !hvd_addr_equal(&ts->old[i], addr))
		i++;
	if (i == ts->n_old && i < sizeof(ts->old) / sizeof(ts->old[0])) {
		ts->old[ts->n_old++] = *addr;
		hvd_warn(ts->rv->log,
			 "a process at %s uses PyTorch older than 2.2, which cannot use this store; start the job with "
			 "--store=rank0 (srun --hvd: --hvd-store=rank0)",
			 hvd_addr_text(addr, text));
	}
	hvd_tcpstore_close(c, HVD_LOG_DEBUG, NULL);
}

void hvd_tcpstore_take(struct hvd_tcpstore *ts, int fd, const struct hvd_addr *peer, const char *data, size_t len)
{
	struct hvd_tcpstore_conn *c = hvd_xcalloc(1, sizeof(*c));
	struct hvd_rv_stats *stats = &ts->rv->stats;

	c->ts = ts;
	STAILQ_INIT(&c->waits);
	hvd_rv_stream_open(&c->s, ts->rv, &ops, fd, peer, &ts->conns);
	if (++stats->tcpstore_now > stats->tcpstore_peak)
		stats->tcpstore_peak = stats->tcpstore_now;
	if (data[0] == HVD_TCPSTORE_OLD_FIRST_BYTE) {
		refuse_old(c);
		return;
	}
	if (hvd_store_is_lost(&ts->rv->store_api)) {
		hvd_tcpstore_close(c, HVD_LOG_VERBOSE, "the rendezvous cannot be reached any longer");
		return;
	}
	ts->current = c;
	consume_and_stash(c, data, len);
	finish(c);
}

/* --- all connections --- */

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

/* Closed connections that are not freed yet no longer use an epoch. */
static void closed_leave(struct hvd_tcpstore *ts)
{
	struct hvd_rv_stream *s;

	TAILQ_FOREACH(s, &ts->rv->closed, link)
	if (s->ops == &ops)
		hvd_store_leave(&ts->rv->store_api, &hvd_tcpstore_conn_of(s)->client);
}

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
	closed_leave(rv->tcpstore);
	hvd_store_renew(&rv->store_api);
}

/* The first key that a connection waits for; it waits for one. */
static struct hvd_slice waits_for(const struct hvd_tcpstore_conn *c)
{
	if (c->barrier_key)
		return (struct hvd_slice){c->barrier_key, strlen(c->barrier_key)};
	for (const struct hvd_tcpstore_wait *w = STAILQ_FIRST(&c->waits); w; w = STAILQ_NEXT(w, link))
		if (w->waiter.key)
			return hvd_rv_waiter_key(&w->waiter);
	return (struct hvd_slice){"", 0};
}

char *hvd_rv_tcpstore_waits(const struct hvd_rv *rv, size_t max)
{
	struct hvd_rv_stream *s = rv->tcpstore ? TAILQ_LAST(&rv->tcpstore->conns, hvd_rv_streams) : NULL;
	char *text = NULL;

	for (; s && max > 0; s = TAILQ_PREV(s, hvd_rv_streams, link)) {
		const struct hvd_tcpstore_conn *c = hvd_tcpstore_conn_of(s);
		struct hvd_slice key;

		if (c->awaited == 0 && !c->barrier_key)
			continue;
		key = waits_for(c);
		if (key.n > 0 && key.p[0] == '/') { /* the client's TCPStore puts it in front of all keys */
			key.p++;
			key.n--;
		}
		hvd_wait_line_add(&text, hvd_tcpstore_addr(c), c->pid, key, c->awaited > 1 ? c->awaited - 1 : 0);
		max--;
	}
	return text;
}

void hvd_rv_tcpstore_ask_waits(struct hvd_rv *rv, size_t max, hvd_rv_waits_fn *done, void *arg)
{
	hvd_downstream_ask_waits(rv->downstream, hvd_rv_tcpstore_waits(rv, max), (unsigned)max, done, arg);
}
