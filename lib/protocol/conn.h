/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.h - one connection that carries messages (wire.h), in a libevent loop.
 *
 * Lifetime: hvd_conn_new takes the descriptor. The connection ends by
 * hvd_conn_free, called by its owner at any time, also from within a callback.
 * When the peer goes, sends rubbish, or the connection's deadline passes,
 * `closed` is called once, after which no further callback comes; the owner
 * still has to free it. One thread: that of the event base.
 */
#ifndef HVD_CONN_H
#define HVD_CONN_H

#include "lib/base/deadline.h"
#include "wire.h"

#include <event2/event.h>

struct hvd_conn;

struct hvd_conn_ops {
	/* A message; it is released after the call unless the callback takes a reference. */
	void (*message)(struct hvd_conn *conn, json_t *msg, void *arg);
	/* It is over. why->code is HVD_OK when the peer closed it between two messages, HVD_E_TIMEOUT when the
	 * connection's deadline passed or the peer's host does not answer any longer. */
	void (*closed)(struct hvd_conn *conn, const struct hvd_err *why, void *arg);
};

/* `fd` must be connected (or connecting: then writes wait) and is made non-blocking. */
struct hvd_conn *hvd_conn_new(struct event_base *base, int fd, bool server, const struct hvd_conn_ops *ops, void *arg);
void hvd_conn_free(struct hvd_conn *conn); /* closes at once; what was not sent yet is lost */

/* Send what is queued, then close and free. The owner must not use it any longer; no callback
 * comes. A peer that does not take the bytes until the deadline loses them. */
void hvd_conn_finish(struct hvd_conn *conn, hvd_time deadline);

/* Queue a message; takes the reference. Failures come through `closed`, later. */
void hvd_conn_send(struct hvd_conn *conn, json_t *msg);

void hvd_conn_set_key(struct hvd_conn *conn, const struct hvd_key *key);
void hvd_conn_set_max(struct hvd_conn *conn, size_t max); /* see hvd_wire_set_max */

/* Close it (HVD_E_TIMEOUT) when it is still there at this time; 0 takes a deadline back. */
void hvd_conn_set_deadline(struct hvd_conn *conn, hvd_time deadline);

/* Have the kernel ask more often whether the peer's host is still there: when that has not answered for
 * HVD_CONN_WATCH_SECONDS the connection is over (HVD_E_TIMEOUT); without this it takes a minute. A process that is
 * stopped, or does not read, still has a host that answers. */
#define HVD_CONN_WATCH_SECONDS 14
void hvd_conn_watch_host(struct hvd_conn *conn);
int hvd_conn_fd(const struct hvd_conn *conn);
void hvd_conn_set_ops(struct hvd_conn *conn, const struct hvd_conn_ops *ops, void *arg);

#endif
