/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h - from the driver's addresses to one signed connection.
 *
 * All addresses are tried at once, since which of them leads to the driver is
 * what nobody knows yet. Who greets first is asked to prove himself; the others
 * wait, and take their turn when he fails or is slow.
 *
 * A driver that is flooded closes connections without a word. Such an address is
 * tried again, less and less often, until the deadline. It is given up when a
 * connection cannot be made there, or when whoever is there says what is wrong.
 */
#ifndef HVD_LINK_H
#define HVD_LINK_H

#include "lib/protocol/boot.h"
#include "lib/protocol/conn.h"
#include "lib/protocol/handshake.h"

struct hvd_link;

/* `up` is called once with the established connection, which the callee then owns; `down` once, when no address is
 * left or the deadline has passed, with what happened at each of them. Either call is the link's last. */
struct hvd_link *hvd_link_create(struct event_base *base, const struct hvd_boot *boot, struct hvd_session *session,
				 hvd_time deadline, void (*up)(struct hvd_conn *conn, void *arg),
				 void (*down)(const struct hvd_err *why, void *arg), void *arg);
void hvd_link_destroy(struct hvd_link *link); /* NULL is fine; not from within its callbacks: afterwards */

#endif
