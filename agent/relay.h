/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay.h - a host's relay of the rendezvous: a server (lib/rendezvous/server.h) for the host's ranks over loopback. It
 * reaches the root over the agent's connection to the driver, or over another relay.
 *
 * The agent opens the sockets before it registers, so that the plan can name their ports. Ranks can connect from then
 * on: they wait in the kernel's queue. The relay runs in the agent's event loop. Only this user's processes may connect
 * over loopback. If other relays connect to this one by the plan, they prove that they belong to the launch
 * (lib/protocol/handshake.h), and so does this relay to its parent, with a key that is derived from the launch's. The
 * relay of rank 0's host may also listen on the network (launcher/driver/relays.h). The agents of other hosts say whose
 * the connections from there are.
 *
 * A relay that has lost its parent, or does not reach it, uses the agent's connection instead. When that connection has
 * ended, there is no root any longer: the relay closes its clients' connections, and says so if ranks waited.
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

/* For the agent, before the event loop runs: open the sockets, and have the agent register them. If they cannot be
 * opened, the agent reports why its host takes no part; *out must then live as long as the agent. */
void hvd_relay_offer(struct hvd_driver_client *agent, const struct hvd_boot *boot, const struct hvd_taskinfo *info,
		     struct hvd_relay_sockets *out);
void hvd_relay_sockets_close(struct hvd_relay_sockets *sockets); /* may be zeroed; leaves it so */

/* The parts of a relay. Nothing is owned, except the sockets, of which the relay takes ownership. */
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

/* A message of bytes has arrived on the agent's connection. hvd_relay_lost(): that connection has ended, for this
 * reason, and there will be no root any longer. NULL is fine. */
void hvd_relay_bytes(struct hvd_relay *relay, const void *data, size_t len);
void hvd_relay_lost(struct hvd_relay *relay, const struct hvd_err *why);
/* A message "relay" has arrived (launcher/driver/agent_registry.h): start again, a moment later. NULL is fine. */
void hvd_relay_again(struct hvd_relay *relay);

/* A message "owner" has arrived (lib/protocol/owner_question.h). NULL is fine. */
void hvd_relay_owner(struct hvd_relay *relay, const json_t *msg);

/* From now on only ranks at these addresses may connect over the network: "addrs" of a message "network"
 * (launcher/driver/agent_commands.h). For a relay whose plan has "network". */
void hvd_relay_network(struct hvd_relay *relay, const json_t *msg);

#endif
