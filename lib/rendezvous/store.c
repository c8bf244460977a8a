/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two hash tables: of entries, by scope and key together, and of scopes. A scope links its entries, so that the time to
 * clear a scope depends only on its own entries. An entry exists while it has a value, a waiter, or a mark that its
 * owner has deleted it. A scope exists while it has entries or a known size.
 */
#include "store.h"

#include "lib/base/hash.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

struct scope {
	struct hvd_hash_node node;
	struct hvd_rv_entry *first;
	size_t keys;    /* entries */
	size_t members; /* 0: not known */
	size_t done;    /* entries that their owners have deleted */
	size_t name_len;
	char name[];
};

struct hvd_rv_entry {
	struct hvd_hash_node node;
	struct hvd_rv_entry *prev, *next; /* in the scope */
	struct scope *scope;
	struct hvd_rv_value *value;
	struct hvd_rv_waiter *first, *last; /* the oldest, the newest */
	bool done;                          /* its owner has deleted it */
	size_t name_len;
	char name[];
};

struct hvd_rv_store {
	struct hvd_rv_store_limits limits;
	struct hvd_rv_budget budget;
	hvd_rv_wake_fn *wake;
	void *wake_arg;
	uint64_t seed;
	struct hvd_hash_table entries, scopes;
	size_t values, waiters;
};

static uint64_t mix(uint64_t seed, struct hvd_slice s)
{
	return hvd_hash(seed, s.p, s.n);
}

static bool same_name(const char *name, size_t len, struct hvd_slice s)
{
	return len == s.n && memcmp(name, s.p, len) == 0;
}

struct hvd_rv_store *hvd_rv_store_create(const struct hvd_rv_store_limits *limits, hvd_rv_wake_fn *wake, void *arg)
{
	struct hvd_rv_store *st = hvd_xcalloc(1, sizeof(*st));

	st->limits = *limits;
	st->wake = wake;
	st->wake_arg = arg;
	st->seed = hvd_hash_seed();
	st->budget = (struct hvd_rv_budget){.value_max = limits->value_max, .total_max = limits->total_max};
	hvd_hash_table_init(&st->entries, 256);
	hvd_hash_table_init(&st->scopes, 64);
	return st;
}

struct hvd_rv_budget *hvd_rv_store_budget(struct hvd_rv_store *st)
{
	return &st->budget;
}

static struct scope *find_scope(const struct hvd_rv_store *st, struct hvd_slice name, uint64_t hash)
{
	struct hvd_hash_node *node = hvd_hash_first(&st->scopes, hash);

	while (node && !same_name(((struct scope *)node)->name, ((struct scope *)node)->name_len, name))
		node = hvd_hash_next(node);
	return (struct scope *)node;
}

static struct hvd_rv_entry *find_entry(const struct hvd_rv_store *st, const struct scope *sc, struct hvd_slice key,
				       uint64_t hash)
{
	for (struct hvd_hash_node *node = hvd_hash_first(&st->entries, hash); node; node = hvd_hash_next(node)) {
		struct hvd_rv_entry *e = (struct hvd_rv_entry *)node;

		if (e->scope == sc && same_name(e->name, e->name_len, key))
			return e;
	}
	return NULL;
}

static struct scope *need_scope(struct hvd_rv_store *st, struct hvd_slice name, enum hvd_rv_stored *why)
{
	uint64_t hash = mix(st->seed, name);
	struct scope *sc = find_scope(st, name, hash);

	*why = HVD_RV_STORED;
	if (sc)
		return sc;
	if (name.n > st->limits.name_max) {
		*why = HVD_RV_TOO_LONG;
		return NULL;
	}
	if (st->scopes.n >= st->limits.scopes_max || !hvd_rv_charge(&st->budget, sizeof(*sc) + name.n)) {
		*why = HVD_RV_NO_ROOM;
		return NULL;
	}
	sc = hvd_xcalloc(1, sizeof(*sc) + name.n);
	sc->name_len = name.n;
	memcpy(sc->name, name.p, name.n);
	hvd_hash_table_add(&st->scopes, &sc->node, hash);
	return sc;
}

static void drop_scope_if_empty(struct hvd_rv_store *st, struct scope *sc)
{
	if (sc->keys > 0 || sc->members > 0)
		return;
	hvd_hash_table_remove(&st->scopes, &sc->node);
	hvd_rv_refund(&st->budget, sizeof(*sc) + sc->name_len);
	free(sc);
}

static struct hvd_rv_entry *need_entry(struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key,
				       enum hvd_rv_stored *why)
{
	struct scope *sc = need_scope(st, scope, why);
	struct hvd_rv_entry *e;
	uint64_t hash;

	if (!sc)
		return NULL;
	hash = mix(sc->node.hash, key);
	e = find_entry(st, sc, key, hash);
	if (e)
		return e;
	if (key.n > st->limits.name_max)
		*why = HVD_RV_TOO_LONG;
	else if (sc->keys >= st->limits.scope_keys_max || !hvd_rv_charge(&st->budget, sizeof(*e) + key.n))
		*why = HVD_RV_NO_ROOM;
	if (*why != HVD_RV_STORED) {
		drop_scope_if_empty(st, sc);
		return NULL;
	}
	e = hvd_xcalloc(1, sizeof(*e) + key.n);
	e->scope = sc;
	e->name_len = key.n;
	memcpy(e->name, key.p, key.n);
	hvd_hash_table_add(&st->entries, &e->node, hash);
	e->next = sc->first;
	if (sc->first)
		sc->first->prev = e;
	sc->first = e;
	sc->keys++;
	return e;
}

