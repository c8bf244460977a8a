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

/* Send the plan to the agent of a host, which is connected. In an elastic job it has no ranks yet (agent_commands.h). If the host has a relay, its messages come over the agent's connection from then on. `rv` is
 * the rendezvous. */
void hvd_plan_delivery_send(const struct hvd_driver_opts *opts, const struct hvd_plan *plan,
			    const struct hvd_host_table *table, uint32_t host, struct hvd_rv *rv);

#endif
