/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection: its state, reading, deadlines.
 *
 * A worker makes a connection for each request, so the cost of a request is the number of system calls for a
 * connection. These are accept4, read, sendmsg and close: the server reads the request right after accepting it (it is
 * mostly there already) and answers it in the same callback. It registers an event and sets a deadline only when it has
 * to wait for something. This is why connections are plain descriptors and not libevent's bufferevents, and why all
 * deadlines share one timer (wheel.h).
 *
 * The server closes the connection after the answer, unless the client wants to send another request (request.c). The
 * answer and the end of the connection then go out in one segment.
 *
 * A closed connection goes to the list of the dead. Its memory is reused only after the callback from the event loop
 * has returned to its top: no caller further up the stack can find another connection in its place.
 */
#include "internal.h"

#include "lib/base/xalloc.h"
#include "tcpstore.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POOL_MAX    1024      /* closed connections whose memory is kept */
#define READ_BUDGET (1 << 20) /* bytes of one connection per wake-up */
#define SLOWEST     131072.0  /* bytes a second: the average rate that a body must have … */
#define SLOW_GRACE  30.0      /* … after this many seconds */

static void on_event(evutil_socket_t fd, short what, void *arg);

static void list_remove(struct conn *c)
{
	struct conn_list *l = &c->rv->lists[c->state];

	if (c->prev)
		c->prev->next = c->next;
	else
		l->first = c->next;
	if (c->next)
		c->next->prev = c->prev;
	else
		l->last = c->prev;
	l->n--;
}

static void list_append(struct conn *c, enum conn_state state)
{
	struct conn_list *l = &c->rv->lists[state];

	c->state = state;
	c->next = NULL;
	c->prev = l->last;
	if (l->last)
		l->last->next = c;
	else
		l->first = c;
	l->last = c;
	l->n++;
}

void hvd_rv_conn_state(struct conn *c, enum conn_state state)
{
	struct hvd_rv *rv = c->rv;

	if (c->state == CONN_BODY) {
		c->entry.peer->pending -= c->pending;
		c->pending = 0;
	}
	list_remove(c);
	list_append(c, state);
	hvd_rv_wheel_remove(&rv->wheel, &c->spoke);
	if (state == CONN_WAITING) {
		rv->stats.waiting_now = rv->lists[CONN_WAITING].n;
		if (rv->stats.waiting_now > rv->stats.waiting_peak)
			rv->stats.waiting_peak = rv->stats.waiting_now;
	}
}

void hvd_rv_conn_watch(struct conn *c, short events)
{
	if (c->watching == events)
		return;
	if (c->watching)
		event_del(&c->ev);
	c->watching = events;
	if (!events)
		return;
	event_assign(&c->ev, c->rv->base, c->fd, (short)(events | EV_PERSIST), on_event, c);
	event_add(&c->ev, NULL);
}

void hvd_rv_conn_progress(struct conn *c, double stall)
{
	hvd_rv_arm(c->rv, &c->spoke, hvd_earlier(c->limit, hvd_deadline_in(stall)));
}

hvd_time hvd_rv_body_limit(size_t len)
{
	return hvd_deadline_in(SLOW_GRACE + (double)len / SLOWEST);
}

void hvd_rv_conn_close(struct conn *c)
{
	struct hvd_rv *rv = c->rv;

	if (c->state == CONN_DEAD)
		return;
	hvd_rv_store_unwait(rv->store, &c->waiter);
	if (c->watching)
		event_del(&c->ev);
	if (c->fd >= 0)
		close(c->fd);
	hvd_rv_conn_state(c, CONN_DEAD);
	hvd_peer_table_remove(rv->peers, &c->entry);
	rv->stats.conns_now--;
	hvd_rv_request_abandon(c);
}

void hvd_rv_conn_reap(struct hvd_rv *rv)
{
	struct conn *c;

	if (rv->tcpstore)
		hvd_tcpstore_reap(rv->tcpstore);
	while ((c = rv->lists[CONN_DEAD].first)) {
		list_remove(c);
		hvd_rv_value_unref(c->value);
		free(c->buf);
		free(c->names);
		if (rv->n_pool < POOL_MAX) {
			c->next = rv->pool;
			rv->pool = c;
			rv->n_pool++;
		} else {
			free(c);
		}
	}
	if (rv->paused)
		hvd_rv_resume(rv);
}

/* --- input --- */

/* Keep the input that is left over. `data` may be a part of the buffer itself. */
static void stash(struct conn *c, const char *data, size_t len)
{
	if (len == 0) {
		free(c->buf);
		c->buf = NULL;
	} else {
		if (!c->buf)
			c->buf = hvd_xcalloc(1, c->rv->cfg.head_max);
		memmove(c->buf, data, len);
	}
	c->buf_len = len;
}

