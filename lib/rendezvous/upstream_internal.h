/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upstream_internal.h - what the files of a relay's own side share. Nobody else includes it.
 *
 *   upstream.c              the connection to the parent, and its messages
 *   upstream_calls.c        operations that the root carries out
 *   upstream_epochs.c       epochs of the TCPStore
 *   upstream_keys.c         what is known of keys
 *   upstream_send.c         messages to the parent, and the answers that it owes
 *
 * Each file calls only those below it. Only server.c calls upstream.c, because upstream.c calls the TCPStore and
 * downstream.h.
 */
#ifndef HVD_RENDEZVOUS_UPSTREAM_INTERNAL_H
#define HVD_RENDEZVOUS_UPSTREAM_INTERNAL_H

#include "internal.h"
#include "lib/base/hash.h"
#include "relay_wire.h"
#include "upstream.h"

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
	bool asked_waits;          /* the parent waits for our WAITS */
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
/* Send a message, if there is a parent. */
void hvd_upstream_send(struct hvd_upstream *up, const struct hvd_relay_msg *msg);
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
void hvd_upstream_key_absent(struct hvd_upstream *up, uint32_t watch);
void hvd_upstream_key_ask(struct hvd_upstream *up, uint32_t watch, bool present);
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
