/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pending.h - connections to the driver that have not proven who they are yet.
 *
 * Anybody may connect to the driver's port, as often as he likes, and need not
 * say a word. Each connection is greeted at once, costs a descriptor and some
 * hundred bytes until it says something, and has ten seconds to prove who it is
 * (handshake.h). When there are too many of them, one of the address that has
 * most has to go: so he who comes from elsewhere is not driven out by a crowd,
 * and the same agent's second connection goes before another agent's first.
 * Who was driven out hears nothing, and may try again.
 *
 * One thread: that of the event base.
 */
#ifndef HVD_PENDING_H
#define HVD_PENDING_H

#include "lib/net/addr.h"
#include "lib/protocol/conn.h"
#include "lib/protocol/handshake.h"

struct hvd_pending;

struct hvd_pending_ops {
	/* This one has: the connection is the callee's, who sets its callbacks (hvd_conn_set_ops). */
	void (*proven)(struct hvd_conn *conn, void *arg);
	/* This one has tried to, and was told why it is refused. */
	void (*refused)(const struct hvd_addr *from, const struct hvd_err *why, void *arg);
	/* This one has broken a rule before it could be told anything, or was too slow. */
	void (*dropped)(const struct hvd_addr *from, const struct hvd_err *why, void *arg);
	/* No descriptor is left for one more, and no stranger has one. Called once. */
	void (*full)(void *arg);
};

/* Take connections from `fd`, which listens, and is owned from now on. At most `max` strangers at once. `session` is
 * not owned, `ops` is copied. NULL with err set; then `fd` is still the caller's. */
struct hvd_pending *hvd_pending_create(struct event_base *base, int fd, struct hvd_session *session, unsigned max,
				       const struct hvd_pending_ops *ops, void *arg, struct hvd_err *err);
void hvd_pending_destroy(struct hvd_pending *pending); /* not from within its callbacks; NULL is fine */

/* Take no more. Who connects waits in the kernel's queue. */
void hvd_pending_stop(struct hvd_pending *pending);

#endif
