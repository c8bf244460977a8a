/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay.h - a host's relay of the rendezvous: a server (lib/rendezvous/server.h) for the host's ranks over loopback,
 * which reaches the root by the agent's connection to the driver, or by another relay.
 *
 * The node agent opens the sockets before it registers, so that the plan can name their ports, and ranks can connect
 * from the first moment on: they wait in the kernel's queue. The relay runs in the agent's event loop. Only this user's
 * processes may connect over loopback. Other relays, where the plan has them connect to this one, prove that they
 * belong to the launch (lib/protocol/handshake.h), and so does this relay to its parent, with a key that is derived
 * from the launch's. The relay of rank 0's host may listen on the network, too (launcher/driver/relays.h).
 *
 * A relay that has lost its parent, or does not reach it, goes over to the agent's connection. When that has ended
 * there is no root any longer: the relay closes its clients' connections, and says so where ranks waited.
 */
#ifndef HVD_RELAY_H
#define HVD_RELAY_H

#include "driver_client.h"
#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/protocol/boot.h"
#include "taskinfo.h"

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>

/* Zeroed, or without a port: there are none. */
struct hvd_relay_sockets {
	in_port_t port, network_port, children_port; /* 0 = there is no such socket */
	int fd, network, children;                   /* they listen; owned */
	struct hvd_err refusal;                      /* why there are none; no code = there are */
};

/* For the node agent, before the event loop runs: open the sockets, and have the agent register them. Where they cannot
 * be opened the agent says why its host takes no part; *out must stay then as long as the agent. */
void hvd_relay_offer(struct hvd_driver_client *agent, const struct hvd_boot *boot, const struct hvd_taskinfo *info,
		     struct hvd_relay_sockets *out);
void hvd_relay_sockets_close(struct hvd_relay_sockets *sockets); /* may be zeroed; leaves it so */

/* What a relay is made of. Nothing is owned, but the sockets are taken. */
struct hvd_relay_opts {
	struct hvd_relay_sockets *sockets;
	const json_t *plan; /* "relay" of the plan, see driver_client.h; not used after the call */
	const struct hvd_boot *boot;
	const struct hvd_taskinfo *info;
	struct hvd_driver_client *agent; /* which has its plan */
};

struct hvd_relay;

/* Serve. `info`, `agent` and `log` must outlive the relay. NULL with err set. */
struct hvd_relay *hvd_relay_create(struct event_base *base, const struct hvd_relay_opts *opts,
				   const struct hvd_log *log, struct hvd_err *err);
void hvd_relay_destroy(struct hvd_relay *relay); /* NULL is fine */

/* A message of bytes has come by the agent's connection; or that has ended, for this reason: there will be no root any
 * longer. NULL is fine. */
void hvd_relay_bytes(struct hvd_relay *relay, const void *data, size_t len);
void hvd_relay_lost(struct hvd_relay *relay, const struct hvd_err *why);
/* A message "relay" has come (launcher/driver/agent_registry.h): begin anew, a moment later. NULL is fine. */
void hvd_relay_again(struct hvd_relay *relay);

/* From now on ranks at these addresses, and no others, may come over the network: "addrs" of a message "network"
 * (launcher/driver/agent_commands.h). For a relay whose plan has "network". */
void hvd_relay_network(struct hvd_relay *relay, const json_t *msg);

#endif
