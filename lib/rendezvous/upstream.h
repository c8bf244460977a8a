/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upstream.h - a relay's side of the connection to its parent: what it knows of the root's keys, and operations that
 * the root carries out. The messages are in relay_wire.h.
 *
 * A key that somebody here has asked for is watched: the parent tells its value, that it has none, or that it is to be
 * asked for each time (counters, queues, scopes with hooks), and each change. Values are kept in the relay's own store,
 * where clients wait for keys as they do at the root. So all of a host's reads of a key cross the network once, and a
 * poll for a missing key never does.
 *
 * Operations are calls. Each client has one at most, and its further requests wait for the answer, so what a client
 * reads is never older than what it has written. What others have written may be seen later than by the writer, but
 * never later than something that was written after it.
 *
 * When the parent is lost, requests wait until there is another one (hvd_rv_relay_up()), or for ever if it is said that
 * there will be none: then clients are closed.
 *
 * One thread, that of the server. Callbacks come from the event loop, never from within a function of this file.
 */
#ifndef HVD_RENDEZVOUS_UPSTREAM_H
#define HVD_RENDEZVOUS_UPSTREAM_H

#include "scope.h"
#include "store_op.h"

struct hvd_rv;
struct hvd_upstream;

enum hvd_known {
	HVD_KNOWN_LATER,        /* the parent was asked, and the waiter is resumed once */
	HVD_KNOWN_HERE,         /* the scope here has what the root has: the key's value, or none */
	HVD_KNOWN_ABOVE,        /* there is a value or a queue, which only a call can read */
	HVD_KNOWN_ABOVE_ABSENT, /* a call has to read it, and it has nothing at present */
	HVD_KNOWN_NO_ROOM,      /* a call can read it; there is no room to know whether it has something */
};

/* Waits to know a key. A member of the caller's struct. */
struct hvd_upstream_wait {
	void (*resume)(struct hvd_upstream_wait *w); /* ask again; the caller sets it */
	/* Private: */
	struct hvd_upstream_key *key; /* NULL: not waiting */
	struct hvd_upstream_wait *prev, *next;
};

/* What is known of a key? `waits`: the caller is going to wait for it in the scope here if there is nothing
 * (hvd_rv_scope_wait()). `w` may be NULL: then the parent is asked, and nobody is resumed. */
enum hvd_known hvd_upstream_know(struct hvd_upstream *up, const struct hvd_store_scope_id *scope, struct hvd_slice key,
				 bool waits, struct hvd_upstream_wait *w);
void hvd_upstream_unwait(struct hvd_upstream_wait *w); /* one that does not wait is fine */

/* In a relay that is a parent: the parent's WAKE was of no use to those below, and nobody else waits here. */
void hvd_upstream_unused(struct hvd_upstream *up, const struct hvd_store_scope_id *scope, struct hvd_slice key);

/* The scope here of a generation of the TCPStore. NULL when there is no room. It lasts while it is in use. */
struct hvd_rv_scope *hvd_upstream_generation(struct hvd_upstream *up, uint32_t generation);
void hvd_upstream_generation_unref(struct hvd_upstream *up, struct hvd_rv_scope *scope);

/* An operation at the root. A member of the caller's struct. */
struct hvd_upstream_call {
	void (*answered)(struct hvd_upstream_call *call,
			 const struct hvd_store_result *result); /* the caller sets it */
	/* Private: */
	uint64_t id; /* 0: not under way */
};
/* Copies the names and takes a reference to the value. `call` may be NULL: nobody is told. False when there was no
 * room: no answer comes, and the operation is not carried out. A LEAVE always has room. */
bool hvd_upstream_call(struct hvd_upstream *up, const struct hvd_store_op *op, struct hvd_upstream_call *call);
/* Ask for an answer soon: it still comes. */
void hvd_upstream_cancel(struct hvd_upstream *up, struct hvd_upstream_call *call);
/* The caller goes: nobody is told. The operation is carried out; one that waits for others is cancelled. One that is
 * not under way is fine. */
void hvd_upstream_abandon(struct hvd_upstream *up, struct hvd_upstream_call *call);

/* For downstream.h, in a relay that is a parent, too: pass on what comes from relays below, and what is for them. */
struct hvd_relay_msg;
void hvd_upstream_pass(struct hvd_upstream *up, const struct hvd_relay_msg *msg);

/* For server.c. */
struct hvd_upstream *hvd_upstream_create(struct hvd_rv *rv);
void hvd_upstream_destroy(struct hvd_upstream *up); /* NULL is fine */
/* There is another parent from now on, or, with NULL, none for ever. Takes the connection. */
void hvd_upstream_connect(struct hvd_upstream *up, struct hvd_conn *conn);
bool hvd_upstream_is_lost(const struct hvd_upstream *up); /* is there none for ever? */

#endif
