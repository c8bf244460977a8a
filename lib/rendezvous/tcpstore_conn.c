/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TCPStore connection: reading, sending, deadlines.
 *
 * A request costs a read() and a send(): the event stays registered, small requests are parsed where they were read to,
 * and the answers to all requests of one read() go out together. Memory is taken when an item comes in pieces, as much
 * as has arrived and twice that at most; and when the socket does not take the answers. Then no further request is
 * begun. A request that has begun is read to its end, however, because the client reads no answer before it has sent
 * the request.
 *
 * A closed connection goes to the list of the dead, and is freed at the top of a later callback: no caller further up
 * the stack has a pointer to freed memory.
 */
#include "tcpstore.h"

#include "lib/base/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define READ_BUDGET (256 << 10) /* bytes of one connection per wake-up */
#define IN_FIRST    4096        /* bytes of memory for an item in pieces at first */
#define OUT_HIGH    (1 << 20)   /* bytes of answers that are not sent, with which no request is begun */
#define OUT_MAX     (64 << 20)  /* bytes of memory for answers, without the values */
#define COPY_MAX    4096        /* a value that is longer is sent from where it is stored */
#define SEGMENT     16384       /* bytes of memory for answers at a time */
#define SEND_PIECES 64
#define IN_STALL    120.0 /* seconds without progress in the middle of a request … */
#define OUT_STALL   300.0 /* … and of an answer */

/* Answers that wait to be sent: bytes, or a value. */
struct hvd_tcpstore_segment {
	struct hvd_tcpstore_segment *next;
	struct hvd_rv_value *value; /* NULL: `bytes` */
	size_t at, len, room;
	char bytes[];
};

static void on_event(evutil_socket_t fd, short what, void *arg);

static struct hvd_rv_budget *budget_of(const struct hvd_tcpstore_conn *c)
{
	return hvd_rv_store_budget(c->ts->rv->store);
}

static void watch(struct hvd_tcpstore_conn *c, short events)
{
	if (c->watching == events)
		return;
	if (c->watching)
		event_del(&c->ev);
	c->watching = events;
	event_assign(&c->ev, c->ts->rv->base, c->fd, (short)(events | EV_PERSIST), on_event, c);
	event_add(&c->ev, NULL);
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

	hvd_addr_text(&c->entry.peer->addr, addr);
	if (c->pid)
		hvd_log(c->ts->rv->log, level, "closed the TCPStore connection of process %u at %s: %s",
			(unsigned)c->pid, addr, why);
	else
		hvd_log(c->ts->rv->log, level, "closed a TCPStore connection from %s: %s", addr, why);
}

static void free_segment(struct hvd_tcpstore_conn *c, struct hvd_tcpstore_segment *s)
{
	size_t size = sizeof(*s) + s->room;

	c->out_charged -= size;
	hvd_rv_refund(budget_of(c), size);
	hvd_rv_value_unref(s->value);
	free(s);
}

static void free_input(struct hvd_tcpstore_conn *c)
{
	if (!c->in)
		return;
	c->entry.peer->pending -= c->in_room;
	hvd_rv_refund(budget_of(c), c->in_room);
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
	hvd_tcpstore_leave(&c->ts->generations, &c->place);
	hvd_rv_wheel_remove(&rv->wheel, &c->spoke);
	if (c->watching)
		event_del(&c->ev);
	close(c->fd);
	free_input(c);
	while (c->first_out) {
		struct hvd_tcpstore_segment *s = c->first_out;

		c->first_out = s->next;
		free_segment(c, s);
	}
	hvd_peer_table_remove(rv->peers, &c->entry);
	rv->stats.conns_now--;
	rv->stats.tcpstore_now--;
	unlink_conn(c);
	c->next = c->ts->dead;
	c->ts->dead = c;
}

void hvd_tcpstore_reap(struct hvd_tcpstore *ts)
{
	while (ts->dead) {
		struct hvd_tcpstore_conn *c = ts->dead;

		ts->dead = c->next;
		free(c);
	}
}

/* --- output --- */

/* NULL, with the connection closed, when there is no memory. */
static struct hvd_tcpstore_segment *new_segment(struct hvd_tcpstore_conn *c, size_t room)
{
	struct hvd_tcpstore_segment *s;
	size_t size = sizeof(*s) + room;

	if (c->out_charged + size > OUT_MAX || !hvd_rv_charge(budget_of(c), size)) {
		hvd_tcpstore_close(c, HVD_LOG_WARN, "it does not read its answers, and there is no room for more");
		return NULL;
	}
	c->out_charged += size;
	s = hvd_xcalloc(1, size);
	s->room = room;
	if (c->last_out && c->first_out)
		c->last_out->next = s;
	else
		c->first_out = s;
	c->last_out = s;
	return s;
}

static void keep_bytes(struct hvd_tcpstore_conn *c, const char *data, size_t len)
{
	while (len > 0 && !c->dead) {
		struct hvd_tcpstore_segment *s = c->first_out ? c->last_out : NULL;
		size_t n;

		if (!s || s->value || s->len == s->room)
			s = new_segment(c, SEGMENT);
		if (!s)
			return;
		n = len < s->room - s->len ? len : s->room - s->len;
		memcpy(s->bytes + s->len, data, n);
		s->len += n;
		c->out_left += n;
		data += n;
		len -= n;
	}
}

