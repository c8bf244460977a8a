/* SPDX-License-Identifier: Apache-2.0 */
/* store_api.c - the only place that knows whether the store is here or at the root. */
#include "store_api.h"

#include "upstream.h"

bool hvd_store_submit(const struct hvd_store *st, const struct hvd_store_op *op, struct hvd_store_result *now,
		      struct hvd_store_call *call)
{
	return st->local ? hvd_store_local_submit(st->local, op, now, call)
			 : hvd_upstream_submit(st->upstream, op, now, call);
}

void hvd_store_abandon(const struct hvd_store *st, struct hvd_store_call *call)
{
	if (st->local)
		hvd_store_local_abandon(call);
	else
		hvd_upstream_abandon(st->upstream, call);
}

enum hvd_cache hvd_store_know(const struct hvd_store *st, const struct hvd_store_scope_id *scope, struct hvd_slice key,
			      bool waits, struct hvd_store_lookup *lookup)
{
	return st->local ? hvd_store_local_know(st->local, scope)
			 : hvd_upstream_know(st->upstream, scope, key, waits, lookup);
}

void hvd_store_depart(const struct hvd_store *st, struct hvd_store_client *client)
{
	if (st->upstream)
		hvd_upstream_depart(st->upstream, client);
}

void hvd_store_leave(const struct hvd_store *st, struct hvd_store_client *client)
{
	if (st->local)
		hvd_store_local_leave(st->local, client);
	else if (client->scope)
		hvd_upstream_epoch_unref(st->upstream, client->scope);
	client->scope = NULL;
}

enum hvd_rv_stored hvd_store_watch(const struct hvd_store *st, const struct hvd_store_scope_id *scope,
				   struct hvd_slice key, struct hvd_rv_watch *w)
{
	struct hvd_rv_scope *sc;
	enum hvd_rv_stored why;

	if (scope->name.p)
		return hvd_rv_store_watch(st->scopes, scope->name, key, w);
	sc = st->local ? hvd_store_local_epoch(st->local, scope->epoch)
		       : hvd_upstream_epoch_ref(st->upstream, scope->epoch);
	if (!sc)
		return st->local ? HVD_RV_STORED : HVD_RV_NO_ROOM;
	why = hvd_rv_scope_watch(sc, key, w);
	if (why != HVD_RV_STORED && st->upstream)
		hvd_upstream_epoch_unref(st->upstream, sc);
	return why;
}

void hvd_store_unwatch(const struct hvd_store *st, const struct hvd_store_scope_id *scope, struct hvd_rv_watch *w)
{
	struct hvd_rv_scope *sc = hvd_rv_watch_scope(w);

	if (scope->name.p) {
		hvd_rv_store_unwatch(st->scopes, w);
		return;
	}
	hvd_rv_unwatch(w);
	if (sc && st->upstream)
		hvd_upstream_epoch_unref(st->upstream, sc);
}

void hvd_store_unused(const struct hvd_store *st, const struct hvd_store_scope_id *scope, struct hvd_slice key,
		      const struct hvd_rv_watch *w)
{
	struct hvd_rv_scope *sc = hvd_rv_watch_scope(w);

	if (!sc || (st->local && !hvd_rv_scope_has(sc, key)))
		return;
	if (!hvd_rv_scope_wake_one(sc, key) && st->upstream)
		hvd_upstream_unused(st->upstream, scope, key);
}

void hvd_store_unwatched(const struct hvd_store *st, const struct hvd_store_scope_id *scope, struct hvd_slice key,
			 const struct hvd_rv_watch *w)
{
	if (st->local)
		hvd_store_unused(st, scope, key, w);
	else
		hvd_upstream_unwatched(st->upstream, scope, key);
}

bool hvd_store_pass(const struct hvd_store *st, const struct hvd_relay_msg *msg)
{
	if (st->upstream)
		hvd_upstream_send(st->upstream, msg);
	return st->upstream;
}

bool hvd_store_is_lost(const struct hvd_store *st)
{
	return st->upstream && hvd_upstream_is_lost(st->upstream);
}

void hvd_store_renew(const struct hvd_store *st)
{
	if (st->local)
		hvd_store_local_renew(st->local);
}
