/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a relay knows of the root's keys.
 *
 * A key begins when somebody asks for it: the relay sends the parent a watch. The key is kept as long as somebody waits
 * for it, here or in a relay below. Afterwards it is forgotten, with its value, when there is no room, when its epoch
 * ends, or when the parent is lost. No other key gets its id: messages that the parent has sent before it heard of the
 * end of the watch are not taken for another key's.
 *
 * COHERENCE.md has the states, and the invariants I1 ... that check_key() asserts.
 */
#include "upstream.h"

#include "lib/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TRIES 64 /* keys that are looked at when there are many, for one that nobody needs */

struct hvd_upstream_key {
	struct hvd_hash_node node;  /* in up->keys */
	struct hvd_hash_node by_id; /* in up->watches */
	TAILQ_ENTRY(hvd_upstream_key) by_use;
	TAILQ_HEAD(key_lookups, hvd_store_lookup) lookups; /* who waits to know it */
	struct hvd_upstream *up;
	struct epoch *epoch; /* NULL: the scope has a name */
	uint32_t id;
	enum hvd_cache state; /* not HVD_CACHE_NO_ROOM */
	bool waits;           /* the parent knows that somebody waits here */
	bool busy;            /* must not be forgotten now */
	size_t scope_len, key_len;
	char names[];
};

static struct hvd_upstream_key *of_id(struct hvd_hash_node *node)
{
	return (struct hvd_upstream_key *)(void *)((char *)node - offsetof(struct hvd_upstream_key, by_id));
}

static struct hvd_slice scope_name(const struct hvd_upstream_key *k)
{
	return (struct hvd_slice){k->epoch ? NULL : k->names, k->scope_len};
}

static struct hvd_slice key_name(const struct hvd_upstream_key *k)
{
	return (struct hvd_slice){k->names + k->scope_len, k->key_len};
}

/* The scope here, or NULL while there is nothing in it. */
static struct hvd_rv_scope *local_scope(const struct hvd_upstream_key *k)
{
	return k->epoch ? k->epoch->scope : hvd_rv_store_scope(k->up->rv->store, scope_name(k));
}

void hvd_upstream_keys_init(struct hvd_upstream *up)
{
	up->seed = hvd_hash_seed();
	TAILQ_INIT(&up->by_use);
	hvd_hash_table_init(&up->keys, 256);
	hvd_hash_table_init(&up->watches, 256);
}

/* The invariants of a key while none of its changes is half done. They concern the actions of this process, whatever
 * the parent sends. */
static void check_key(const struct hvd_upstream_key *k)
{
	const struct hvd_rv_scope *sc = local_scope(k);
	bool value = sc && hvd_rv_scope_get(sc, key_name(k)), may_wait = !value && (k->waits || !k->epoch);

	assert(k->up->keys.n == k->up->watches.n);                         /* I1 */
	assert(!value || k->state == HVD_CACHE_HIT);                       /* I2 */
	assert(TAILQ_EMPTY(&k->lookups) || k->state == HVD_CACHE_PENDING); /* I3 */
	assert(may_wait || !sc || !hvd_rv_scope_waited(sc, key_name(k)));  /* I4, I5 */
	assert(k->state != HVD_CACHE_PENDING || k->up->owed > 0);          /* I6 */
	(void)may_wait;
}

/* --- messages about a key --- */

static void send_watch(const struct hvd_upstream_key *k)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_WATCH, .watch = k->id, .flag = k->waits};

	msg.op.scope.name = scope_name(k);
	msg.op.scope.epoch = k->epoch ? k->epoch->number : 0;
	msg.op.key = key_name(k);
	hvd_upstream_send(k->up, &msg);
}

static void send_about(struct hvd_upstream *up, enum hvd_relay_type type, uint32_t id)
{
	struct hvd_relay_msg msg = {.type = type, .watch = id};

	hvd_upstream_send(up, &msg);
}

static void set_state(struct hvd_upstream_key *k, enum hvd_cache state)
{
	hvd_upstream_owes(k->up, (state == HVD_CACHE_PENDING) - (k->state == HVD_CACHE_PENDING));
	k->state = state;
}