/* Keep a value of which `at` bytes were sent. */
static void keep_value(struct hvd_tcpstore_conn *c, struct hvd_rv_value *v, size_t at)
{
	struct hvd_tcpstore_segment *s = at < v->len ? new_segment(c, 0) : NULL;

	if (!s)
		return;
	s->value = hvd_rv_value_ref(v);
	s->at = at;
	s->len = v->len;
	c->out_left += v->len - at;
}

/* Send these pieces. Returns how many bytes the socket took; the connection is closed after an error. */
static size_t send_pieces(struct hvd_tcpstore_conn *c, struct iovec *iov, size_t n)
{
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = n};
	ssize_t sent;

	do
		sent = n == 1 ? send(c->fd, iov->iov_base, iov->iov_len, MSG_NOSIGNAL)
			      : sendmsg(c->fd, &msg, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent < 0 && errno != EAGAIN)
		hvd_tcpstore_close(c, HVD_LOG_VERBOSE, strerror(errno));
	c->ts->rv->stats.bytes_out += sent > 0 ? (uint64_t)sent : 0;
	return sent > 0 ? (size_t)sent : 0;
}

/* May more of its input be handled? */
static bool may_ask(const struct hvd_tcpstore_conn *c)
{
	return c->wire.in_list || c->out_left <= OUT_HIGH;
}

static void expect_output(struct hvd_tcpstore_conn *c)
{
	if (c->dead || !c->first_out)
		return;
	hvd_rv_arm(c->ts->rv, &c->spoke, hvd_deadline_in(OUT_STALL));
	watch(c, may_ask(c) ? EV_READ | EV_WRITE : EV_WRITE);
}

/* Send the answers to the current connection, and a value (or NULL) behind them. */
static void send_current(struct hvd_tcpstore_conn *c, struct hvd_rv_value *v)
{
	struct hvd_tcpstore *ts = c->ts;
	struct iovec iov[2] = {{ts->out, ts->out_len}, {v ? v->data : NULL, v ? v->len : 0}};
	size_t len = ts->out_len, sent;

	ts->out_len = 0;
	sent = send_pieces(c, iov, v ? 2 : 1);
	if (c->dead)
		return;
	if (sent < len)
		keep_bytes(c, ts->out + sent, len - sent);
	if (v && !c->dead)
		keep_value(c, v, sent > len ? sent - len : 0);
}

void hvd_tcpstore_send(struct hvd_tcpstore_conn *c, const void *data, size_t len)
{
	struct hvd_tcpstore *ts = c->ts;
	const char *p = data;

	if (c->dead || len == 0)
		return;
	if (!c->first_out && c == ts->current) {
		if (len > sizeof(ts->out) - ts->out_len && ts->out_len > 0)
			send_current(c, NULL);
		if (c->dead)
			return;
		if (!c->first_out && len <= sizeof(ts->out)) {
			memcpy(ts->out + ts->out_len, p, len);
			ts->out_len += len;
			return;
		}
	}
	if (!c->first_out) {
		struct iovec iov = {(void *)(uintptr_t)p, len};
		size_t sent = send_pieces(c, &iov, 1);

		p += sent;
		len -= sent;
	}
	if (c->dead || len == 0)
		return;
	keep_bytes(c, p, len);
	if (c != ts->current)
		expect_output(c);
}

void hvd_tcpstore_send_value(struct hvd_tcpstore_conn *c, struct hvd_rv_value *v)
{
	char len[8];

	hvd_tcpstore_put_u64(&c->wire, v->len, len);
	hvd_tcpstore_send(c, len, sizeof(len));
	if (c->dead)
		return;
	if (v->len <= COPY_MAX)
		hvd_tcpstore_send(c, v->data, v->len);
	else if (c->first_out)
		keep_value(c, v, 0);
	else
		send_current(c, v); /* values are sent to nobody else */
}

static void flush(struct hvd_tcpstore_conn *c)
{
	while (c->first_out && !c->dead) {
		struct iovec iov[SEND_PIECES];
		size_t n = 0, want = 0, sent;

		for (struct hvd_tcpstore_segment *s = c->first_out; s && n < SEND_PIECES; s = s->next, n++) {
			iov[n].iov_base = (s->value ? (char *)s->value->data : s->bytes) + s->at;
			iov[n].iov_len = s->len - s->at;
			want += iov[n].iov_len;
		}
		sent = send_pieces(c, iov, n);
		if (c->dead)
			return;
		c->out_left -= sent;
		want -= sent;
		while (sent > 0 || (c->first_out && c->first_out->at == c->first_out->len)) {
			struct hvd_tcpstore_segment *s = c->first_out;
			size_t part = sent < s->len - s->at ? sent : s->len - s->at;

			s->at += part;
			sent -= part;
			if (s->at == s->len) {
				c->first_out = s->next;
				free_segment(c, s);
			}
		}
		if (want > 0)
			return;
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
	    !hvd_rv_charge(budget_of(c), room - c->in_room)) {
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

	while (used < len && !c->dead && may_ask(c)) {
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
			used += n;
			hvd_tcpstore_item(c, &item);
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
		send_current(c, NULL);
	c->ts->out_len = 0;
	c->ts->current = NULL;
	if (c->dead)
		return;
	if (c->first_out) {
		expect_output(c);
		return;
	}
	watch(c, EV_READ);
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
	while (budget > 0 && !c->dead && may_ask(c)) {
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
		flush(c);
	c->ts->current = c;
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
	const struct hvd_addr *addr = &c->entry.peer->addr;
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
	ts->current = c;
	consume_and_stash(c, data, len);
	finish(c);
}