/* Handle the complete requests at the front of the input. Returns how many bytes they took. */
static size_t consume(struct conn *c, const char *data, size_t len)
{
	size_t used = 0;

	while (used < len && c->state == CONN_HEAD) {
		const char *p = data + used;
		size_t left = len - used, more;
		struct hvd_http_req req;
		int status;

		switch (hvd_http_parse(p, left, c->rv->cfg.head_max, &c->scanned, &req, &status)) {
		case HVD_HTTP_MORE:
			return used;
		case HVD_HTTP_BAD:
			c->rv->stats.requests++;
			hvd_rv_conn_refuse(c, status);
			return len;
		case HVD_HTTP_DONE:
			break;
		}
		more = left - req.head_len;
		/* Only a PUT has a use for its body. The body of another request is skipped, and must fit into the
		 * buffer together with the head. */
		if (req.method != HVD_HTTP_PUT && req.length > more && req.length <= c->rv->cfg.head_max &&
		    req.head_len + req.length <= c->rv->cfg.head_max)
			return used;
		c->scanned = 0;
		used += req.head_len + hvd_rv_request_begin(c, &req, p + req.head_len, more);
	}
	return used;
}

/* Nothing is there to be read: wait for input, as long as the state allows. */
static void wait_for_input(struct conn *c, bool was_partial)
{
	const struct hvd_rv_config *cfg = &c->rv->cfg;

	if (c->state == CONN_HEAD && c->buf_len > 0) {
		if (!was_partial)
			c->limit = hvd_deadline_in(cfg->head_time);
		hvd_rv_conn_progress(c, cfg->stall);
	} else if (c->state == CONN_BODY) {
		hvd_rv_conn_progress(c, cfg->stall);
	} else if (c->state == CONN_HEAD && !c->has_asked) {
		c->limit = INT64_MAX;
		hvd_rv_conn_progress(c, cfg->head_time);
	} else if (c->state == CONN_HEAD) {
		c->limit = INT64_MAX;
		hvd_rv_conn_progress(c, cfg->idle);
	}
	if (c->state != CONN_WRITE && c->state != CONN_DEAD)
		hvd_rv_conn_watch(c, EV_READ);
}

/* The client has closed its side for writing. */
static void on_eof(struct conn *c)
{
	switch (c->state) {
	case CONN_WAITING:
		/* The client has closed the connection, or one half of it. A client that wants an answer does not do
		 * that, so there is no use in waiting any longer. */
		hvd_rv_conn_release(c, true);
		break;
	case CONN_BODY:
		hvd_rv_conn_refuse(c, 400);
		break;
	case CONN_HEAD:
		if (c->buf_len > 0)
			hvd_rv_conn_refuse(c, 400);
		else
			hvd_rv_conn_close(c);
		break;
	case CONN_TAKEN:
		if (!hvd_rv_request_half_closed(c))
			hvd_rv_conn_close(c);
		break;
	default:
		hvd_rv_conn_close(c);
		break;
	}
}

/* The client speaks the other protocol: its connection goes on there. */
static void hand_over(struct conn *c, const char *data, size_t len)
{
	struct hvd_addr peer = c->entry.peer->addr;
	int fd = c->fd;

	if (c->watching)
		event_del(&c->ev);
	c->watching = 0;
	c->fd = -1;
	hvd_rv_conn_close(c);
	hvd_tcpstore_take(c->rv->tcpstore, fd, &peer, data, len);
}

static void body_done(struct conn *c)
{
	struct hvd_slice scope = {c->names, c->scope_len}, key = {c->names + c->scope_len, c->key_len};
	char *names = c->names;

	c->names = NULL;
	hvd_rv_request_put(c, scope, key);
	free(names);
}

/* Find out whose connection it is, now that the client has sent something. False: it is closed, or has to wait. */
static bool prove(struct conn *c)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);
	enum hvd_rv_verdict verdict = HVD_RV_ENDED;
	char byte;
	ssize_t n = recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN) {
		wait_for_input(c, false);
		return false;
	}
	if (n > 0 && getpeername(c->fd, (struct sockaddr *)&peer, &len) == 0)
		verdict = hvd_rv_judge(c->rv, c->fd, &peer, NULL);
	if (verdict == HVD_RV_WELCOME) {
		c->unproven = false;
		c->limit = INT64_MAX;
		return true;
	}
	if (c->limit == INT64_MAX)
		c->limit = hvd_deadline_in(c->rv->cfg.stall);
	if (verdict == HVD_RV_UNPROVEN && hvd_left(c->limit) > 0) {
		/* An acknowledgement is on its way, of which nothing tells: try again at the next tick. */
		hvd_rv_conn_watch(c, 0);
		hvd_rv_arm(c->rv, &c->spoke, hvd_now());
		return false;
	}
	hvd_rv_conn_close(c);
	return false;
}

