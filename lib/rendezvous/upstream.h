/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upstream.h - the store (store_api.h) of a relay: what it knows of the root's keys, and operations that the root
 * carries out, over one connection to its parent. The messages are in relay_wire.h.
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
 * One thread, that of the server.
 */
#ifndef HVD_RENDEZVOUS_UPSTREAM_H
#define HVD_RENDEZVOUS_UPSTREAM_H

#include "store_api.h"

struct hvd_conn;
struct hvd_rv;
struct hvd_upstream;

/* For server.c. */
struct hvd_upstream *hvd_upstream_create(struct hvd_rv *rv);
void hvd_upstream_destroy(struct hvd_upstream *up); /* NULL is fine */
/* There is another parent from now on, or, with NULL, none for ever. Takes the connection. */
void hvd_upstream_connect(struct hvd_upstream *up, struct hvd_conn *conn, bool shared);
void hvd_upstream_bytes(struct hvd_upstream *up, const void *data, size_t len);

/* For store_api.c, as the functions there. */
bool hvd_upstream_submit(struct hvd_upstream *up, const struct hvd_store_op *op, struct hvd_store_result *now,
			 struct hvd_store_call *call);
void hvd_upstream_abandon(struct hvd_upstream *up, struct hvd_store_call *call);
enum hvd_cache hvd_upstream_know(struct hvd_upstream *up, const struct hvd_store_scope_id *scope, struct hvd_slice key,
				 bool waits, struct hvd_store_lookup *lookup);
void hvd_upstream_depart(struct hvd_upstream *up, struct hvd_store_place *place);
/* The scope here of an epoch; NULL when there is no room. It lasts while it is in use. */
struct hvd_rv_scope *hvd_upstream_generation(struct hvd_upstream *up, uint32_t epoch);
void hvd_upstream_generation_unref(struct hvd_upstream *up, struct hvd_rv_scope *scope);
/* The parent's WAKE was of no use to relays below, and nobody else waits here. */
void hvd_upstream_unused(struct hvd_upstream *up, const struct hvd_store_scope_id *scope, struct hvd_slice key);
void hvd_upstream_pass(struct hvd_upstream *up, const struct hvd_relay_msg *msg);
bool hvd_upstream_is_lost(const struct hvd_upstream *up);

#endif
