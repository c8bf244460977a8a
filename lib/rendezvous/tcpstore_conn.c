/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TCPStore connection: reading, deadlines, the end.
 *
 * A request costs a read() and a send(): the event stays registered, small requests are parsed where they were read to,
 * and the answers to all requests of one read() go out together. Memory is taken when an item comes in pieces, as much
 * as has arrived and twice that at most; and when the socket does not take the answers. Then no further request is
 * begun. A request that has begun is read to its end, however, because the client reads no answer before it has sent
 * the request.
 *
 * A closed connection goes to the list of the dead, and is freed at the top of a later callback: no caller further up
 * the stack has a pointer to freed memory. Until then it keeps its generation, whose keys they may be working on.
 */
#include "tcpstore.h"

#include "lib/base/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BUDGET (256 << 10) /* bytes of one connection per wake-up */
#define IN_FIRST    4096        /* bytes of memory for an item in pieces at first */
#define IN_STALL    120.0       /* seconds without progress in the middle of a request */

static void on_event(evutil_socket_t fd, short what, void *arg);

struct hvd_rv_budget *hvd_tcpstore_budget(const struct hvd_tcpstore_conn *c)
{
	return hvd_rv_store_budget(c->ts->rv->store);
}

void hvd_tcpstore_watch(struct hvd_tcpstore_conn *c, short events)
{
	if (c->watching == events)
		return;
	if (c->watching)
		event_del(&c->ev);
	c->watching = events;
	if (!events)
		return;
	event_assign(&c->ev, c->ts->rv->base, c->fd, (short)(events | EV_PERSIST), on_event, c);
	event_add(&c->ev, NULL);
}

bool hvd_tcpstore_at_relay(const struct hvd_tcpstore_conn *c)
{
	return c->ts->rv->cfg.relay_addr.family && hvd_addr_loopback(&c->entry.peer->addr);
}

const struct hvd_addr *hvd_tcpstore_addr(const struct hvd_tcpstore_conn *c)
{
	const struct hvd_rv *rv = c->ts->rv;

	return hvd_tcpstore_at_relay(c) ? &rv->cfg.relay_addr : &c->entry.peer->addr;
}

/* --- the end --- */

static void unlink_conn(struct hvd_tcpstore_conn *c)
{
	if (c->prev)
		c->prev->next = c->next;
	else
		c->ts->conns = c->next;
	if (c->next)
		c->next->prev = c->prev;
}

static void tell(const struct hvd_tcpstore_conn *c, enum hvd_log_level level, const char *why)
{
	char addr[HVD_ADDR_TEXT];

	hvd_addr_text(hvd_tcpstore_addr(c), addr);
	if (c->pid)
		hvd_log(c->ts->rv->log, level, "closed the TCPStore connection of process %u at %s: %s",
			(unsigned)c->pid, addr, why);
	else
		hvd_log(c->ts->rv->log, level, "closed a TCPStore connection from %s: %s", addr, why);
}

static void free_input(struct hvd_tcpstore_conn *c)
{
	if (!c->in)
		return;
	c->entry.peer->pending -= c->in_room;
	hvd_rv_refund(hvd_tcpstore_budget(c), c->in_room);
	free(c->in);
	c->in = NULL;
	c->in_len = c->in_room = 0;
}

void hvd_tcpstore_close(struct hvd_tcpstore_conn *c, enum hvd_log_level level, const char *why)
{
	struct hvd_rv *rv = c->ts->rv;

	if (c->dead)
		return;
	if (why)
		tell(c, level, why);
	c->dead = true;
	/* The answers to what it asked before: a part of them is as good as none. */
	if (c == c->ts->current && c->ts->out_len > 0) {
		ssize_t sent = send(c->fd, c->ts->out, c->ts->out_len, MSG_NOSIGNAL | MSG_DONTWAIT);

		rv->stats.bytes_out += sent > 0 ? (uint64_t)sent : 0;
		c->ts->out_len = 0;
	}
	hvd_tcpstore_unwait(c);
	hvd_tcpstore_depart(c);
	hvd_rv_wheel_remove(&rv->wheel, &c->spoke);
	if (c->watching)
		event_del(&c->ev);
	close(c->fd);
	free_input(c);
	hvd_tcpstore_drop_output(c);
	hvd_peer_table_remove(rv->peers, &c->entry);
	rv->stats.conns_now--;
	rv->stats.tcpstore_now--;
	unlink_conn(c);
	c->next = c->ts->dead;
	c->ts->dead = c;
}

void hvd_tcpstore_leave_store(struct hvd_tcpstore_conn *c)
{
	hvd_store_leave(&c->ts->rv->store_api, &c->place);
}

void hvd_tcpstore_reap(struct hvd_tcpstore *ts)
{
	while (ts->dead) {
		struct hvd_tcpstore_conn *c = ts->dead;

		ts->dead = c->next;
		hvd_tcpstore_leave_store(c);
		free(c);
	}
}

/* --- input --- */

/* Make room for more of an item. False when the connection was closed. */
static bool grow_input(struct hvd_tcpstore_conn *c)
{
	struct hvd_rv *rv = c->ts->rv;
	size_t room = 2 * c->in_len > IN_FIRST ? 2 * c->in_len : IN_FIRST;

	if (c->in_len < c->in_room)
		return true;
	/* As much as the item needs, but no more than twice of what has arrived. */
	if (room > c->in_need && c->in_need > c->in_len)
		room = c->in_need > IN_FIRST ? c->in_need : IN_FIRST;
	if (c->entry.peer->pending - c->in_room + room > rv->cfg.pending_max ||
	    !hvd_rv_charge(hvd_tcpstore_budget(c), room - c->in_room)) {
		hvd_tcpstore_close(c, HVD_LOG_WARN, "the store has no room left for what it is sending");
		return false;
	}
	c->entry.peer->pending += room - c->in_room;
	c->in = hvd_xrealloc(c->in, room, 1);
	c->in_room = room;
	return true;
}

