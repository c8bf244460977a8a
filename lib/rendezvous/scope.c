/* SPDX-License-Identifier: Apache-2.0 */
#include "scope.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

struct queued {
	STAILQ_ENTRY(queued) link;
	struct hvd_rv_value *value;
};

struct queue {
	STAILQ_HEAD(queued_values, queued) values;
	size_t n;
};

struct hvd_rv_key {
	struct hvd_hash_node node;
	LIST_ENTRY(hvd_rv_key) link; /* in the scope */
	struct hvd_rv_scope *scope;
	struct hvd_rv_value *value;
	TAILQ_HEAD(key_waiters, hvd_rv_waiter) waiters; /* the oldest first */
	LIST_HEAD(key_watches, hvd_rv_watch) watches;
	struct queue *queue; /* NULL: empty */
	bool marked, ask;
	size_t name_len;
	char name[];
};

void hvd_rv_table_init(struct hvd_rv_table *table, size_t value_max, size_t total_max)
{
	*table = (struct hvd_rv_table){.budget = {.value_max = value_max, .total_max = total_max}};
	table->seed = hvd_hash_seed();
	hvd_hash_table_init(&table->keys, 256);
}

void hvd_rv_table_free(struct hvd_rv_table *table)
{
	hvd_hash_table_free(&table->keys);
}

/* --- keys --- */

static struct hvd_rv_key *find_hashed(const struct hvd_rv_scope *sc, struct hvd_slice name, uint64_t hash)
{
	for (struct hvd_hash_node *node = hvd_hash_first(&sc->table->keys, hash); node; node = hvd_hash_next(node)) {
		struct hvd_rv_key *k = (struct hvd_rv_key *)node;

		if (k->scope == sc && k->name_len == name.n && memcmp(k->name, name.p, name.n) == 0)
			return k;
	}
	return NULL;
}

static struct hvd_rv_key *find(const struct hvd_rv_scope *sc, struct hvd_slice name)
{
	return find_hashed(sc, name, hvd_hash(sc->hash, name.p, name.n));
}

static struct hvd_rv_key *need(struct hvd_rv_scope *sc, struct hvd_slice name, enum hvd_rv_stored *why)
{
	uint64_t hash = hvd_hash(sc->hash, name.p, name.n);
	struct hvd_rv_key *k = find_hashed(sc, name, hash);

	*why = HVD_RV_STORED;
	if (k)
		return k;
	if (name.n > sc->name_max)
		*why = HVD_RV_TOO_LONG;
	else if (sc->keys >= sc->keys_max || !hvd_rv_charge(&sc->table->budget, sizeof(*k) + name.n))
		*why = HVD_RV_NO_ROOM;
	if (*why != HVD_RV_STORED)
		return NULL;
	k = hvd_xcalloc(1, sizeof(*k) + name.n);
	k->scope = sc;
	k->name_len = name.n;
	memcpy(k->name, name.p, name.n);
	hvd_hash_table_add(&sc->table->keys, &k->node, hash);
	TAILQ_INIT(&k->waiters);
	LIST_INSERT_HEAD(&sc->all, k, link);
	sc->keys++;
	return k;
}

static void drop_if_unused(struct hvd_rv_key *k)
{
	struct hvd_rv_scope *sc = k->scope;

	if (k->value || !TAILQ_EMPTY(&k->waiters) || k->queue || k->marked || !LIST_EMPTY(&k->watches))
		return;
	hvd_hash_table_remove(&sc->table->keys, &k->node);
	LIST_REMOVE(k, link);
	sc->keys--;
	hvd_rv_refund(&sc->table->budget, sizeof(*k) + k->name_len);
	free(k);
}

struct hvd_slice hvd_rv_key_name(const struct hvd_rv_key *k)
{
	return (struct hvd_slice){k->name, k->name_len};
}

const struct hvd_rv_key *hvd_rv_scope_next(const struct hvd_rv_scope *sc, const struct hvd_rv_key *after)
{
	const struct hvd_rv_key *k = after ? LIST_NEXT(after, link) : LIST_FIRST(&sc->all);

	while (k && !k->value)
		k = LIST_NEXT(k, link);
	return k;
}

