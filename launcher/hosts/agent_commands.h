/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_commands.h - commands to the agents of an elastic job about their ranks. agent_messages.c lists the messages.
 *
 * The id of a rank's process identifies it (rank_messages.h), because its number changes from generation to generation.
 */
#ifndef HVD_AGENT_COMMANDS_H
#define HVD_AGENT_COMMANDS_H

#include "agent_registry.h"
#include "gloo_peers.h"
#include "lib/host/layout.h"

/* Ranks that are started from now on belong to this layout, of which this takes ownership. Its hosts are all that the
 * job has ever had, by number. */
void hvd_agent_prepare(struct hvd_agent_registry *agents, struct hvd_layout *layout);
/* A new generation of this layout, of which this takes ownership, begins. The rendezvous forgets the last generation.
 * If the new one was prepared, the values that its new ranks have stored there stay. */
void hvd_agent_generation(struct hvd_agent_registry *agents, struct hvd_layout *layout, bool prepared);
/* No rank is left of the last generation, and all of the next one are new: forget what ranks have stored in the
 * TCPStore. The new ranks, for which the driver waits (init_watch.h), learn the number of restarts after failures. */
void hvd_agent_renew(struct hvd_agent_registry *agents, int restarts);
/* The layout of the generation. */
const struct hvd_layout *hvd_agent_layout(const struct hvd_agent_registry *agents);

/* Where an admitted host is in the network (lib/host/switch_path.h); NULL = not known. */
const char *hvd_agent_switch_path(const struct hvd_agent_registry *agents, uint32_t host);
/* How fast the network to its neighbours is, in Mbit/s; 0 = not measured. */
double hvd_agent_rate(const struct hvd_agent_registry *agents, uint32_t host);

/* Start a rank of the prepared layout; its host has `slots` slots. Does nothing on a host that is not admitted. */
void hvd_agent_start(struct hvd_agent_registry *agents, uint32_t id, int rank, int slots);
/* End a rank with SIGTERM, and after the time of --kill-wait with SIGKILL; `kill`: with SIGKILL at once. */
void hvd_agent_stop(struct hvd_agent_registry *agents, uint32_t host, uint32_t id, bool kill);

/* Have the host checked again, as with --preflight=quick; `checked` follows. */
void hvd_agent_check(struct hvd_agent_registry *agents, uint32_t host);

/* Somebody reports that the host is gone. If its agent does not answer within seconds, it is lost. */
void hvd_agent_doubt(struct hvd_agent_registry *agents, uint32_t host);

/* Have the host's agent notify a worker that hosts have changed; `to` is the address that the worker has published. */
void hvd_agent_notify(struct hvd_agent_registry *agents, uint32_t host, uint32_t id, const char *to, int64_t when);

/* Have all agents break those connections of their ranks that `peers` knows. `connections_killed` follows from each
 * agent that got the order. Returns how many agents that are. */
int hvd_agent_kill_connections(struct hvd_agent_registry *agents, const struct hvd_gloo_peers *peers);

#endif
