/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the server answers to a request.
 */
#include "internal.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define RESERVED   "_hvd"
#define NONCE_MAX  128
#define FIRST_ROOM 16384 /* bytes of memory for a body at first; later twice of what has arrived */

static bool slice_is(struct hvd_slice s, const char *text, size_t len)
{
	return s.n == len && memcmp(s.p, text, len) == 0;
}

/* rank_<number> */
static bool is_rank_key(struct hvd_slice key)
{
	static const char prefix[] = "rank_";
	const size_t n = sizeof(prefix) - 1;

	if (key.n <= n || memcmp(key.p, prefix, n) != 0)
		return false;
	for (size_t i = n; i < key.n; i++)
		if (key.p[i] < '0' || key.p[i] > '9')
			return false;
	return true;
}

/* The nonce of /_hvd/probe/<nonce>, or an empty slice. */
static struct hvd_slice probe_nonce(struct hvd_slice target)
{
	static const char path[] = HVD_RV_PROBE_PATH;
	const size_t n = sizeof(path) - 1;
	struct hvd_slice nonce = {NULL, 0};

	if (target.n < n + 2 || target.n > n + NONCE_MAX || memcmp(target.p, path, n) != 0)
		return nonce;
	for (size_t i = n; i < target.n; i++) {
		char c = target.p[i];

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')))
			return nonce;
	}
	return (struct hvd_slice){target.p + n, target.n - n};
}

static void answer_copy(struct conn *c, int status, const void *data, size_t len)
{
	enum hvd_rv_stored why;
	struct hvd_rv_value *v = hvd_rv_value_new(hvd_rv_store_budget(c->rv->store), data, len, &why);

	hvd_rv_conn_send(c, v ? status : hvd_rv_status(why), v);
	hvd_rv_value_unref(v);
}

static void do_probe(struct conn *c, struct hvd_slice nonce)
{
	char text[NONCE_MAX + 1], out[HVD_RV_PROBE_ROOM];
	int len;

	memcpy(text, nonce.p, nonce.n);
	text[nonce.n] = '\0';
	len = c->rv->cfg.probe ? c->rv->cfg.probe(c->rv->cfg.probe_arg, text, c->fd, out, sizeof(out)) : -1;
	if (len < 0 || (size_t)len > sizeof(out))
		hvd_rv_conn_send(c, 404, NULL);
	else
		answer_copy(c, 200, out, (size_t)len);
}

/* End the wait of another GET, of the address that has most connections, unless this one is of the same address. */
static void make_room_to_wait(struct conn *c)
{
	struct conn *old = hvd_rv_oldest_of_most(c->rv, CONN_WAITING);

	if (old && old->entry.peer != c->entry.peer)
		hvd_rv_conn_release(old, true);
}

/* A waiting GET has its value. */
static bool wake(struct hvd_rv_waiter *w, struct hvd_rv_value *value)
{
	struct conn *c = (struct conn *)(void *)((char *)w - offsetof(struct conn, waiter));

	if (c->rv->upstream && !value)
		hvd_rv_relay_get_above(c);
	else
		hvd_rv_conn_send(c, 200, value);
	return true;
}

static void wait_for_key(struct conn *c, struct hvd_slice scope, struct hvd_slice key)
{
	struct hvd_rv *rv = c->rv;
	double seconds = is_rank_key(key) ? rv->cfg.rank_wait : rv->cfg.get_wait;

	if (!(seconds > 0) || rv->stopping || c->half_closed) {
		hvd_rv_conn_send(c, 404, NULL);
		return;
	}
	c->waiter.wake = wake;
	/* When no GET may wait the answer is 404, not an error: a client tries again after a 404. */
	if (rv->lists[CONN_WAITING].n >= rv->cfg.waiting_max)
		make_room_to_wait(c);
	if (rv->lists[CONN_WAITING].n >= rv->cfg.waiting_max ||
	    hvd_rv_store_wait(rv->store, scope, key, &c->waiter) != 0) {
		rv->stats.wait_limit++;
		hvd_rv_conn_send(c, 404, NULL);
		return;
	}
	rv->stats.waited++;
	hvd_rv_conn_state(c, CONN_WAITING);
	hvd_rv_arm(rv, &c->spoke, hvd_deadline_in(seconds));
}

static void answered(void *owner, int status, const void *data, size_t len)
{
	struct conn *c = owner;

	c->taken = NULL;
	answer_copy(c, status, data, len);
}

void hvd_rv_request_get(struct conn *c, bool head, struct hvd_slice scope, struct hvd_slice key)
{
	struct hvd_rv_value *v = hvd_rv_store_get(c->rv->store, scope, key);

	if (v)
		hvd_rv_conn_send(c, 200, v);
	else if (head)
		hvd_rv_conn_send(c, 404, NULL);
	else
		wait_for_key(c, scope, key);
}

static void do_get(struct conn *c, enum hvd_http_method method, struct hvd_slice scope, struct hvd_slice key)
{
	struct hook *hook = hvd_rv_hook_find(c->rv, scope);

	if (c->rv->upstream) {
		hvd_rv_relay_get(c, scope, key);
		return;
	}
	if (hook && hook->fn.get && method == HVD_HTTP_GET) {
		hvd_rv_conn_state(c, CONN_TAKEN);
		if (hvd_rv_hook_get(hook, key, answered, c, &c->taken))
			return; /* perhaps it has answered already, and `c` is closed */
		hvd_rv_conn_state(c, CONN_HEAD);
	}
	hvd_rv_request_get(c, method == HVD_HTTP_HEAD, scope, key);
}