bool hvd_rv_scope_mark(struct hvd_rv_scope *sc, struct hvd_slice key, enum hvd_rv_stored *why)
{
	struct hvd_rv_key *k = need(sc, key, why);

	if (!k || k->marked)
		return false;
	k->marked = true;
	return true;
}

/* --- watches --- */

enum hvd_rv_stored hvd_rv_scope_watch(struct hvd_rv_scope *sc, struct hvd_slice key, struct hvd_rv_watch *w)
{
	enum hvd_rv_stored why;
	struct hvd_rv_key *k = need(sc, key, &why);

	if (!k)
		return why;
	w->key = k;
	LIST_INSERT_HEAD(&k->watches, w, link);
	return why;
}

/* The key stays, even when nothing keeps it any longer. */
static void remove_watch(struct hvd_rv_watch *w)
{
	LIST_REMOVE(w, link);
	w->key = NULL;
}

void hvd_rv_unwatch(struct hvd_rv_watch *w)
{
	struct hvd_rv_key *k = w->key;

	if (!k)
		return;
	remove_watch(w);
	drop_if_unused(k);
}

struct hvd_rv_scope *hvd_rv_watch_scope(const struct hvd_rv_watch *w)
{
	return w->key ? w->key->scope : NULL;
}

struct hvd_rv_watch_state hvd_rv_watch_state(const struct hvd_rv_watch *w)
{
	const struct hvd_rv_key *k = w->key;

	return k ? (struct hvd_rv_watch_state){k->value, k->queue != NULL, k->ask} : (struct hvd_rv_watch_state){0};
}

static void changed(const struct hvd_rv_key *k)
{
	for (struct hvd_rv_watch *w = LIST_FIRST(&k->watches), *next; w; w = next) {
		next = LIST_NEXT(w, link);
		w->changed(w);
	}
}

void hvd_rv_scope_touch(struct hvd_rv_scope *sc, struct hvd_slice key)
{
	const struct hvd_rv_key *k = find(sc, key);

	if (k)
		changed(k);
}

void hvd_rv_scope_ask(struct hvd_rv_scope *sc, struct hvd_slice key)
{
	struct hvd_rv_key *k = find(sc, key);

	if (!k || k->ask)
		return;
	k->ask = true;
	changed(k);
}

void hvd_rv_scope_end(struct hvd_rv_scope *sc)
{
	for (struct hvd_rv_key *k = LIST_FIRST(&sc->all), *next; k; k = next) {
		k->marked = true; /* so that the key stays meanwhile */
		while (!LIST_EMPTY(&k->watches)) {
			struct hvd_rv_watch *w = LIST_FIRST(&k->watches);

			remove_watch(w);
			w->changed(w);
		}
		next = LIST_NEXT(k, link);
		k->marked = false;
		drop_if_unused(k);
	}
}

/* --- waiters --- */

static void add_waiter(struct hvd_rv_key *k, struct hvd_rv_waiter *w)
{
	w->key = k;
	TAILQ_INSERT_TAIL(&k->waiters, w, link);
	k->scope->table->waiters++;
}

/* The key stays, even when nothing keeps it any longer. */
static void remove_waiter(struct hvd_rv_waiter *w)
{
	struct hvd_rv_key *k = w->key;

	TAILQ_REMOVE(&k->waiters, w, link);
	w->key = NULL;
	k->scope->table->waiters--;
}

enum hvd_rv_stored hvd_rv_scope_wait(struct hvd_rv_scope *sc, struct hvd_slice key, struct hvd_rv_waiter *w)
{
	enum hvd_rv_stored why;
	struct hvd_rv_key *k = need(sc, key, &why);

	if (k)
		add_waiter(k, w);
	return why;
}

void hvd_rv_unwait(struct hvd_rv_waiter *w)
{
	struct hvd_rv_key *k = w->key;

	if (!k)
		return;
	remove_waiter(w);
	drop_if_unused(k);
}

/* Wake those who wait, the oldest first; if `one`, up to the first that waits for nothing else. Returns true if the last one
 * that was woken waits for nothing else. Something else than its waiters keeps the key: a wake function may end the waits of
 * other waiters. */
