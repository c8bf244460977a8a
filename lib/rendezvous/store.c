/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of the scopes that have names. A scope exists while it has keys or a known size. The mark of a key
 * (scope.h) says that its owner has deleted it.
 */
#include "store.h"

#include "lib/base/hash.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

struct named {
	struct hvd_hash_node node;
	struct hvd_rv_scope scope;
	size_t members; /* 0: not known */
	size_t done;    /* keys that their owners have deleted */
	bool lasting;
	size_t name_len;
	char name[];
};

struct hvd_rv_store {
	struct hvd_rv_store_limits limits;
	struct hvd_rv_table table;
	struct hvd_hash_table scopes;
	uint64_t unnamed; /* scopes without a name so far */
};

struct hvd_rv_store *hvd_rv_store_create(const struct hvd_rv_store_limits *limits)
{
	struct hvd_rv_store *st = hvd_xcalloc(1, sizeof(*st));

	st->limits = *limits;
	hvd_rv_table_init(&st->table, limits->value_max, limits->total_max);
	hvd_hash_table_init(&st->scopes, 64);
	return st;
}

struct hvd_rv_budget *hvd_rv_store_budget(struct hvd_rv_store *st)
{
	return &st->table.budget;
}

/* --- scopes without a name --- */

struct hvd_rv_scope *hvd_rv_store_scope_new(struct hvd_rv_store *st, size_t name_max, size_t keys_max)
{
	struct hvd_rv_scope *sc;

	if (!hvd_rv_charge(&st->table.budget, sizeof(*sc)))
		return NULL;
	sc = hvd_xcalloc(1, sizeof(*sc));
	st->unnamed++;
	*sc = (struct hvd_rv_scope){.table = &st->table, .name_max = name_max, .keys_max = keys_max};
	sc->hash = hvd_hash(~st->table.seed, &st->unnamed, sizeof(st->unnamed));
	return sc;
}

void hvd_rv_store_scope_free(struct hvd_rv_store *st, struct hvd_rv_scope *sc)
{
	if (!sc)
		return;
	hvd_rv_scope_end(sc);
	hvd_rv_scope_clear(sc);
	hvd_rv_refund(&st->table.budget, sizeof(*sc));
	free(sc);
}

/* --- scopes with a name --- */

static bool is_named(const struct named *n, struct hvd_slice name)
{
	return n->name_len == name.n && memcmp(n->name, name.p, name.n) == 0;
}

static struct named *find_named(const struct hvd_rv_store *st, struct hvd_slice name, uint64_t hash)
{
	for (struct hvd_hash_node *node = hvd_hash_first(&st->scopes, hash); node; node = hvd_hash_next(node)) {
		struct named *n = (struct named *)node;

		if (is_named(n, name))
			return n;
	}
	return NULL;
}

static struct named *find(const struct hvd_rv_store *st, struct hvd_slice name)
{
	return find_named(st, name, hvd_hash(st->table.seed, name.p, name.n));
}

static struct named *need(struct hvd_rv_store *st, struct hvd_slice name, enum hvd_rv_stored *why)
{
	uint64_t hash = hvd_hash(st->table.seed, name.p, name.n);
	struct named *n = find_named(st, name, hash);

	*why = HVD_RV_STORED;
	if (n)
		return n;
	if (name.n > st->limits.name_max) {
		*why = HVD_RV_TOO_LONG;
		return NULL;
	}
	if (st->scopes.n >= st->limits.scopes_max || !hvd_rv_charge(&st->table.budget, sizeof(*n) + name.n)) {
		*why = HVD_RV_NO_ROOM;
		return NULL;
	}
	n = hvd_xcalloc(1, sizeof(*n) + name.n);
	n->scope = (struct hvd_rv_scope){.table = &st->table,
					 .hash = hash,
					 .name_max = st->limits.name_max,
					 .keys_max = st->limits.scope_keys_max};
	n->name_len = name.n;
	memcpy(n->name, name.p, name.n);
	hvd_hash_table_add(&st->scopes, &n->node, hash);
	return n;
}

static void drop_if_empty(struct hvd_rv_store *st, struct named *n)
{
	if (n->scope.keys > 0 || n->members > 0)
		return;
	hvd_hash_table_remove(&st->scopes, &n->node);
	hvd_rv_refund(&st->table.budget, sizeof(*n) + n->name_len);
	free(n);
}

enum hvd_rv_stored hvd_rv_store_put(struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key,
				    struct hvd_rv_value *v)
{
	enum hvd_rv_stored why;
	struct named *n = need(st, scope, &why);

	if (!n)
		return why;
	why = hvd_rv_scope_put(&n->scope, key, v);
	drop_if_empty(st, n);
	return why;
}