void hvd_rv_request_put(struct conn *c, struct hvd_slice scope, struct hvd_slice key)
{
	struct hvd_rv_value *v = c->value;
	int status;

	c->value = NULL;
	if (c->rv->upstream) {
		hvd_rv_relay_put(c, scope, key, v);
	} else {
		status = hvd_rv_put_value(c->rv, scope, key, v);
		hvd_rv_conn_send(c, status, NULL);
	}
	hvd_rv_value_unref(v);
}

void hvd_rv_request_names(struct conn *c, struct hvd_slice scope, struct hvd_slice key)
{
	c->names = hvd_xrealloc(c->names, scope.n + key.n, 1);
	memcpy(c->names, scope.p, scope.n);
	memcpy(c->names + scope.n, key.p, key.n);
	c->scope_len = scope.n;
	c->key_len = key.n;
}

/* Begin to receive a value, of which body_len bytes may have arrived. Returns how many bytes were used. */
static size_t begin_put(struct conn *c, const struct hvd_http_req *req, struct hvd_slice scope, struct hvd_slice key,
			const char *body, size_t body_len)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	enum hvd_rv_stored why;
	size_t take;

	if (scope.n > c->rv->cfg.store.name_max || key.n > c->rv->cfg.store.name_max) {
		hvd_rv_conn_refuse(c, 414);
		return body_len;
	}
	if (req->length > c->rv->cfg.store.value_max) {
		hvd_rv_conn_refuse(c, 413);
		return body_len;
	}
	c->body_len = (size_t)req->length;
	take = body_len < c->body_len ? body_len : c->body_len;
	c->drain_after = take < body_len;
	c->value = hvd_rv_value_new(hvd_rv_store_budget(c->rv->store), body, take, &why);
	if (!c->value) {
		hvd_rv_conn_refuse(c, hvd_rv_status(why));
		return body_len;
	}
	c->at = take;
	if (take == c->body_len) {
		hvd_rv_request_put(c, scope, key);
		return take;
	}
	/* A socket that cannot take these few bytes is broken. */
	if (req->expects_continue && take == 0 &&
	    send(c->fd, go_on, sizeof(go_on) - 1, MSG_NOSIGNAL) != (ssize_t)sizeof(go_on) - 1) {
		hvd_rv_conn_close(c);
		return body_len;
	}
	hvd_rv_request_names(c, scope, key);
	hvd_rv_conn_state(c, CONN_BODY);
	c->limit = hvd_rv_body_limit(c->body_len);
	return take;
}

bool hvd_rv_request_room(struct conn *c)
{
	size_t room = 2 * c->at > FIRST_ROOM ? 2 * c->at : FIRST_ROOM;
	enum hvd_rv_stored why = HVD_RV_NO_ROOM;
	struct hvd_rv_value *v = NULL;

	if (c->at < c->value->len)
		return true;
	if (room > c->body_len)
		room = c->body_len;
	/* The bytes that came with the head were not charged before. */
	if (c->entry.peer->pending - c->pending + room <= c->rv->cfg.pending_max)
		v = hvd_rv_value_grow(c->value, room, &why);
	if (!v) {
		hvd_rv_conn_refuse(c, hvd_rv_status(why));
		return false;
	}
	c->value = v;
	c->entry.peer->pending += room - c->pending;
	c->pending = room;
	return true;
}

static void do_delete(struct conn *c, struct hvd_slice scope, struct hvd_slice key)
{
	struct hook *met;

	if (c->rv->upstream) {
		hvd_rv_relay_delete(c, scope, key);
		return;
	}
	hvd_rv_conn_send(c, hvd_rv_delete_key(c->rv, scope, key, &met), NULL);
	if (met)
		met->fn.met(met->arg);
}

size_t hvd_rv_request_begin(struct conn *c, const struct hvd_http_req *req, const char *body, size_t body_len)
{
	struct hvd_rv_stats *s = &c->rv->stats;
	struct hvd_slice scope, key, nonce;
	size_t skip = 0;

	s->requests++;
	c->http10 = req->http10;
	/* On the side that closes first the connection's port stays blocked for a minute (TIME-WAIT). A worker makes a
	 * connection for each request, so a big mesh would use up all ports of its host if the worker closed first; on
	 * this side all connections have the same port. So the server closes, unless the client asks for keep-alive,
	 * which none of Horovod's does. */
	c->close_after = !req->keep_alive || !req->has_connection;
	c->body_follows = req->method != HVD_HTTP_HEAD;
	if (req->method == HVD_HTTP_OTHER) {
		hvd_rv_conn_refuse(c, 501);
		return body_len;
	}
	if (req->method == HVD_HTTP_PUT) {
		s->puts++;
		if (!req->has_length) {
			hvd_rv_conn_refuse(c, 411);
			return body_len;
		}
	} else {
		s->gets += req->method != HVD_HTTP_DELETE;
		s->deletes += req->method == HVD_HTTP_DELETE;
		if (req->length > body_len) { /* more than fits into the buffer with the head */
			hvd_rv_conn_refuse(c, 413);
			return body_len;
		}
		skip = (size_t)req->length;
	}
	c->drain_after = body_len > skip;
	nonce = probe_nonce(req->target);
	if (nonce.n > 0 && req->method == HVD_HTTP_GET) {
		do_probe(c, nonce);
		return skip;
	}
	if (hvd_http_split(req->target, &scope, &key) != 0) {
		hvd_rv_conn_refuse(c, 400);
		return body_len;
	}
	if (slice_is(scope, RESERVED, sizeof(RESERVED) - 1)) {
		hvd_rv_conn_refuse(c, 403);
		return body_len;
	}
	switch (req->method) {
	case HVD_HTTP_PUT:
		return begin_put(c, req, scope, key, body, body_len);
	case HVD_HTTP_DELETE:
		do_delete(c, scope, key);
		break;
	default:
		do_get(c, req->method, scope, key);
		break;
	}
	return skip;
}
