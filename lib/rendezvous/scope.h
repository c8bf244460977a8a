/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scope.h - the keys of a scope: their values, their queues of values, and who waits for them.
 *
 * A key exists while it has a value, a queue that is not empty, a waiter, a watch, or a mark. Its value and its queue
 * are independent, except that both end a wait for the key.
 *
 * The scopes of a table share one hash table and one budget, which pays for everything that is stored: values, names
 * and bookkeeping. One thread. The table must outlive its scopes and the values taken from them.
 */
#ifndef HVD_RENDEZVOUS_SCOPE_H
#define HVD_RENDEZVOUS_SCOPE_H

#include "lib/base/hash.h"
#include "slice.h"
#include "value.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* The members that all scopes share. Others only read them. */
struct hvd_rv_table {
	struct hvd_rv_budget budget;
	uint64_t seed;
	struct hvd_hash_table keys;
	size_t values, waiters;
	uint64_t changes; /* of values and queues, except the signs of life of PyTorch's agents */
};

void hvd_rv_table_init(struct hvd_rv_table *table, size_t value_max, size_t total_max);
void hvd_rv_table_free(struct hvd_rv_table *table); /* there must be no scopes with keys */

struct hvd_rv_scope {
	struct hvd_rv_table *table;
	uint64_t hash;             /* one that no other scope of the table has; the hashes of keys begin with it */
	size_t name_max, keys_max; /* bytes of a key's name, and keys */
	/* Private, except to be read: */
	LIST_HEAD(hvd_rv_keys, hvd_rv_key) all;
	size_t keys, values; /* keys that exist, and keys that have a value */
};

struct hvd_rv_waiter;

/* The key now has a value or a queue; `value` is its value, or NULL. `w` no longer waits. Returns true if the owner of
 * `w` waits for nothing else. The function must not change values, queues or marks, and takes a reference if it keeps
 * the value. */
typedef bool hvd_rv_wake_fn(struct hvd_rv_waiter *w, struct hvd_rv_value *value);

/* A wait for a key: a member of the caller's struct. */
struct hvd_rv_waiter {
	hvd_rv_wake_fn *wake;            /* the caller sets it */
	bool one;                        /* while it is woken: because of a queue, so that others go on waiting */
	struct hvd_rv_key *key;          /* NULL: not waiting. This and what follows belong to the scope */
	TAILQ_ENTRY(hvd_rv_waiter) link; /* among those of the key */
};

/* The value of a key, or NULL. It is valid until the next call that changes the scope. */
struct hvd_rv_value *hvd_rv_scope_get(const struct hvd_rv_scope *sc, struct hvd_slice key);
/* Does the key have a value, or a queue that is not empty? */
bool hvd_rv_scope_has(const struct hvd_rv_scope *sc, struct hvd_slice key);

/* Store a value, in place of the former one, and wake the waiters. The caller keeps its own reference. */
enum hvd_rv_stored hvd_rv_scope_put(struct hvd_rv_scope *sc, struct hvd_slice key, struct hvd_rv_value *v);
/* Store a copy of these bytes, which may be a part of the key's own value, and wake the waiters if `wake`. */
enum hvd_rv_stored hvd_rv_scope_set(struct hvd_rv_scope *sc, struct hvd_slice key, struct hvd_slice bytes, bool wake);
/* Add bytes to the end of the value, or store them if there is none, and wake the waiters. */
enum hvd_rv_stored hvd_rv_scope_append(struct hvd_rv_scope *sc, struct hvd_slice key, struct hvd_slice bytes);
/* Remove the value. False when there was none. */
bool hvd_rv_scope_remove(struct hvd_rv_scope *sc, struct hvd_slice key);
/* Remove all values, queues and marks. Waiters go on waiting. */
void hvd_rv_scope_clear(struct hvd_rv_scope *sc);

/* Put a value at the end of the key's queue, and wake waiters, the oldest first, up to the first that waits for nothing
 * else. The caller keeps its own reference. */
