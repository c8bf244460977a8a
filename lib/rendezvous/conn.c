/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection: reading, writing, deadlines.
 *
 * Plain descriptors on libevent's event loop, not bufferevents. A worker makes
 * one connection for each request, so what costs is not bytes but system calls
 * for each connection. Those are accept4, read, sendmsg and close here: the
 * request is read right after it was accepted (it is mostly there), answered in
 * the same call, and no event is registered and no timer armed unless something
 * has to be waited for. Deadlines of those that wait share one timer.
 *
 * Who closes? This side, unless the client wants to ask more (see request.c):
 * answer and end go out in one segment, and nothing has to be waited for.
 *
 * What is closed goes to the list of the dead and is reused only after the
 * callback from the event loop has returned to its top, so that nothing that is
 * further up the stack holds a connection that has become another one.
 */
#include "internal.h"

#include "lib/base/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POOL_MAX    1024      /* closed connections whose memory is kept */
#define READ_BUDGET (1 << 20) /* bytes of one connection per wake-up */
#define SLOWEST     131072.0  /* bytes a second that a body must at least move at, on average … */
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
	event_assign(&c->ev, c->rv->base, c->fd, (short)(events | EV_PERSIST), on_event, c);
	event_add(&c->ev, NULL);
}

/* Progress was made: the next must come within `stall`, and all within the state's limit. */
void hvd_rv_conn_progress(struct conn *c, double stall)
{
	hvd_rv_arm(c->rv, c, hvd_earlier(c->limit, hvd_deadline_in(stall)));
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
	close(c->fd);
	hvd_rv_conn_state(c, CONN_DEAD);
	hvd_peer_table_remove(rv->peers, &c->entry);
	rv->stats.conns_now--;
	if (c->taken) {
		struct hvd_rv_request *req = c->taken;

		c->taken = NULL;
		req->conn = NULL;
		if (req->hook->fn.gone)
			req->hook->fn.gone(req->hook->arg, req);
	}
}

void hvd_rv_conn_reap(struct hvd_rv *rv)
{
	struct conn *c;

	if (!rv->lists[CONN_DEAD].first)
		return;
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

/* Keep what is left over of the input. It may lie in the buffer itself. */
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

/* Take what can be taken from the front of the input; returns how much. */
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
		/* Only PUT has a use for a body; another's must fit in with the head, and is skipped. */
		if (req.method != HVD_HTTP_PUT && req.length > more && req.length <= c->rv->cfg.head_max &&
		    req.head_len + req.length <= c->rv->cfg.head_max)
			return used;
		c->scanned = 0;
		used += req.head_len + hvd_rv_request_begin(c, &req, p + req.head_len, more);
	}
	return used;
}

/* There is nothing to read at present: wait for more, for as long as this state allows. */
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

/* The client will send no more. */
static void on_eof(struct conn *c)
{
	switch (c->state) {
	case CONN_WAITING:
		/* Either it has gone or it only closed its half: in both cases it is no use to wait on. */
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
	default:
		hvd_rv_conn_close(c);
		break;
	}
}

static void body_done(struct conn *c)
{
	struct hvd_slice scope = {c->names, c->scope_len}, key = {c->names + c->scope_len, c->key_len};
	char *names = c->names;

	c->names = NULL;
	hvd_rv_request_put(c, scope, key);
	free(names);
}

static void input(struct conn *c)
{
	struct hvd_rv *rv = c->rv;
	size_t budget = READ_BUDGET;
	bool was_partial = c->state == CONN_HEAD && c->buf_len > 0;

	if (was_partial && c->scanned == 0) { /* came in behind an earlier request */
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
		/* One that sends more while it waits for an answer than a request can be long. */
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
		} else if (c->state == CONN_HEAD) {
			const char *data = c->buf ? c->buf : rv->scratch;
			size_t len = c->buf_len + (size_t)n, used = consume(c, data, len);

			if (c->state == CONN_DEAD)
				return;
			if (c->state == CONN_DRAIN)
				continue;
			if (len - used > rv->cfg.head_max) { /* a pipeline longer than is kept */
				hvd_rv_conn_close(c);
				return;
			}
			was_partial = was_partial && used == 0;
			if (used < len || c->buf)
				stash(c, data + used, len - used);
			if (c->state == CONN_HEAD && c->buf_len == 0 && (size_t)n < room)
				break; /* all was answered and nothing more is here */
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

void hvd_rv_conn_due(struct conn *c)
{
	switch (c->state) {
	case CONN_WAITING:
		hvd_rv_conn_release(c, false);
		break;
	case CONN_BODY:
		hvd_rv_conn_refuse(c, 408);
		break;
	case CONN_HEAD:
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

void hvd_rv_conn_start(struct hvd_rv *rv, int fd, const struct sockaddr_storage *peer)
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
	c->fd = fd;
	hvd_addr_from_sockaddr((const struct sockaddr *)peer, &addr, NULL);
	hvd_peer_table_add(rv->peers, &addr, &c->entry);
	c->limit = INT64_MAX;
	list_append(c, CONN_HEAD);
	if (++rv->stats.conns_now > rv->stats.conns_peak)
		rv->stats.conns_peak = rv->stats.conns_now;
	input(c);
}