static bool wake_waiters(struct hvd_rv_key *k, bool one)
{
	bool done = false;

	while (!TAILQ_EMPTY(&k->waiters) && !(one && done)) {
		struct hvd_rv_waiter *w = TAILQ_FIRST(&k->waiters);

		remove_waiter(w);
		w->one = one;
		done = w->wake(w, k->value);
	}
	return done;
}

static bool find_and_wake(struct hvd_rv_scope *sc, struct hvd_slice key, bool one)
{
	struct hvd_rv_key *k = find(sc, key);
	bool marked, done;

	if (!k)
		return false;
	marked = k->marked;
	k->marked = true; /* so that the key stays meanwhile */
	done = wake_waiters(k, one);
	k->marked = marked;
	drop_if_unused(k);
	return done;
}

void hvd_rv_scope_wake(struct hvd_rv_scope *sc, struct hvd_slice key)
{
	find_and_wake(sc, key, false);
}

bool hvd_rv_scope_wake_one(struct hvd_rv_scope *sc, struct hvd_slice key)
{
	return find_and_wake(sc, key, true);
}

bool hvd_rv_scope_waited(const struct hvd_rv_scope *sc, struct hvd_slice key)
{
	const struct hvd_rv_key *k = find(sc, key);

	return k && !TAILQ_EMPTY(&k->waiters);
}

bool hvd_rv_scope_awaited(const struct hvd_rv_scope *sc, struct hvd_slice key)
{
	const struct hvd_rv_key *k = find(sc, key);

	return k && (!TAILQ_EMPTY(&k->waiters) || !LIST_EMPTY(&k->watches));
}

struct hvd_rv_scope *hvd_rv_waiter_scope(const struct hvd_rv_waiter *w)
{
	return w->key ? w->key->scope : NULL;
}

struct hvd_slice hvd_rv_waiter_key(const struct hvd_rv_waiter *w)
{
	return w->key ? hvd_rv_key_name(w->key) : (struct hvd_slice){NULL, 0};
}

/* --- values --- */

/* The agents of torchrun change a key of theirs every five seconds, whether or not their ranks do anything. */
#define HEARTBEAT "/torch.rendezvous."

static void count_change(const struct hvd_rv_key *k)
{
	struct hvd_slice name = hvd_rv_key_name(k);

	if (name.n < strlen(HEARTBEAT) || memcmp(name.p, HEARTBEAT, strlen(HEARTBEAT)) != 0)
		k->scope->table->changes++;
}

static void set_value(struct hvd_rv_key *k, struct hvd_rv_value *v)
{
	size_t more = v ? 1 : 0, less = k->value ? 1 : 0;

	k->scope->values += more - less;
	k->scope->table->values += more - less;
	hvd_rv_value_unref(k->value);
	k->value = v;
	count_change(k);
	changed(k);
}

struct hvd_rv_value *hvd_rv_scope_get(const struct hvd_rv_scope *sc, struct hvd_slice key)
{
	const struct hvd_rv_key *k = find(sc, key);

	return k ? k->value : NULL;
}

bool hvd_rv_scope_has(const struct hvd_rv_scope *sc, struct hvd_slice key)
{
	const struct hvd_rv_key *k = find(sc, key);

	return k && (k->value || k->queue);
}

enum hvd_rv_stored hvd_rv_scope_put(struct hvd_rv_scope *sc, struct hvd_slice key, struct hvd_rv_value *v)
{
	enum hvd_rv_stored why;
	struct hvd_rv_key *k = need(sc, key, &why);

	if (!k)
		return why;
	set_value(k, hvd_rv_value_ref(v));
	wake_waiters(k, false);
	return HVD_RV_STORED;
}

enum hvd_rv_stored hvd_rv_scope_set(struct hvd_rv_scope *sc, struct hvd_slice key, struct hvd_slice bytes, bool wake)
{
	enum hvd_rv_stored why;
	struct hvd_rv_key *k = need(sc, key, &why);