enum hvd_rv_stored hvd_rv_scope_push(struct hvd_rv_scope *sc, struct hvd_slice key, struct hvd_rv_value *v);
/* Take the value at the front of the key's queue; the caller owns the reference. NULL when the queue is empty. */
struct hvd_rv_value *hvd_rv_scope_pop(struct hvd_rv_scope *sc, struct hvd_slice key);
/* The values in the key's queue. */
size_t hvd_rv_scope_queued(const struct hvd_rv_scope *sc, struct hvd_slice key);

/* Wait until the key gets a value or its queue one more. */
enum hvd_rv_stored hvd_rv_scope_wait(struct hvd_rv_scope *sc, struct hvd_slice key, struct hvd_rv_waiter *w);
/* Stop waiting. A waiter that does not wait is fine. */
void hvd_rv_unwait(struct hvd_rv_waiter *w);
/* Wake all waiters of a key. */
void hvd_rv_scope_wake(struct hvd_rv_scope *sc, struct hvd_slice key);
/* Wake the oldest waiters of a key, up to the first that waits for nothing else. False when none of them did. */
bool hvd_rv_scope_wake_one(struct hvd_rv_scope *sc, struct hvd_slice key);
/* Does anybody wait for the key? hvd_rv_scope_awaited(): does anybody wait for it or watch it? */
bool hvd_rv_scope_waited(const struct hvd_rv_scope *sc, struct hvd_slice key);
bool hvd_rv_scope_awaited(const struct hvd_rv_scope *sc, struct hvd_slice key);
/* The scope, and the name of the key, that a waiter waits for. NULL and empty for one that does not wait. */
struct hvd_rv_scope *hvd_rv_waiter_scope(const struct hvd_rv_waiter *w);
struct hvd_slice hvd_rv_waiter_key(const struct hvd_rv_waiter *w);

/* A watch of a key: a member of the caller's struct. */
struct hvd_rv_watch {
	/* The caller sets it. It is called when the key has changed, or before the scope is freed: `key` is then NULL.
	 * It must not change the scope, but may end waits. */
	void (*changed)(struct hvd_rv_watch *w);
	struct hvd_rv_key *key;        /* NULL: of none. This and what follows belong to the scope */
	LIST_ENTRY(hvd_rv_watch) link; /* among those of the key */
};

/* Call w->changed for each change of the key: of its value, of whether it has a queue, and of hvd_rv_scope_ask(). */
enum hvd_rv_stored hvd_rv_scope_watch(struct hvd_rv_scope *sc, struct hvd_slice key, struct hvd_rv_watch *w);
/* A watch of no key is fine. */
void hvd_rv_unwatch(struct hvd_rv_watch *w);
/* The scope of a watch; NULL for a watch of no key. */
struct hvd_rv_scope *hvd_rv_watch_scope(const struct hvd_rv_watch *w);
/* The state of a watch's key; empty for a watch of no key. */
struct hvd_rv_watch_state {
	struct hvd_rv_value *value; /* or NULL */
	bool queued, ask;
};
struct hvd_rv_watch_state hvd_rv_watch_state(const struct hvd_rv_watch *w);
/* Call the watches of a key. */
void hvd_rv_scope_touch(struct hvd_rv_scope *sc, struct hvd_slice key);

/* The value of this key changes often, so relays should not cache it. That lasts as long as the key exists. */
void hvd_rv_scope_ask(struct hvd_rv_scope *sc, struct hvd_slice key);

/* Before a scope is freed: end all watches of its keys. */
void hvd_rv_scope_end(struct hvd_rv_scope *sc);

/* Mark a key; it need not exist. Returns true if it was not marked before. *why is not HVD_RV_STORED if there was no
 * room. */
bool hvd_rv_scope_mark(struct hvd_rv_scope *sc, struct hvd_slice key, enum hvd_rv_stored *why);

/* The keys that have a value, in no order: the one after `after`, or the first. NULL when there are no more. Valid
 * until the next call that changes the scope. */
const struct hvd_rv_key *hvd_rv_scope_next(const struct hvd_rv_scope *sc, const struct hvd_rv_key *after);
struct hvd_slice hvd_rv_key_name(const struct hvd_rv_key *key);

#endif
