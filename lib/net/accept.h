/* SPDX-License-Identifier: Apache-2.0 */
/*
 * accept.h - connections of a listening socket, a bounded number in each turn of the event loop.
 *
 * Anybody may connect to a port, and as often as he likes. Whoever accepts until there is nothing left never comes
 * back where connections arrive faster than they are accepted: no timer and no signal is seen any more, and nobody
 * else is answered. So each turn of the loop accepts HVD_ACCEPT_TURN of them at most, and the rest waits in the
 * kernel's queue until all else had its turn.
 *
 * When the process has no descriptor left, the connection stays in the queue, too, and would be reported again at
 * once: accepting pauses for a while, unless the owner can do without another connection.
 *
 * One thread: that of the event base. Every function may be called from within a callback.
 */
#ifndef HVD_ACCEPT_H
#define HVD_ACCEPT_H

#include "lib/base/err.h"

#include <event2/event.h>
#include <stdbool.h>
#include <sys/socket.h>

#define HVD_ACCEPT_TURN     32  /* connections in a turn of the loop */
#define HVD_ACCEPT_PAUSE_MS 100 /* that nothing is accepted where descriptors have run out */

struct hvd_acceptor;

struct hvd_acceptor_ops {
	/* One has come. `fd` is the callee's: non-blocking, close-on-exec. `peer` is whom accept4() has named, valid
	 * during the call. */
	void (*accepted)(void *arg, int fd, const struct sockaddr_storage *peer);
	/* No descriptor (or memory of the kernel's) is left for one more. True when one was freed: it is tried again;
	 * false to pause. NULL: pause. */
	bool (*full)(void *arg);
	/* Asked in front of each one: may it be taken? False leaves it in the queue, and asks again in the next turn
	 * unless the callee has paused. NULL: always. */
	bool (*ready)(void *arg);
};

/* Accept what comes to `fd`, which listens and is non-blocking, from now on. The descriptor is the acceptor's. `ops` is
 * copied. NULL with err set; then `fd` is still the caller's. */
struct hvd_acceptor *hvd_acceptor_create(struct event_base *base, int fd, const struct hvd_acceptor_ops *ops, void *arg,
					 struct hvd_err *err);
void hvd_acceptor_destroy(struct hvd_acceptor *ac); /* closes the socket, and so all that waits; NULL is fine */

/* Accept nothing until hvd_acceptor_resume(). Who connects meanwhile waits in the kernel's queue. */
void hvd_acceptor_pause(struct hvd_acceptor *ac);
void hvd_acceptor_resume(struct hvd_acceptor *ac);

/* A turn at once, in place of one from the loop; nothing while it pauses. For an owner that is about to end, and wants
 * those who are in the queue already. */
void hvd_acceptor_turn(struct hvd_acceptor *ac);

/* The socket, for getsockname(). */
int hvd_acceptor_fd(const struct hvd_acceptor *ac);

#endif
