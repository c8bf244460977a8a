/* SPDX-License-Identifier: Apache-2.0 */
/*
 * responder.h - a node agent answers the probes of the others (see probe.h for the messages).
 */
#ifndef HVD_RESPONDER_H
#define HVD_RESPONDER_H

#include "lib/protocol/auth.h"

#include <event2/event.h>
#include <jansson.h>
#include <netinet/in.h>

/* Bytes of a ping or a pong: no more is kept of a peer's before its signature is looked at. */
#define HVD_PING_MAX 512
/* Of a message that fills packets, which is taken only of who has signed a ping: a segment over InfiniBand or loopback
 * may be almost as long. */
#define HVD_PAD_MAX  65536
#define HVD_FILL_MAX (HVD_PAD_MAX + 64)

struct hvd_responder;

/* Listens on all addresses, at a port of the kernel's choice, and answers for host `index` whoever signs with
 * `key`. NULL with err set. */
struct hvd_responder *hvd_responder_create(struct event_base *base, const struct hvd_key *key, uint32_t index,
					   struct hvd_err *err);
void hvd_responder_destroy(struct hvd_responder *rs); /* NULL is fine */
in_port_t hvd_responder_port(const struct hvd_responder *rs);

/* A message of that type which takes more than one full segment of the connection. */
json_t *hvd_fill_message(int fd, const char *type);

#endif
