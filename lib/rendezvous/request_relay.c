/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a relay does for its HTTP clients: it asks the root. The connection is in CONN_TAKEN meanwhile. When a key is
 * known, a GET waits here, as it does at the root.
 */
#include "internal.h"

#include "store_op.h"
#include "upstream.h"

static struct conn *of_call(struct hvd_upstream_call *call)
{
	return (struct conn *)(void *)((char *)call - offsetof(struct conn, call));
}

static struct hvd_slice scope_of(const struct conn *c)
{
	return (struct hvd_slice){c->names, c->scope_len};
}

static struct hvd_slice key_of(const struct conn *c)
{
	return (struct hvd_slice){c->names + c->scope_len, c->key_len};
}

/* --- operations --- */

static int status_of(const struct hvd_store_result *result)
{
	switch (result->status) {
	case HVD_OP_DONE:
		return result->number >= 100 && result->number <= 599 ? (int)result->number : 500;
	case HVD_OP_TOO_LONG:
		return 413;
	case HVD_OP_NO_ROOM:
		return 507;
	default:
		return 503;
	}
}

static void on_answer(struct hvd_upstream_call *call, const struct hvd_store_result *result)
{
	struct conn *c = of_call(call);

	c->hooked = false;
	hvd_rv_conn_send(c, status_of(result), result->value);
}

static void ask(struct conn *c, struct hvd_store_op *op)
{
	c->call.answered = on_answer;
	if (hvd_upstream_is_lost(c->rv->upstream)) {
		hvd_rv_conn_send(c, 503, NULL);
		return;
	}
	hvd_rv_conn_state(c, CONN_TAKEN);
	if (!hvd_upstream_call(c->rv->upstream, op, &c->call))
		hvd_rv_conn_send(c, 507, NULL);
}

void hvd_rv_relay_put(struct conn *c, struct hvd_slice scope, struct hvd_slice key, struct hvd_rv_value *v)
{
	struct hvd_store_op op = {.kind = HVD_OP_HTTP_PUT, .scope.name = scope, .key = key, .value = v};

	ask(c, &op);
}

void hvd_rv_relay_delete(struct conn *c, struct hvd_slice scope, struct hvd_slice key)
{
	struct hvd_store_op op = {.kind = HVD_OP_HTTP_DELETE, .scope.name = scope, .key = key};

	ask(c, &op);
}

/* --- keys --- */

static bool is_head(const struct conn *c)
{
	return !c->body_follows;
}

void hvd_rv_relay_get_above(struct conn *c)
{
	struct hvd_store_op op = {.kind = HVD_OP_HTTP_GET, .number = is_head(c)};

	if (c->half_closed) { /* as when a hook of this server answers */
		hvd_rv_conn_close(c);
		return;
	}
	op.scope.name = scope_of(c);
	op.key = key_of(c);
	c->hooked = true;
	ask(c, &op);
}

static void get(struct conn *c);

static void on_known(struct hvd_upstream_wait *w)
{
	get((struct conn *)(void *)((char *)w - offsetof(struct conn, unknown)));
}

static void get(struct conn *c)
{
	struct hvd_store_scope_id scope = {.name = scope_of(c)};

	c->unknown.resume = on_known;
	if (hvd_upstream_is_lost(c->rv->upstream)) {
		hvd_rv_conn_send(c, 503, NULL);
		return;
	}
	switch (hvd_upstream_know(c->rv->upstream, &scope, key_of(c), false, &c->unknown)) {
	case HVD_KNOWN_LATER:
		hvd_rv_conn_state(c, CONN_TAKEN);
		break;
	case HVD_KNOWN_HERE:
		hvd_rv_request_get(c, is_head(c), scope_of(c), key_of(c));
		break;
	default:
		hvd_rv_relay_get_above(c);
		break;
	}
}

void hvd_rv_relay_get(struct conn *c, struct hvd_slice scope, struct hvd_slice key)
{
	hvd_rv_request_names(c, scope, key);
	get(c);
}

bool hvd_rv_relay_half_closed(struct conn *c)
{
	if (c->hooked)
		return false;
	/* A PUT is stored, and a value may be there that is only not known yet. */
	c->close_after = c->half_closed = true;
	hvd_rv_conn_watch(c, 0);
	return true;
}

void hvd_rv_relay_gone(struct conn *c)
{
	if (!c->rv->upstream)
		return;
	hvd_upstream_unwait(&c->unknown);
	hvd_upstream_abandon(c->rv->upstream, &c->call);
}
