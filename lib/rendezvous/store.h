/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - values by scope and key, in memory, within limits.
 *
 * Values are counted by reference: one that is being sent to many readers is
 * there once, and stays readable for them when it is replaced or removed.
 * Every byte that a client can make the store hold (values, also those not
 * stored yet or only still being sent, names, and the bookkeeping for both) is
 * counted against one total.
 *
 * Who wants a key that is not there can wait for it; see hvd_rv_store_wait().
 *
 * One thread. The store must outlive the values taken from it.
 */
#ifndef HVD_RENDEZVOUS_STORE_H
#define HVD_RENDEZVOUS_STORE_H

#include "http.h"
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

/* Embedded in whatever waits for a key. The fields belong to the store. */
struct hvd_rv_waiter {
	struct hvd_rv_entry *entry; /* NULL: not waiting */
	struct hvd_rv_waiter *prev, *next;
};

/* The key has come. Called once for each waiter, from hvd_rv_store_put(); the waiter is out of the store
 * already. It must not call hvd_rv_store_put() itself. Take a reference to keep the value. */
typedef void hvd_rv_wake_fn(void *arg, struct hvd_rv_waiter *w, struct hvd_rv_value *value);

struct hvd_rv_store *hvd_rv_store_create(const struct hvd_rv_store_limits *limits, hvd_rv_wake_fn *wake, void *arg);
void hvd_rv_store_destroy(struct hvd_rv_store *st); /* NULL is fine; nobody may be waiting any more */

/* What values for this store are paid from. */
struct hvd_rv_budget *hvd_rv_store_budget(struct hvd_rv_store *st);

/* Store it, in place of what was there, and wake who waits for it. The caller keeps its own reference. */
enum hvd_rv_stored hvd_rv_store_put(struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key,
				    struct hvd_rv_value *v);

/* The value, on loan until the next call that changes the store, or NULL. */
struct hvd_rv_value *hvd_rv_store_get(const struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key);

/*
 * A member has no more use for its key. In a scope of known size the values stay, since others may still be
 * reading, until as many different keys as the scope has members were given up; then the scope's values go, all
 * at once, and the count begins anew: 1. In any other scope the key goes. Unknown names are fine. -1 only when
 * there was no room to remember it.
 */
int hvd_rv_store_delete(struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key);

/* Say how many members a scope has; 0 forgets it. -1 when there was no room. */
int hvd_rv_store_scope_size(struct hvd_rv_store *st, struct hvd_slice scope, size_t members);

/* Forget all values and scope sizes, but those of the scope `kept`, which may be empty: no scope has that name. Who
 * waits goes on waiting. */
void hvd_rv_store_clear(struct hvd_rv_store *st, struct hvd_slice kept);
/* Forget the values of one scope, not its size. */
void hvd_rv_store_clear_scope(struct hvd_rv_store *st, struct hvd_slice scope);

/* Be woken when the key comes. -1 when there was no room. The key must not be there. */
int hvd_rv_store_wait(struct hvd_rv_store *st, struct hvd_slice scope, struct hvd_slice key, struct hvd_rv_waiter *w);
/* Wait no longer. A waiter that is not waiting is fine. */
void hvd_rv_store_unwait(struct hvd_rv_store *st, struct hvd_rv_waiter *w);

struct hvd_rv_store_stats {
	size_t bytes, bytes_peak; /* counted against total_max */
	size_t keys, scopes;      /* that have a value; that exist */
	size_t waiters;
};
void hvd_rv_store_stats(const struct hvd_rv_store *st, struct hvd_rv_store_stats *out);

#endif
