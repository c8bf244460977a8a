/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upstream.h - the store (store_api.h) of a relay: what it knows of the root's keys, and operations that the root
 * carries out, over one connection to its parent. relay_wire.h has the messages.
 *
 * The relay watches each key that a client has asked for. The parent sends the key's value, or that it has none, or
 * that the relay must ask for it each time (counters, queues, scopes with hooks); and then each change. The relay keeps
 * values in its own store, where clients wait for keys as they do at the root. So all of a host's reads of a key cross
 * the network once, and a poll for a missing key never does.
 *
 * Operations are calls. Each client has at most one under way, and its further requests wait for the answer. So a
 * client never reads anything older than what it has written. It may see the writes of others later than they do, but
 * never later than anything that was written afterwards.
 *
 * When the parent is lost, requests wait until there is another one (hvd_rv_relay_up()). If the owner says that there
 * will be none, clients are closed.
 *
 *   upstream.c              the connection to the parent, and its messages
 *   upstream_calls.c        operations that the root carries out
 *   upstream_epochs.c       epochs of the TCPStore
 *   upstream_keys.c         what is known of keys
 *   upstream_send.c         messages to the parent, and the answers that it owes
 *
 * Each file calls only those below it. Only server.c calls upstream.c, because upstream.c calls the TCPStore and
 * downstream.h. One thread, that of the server.
 */
#ifndef HVD_RENDEZVOUS_UPSTREAM_H
#define HVD_RENDEZVOUS_UPSTREAM_H

#include "internal.h"
#include "lib/base/hash.h"
#include "relay_wire.h"

/* For server.c. */
struct hvd_upstream *hvd_upstream_create(struct hvd_rv *rv);
void hvd_upstream_destroy(struct hvd_upstream *up); /* NULL is fine */
/* From now on there is another parent, or, with NULL, none for ever. Takes ownership of the connection. */
void hvd_upstream_connect(struct hvd_upstream *up, struct hvd_conn *conn, bool shared);
/* A message of the parent: a hvd_conn_bytes_fn, whose last argument is the upstream. */
void hvd_upstream_bytes(unsigned channel, const void *data, size_t len, void *arg);

/* For store_api.c, as the functions there. */
bool hvd_upstream_submit(struct hvd_upstream *up, const struct hvd_store_op *op, struct hvd_store_result *now,
			 struct hvd_store_call *call);
void hvd_upstream_abandon(struct hvd_upstream *up, struct hvd_store_call *call);
enum hvd_cache hvd_upstream_know(struct hvd_upstream *up, const struct hvd_store_scope_id *scope, struct hvd_slice key,
				 bool waits, struct hvd_store_lookup *lookup);
void hvd_upstream_depart(struct hvd_upstream *up, struct hvd_store_client *client);
/* The scope here of an epoch; NULL when there is no room. It lasts while it is in use. */
struct hvd_rv_scope *hvd_upstream_epoch_ref(struct hvd_upstream *up, uint32_t epoch);
void hvd_upstream_epoch_unref(struct hvd_upstream *up, struct hvd_rv_scope *scope);
/* Relays below, and clients here, have no use for a WAKE of the parent. */
void hvd_upstream_unused(struct hvd_upstream *up, const struct hvd_store_scope_id *scope, struct hvd_slice key);
/* The relay below that got a WAKE of one has forgotten the key: whoever waits here may be due for it. */
void hvd_upstream_unwatched(struct hvd_upstream *up, const struct hvd_store_scope_id *scope, struct hvd_slice key);
/* Send a message, if there is a parent. */
void hvd_upstream_send(struct hvd_upstream *up, const struct hvd_relay_msg *msg);
bool hvd_upstream_is_lost(const struct hvd_upstream *up);

/* --- for upstream*.c --- */

/* An epoch of the TCPStore. */
struct epoch {
	struct epoch *next;
	uint32_t number;
	size_t refs; /* connections and watches that use it */
	struct hvd_rv_scope *scope;
};

struct hvd_upstream {
	struct hvd_rv *rv;
	struct hvd_conn *conn;     /* NULL: no parent at present */
	bool shared;               /* it is another's, and carries other messages, too */
	bool lost;                 /* there will be none */
	bool handling;             /* a message of the parent is being handled */
	unsigned asked_waits;      /* the parent waits for so many WAITS of ours */
	size_t owed;               /* answers that the parent should have at once: of watches, and of most calls */
	struct hvd_rv_timer timer; /* when they are overdue */

	uint64_t seed;
	struct hvd_hash_table keys, watches;              /* by scope and name; by id */
	TAILQ_HEAD(keys_by_use, hvd_upstream_key) by_use; /* the key that was unused for longest first */
	struct epoch *epochs;                             /* the newest first */
	uint32_t last_watch;

	struct hvd_hash_table calls_by_id;
	TAILQ_HEAD(pending_calls, pending_call) calls; /* by rising id */
	uint64_t last_call;
	uint32_t last_client; /* the number of the last connection that the root was told of */
};

/* upstream_send.c */
/* Change by `more` how many answers the parent owes. */
void hvd_upstream_owes(struct hvd_upstream *up, int more);
/* The parent has sent something: its deadline for the other answers starts again. */
void hvd_upstream_expect(struct hvd_upstream *up);

/* upstream_keys.c */
void hvd_upstream_keys_init(struct hvd_upstream *up);
void hvd_upstream_keys_free(struct hvd_upstream *up);
/* There is a parent now: send it all watches. hvd_upstream_keys_unknown(): there is none any longer. */
void hvd_upstream_keys_begin(struct hvd_upstream *up);
void hvd_upstream_keys_unknown(struct hvd_upstream *up);
/* A message of the parent about the key with this watch. */
void hvd_upstream_key_value(struct hvd_upstream *up, uint32_t watch, struct hvd_rv_value *v);
/* There is no value here: HVD_CACHE_HIT for ABSENT; HVD_CACHE_REMOTE or HVD_CACHE_REMOTE_EMPTY for ASK. */
void hvd_upstream_key_none(struct hvd_upstream *up, uint32_t watch, enum hvd_cache state);
void hvd_upstream_key_wake(struct hvd_upstream *up, uint32_t watch, bool all);
/* Forget all keys of an epoch. */
void hvd_upstream_keys_forget(struct hvd_upstream *up, const struct epoch *epoch);
/* Forget keys that nobody needs at present, the oldest first, until about `bytes` bytes are free. */
void hvd_upstream_make_room(struct hvd_upstream *up, size_t bytes);

/* upstream_epochs.c */
/* Forget epochs that nobody uses, but not the newest unless `newest`. */
void hvd_upstream_epochs_tidy(struct hvd_upstream *up, bool newest);

/* upstream_calls.c */
void hvd_upstream_calls_init(struct hvd_upstream *up);
void hvd_upstream_calls_free(struct hvd_upstream *up);
/* Send all calls, to a new parent. */
void hvd_upstream_calls_begin(struct hvd_upstream *up);
void hvd_upstream_answer(struct hvd_upstream *up, uint64_t id, const struct hvd_store_result *result);

#endif
