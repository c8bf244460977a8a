/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dial.h - from the addresses of the driver to one signed connection.
 *
 * A dial connects to all addresses at the same time, because nobody knows yet which of them leads to the driver. The
 * first address that sends a greeting gets this side's proof of identity. The others wait, and get it in turn if the
 * first one fails or is slow.
 *
 * A driver whose port is flooded closes connections without a message. The dial connects to such an address again, at
 * growing intervals, until the deadline. It gives an address up if a connection cannot be made, or if the other side
 * sends a refusal.
 */
#ifndef HVD_DIAL_H
#define HVD_DIAL_H

#include "lib/protocol/boot.h"
#include "lib/protocol/conn.h"
#include "lib/protocol/handshake.h"

#include <stdbool.h>

struct hvd_dial;

/* Begin to connect. `boot` (the addresses) and `session` are not owned, and must outlive the dial. One of the two
 * functions is called, once, from the event loop:
 *   up     there is a connection, which the function owns
 *   down   no address is left, or the deadline has passed; `why` says what happened at each address */
struct hvd_dial *hvd_dial_create(struct event_base *base, const struct hvd_boot *boot, struct hvd_session *session,
				 hvd_time deadline, void (*up)(struct hvd_conn *conn, void *arg),
				 void (*down)(const struct hvd_err *why, void *arg), void *arg);
/* The name of the other side in messages, in place of "the driver"; `name` must outlive the dial. */
void hvd_dial_name(struct hvd_dial *link, const char *name);
void hvd_dial_destroy(struct hvd_dial *link); /* NULL is fine; not from within `up` or `down` */

#endif
