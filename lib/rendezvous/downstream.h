/* SPDX-License-Identifier: Apache-2.0 */
/*
 * downstream.h - a parent's side of the connections to its relays. relay_wire.h has the messages.
 *
 * The root carries out calls on the store in the order in which they arrive, each once. It keeps the last answers to a
 * relay until that relay confirms that it has them. A relay that is a parent passes calls on (upstream.h), and
 * answers watches from its own store, as it does for its clients.
 *
 * A parent sends a change of a key to each relay that watches the key, after everything that it has sent before. If a
 * relay does not read, its parent keeps a list of changed keys, not of values, and sends their latest values when the
 * relay reads again. So a slow or stopped relay costs little memory, and delays nobody else.
 *
 * A relay whose connection has ended may come back over another parent. If it does not within hvd_rv_config.relay_back
 * seconds, its processes count as having left the store.
 */
#ifndef HVD_RENDEZVOUS_DOWNSTREAM_H
#define HVD_RENDEZVOUS_DOWNSTREAM_H

#include "lib/net/addr.h"
#include "store_op.h"

#include <stddef.h>
#include <stdint.h>

#define HVD_RELAY_BACK_SECONDS 15.0

struct hvd_conn;
struct hvd_relay_msg;
struct hvd_rv;
struct hvd_downstream;

struct hvd_downstream *hvd_downstream_create(struct hvd_rv *rv);
void hvd_downstream_destroy(struct hvd_downstream *down); /* NULL is fine */

/* A relay has connected, and has proven that it belongs to this launch. Takes ownership of the connection. */
void hvd_downstream_take(struct hvd_downstream *down, struct hvd_conn *conn);
/* See hvd_rv_child_share(). */
struct hvd_rv_child *hvd_downstream_share(struct hvd_downstream *down, struct hvd_conn *conn,
					  void (*dropped)(bool broken, void *arg), void *arg);
/* A message of a child: a hvd_conn_bytes_fn, whose last argument is the child. */
void hvd_downstream_bytes(unsigned channel, const void *data, size_t len, void *arg);
/* Only these relays may be connected from now on; others are closed. NULL: any. */
void hvd_downstream_admit(struct hvd_downstream *down, const uint32_t *relay_ids, size_t n);
/* The relays that are connected now. */
size_t hvd_downstream_count(const struct hvd_downstream *down);
/* In a relay that has lost its parent: close the connections of all relays below. */
void hvd_downstream_drop(struct hvd_downstream *down);
/* Send RENEW to all relays below. */
void hvd_downstream_renew(struct hvd_downstream *down);
/* Ask all relays below what their clients wait for. `done` is called once, when all have answered or a second has
 * passed. It frees the text, which is NULL if nobody waits. */
void hvd_downstream_ask_waits(struct hvd_downstream *down, unsigned max, void (*done)(char *text, void *arg),
			      void *arg);
/* In a relay: pass an answer of the parent on to a relay below. */
void hvd_downstream_pass(struct hvd_downstream *down, const struct hvd_relay_msg *msg);

#endif
