/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_api.h - the store as its front ends use it: HTTP (request.c), PyTorch's TCPStore (tcpstore.h), and relays that
 * are connected to this server (downstream.h). They cannot tell whether the store is here (store_local.c) or at the
 * root (upstream.h).
 *
 * A request that changes something, or counts, is an operation (store_op.h). An operation that needs nothing from
 * elsewhere is carried out within the call. A request that only reads asks what is known of a key, and looks into the
 * scope here if the scope has the key. A front end that needs each change watches the key.
 *
 * One thread, that of the server. `answered` and `resume` are called from the event loop, or from within another call
 * of the store, never from within the call that they belong to.
 */
#ifndef HVD_RENDEZVOUS_STORE_API_H
#define HVD_RENDEZVOUS_STORE_API_H

#include "lib/net/addr.h"
#include "scope.h"
#include "store_op.h"
#include "tcpstore_epoch.h"

struct hvd_relay_msg;
struct hvd_rv_request;
struct hvd_store_call;
struct hvd_store_local;
struct hvd_store_lookup;
struct hvd_upstream;

/* What is known of a key. */
enum hvd_cache {
	HVD_CACHE_PENDING,      /* it was asked for, and the lookup is resumed once */
	HVD_CACHE_HIT,          /* the scope here has all there is: the key's value, its queue, or nothing */
	HVD_CACHE_REMOTE,       /* there is a value or a queue, which only an operation can read */
	HVD_CACHE_REMOTE_EMPTY, /* an operation has to read it, and it has nothing at present */
	HVD_CACHE_NO_ROOM,      /* an operation can read it; there is no room to know whether it has something */
};

/* A connection to the TCPStore, or to a relay's. Zeroed but for `from` and `pid`: it is in no epoch yet. */
struct hvd_store_client {
	struct hvd_addr from; /* of the process; `pid` as it sends it, 0 = it sends none; the caller sets both */
	uint32_t pid;
	struct hvd_rv_scope *scope; /* the values that it sees, as far as they are here; NULL: it is in no epoch */
	uint32_t epoch;             /* the number of `scope` */
	bool begun;                 /* it has used a key of a default process group */
	/* Private: */
	struct hvd_tcpstore_member member;
	uint32_t number; /* the root's number for it; 0 = the root does not know it */
};

/* The scopes here, and either `local` or `upstream`. */
struct hvd_store {
	struct hvd_rv_store *scopes;
	struct hvd_store_local *local;
	struct hvd_upstream *upstream;
};

/* An operation that is under way. A member of the caller's struct. */
struct hvd_store_call {
	void (*answered)(struct hvd_store_call *call, const struct hvd_store_result *result); /* the caller sets it */
	/* Private: */
	uint64_t id;                  /* at the root; 0: none is under way there */
	struct hvd_store_local *of;   /* here: …, */
	struct hvd_rv_waiter waiter;  /* a BARRIER to which others have not come yet, */
	struct hvd_rv_request *taken; /* or a GET that a hook will answer */
	struct hvd_store_result *now; /* while the hook is asked */
};

/* Carry out an operation. True: *now is the result, which the caller clears. False: call->answered is called once. The
 * names of *op are copied if necessary, and its value is referenced. The operations of the TCPStore need `op->at`,
 * which must be valid until the answer. */
bool hvd_store_submit(const struct hvd_store *st, const struct hvd_store_op *op, struct hvd_store_result *now,
		      struct hvd_store_call *call);

/* The caller no longer wants the answer, and `answered` is not called. An operation that waits for others ends; all
 * others are carried out. A call that is not under way is fine. */
void hvd_store_abandon(const struct hvd_store *st, struct hvd_store_call *call);

/* A wait for knowledge of a key: a member of the caller's struct. */
struct hvd_store_lookup {
	void (*resume)(struct hvd_store_lookup *lookup); /* ask again; the caller sets it */
	/* Private: */
	struct hvd_upstream_key *key;       /* NULL: not waiting */
	TAILQ_ENTRY(hvd_store_lookup) link; /* among those of the key */
};

/* What is known of a key? `waits`: if the key has nothing, the caller is going to wait for it in the scope here
 * (hvd_rv_scope_wait()). `lookup` may be NULL: the key is then asked for, and nobody is resumed. */
enum hvd_cache hvd_store_know(const struct hvd_store *st, const struct hvd_store_scope_id *scope, struct hvd_slice key,
			      bool waits, struct hvd_store_lookup *lookup);
/* A lookup that does not wait is fine. */
void hvd_store_lookup_end(struct hvd_store_lookup *lookup);

/* A connection is closed; its scope stays valid until hvd_store_leave(). It may be in no epoch. */
void hvd_store_depart(const struct hvd_store *st, struct hvd_store_client *client);
void hvd_store_leave(const struct hvd_store *st, struct hvd_store_client *client);

/* ---- for relays below ---- */

/* Call w->changed for each change of the key in the scope here (scope.h) and of what is known of it. The caller then
 * asks for the state (hvd_store_know(), hvd_rv_watch_state()). HVD_RV_STORED with a watch of no key: the epoch does not
 * exist. */
enum hvd_rv_stored hvd_store_watch(const struct hvd_store *st, const struct hvd_store_scope_id *scope,
				   struct hvd_slice key, struct hvd_rv_watch *w);
/* A watch of no key is fine. */
void hvd_store_unwatch(const struct hvd_store *st, const struct hvd_store_scope_id *scope, struct hvd_rv_watch *w);
/* A relay has no use for a WAKE of this key, which is watched: it is for somebody else. */
void hvd_store_unused(const struct hvd_store *st, const struct hvd_store_scope_id *scope, struct hvd_slice key,
		      const struct hvd_rv_watch *w);
/* A relay that may have got a WAKE of this key no longer watches it. */
void hvd_store_unwatched(const struct hvd_store *st, const struct hvd_store_scope_id *scope, struct hvd_slice key,
			 const struct hvd_rv_watch *w);
/* Pass a message of a relay below on to the root. False: the root is here. */
bool hvd_store_pass(const struct hvd_store *st, const struct hvd_relay_msg *msg);

/* ---- for the server ---- */

/* Has the server lost the root for ever? */
bool hvd_store_is_lost(const struct hvd_store *st);
/* All ranks start again, and no connection is in an epoch: forget all processes. */
void hvd_store_renew(const struct hvd_store *st);

#endif
