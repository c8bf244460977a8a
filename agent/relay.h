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

#include "agent.h"

/* Zeroed, or without a port: there are none. */
struct hvd_relay_sockets {
	in_port_t port, network_port, children_port; /* 0 = there is no such socket */
	int fd, network, children;                   /* they listen; owned */
	struct hvd_err refusal;                      /* why there are none; no code = there are */
};

/* Before the event loop runs: open the sockets, and have their ports registered. If they cannot be opened, the driver
 * learns why this host takes no part; *out must then live as long as the client. */
void hvd_relay_offer(struct hvd_driver_client *driver, const struct hvd_boot *boot, const struct hvd_taskinfo *info,
		     struct hvd_relay_sockets *out);
void hvd_relay_sockets_close(struct hvd_relay_sockets *sockets); /* may be zeroed; leaves it so */

/* Its messages: "relay" (launcher/driver/agent_registry.h): start again, a moment later. "owner"
 * (lib/protocol/owner_question.h). "network" (launcher/driver/agent_commands.h), for a relay whose plan has "network":
 * from now on only ranks at these addresses, "addrs", may connect over the network. */
extern const struct hvd_feature hvd_relay_feature;

#endif