static void input(struct conn *c)
{
	struct hvd_rv *rv = c->rv;
	size_t budget = READ_BUDGET;
	bool was_partial = c->state == CONN_HEAD && c->buf_len > 0;

	if (c->unproven && !prove(c))
		return;
	if (was_partial && c->scanned == 0) { /* it came behind an earlier request, and was not parsed yet */
		size_t used = consume(c, c->buf, c->buf_len);

		stash(c, c->buf + used, c->buf_len - used);
		was_partial = used == 0;
	}
	while (budget > 0 && c->state != CONN_DEAD && c->state != CONN_WRITE) {
		size_t room = sizeof(rv->scratch);
		char *into = rv->scratch;
		ssize_t n;

		if (c->state == CONN_BODY && !hvd_rv_request_room(c))
			continue; /* refused */
		if (c->state == CONN_BODY) {
			into = (char *)c->value->data + c->at;
			room = c->value->len - c->at;
		} else if (c->state != CONN_DRAIN && c->buf) {
			into = c->buf + c->buf_len;
			room = rv->cfg.head_max - c->buf_len;
		} else if (c->state == CONN_WAITING || c->state == CONN_TAKEN) {
			room = rv->cfg.head_max;
		}
		/* The client waits for an answer, and has sent more meanwhile than a request may have. */
		if (room == 0) {
			hvd_rv_conn_close(c);
			return;
		}
		n = read(c->fd, into, room);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			hvd_rv_conn_close(c);
			return;
		}
		if (n < 0)
			break;
		if (n == 0) {
			on_eof(c);
			return;
		}
		rv->stats.bytes_in += (uint64_t)n;
		budget -= (size_t)n < budget ? (size_t)n : budget;
		if (c->state == CONN_BODY) {
			c->at += (size_t)n;
			if (c->at == c->body_len)
				body_done(c);
		} else if (c->state == CONN_HEAD && !c->has_asked && !c->buf && rv->tcpstore &&
			   hvd_tcpstore_speaks(into[0])) {
			hand_over(c, into, (size_t)n);
			return;
		} else if (c->state == CONN_HEAD) {
			const char *data = c->buf ? c->buf : rv->scratch;
			size_t len = c->buf_len + (size_t)n, used = consume(c, data, len);

			if (c->state == CONN_DEAD)
				return;
			if (c->state == CONN_DRAIN)
				continue;
			if (len - used > rv->cfg.head_max) { /* more requests ahead of their answers than are kept */
				hvd_rv_conn_close(c);
				return;
			}
			was_partial = was_partial && used == 0;
			if (used < len || c->buf)
				stash(c, data + used, len - used);
			if (c->state == CONN_HEAD && c->buf_len == 0 && (size_t)n < room)
				break; /* all requests are answered, and no more input is there */
		} else if (c->state != CONN_DRAIN) {
			stash(c, c->buf ? c->buf : rv->scratch, c->buf_len + (size_t)n);
		}
	}
	wait_for_input(c, was_partial);
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;

	(void)fd;
	(void)what;
	hvd_rv_conn_reap(c->rv);
	if (c->state == CONN_WRITE) {
		hvd_rv_conn_flush(c);
		if (c->state != CONN_HEAD)
			return;
	}
	input(c);
}

static void on_due(struct hvd_rv_spoke *s)
{
	struct conn *c = (struct conn *)(void *)((char *)s - offsetof(struct conn, spoke));

	switch (c->state) {
	case CONN_WAITING:
		hvd_rv_conn_release(c, false);
		break;
	case CONN_BODY:
		hvd_rv_conn_refuse(c, 408);
		break;
	case CONN_HEAD:
		if (c->unproven && !c->watching) { /* something has come */
			input(c);
			break;
		}
		if (c->buf_len > 0) {
			hvd_rv_conn_refuse(c, 408);
			break;
		}
		hvd_rv_conn_close(c);
		break;
	case CONN_WRITE:
		c->rv->stats.timeouts++;
		hvd_rv_conn_close(c);
		break;
	default:
		hvd_rv_conn_close(c);
		break;
	}
}

void hvd_rv_conn_start(struct hvd_rv *rv, int fd, const struct sockaddr_storage *peer, bool unproven)
{
	struct conn *c = rv->pool;
	struct hvd_addr addr;

	if (c) {
		rv->pool = c->next;
		rv->n_pool--;
		memset(c, 0, sizeof(*c));
	} else {
		c = hvd_xcalloc(1, sizeof(*c));
	}
	c->rv = rv;
	c->spoke.due = on_due;
	c->fd = fd;
	hvd_addr_from_sockaddr((const struct sockaddr *)peer, &addr, NULL);
	hvd_peer_table_add(rv->peers, &addr, &c->entry);
	c->limit = INT64_MAX;
	c->unproven = unproven;
	list_append(c, CONN_HEAD);
	if (++rv->stats.conns_now > rv->stats.conns_peak)
		rv->stats.conns_peak = rv->stats.conns_now;
	input(c);
}