struct hvd_rv_value *hvd_rv_store_get(const struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key)
{
	const struct named *n = find(st, scope);

	return n ? hvd_rv_scope_get(&n->scope, key) : NULL;
}

struct hvd_rv_scope *hvd_rv_store_scope(const struct hvd_rv_store *st, struct hvd_slice name)
{
	struct named *n = find(st, name);

	return n ? &n->scope : NULL;
}

static void clear(struct named *n)
{
	n->done = 0;
	hvd_rv_scope_clear(&n->scope);
}

int hvd_rv_store_delete(struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key)
{
	struct named *n = find(st, scope);
	enum hvd_rv_stored why;

	if (!n)
		return 0;
	if (n->members == 0) {
		hvd_rv_scope_remove(&n->scope, key);
		drop_if_empty(st, n);
		return 0;
	}
	if (hvd_rv_scope_mark(&n->scope, key, &why))
		n->done++;
	if (why != HVD_RV_STORED)
		return -1;
	if (n->done < n->members)
		return 0;
	clear(n);
	return 1;
}

int hvd_rv_store_scope_size(struct hvd_rv_store *st, struct hvd_slice scope, size_t members)
{
	enum hvd_rv_stored why;
	struct named *n = need(st, scope, &why);

	if (!n)
		return -1;
	n->members = members;
	if (members > 0 && n->done >= members)
		clear(n);
	drop_if_empty(st, n);
	return 0;
}

void hvd_rv_store_lasting(struct hvd_rv_store *st, struct hvd_slice scope)
{
	struct named *n = find(st, scope);

	if (n)
		n->lasting = true;
}

/* Clear all scopes or, unless `all`, those that neither last nor are named `kept`. */
static void clear_scopes(struct hvd_rv_store *st, struct hvd_slice kept, bool all)
{
	for (size_t i = 0; i < st->scopes.room; i++) {
		for (struct named *n = (struct named *)st->scopes.slots[i], *chain; n; n = chain) {
			chain = (struct named *)n->node.chain;
			if (!all && (n->lasting || (kept.p && is_named(n, kept))))
				continue;
			clear(n);
			n->members = 0;
			drop_if_empty(st, n);
		}
	}
}

void hvd_rv_store_clear(struct hvd_rv_store *st, struct hvd_slice kept)
{
	clear_scopes(st, kept, false);
}

void hvd_rv_store_clear_scope(struct hvd_rv_store *st, struct hvd_slice scope)
{
	struct named *n = find(st, scope);

	if (n) {
		clear(n);
		drop_if_empty(st, n);
	}
}

int hvd_rv_store_wait(struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key, struct hvd_rv_waiter *w)
{
	enum hvd_rv_stored why;
	struct named *n = need(st, scope, &why);

	if (!n)
		return -1;
	why = hvd_rv_scope_wait(&n->scope, key, w);
	drop_if_empty(st, n);
	return why == HVD_RV_STORED ? 0 : -1;
}

static struct named *named_of(struct hvd_rv_scope *sc)
{
	return (struct named *)(void *)((char *)sc - offsetof(struct named, scope));
}

void hvd_rv_store_unwait(struct hvd_rv_store *st, struct hvd_rv_waiter *w)
{
	struct hvd_rv_scope *sc = hvd_rv_waiter_scope(w);

	if (!sc)
		return;
	hvd_rv_unwait(w);
	drop_if_empty(st, named_of(sc));
}

enum hvd_rv_stored hvd_rv_store_watch(struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key,
				      struct hvd_rv_watch *w)
{
	enum hvd_rv_stored why;
	struct named *n = need(st, scope, &why);

	if (!n)
		return why;
	why = hvd_rv_scope_watch(&n->scope, key, w);
	drop_if_empty(st, n);
	return why;
}

void hvd_rv_store_unwatch(struct hvd_rv_store *st, struct hvd_rv_watch *w)
{
	struct hvd_rv_scope *sc = hvd_rv_watch_scope(w);

	if (!sc)
		return;
	hvd_rv_unwatch(w);
	drop_if_empty(st, named_of(sc));
}

void hvd_rv_store_stats(const struct hvd_rv_store *st, struct hvd_rv_store_stats *out)
{
	out->bytes = st->table.budget.used;
	out->bytes_peak = st->table.budget.peak;
	out->keys = st->table.values;
	out->scopes = st->scopes.n;
	out->waiters = st->table.waiters;
	out->changes = st->table.changes;
}

void hvd_rv_store_destroy(struct hvd_rv_store *st)
{
	if (!st)
		return;
	clear_scopes(st, (struct hvd_slice){0}, true);
	hvd_rv_table_free(&st->table);
	hvd_hash_table_free(&st->scopes);
	free(st);
}
