/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe_server.h - the port on which an agent answers the probes of other hosts. probe.h has the messages.
 */
#ifndef HVD_PROBE_SERVER_H
#define HVD_PROBE_SERVER_H

#include "lib/protocol/auth.h"

#include <event2/event.h>
#include <jansson.h>
#include <netinet/in.h>

/* The size limit of a ping or a pong, in bytes. A peer can make this side keep no more than that before its signature
 * is checked. */
#define HVD_PING_MAX 512
/* The size limit of a message that fills packets. Only a peer that has signed a ping may send one. A segment over
 * InfiniBand or loopback may be almost as long. */
#define HVD_PAD_MAX  65536
#define HVD_FILL_MAX (HVD_PAD_MAX + 64)

struct hvd_probe_server;

/* Listen on all addresses, at a port that the kernel chooses, and answer pings that are signed with `key` as the host
 * with this index. NULL with err set. */
struct hvd_probe_server *hvd_probe_server_create(struct event_base *base, const struct hvd_key *key, uint32_t index,
						 struct hvd_err *err);
void hvd_probe_server_destroy(struct hvd_probe_server *rs); /* NULL is fine */
in_port_t hvd_probe_server_port(const struct hvd_probe_server *rs);

/* A message of this type that is longer than one full segment of the connection `fd`. The caller owns it. */
json_t *hvd_fill_message(int fd, const char *type);

#endif
