/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preauth.h - connections to a process of the launch before they are authenticated.
 *
 * Anybody can connect to the port of a driver or relay as often as they like, and stay silent. Such a server sends each
 * connection its greeting at once. A connection costs a descriptor and some hundred bytes, whatever it sends, and has ten
 * seconds to prove who it is (handshake.h). If there are too many pending connections, the server closes the
 * oldest one of the address that has most (peer_table.h). So a flood from one address does not push out clients from
 * others, and the second connection of an agent is closed before the first one of another agent. A client whose
 * connection was closed gets no message, and may try again.
 *
 * One thread: that of the event base.
 */
#ifndef HVD_PREAUTH_H
#define HVD_PREAUTH_H

#include "conn.h"
#include "handshake.h"
#include "lib/net/addr.h"

struct hvd_preauth;

struct hvd_preauth_ops {
	/* The peer has proven who it is. The callee owns the connection, and sets its callbacks (hvd_conn_set_ops). */
	void (*proven)(struct hvd_conn *conn, void *arg);
	/* The peer's proof was refused, and it was told why. */
	void (*refused)(const struct hvd_addr *from, const struct hvd_err *why, void *arg);
	/* The connection was closed because the peer has broken the protocol, or was too slow. */
	void (*dropped)(const struct hvd_addr *from, const struct hvd_err *why, void *arg);
	/* No descriptor is left for a connection, and no pending connection has one. Called once. */
	void (*full)(void *arg);
};

/* Accept connections from `fd`, which listens and is owned from now on; at most `max` are pending at a time. `session`
 * is not owned, `ops` is copied. Returns NULL with err set; then `fd` is still the caller's. */
struct hvd_preauth *hvd_preauth_create(struct event_base *base, int fd, struct hvd_session *session, unsigned max,
				       const struct hvd_preauth_ops *ops, void *arg, struct hvd_err *err);
void hvd_preauth_destroy(struct hvd_preauth *pending); /* not from within its callbacks; NULL is fine */

/* Accept no more connections. New ones wait in the kernel's queue. */
void hvd_preauth_stop(struct hvd_preauth *pending);

#endif