	if (!k)
		return why;
	if (k->value && k->value->refs == 1 && k->value->len == bytes.n) {
		hvd_rv_value_edit(k->value);
		if (bytes.n > 0)
			memmove(k->value->data, bytes.p, bytes.n);
		changed(k);
	} else {
		struct hvd_rv_value *v = hvd_rv_value_new(&sc->table->budget, bytes.p, bytes.n, &why);

		if (!v) {
			drop_if_unused(k);
			return why;
		}
		set_value(k, v);
	}
	if (wake)
		wake_waiters(k, false);
	return HVD_RV_STORED;
}

enum hvd_rv_stored hvd_rv_scope_append(struct hvd_rv_scope *sc, struct hvd_slice key, struct hvd_slice bytes)
{
	struct hvd_rv_key *k = find(sc, key);
	struct hvd_rv_value *v = k ? k->value : NULL;
	enum hvd_rv_stored why;
	size_t len;

	if (!v)
		return hvd_rv_scope_set(sc, key, bytes, true);
	len = v->len;
	if (v->refs > 1) { /* it is being sent */
		v = hvd_rv_value_new(&sc->table->budget, v->data, len, &why);
		if (!v)
			return why;
		hvd_rv_value_unref(k->value);
		k->value = v;
	}
	v = hvd_rv_value_grow(v, len + bytes.n, &why);
	if (!v)
		return why;
	if (bytes.n > 0)
		memcpy(v->data + len, bytes.p, bytes.n);
	k->value = v;
	count_change(k);
	changed(k);
	wake_waiters(k, false);
	return HVD_RV_STORED;
}

bool hvd_rv_scope_remove(struct hvd_rv_scope *sc, struct hvd_slice key)
{
	struct hvd_rv_key *k = find(sc, key);

	if (!k || !k->value)
		return false;
	set_value(k, NULL);
	drop_if_unused(k);
	return true;
}

/* --- queues --- */

size_t hvd_rv_scope_queued(const struct hvd_rv_scope *sc, struct hvd_slice key)
{
	const struct hvd_rv_key *k = find(sc, key);

	return k && k->queue ? k->queue->n : 0;
}

enum hvd_rv_stored hvd_rv_scope_push(struct hvd_rv_scope *sc, struct hvd_slice key, struct hvd_rv_value *v)
{
	enum hvd_rv_stored why;
	struct hvd_rv_key *k = need(sc, key, &why);
	struct queued *q;

	if (!k)
		return why;
	if (!hvd_rv_charge(&sc->table->budget, sizeof(*q))) {
		drop_if_unused(k);
		return HVD_RV_NO_ROOM;
	}
	q = hvd_xcalloc(1, sizeof(*q));
	q->value = hvd_rv_value_ref(v);
	if (!k->queue) {
		k->queue = hvd_xcalloc(1, sizeof(*k->queue));
		STAILQ_INIT(&k->queue->values);
	}
	STAILQ_INSERT_TAIL(&k->queue->values, q, link);
	count_change(k);
	if (++k->queue->n == 1)
		changed(k);
	wake_waiters(k, true);
	return HVD_RV_STORED;
}

/* The value at the front of a queue that is not empty. */
static struct hvd_rv_value *take(struct hvd_rv_key *k)
{
	struct queued *q = STAILQ_FIRST(&k->queue->values);
	struct hvd_rv_value *v = q->value;

	count_change(k);
	STAILQ_REMOVE_HEAD(&k->queue->values, link);
	if (--k->queue->n == 0) {
		free(k->queue);
		k->queue = NULL;
		changed(k);
	}
	hvd_rv_refund(&k->scope->table->budget, sizeof(*q));
	free(q);
	return v;
}

struct hvd_rv_value *hvd_rv_scope_pop(struct hvd_rv_scope *sc, struct hvd_slice key)
{
	struct hvd_rv_key *k = find(sc, key);
	struct hvd_rv_value *v;

	if (!k || !k->queue)
		return NULL;
	v = take(k);
	drop_if_unused(k);
	return v;
}

void hvd_rv_scope_clear(struct hvd_rv_scope *sc)
{
	for (struct hvd_rv_key *k = LIST_FIRST(&sc->all), *next; k; k = next) {
		next = LIST_NEXT(k, link);
		set_value(k, NULL);
		while (k->queue)
			hvd_rv_value_unref(take(k));
		k->marked = false;
		drop_if_unused(k);
	}
}
