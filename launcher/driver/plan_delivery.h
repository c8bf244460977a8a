/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_delivery.h - sends each agent its host's part of the plan, the message "plan" (agent/driver_client.h).
 */
#ifndef HVD_PLAN_DELIVERY_H
#define HVD_PLAN_DELIVERY_H

#include "clients.h"
#include "driver_opts.h"
#include "host_table.h"
#include "planner.h"

/* Add to the plan for an agent what does not depend on its ranks: the settings (lib/protocol/agent_settings.h) and, if
 * the host has a relay, the plan's fields for that. From then on the relay's messages come over the agent's connection.
 * `rv` is the rendezvous. */
void hvd_plan_delivery_host(const struct hvd_driver_opts *opts, const struct hvd_plan *plan,
			    const struct hvd_host_table *table, struct hvd_client *cl, struct hvd_rv *rv, json_t *msg);

/* Send the plan to all connected agents, and note the time in the table. `rv` is the rendezvous, whose relays the
 * agents have. */
void hvd_plan_delivery_send_all(const struct hvd_driver_opts *opts, const struct hvd_plan *plan,
				struct hvd_host_table *table, const struct hvd_clients *clients, struct hvd_rv *rv);

#endif
