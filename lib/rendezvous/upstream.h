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
void hvd_upstream_pass(struct hvd_upstream *up, const struct hvd_relay_msg *msg);
bool hvd_upstream_is_lost(const struct hvd_upstream *up);

#endif
