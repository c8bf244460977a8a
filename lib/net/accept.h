/* SPDX-License-Identifier: Apache-2.0 */
/*
 * accept.h - accept the connections of a listening socket, a bounded number in each turn of the event loop.
 *
 * Anybody can connect to a port as often as they like. If connections arrive faster than a program accepts them, a loop
 * that accepts until the queue is empty never ends: it handles no timer, no signal and no other client. So each turn of
 * the event loop accepts at most HVD_ACCEPT_TURN connections. The others wait in the kernel's queue until all other
 * events are handled.
 *
 * If the process has no descriptor left, a connection stays in the queue, and the event loop would report it again at
 * once. So the acceptor pauses for a while, unless the owner closes another connection.
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
	/* A connection was accepted. The callee owns `fd`, which is non-blocking and close-on-exec. `peer` is the
	 * address from accept4(), valid during the call. */
	void (*accepted)(void *arg, int fd, const struct sockaddr_storage *peer);
	/* No descriptor (or memory of the kernel's) is left for a connection. Return true after freeing one, to try
	 * again; false to pause. NULL: pause. */
	bool (*full)(void *arg);
	/* Called before each connection: may it be accepted? False leaves it in the queue until the next turn, or until
	 * the owner resumes an acceptor that the callee has paused. NULL: always. */
	bool (*ready)(void *arg);
};

/* Accept the connections of `fd`, which listens and is non-blocking. The acceptor owns `fd`. `ops` is copied. Returns
 * NULL with err set; then `fd` is still the caller's. */
struct hvd_acceptor *hvd_acceptor_create(struct event_base *base, int fd, const struct hvd_acceptor_ops *ops, void *arg,
					 struct hvd_err *err);
void hvd_acceptor_destroy(
	struct hvd_acceptor *ac); /* closes the socket and the connections in its queue; NULL is fine */

/* Accept nothing until hvd_acceptor_resume(). New connections wait in the kernel's queue. */
void hvd_acceptor_pause(struct hvd_acceptor *ac);
void hvd_acceptor_resume(struct hvd_acceptor *ac);

/* Do a turn now; do nothing while the acceptor is paused. For an owner that is about to end and wants the connections
 * that are already in the queue. */
void hvd_acceptor_turn(struct hvd_acceptor *ac);

#endif
