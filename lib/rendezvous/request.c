/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.c - the server's answers to requests.
 */
#include "internal.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define FIRST_ROOM 16384 /* bytes of memory for a body at first; later twice of what has arrived */

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

/* End the wait of another GET, of the address that has most connections, unless this one is of the same address. */
static void make_room_to_wait(struct conn *c)
{
	struct conn *old = hvd_rv_oldest_of_most(c->s.rv, CONN_WAITING);

	if (old && old->s.entry.peer != c->s.entry.peer)
		hvd_rv_conn_release(old, true);
}

/* --- operations --- */

static struct hvd_slice scope_of(const struct conn *c)
{
	return (struct hvd_slice){c->names, c->scope_len};
}

static struct hvd_slice key_of(const struct conn *c)
{
	return (struct hvd_slice){c->names + c->scope_len, c->key_len};
}

/* Keep the names of a request. */
static void keep_names(struct conn *c, struct hvd_slice scope, struct hvd_slice key)
{
	c->names = hvd_xrealloc(c->names, scope.n + key.n, 1);
	memcpy(c->names, scope.p, scope.n);
	memcpy(c->names + scope.n, key.p, key.n);
	c->scope_len = scope.n;
	c->key_len = key.n;
}

/* The status of an answer. */
static int http_status(enum hvd_store_status status)
{
	switch (status) {
	case HVD_OP_DONE:
		return 200;
	case HVD_OP_TOO_LONG:
		return 413;
	case HVD_OP_NO_ROOM:
		return 507;
	default:
		return 503;
	}
}

static int status_of(const struct hvd_store_result *result)
{
	if (result->status != HVD_OP_DONE)
		return http_status(result->status);
	return result->number >= 100 && result->number <= 599 ? (int)result->number : 500;
}

static void on_answer(struct hvd_store_call *call, const struct hvd_store_result *result)
{
	struct conn *c = (struct conn *)(void *)((char *)call - offsetof(struct conn, call));

	c->hooked = false;
	hvd_rv_conn_send(c, status_of(result), result->value);
}

/* True: *now is the result. False: the answer is sent later. */
static bool submit(struct conn *c, const struct hvd_store_op *op, struct hvd_store_result *now)
{
	c->call.answered = on_answer;
	if (hvd_store_submit(&c->s.rv->store_api, op, now, &c->call))
		return true;
	if (c->state != CONN_DEAD) /* a hook that was asked may do anything */
		hvd_rv_conn_state(c, CONN_TAKEN);
	return false;
}

/* PUT and DELETE. */
static void carry_out(struct conn *c, const struct hvd_store_op *op)
{
	struct hvd_store_result now;

	if (submit(c, op, &now) && c->state != CONN_DEAD)
		hvd_rv_conn_send(c, status_of(&now), NULL);
}

/* --- GET --- */

static bool is_head(const struct conn *c)
{
	return !c->body_follows;
}

static void get_here(struct conn *c, struct hvd_slice scope, struct hvd_slice key);

/* The key can be read by an operation only, or by a hook. */
static void get_by_call(struct conn *c)
{
	struct hvd_store_op op = {
		.kind = HVD_OP_HTTP_GET, .scope.name = scope_of(c), .key = key_of(c), .number = is_head(c)};
	struct hvd_store_result now;

	if (c->half_closed) { /* as while a hook is asked */
		hvd_rv_conn_close(c);
		return;
	}
	c->hooked = true;
	if (!submit(c, &op, &now))
		return;
	c->hooked = false;
	if (c->state != CONN_DEAD) {
		if (now.status == HVD_OP_DONE && now.number == 404 && !now.value)
			get_here(c, scope_of(c), key_of(c)); /* and wait */
		else
			hvd_rv_conn_send(c, status_of(&now), now.value);
	}
	hvd_store_result_clear(&now);
}

/* A waiting GET has its value. */
static bool wake(struct hvd_rv_waiter *w, struct hvd_rv_value *value)
{
	struct conn *c = (struct conn *)(void *)((char *)w - offsetof(struct conn, waiter));

	if (value)
		hvd_rv_conn_send(c, 200, value);
	else
		get_by_call(c);
	return true;
}

static void wait_for_key(struct conn *c, struct hvd_slice scope, struct hvd_slice key)
{
	struct hvd_rv *rv = c->s.rv;
	double seconds = is_rank_key(key) ? rv->cfg.rank_wait : rv->cfg.get_wait;

	if (!(seconds > 0) || rv->stopping || c->half_closed) {
		hvd_rv_conn_send(c, 404, NULL);
		return;
	}
	c->waiter.wake = wake;
	/* When no GET may wait the answer is 404, not an error: a client tries again after a 404. */
	if (rv->stats.waiting_now >= rv->cfg.waiting_max)
		make_room_to_wait(c);
	if (rv->stats.waiting_now >= rv->cfg.waiting_max || hvd_rv_store_wait(rv->store, scope, key, &c->waiter) != 0) {
		rv->stats.wait_limit++;
		hvd_rv_conn_send(c, 404, NULL);
		return;
	}
	rv->stats.waited++;
	if (scope.p != c->names)
		keep_names(c, scope, key);
	hvd_rv_conn_state(c, CONN_WAITING);
	hvd_rv_arm(rv, &c->s.timer, hvd_deadline_in(seconds));
}