/* --- the list of keys by their last use --- */

static void touch(struct hvd_upstream_key *k)
{
	TAILQ_REMOVE(&k->up->by_use, k, by_use);
	TAILQ_INSERT_TAIL(&k->up->by_use, k, by_use);
}

/* --- begin and end of a key --- */

static uint64_t hash_of(const struct hvd_upstream *up, const struct hvd_store_scope_id *scope, struct hvd_slice key)
{
	uint64_t hash = scope->name.p ? hvd_hash(up->seed, scope->name.p, scope->name.n)
				      : hvd_hash(~up->seed, &scope->epoch, sizeof(scope->epoch));

	return hvd_hash(hash, key.p, key.n);
}

static bool same(struct hvd_slice a, struct hvd_slice b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static struct hvd_upstream_key *find(const struct hvd_upstream *up, const struct hvd_store_scope_id *scope,
				     struct hvd_slice key, uint64_t hash)
{
	for (struct hvd_hash_node *node = hvd_hash_first(&up->keys, hash); node; node = hvd_hash_next(node)) {
		struct hvd_upstream_key *k = (struct hvd_upstream_key *)node;
		bool in_scope = scope->name.p ? !k->epoch && same(scope_name(k), scope->name)
					      : k->epoch && k->epoch->number == scope->epoch;

		if (in_scope && same(key_name(k), key))
			return k;
	}
	return NULL;
}

static struct hvd_upstream_key *find_watch(const struct hvd_upstream *up, uint32_t id)
{
	struct hvd_hash_node *node = hvd_hash_first(&up->watches, hvd_hash(up->seed, &id, sizeof(id)));

	while (node && of_id(node)->id != id)
		node = hvd_hash_next(node);
	return node ? of_id(node) : NULL;
}

static size_t size_of(const struct hvd_upstream_key *k)
{
	return sizeof(*k) + k->scope_len + k->key_len;
}

static void remove_value(struct hvd_upstream_key *k)
{
	if (k->epoch)
		hvd_rv_scope_remove(k->epoch->scope, key_name(k));
	else
		hvd_rv_store_delete(k->up->rv->store, scope_name(k), key_name(k));
}

static void forget(struct hvd_upstream_key *k)
{
	struct hvd_upstream *up = k->up;

	set_state(k, HVD_CACHE_HIT);
	send_about(up, HVD_RELAY_UNWATCH, k->id);
	remove_value(k);
	TAILQ_REMOVE(&up->by_use, k, by_use);
	hvd_hash_table_remove(&up->keys, &k->node);
	hvd_hash_table_remove(&up->watches, &k->by_id);
	hvd_rv_refund(hvd_rv_store_budget(up->rv->store), size_of(k));
	free(k);
}

static bool needed(const struct hvd_upstream_key *k)
{
	const struct hvd_rv_scope *sc;

	if (!TAILQ_EMPTY(&k->lookups) || k->busy)
		return true;
	sc = local_scope(k);
	return sc && hvd_rv_scope_awaited(sc, key_name(k));
}

/* Among the first `tries` keys, forget the one that nobody needs and that was unused for longest. False if there is
 * none. */
static bool forget_one(struct hvd_upstream *up, size_t tries)
{
	for (size_t i = 0; i < tries && !TAILQ_EMPTY(&up->by_use); i++) {
		struct hvd_upstream_key *k = TAILQ_FIRST(&up->by_use);

		if (!needed(k)) {
			forget(k);
			return true;
		}
		touch(k);
	}
	return false;
}

void hvd_upstream_make_room(struct hvd_upstream *up, size_t bytes)
{
	const struct hvd_rv_budget *budget = hvd_rv_store_budget(up->rv->store);

	while (budget->total_max - budget->used < bytes && forget_one(up, up->keys.n))
		;
}

/* NULL when there is no room, or no such epoch. */
static struct hvd_upstream_key *new_key(struct hvd_upstream *up, const struct hvd_store_scope_id *scope,
					struct hvd_slice key, uint64_t hash)
{
	size_t size = sizeof(struct hvd_upstream_key) + (scope->name.p ? scope->name.n : 0) + key.n;
	struct epoch *epoch = NULL;
	struct hvd_upstream_key *k;

	if (!scope->name.p) {
		for (epoch = up->epochs; epoch && epoch->number != scope->epoch;)
			epoch = epoch->next;
		if (!epoch)
			return NULL;
	}
	if (up->keys.n >= up->rv->cfg.store.scope_keys_max)
		forget_one(up, TRIES);
	hvd_upstream_make_room(up, size);
	if (!hvd_rv_charge(hvd_rv_store_budget(up->rv->store), size))
		return NULL;
	k = hvd_xcalloc(1, size);
	k->up = up;
	k->epoch = epoch;
	do
		k->id = ++up->last_watch;
	while (find_watch(up, k->id));
	k->scope_len = scope->name.p ? scope->name.n : 0;
	k->key_len = key.n;
	if (k->scope_len > 0)
		memcpy(k->names, scope->name.p, k->scope_len);
	if (key.n > 0)
		memcpy(k->names + k->scope_len, key.p, key.n);
	hvd_hash_table_add(&up->keys, &k->node, hash);
	hvd_hash_table_add(&up->watches, &k->by_id, hvd_hash(up->seed, &k->id, sizeof(k->id)));
	TAILQ_INSERT_TAIL(&up->by_use, k, by_use);
	TAILQ_INIT(&k->lookups);
	k->state = HVD_CACHE_PENDING;
	hvd_upstream_owes(up, 1);
	return k;
}

/* --- what is known --- */

/* Is it known that there is something, so that nobody has to wait? */
static bool is_there(const struct hvd_upstream_key *k)
{
	const struct hvd_rv_scope *sc = k->state == HVD_CACHE_HIT ? local_scope(k) : NULL;

	return k->state == HVD_CACHE_REMOTE || (sc && hvd_rv_scope_has(sc, key_name(k)));
}

enum hvd_cache hvd_upstream_know(struct hvd_upstream *up, const struct hvd_store_scope_id *scope, struct hvd_slice key,
				 bool waits, struct hvd_store_lookup *w)
{
	uint64_t hash = hash_of(up, scope, key);
	struct hvd_upstream_key *k = find(up, scope, key, hash);
	bool is_new = !k;

	if (is_new)
		k = new_key(up, scope, key, hash);
	if (!k)
		return HVD_CACHE_NO_ROOM;
	touch(k);
	if (is_new || (waits && !k->waits && !is_there(k))) {
		k->waits = k->waits || waits;
		send_watch(k);
		check_key(k);
	}
	if (k->state != HVD_CACHE_PENDING)
		return k->state;
	if (w) {
		w->key = k;
		TAILQ_INSERT_TAIL(&k->lookups, w, link);
	}
	return HVD_CACHE_PENDING;
}

void hvd_store_lookup_end(struct hvd_store_lookup *w)
{
	struct hvd_upstream_key *k = w->key;

	if (!k)
		return;
	TAILQ_REMOVE(&k->lookups, w, link);
	w->key = NULL;
}

static void resolve(struct hvd_upstream_key *k, enum hvd_cache state)
{
	set_state(k, state);
	while (!TAILQ_EMPTY(&k->lookups)) {
		struct hvd_store_lookup *w = TAILQ_FIRST(&k->lookups);

		hvd_store_lookup_end(w);
		w->resume(w);
	}
}

/* Tell relays below, which watch the key in the scope here. */
static void notify_below(const struct hvd_upstream_key *k)
{
	struct hvd_rv_scope *sc = local_scope(k);

	if (sc)
		hvd_rv_scope_touch(sc, key_name(k));
}

/* All who wait for the key go on. */
static void wake_all(struct hvd_upstream_key *k)
{
	struct hvd_rv_scope *sc = local_scope(k);

	k->waits = false;
	if (!sc)
		return;
	hvd_rv_scope_wake(sc, key_name(k));
	remove_value(k); /* there is none: for the scope, if nobody needs it any longer */
}

/* --- what the parent says --- */

void hvd_upstream_key_value(struct hvd_upstream *up, uint32_t watch, struct hvd_rv_value *v)
{
	struct hvd_upstream_key *k = find_watch(up, watch);
	enum hvd_rv_stored why = HVD_RV_NO_ROOM;

	if (!k)
		return;
	k->busy = true;
	k->waits = false;
	if (v) {
		/* For the key's entry, where there is none yet. */
		hvd_upstream_make_room(up, 1024 + size_of(k));
		/* Before relays below are told of the value: they ask what is known. */
		set_state(k, HVD_CACHE_HIT);
		why = k->epoch ? hvd_rv_scope_put(k->epoch->scope, key_name(k), v)
			       : hvd_rv_store_put(up->rv->store, scope_name(k), key_name(k), v);
	}
	if (why == HVD_RV_STORED) {
		resolve(k, HVD_CACHE_HIT);
	} else { /* it is read by calls */
		remove_value(k);
		resolve(k, HVD_CACHE_REMOTE);
		notify_below(k);
		wake_all(k);
	}
	check_key(k);
	k->busy = false;
}

void hvd_upstream_key_none(struct hvd_upstream *up, uint32_t watch, enum hvd_cache state)
{
	struct hvd_upstream_key *k = find_watch(up, watch);

	if (!k)
		return;
	k->busy = true;
	remove_value(k);
	resolve(k, state);
	notify_below(k);
	check_key(k);
	k->busy = false;
}

void hvd_upstream_key_wake(struct hvd_upstream *up, uint32_t watch, bool all)
{
	struct hvd_upstream_key *k = find_watch(up, watch);
	struct hvd_rv_scope *sc;

	if (!k)
		return;
	k->busy = true;
	sc = local_scope(k);
	if (all) {
		wake_all(k);
	} else if (!sc || !hvd_rv_scope_wake_one(sc, key_name(k))) {
		k->waits = false;
		send_about(up, HVD_RELAY_UNUSED, k->id);
	}
	check_key(k);
	k->busy = false;
}

void hvd_upstream_unused(struct hvd_upstream *up, const struct hvd_store_scope_id *scope, struct hvd_slice key)
{
	struct hvd_upstream_key *k = find(up, scope, key, hash_of(up, scope, key));

	if (!k)
		return;
	k->waits = false;
	send_about(up, HVD_RELAY_UNUSED, k->id);
	check_key(k);
}

/* The parent answers a WATCH with a WAKE if something is there. */
void hvd_upstream_unwatched(struct hvd_upstream *up, const struct hvd_store_scope_id *scope, struct hvd_slice key)
{
	const struct hvd_upstream_key *k = find(up, scope, key, hash_of(up, scope, key));
	const struct hvd_rv_scope *sc = k ? local_scope(k) : NULL;

	if (sc && hvd_rv_scope_waited(sc, key))
		send_watch(k);
	else
		hvd_upstream_unused(up, scope, key);
}

/* --- the parent comes and goes --- */

void hvd_upstream_keys_begin(struct hvd_upstream *up)
{
	for (const struct hvd_upstream_key *k = TAILQ_FIRST(&up->by_use); k; k = TAILQ_NEXT(k, by_use))
		send_watch(k);
}

void hvd_upstream_keys_unknown(struct hvd_upstream *up)
{
	for (struct hvd_upstream_key *k = TAILQ_FIRST(&up->by_use), *next; k; k = next) {
		next = TAILQ_NEXT(k, by_use);
		if (!needed(k)) {
			forget(k);
			continue;
		}
		set_state(k, HVD_CACHE_PENDING);
		check_key(k);
	}
}

void hvd_upstream_keys_forget(struct hvd_upstream *up, const struct epoch *epoch)
{
	for (struct hvd_upstream_key *k = TAILQ_FIRST(&up->by_use), *next; k; k = next) {
		next = TAILQ_NEXT(k, by_use);
		if (k->epoch == epoch)
			forget(k);
	}
}

void hvd_upstream_keys_free(struct hvd_upstream *up)
{
	while (!TAILQ_EMPTY(&up->by_use))
		forget(TAILQ_FIRST(&up->by_use));
	hvd_hash_table_free(&up->keys);
	hvd_hash_table_free(&up->watches);
}
