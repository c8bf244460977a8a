/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - values by scope and key, in memory, within limits.
 *
 * All memory that a client can make the store use counts against one total: values, including those that are not stored
 * yet or are still being sent; names; and the bookkeeping for both.
 *
 * A caller can wait for a key that has no value: see hvd_rv_store_wait().
 *
 * One thread. The store must outlive the values taken from it.
 */
#ifndef HVD_RENDEZVOUS_STORE_H
#define HVD_RENDEZVOUS_STORE_H

#include "scope.h"
#include "slice.h"
#include "value.h"

#include <stddef.h>
#include <stdint.h>

struct hvd_rv_store;

struct hvd_rv_store_limits {
	size_t value_max;      /* bytes of one value */
	size_t total_max;      /* bytes of everything */
	size_t name_max;       /* bytes of a scope's or a key's name */
	size_t scopes_max;     /* scopes */
	size_t scope_keys_max; /* keys of one scope */
};

struct hvd_rv_store *hvd_rv_store_create(const struct hvd_rv_store_limits *limits);
void hvd_rv_store_destroy(
	struct hvd_rv_store *st); /* NULL is fine; there must be no waiters, and no scopes without a name */

/* The budget of this store's values. */
struct hvd_rv_budget *hvd_rv_store_budget(struct hvd_rv_store *st);

/* Store a value, in place of the former one, and wake the waiters. The caller keeps its own reference. */
enum hvd_rv_stored hvd_rv_store_put(struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key,
				    struct hvd_rv_value *v);

/* The value, or NULL. It is valid until the next call that changes the store. */
struct hvd_rv_value *hvd_rv_store_get(const struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key);

/* The scope with this name, or NULL. It is valid until the next call that changes the store. */
struct hvd_rv_scope *hvd_rv_store_scope(const struct hvd_rv_store *st, struct hvd_slice name);

/*
 * A member of the scope no longer needs its key. In a scope of known size the values stay, because other members may
 * still read them, until as many different keys were deleted as the scope has members. Then all values of the scope are
 * removed, the count starts again, and the function returns 1. In a scope of unknown size the key is removed. Unknown
 * names are fine. Returns -1 only if there was no room to remember the deletion.
 */
int hvd_rv_store_delete(struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key);

/* Set how many members a scope has; 0: not known. -1 when there was no room. */
int hvd_rv_store_scope_size(struct hvd_rv_store *st, struct hvd_slice scope, size_t members);

/* A scope without a name: only its owner can reach it (scope.h), and hvd_rv_store_clear() leaves it alone. Keys have
 * names of at most `name_max` bytes; there are at most keys_max. NULL when there was no room. */
struct hvd_rv_scope *hvd_rv_store_scope_new(struct hvd_rv_store *st, size_t name_max, size_t keys_max);
/* Forget the scope and all that is in it. There must be no waiters. NULL is fine. */
void hvd_rv_store_scope_free(struct hvd_rv_store *st, struct hvd_rv_scope *sc);

/* Keep the scope, which has a value, until the store is destroyed: hvd_rv_store_clear() leaves it alone. */
void hvd_rv_store_lasting(struct hvd_rv_store *st, struct hvd_slice scope);

/* Forget all values and scope sizes, except those of the scope `kept` and of lasting ones. If kept.p is NULL, forget
 * those of all other scopes with names. Waiters go on waiting. */
void hvd_rv_store_clear(struct hvd_rv_store *st, struct hvd_slice kept);
/* Forget the values of one scope, not its size. */
void hvd_rv_store_clear_scope(struct hvd_rv_store *st, struct hvd_slice scope);

/* Wake this waiter when the key gets a value; it must have none. -1 when there was no room. */
int hvd_rv_store_wait(struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key, struct hvd_rv_waiter *w);
/* Stop waiting. A waiter that does not wait is fine. */
void hvd_rv_store_unwait(struct hvd_rv_store *st, struct hvd_rv_waiter *w);

/* Call w->changed for each change of the key (scope.h), which need not exist. Unwatching a watch of no key is fine. */
enum hvd_rv_stored hvd_rv_store_watch(struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key,
				      struct hvd_rv_watch *w);
void hvd_rv_store_unwatch(struct hvd_rv_store *st, struct hvd_rv_watch *w);

struct hvd_rv_store_stats {
	size_t bytes, bytes_peak; /* counted against total_max */
	size_t keys, scopes;      /* keys that have a value; scopes that exist */
	size_t waiters;
	uint64_t changes; /* of what is stored, see struct hvd_rv_table */
};
void hvd_rv_store_stats(const struct hvd_rv_store *st, struct hvd_rv_store_stats *out);

#endif