/* Answer from the values here. */
static void get_here(struct conn *c, struct hvd_slice scope, struct hvd_slice key)
{
	struct hvd_rv_value *v = hvd_rv_store_get(c->s.rv->store, scope, key);

	if (v)
		hvd_rv_conn_send(c, 200, v);
	else if (is_head(c))
		hvd_rv_conn_send(c, 404, NULL);
	else
		wait_for_key(c, scope, key);
}

static void get(struct conn *c, struct hvd_slice scope_name, struct hvd_slice key);

static void on_known(struct hvd_store_lookup *lookup)
{
	struct conn *c = (struct conn *)(void *)((char *)lookup - offsetof(struct conn, lookup));

	get(c, scope_of(c), key_of(c));
}

static void get(struct conn *c, struct hvd_slice scope_name, struct hvd_slice key)
{
	struct hvd_store_scope_id scope = {.name = scope_name};
	enum hvd_cache known;

	c->lookup.resume = on_known;
	if (hvd_store_is_lost(&c->s.rv->store_api)) {
		hvd_rv_conn_send(c, 503, NULL);
		return;
	}
	known = hvd_store_know(&c->s.rv->store_api, &scope, key, false, &c->lookup);
	if (known == HVD_CACHE_HIT) {
		get_here(c, scope_name, key);
		return;
	}
	if (scope_name.p != c->names)
		keep_names(c, scope_name, key);
	if (known == HVD_CACHE_PENDING)
		hvd_rv_conn_state(c, CONN_TAKEN);
	else
		get_by_call(c);
}

bool hvd_rv_request_half_closed(struct conn *c)
{
	if (c->hooked)
		return false;
	/* A PUT is stored, and a value may be there that is only not known yet. */
	c->close_after = c->half_closed = true;
	hvd_rv_stream_watch(&c->s, 0);
	return true;
}

void hvd_rv_request_put(struct conn *c, struct hvd_slice scope, struct hvd_slice key)
{
	struct hvd_rv_value *v = c->value;
	struct hvd_store_op op = {.kind = HVD_OP_HTTP_PUT, .scope.name = scope, .key = key, .value = v};

	c->value = NULL;
	carry_out(c, &op);
	hvd_rv_value_unref(v);
}

/* Begin to receive a value, of which body_len bytes may have arrived. Returns how many bytes were used. */
static size_t begin_put(struct conn *c, const struct hvd_http_req *req, struct hvd_slice scope, struct hvd_slice key,
			const char *body, size_t body_len)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	enum hvd_rv_stored why;
	size_t take;

	if (scope.n > c->s.rv->cfg.store.name_max || key.n > c->s.rv->cfg.store.name_max) {
		hvd_rv_conn_refuse(c, 414);
		return body_len;
	}
	if (req->length > c->s.rv->cfg.store.value_max) {
		hvd_rv_conn_refuse(c, 413);
		return body_len;
	}
	c->body_len = (size_t)req->length;
	take = body_len < c->body_len ? body_len : c->body_len;
	c->drain_after = take < body_len;
	c->value = hvd_rv_value_new(hvd_rv_store_budget(c->s.rv->store), body, take, &why);
	if (!c->value) {
		hvd_rv_conn_refuse(c, http_status(hvd_store_status(why)));
		return body_len;
	}
	c->at = take;
	if (take == c->body_len) {
		hvd_rv_request_put(c, scope, key);
		return take;
	}
	/* A socket that cannot take these few bytes is broken. */
	if (req->expects_continue && take == 0 &&
	    send(c->s.fd, go_on, sizeof(go_on) - 1, MSG_NOSIGNAL) != (ssize_t)sizeof(go_on) - 1) {
		hvd_rv_conn_close(c);
		return body_len;
	}
	keep_names(c, scope, key);
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
	if (c->s.entry.peer->pending - c->pending + room <= c->s.rv->cfg.pending_max)
		v = hvd_rv_value_grow(c->value, room, &why);
	if (!v) {
		hvd_rv_conn_refuse(c, http_status(hvd_store_status(why)));
		return false;
	}
	c->value = v;
	c->s.entry.peer->pending += room - c->pending;
	c->pending = room;
	return true;
}

static void do_delete(struct conn *c, struct hvd_slice scope, struct hvd_slice key)
{
	struct hvd_store_op op = {.kind = HVD_OP_HTTP_DELETE, .scope.name = scope, .key = key};

	carry_out(c, &op);
}

size_t hvd_rv_request_begin(struct conn *c, const struct hvd_http_req *req, const char *body, size_t body_len)
{
	struct hvd_rv_stats *s = &c->s.rv->stats;
	struct hvd_slice scope, key;
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
	if (hvd_http_split(req->target, &scope, &key) != 0) {
		hvd_rv_conn_refuse(c, 400);
		return body_len;
	}
	switch (req->method) {
	case HVD_HTTP_PUT:
		return begin_put(c, req, scope, key, body, body_len);
	case HVD_HTTP_DELETE:
		do_delete(c, scope, key);
		break;
	default:
		get(c, scope, key);
		break;
	}
	return skip;
}