/* Keep the input that is left over. `data` may be a part of the buffer itself. */
static void stash(struct hvd_tcpstore_conn *c, const char *data, size_t len)
{
	if (len == 0) {
		free_input(c);
		return;
	}
	if (c->in) {
		if (data != c->in)
			memmove(c->in, data, len);
		c->in_len = len;
		return;
	}
	while (c->in_room < len) {
		c->in_len = c->in_room < len ? c->in_room : len;
		if (!grow_input(c))
			return;
	}
	memcpy(c->in, data, len);
	c->in_len = len;
}

/* Handle the items at the front of the input. Returns how many bytes they took. */
static size_t consume(struct hvd_tcpstore_conn *c, const char *data, size_t len)
{
	size_t used = 0;

	while (used < len && !c->dead && hvd_tcpstore_may_ask(c)) {
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

	if (!c->dead && (used < len || c->in))
		stash(c, data + used, len - used);
}

/* Send the answers, and wait for what comes next. */
static void finish(struct hvd_tcpstore_conn *c)
{
	struct hvd_rv *rv = c->ts->rv;

	if (!c->dead && c->ts->out_len > 0)
		hvd_tcpstore_send_current(c, NULL);
	c->ts->out_len = 0;
	c->ts->current = NULL;
	if (c->dead)
		return;
	if (c->first_out) {
		hvd_tcpstore_expect_output(c);
		return;
	}
	if (c->asks) { /* what it waits for has a deadline of its own */
		hvd_tcpstore_watch(c, 0);
		hvd_rv_wheel_remove(&rv->wheel, &c->spoke);
		return;
	}
	hvd_tcpstore_watch(c, EV_READ);
	if (!c->wire.validated) {
		if (!c->spoke.next)
			hvd_rv_arm(rv, &c->spoke, hvd_deadline_in(rv->cfg.head_time));
	} else if (c->in || c->wire.in_list) {
		hvd_rv_arm(rv, &c->spoke, hvd_deadline_in(IN_STALL));
	} else {
		hvd_rv_wheel_remove(&rv->wheel, &c->spoke);
	}
}

static void input(struct hvd_tcpstore_conn *c)
{
	struct hvd_tcpstore *ts = c->ts;
	size_t budget = READ_BUDGET;

	if (c->in_len > 0) /* it was left because the socket did not take the answers */
		consume_and_stash(c, c->in, c->in_len);
	while (budget > 0 && !c->dead && hvd_tcpstore_may_ask(c)) {
		char *into = ts->rv->scratch;
		size_t room = sizeof(ts->rv->scratch);
		ssize_t n;

		if (c->in) {
			if (!grow_input(c))
				return;
			into = c->in + c->in_len;
			room = c->in_room - c->in_len;
		}
		n = recv(c->fd, into, room, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			hvd_tcpstore_close(c, HVD_LOG_DEBUG, n < 0 ? strerror(errno) : "the client has closed it");
			return;
		}
		ts->rv->stats.bytes_in += (uint64_t)n;
		budget -= (size_t)n < budget ? (size_t)n : budget;
		if (into == ts->rv->scratch)
			consume_and_stash(c, into, (size_t)n);
		else
			consume_and_stash(c, c->in, c->in_len += (size_t)n);
		if ((size_t)n < room)
			return; /* no more is there */
	}
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_tcpstore_conn *c = arg;

	(void)fd;
	hvd_rv_conn_reap(c->ts->rv);
	if (what & EV_WRITE)
		hvd_tcpstore_flush(c);
	c->ts->current = c;
	if (!c->dead)
		input(c);
	finish(c);
}

void hvd_tcpstore_go_on(struct hvd_tcpstore_conn *c, enum hvd_store_op_kind kind, const struct hvd_store_result *result)
{
	c->asks = false;
	c->ts->current = c;
	if (result)
		hvd_tcpstore_send_result(c, kind, result);
	if (!c->dead)
		input(c);
	finish(c);
}

static void on_due(struct hvd_rv_spoke *s)
{
	struct hvd_tcpstore_conn *c =
		(struct hvd_tcpstore_conn *)(void *)((char *)s - offsetof(struct hvd_tcpstore_conn, spoke));

	c->ts->rv->stats.timeouts++;
	if (c->first_out)
		hvd_tcpstore_close(c, HVD_LOG_WARN, "it did not read its answers for too long");
	else
		hvd_tcpstore_close(c, HVD_LOG_VERBOSE, "the rest of its request did not come");
}

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
			 "--store=rank0",
			 hvd_addr_text(addr, text));
	}
	hvd_tcpstore_close(c, HVD_LOG_DEBUG, NULL);
}

void hvd_tcpstore_take(struct hvd_tcpstore *ts, int fd, const struct hvd_addr *peer, const char *data, size_t len)
{
	struct hvd_tcpstore_conn *c = hvd_xcalloc(1, sizeof(*c));
	struct hvd_rv_stats *stats = &ts->rv->stats;

	c->ts = ts;
	c->fd = fd;
	c->spoke.due = on_due;
	c->next = ts->conns;
	if (c->next)
		c->next->prev = c;
	ts->conns = c;
	hvd_peer_table_add(ts->rv->peers, peer, &c->entry);
	if (++stats->conns_now > stats->conns_peak)
		stats->conns_peak = stats->conns_now;
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