static void drop_entry_if_empty(struct hvd_rv_store *st, struct hvd_rv_entry *e)
{
	struct scope *sc = e->scope;

	if (e->value || e->first || e->done)
		return;
	hvd_hash_table_remove(&st->entries, &e->node);
	if (e->prev)
		e->prev->next = e->next;
	else
		sc->first = e->next;
	if (e->next)
		e->next->prev = e->prev;
	sc->keys--;
	hvd_rv_refund(&st->budget, sizeof(*e) + e->name_len);
	free(e);
	drop_scope_if_empty(st, sc);
}

static void set_value(struct hvd_rv_store *st, struct hvd_rv_entry *e, struct hvd_rv_value *v)
{
	st->values += v ? 1 : 0;
	st->values -= e->value ? 1 : 0;
	hvd_rv_value_unref(e->value);
	e->value = v;
}

enum hvd_rv_stored hvd_rv_store_put(struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key,
				    struct hvd_rv_value *v)
{
	enum hvd_rv_stored why;
	struct hvd_rv_entry *e = need_entry(st, scope, key, &why);

	if (!e)
		return why;
	set_value(st, e, hvd_rv_value_ref(v));
	/* `e` stays valid: it has a value, which a wake function cannot remove. */
	while (e->first) {
		struct hvd_rv_waiter *w = e->first;

		hvd_rv_store_unwait(st, w);
		st->wake(st->wake_arg, w, v);
	}
	return HVD_RV_STORED;
}

static struct hvd_rv_entry *lookup(const struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key)
{
	uint64_t hash = mix(st->seed, scope);
	const struct scope *sc = find_scope(st, scope, hash);

	return sc ? find_entry(st, sc, key, mix(hash, key)) : NULL;
}

struct hvd_rv_value *hvd_rv_store_get(const struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key)
{
	const struct hvd_rv_entry *e = lookup(st, scope, key);

	return e ? e->value : NULL;
}

static void clear_scope(struct hvd_rv_store *st, struct scope *sc)
{
	size_t members = sc->members;

	sc->members = 1; /* so that the scope stays while its entries are removed */
	sc->done = 0;
	for (struct hvd_rv_entry *e = sc->first, *next; e; e = next) {
		next = e->next;
		set_value(st, e, NULL);
		e->done = false;
		drop_entry_if_empty(st, e);
	}
	sc->members = members;
}

int hvd_rv_store_delete(struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key)
{
	struct scope *sc = find_scope(st, scope, mix(st->seed, scope));
	struct hvd_rv_entry *e;
	enum hvd_rv_stored why;

	if (!sc)
		return 0;
	if (sc->members == 0) {
		e = find_entry(st, sc, key, mix(sc->node.hash, key));
		if (e) {
			set_value(st, e, NULL);
			drop_entry_if_empty(st, e);
		}
		return 0;
	}
	e = need_entry(st, scope, key, &why);
	if (!e)
		return -1;
	if (!e->done) {
		e->done = true;
		sc->done++;
	}
	if (sc->done < sc->members)
		return 0;
	clear_scope(st, sc);
	return 1;
}

int hvd_rv_store_scope_size(struct hvd_rv_store *st, struct hvd_slice scope, size_t members)
{
	enum hvd_rv_stored why;
	struct scope *sc = need_scope(st, scope, &why);

	if (!sc)
		return -1;
	sc->members = members;
	if (members > 0 && sc->done >= members)
		clear_scope(st, sc);
	drop_scope_if_empty(st, sc);
	return 0;
}

void hvd_rv_store_clear(struct hvd_rv_store *st, struct hvd_slice kept)
{
	const struct scope *keep = kept.p ? find_scope(st, kept, mix(st->seed, kept)) : NULL;

	for (size_t i = 0; i < st->scopes.room; i++) {
		for (struct scope *sc = (struct scope *)st->scopes.slots[i], *chain; sc; sc = chain) {
			chain = (struct scope *)sc->node.chain;
			if (sc == keep)
				continue;
			clear_scope(st, sc);
			sc->members = 0;
			drop_scope_if_empty(st, sc);
		}
	}
}

void hvd_rv_store_clear_scope(struct hvd_rv_store *st, struct hvd_slice scope)
{
	struct scope *sc = find_scope(st, scope, mix(st->seed, scope));

	if (sc) {
		clear_scope(st, sc);
		drop_scope_if_empty(st, sc);
	}
}

int hvd_rv_store_wait(struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key, struct hvd_rv_waiter *w)
{
	enum hvd_rv_stored why;
	struct hvd_rv_entry *e = need_entry(st, scope, key, &why);

	if (!e)
		return -1;
	w->entry = e;
	w->next = NULL;
	w->prev = e->last;
	if (e->last)
		e->last->next = w;
	else
		e->first = w;
	e->last = w;
	st->waiters++;
	return 0;
}

void hvd_rv_store_unwait(struct hvd_rv_store *st, struct hvd_rv_waiter *w)
{
	struct hvd_rv_entry *e = w->entry;

	if (!e)
		return;
	if (w->prev)
		w->prev->next = w->next;
	else
		e->first = w->next;
	if (w->next)
		w->next->prev = w->prev;
	else
		e->last = w->prev;
	w->entry = NULL;
	w->prev = w->next = NULL;
	st->waiters--;
	drop_entry_if_empty(st, e);
}

void hvd_rv_store_stats(const struct hvd_rv_store *st, struct hvd_rv_store_stats *out)
{
	out->bytes = st->budget.used;
	out->bytes_peak = st->budget.peak;
	out->keys = st->values;
	out->scopes = st->scopes.n;
	out->waiters = st->waiters;
}

void hvd_rv_store_destroy(struct hvd_rv_store *st)
{
	if (!st)
		return;
	hvd_rv_store_clear(st, (struct hvd_slice){0});
	hvd_hash_table_free(&st->entries);
	hvd_hash_table_free(&st->scopes);
	free(st);
}
