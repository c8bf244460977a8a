/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_delivery.h - sends each agent its host's part of the plan, the message "plan" (agent/driver_client.h).
 */
#ifndef HVD_PLAN_DELIVERY_H
#define HVD_PLAN_DELIVERY_H

#include "rank_plan.h"

/* Send the plan to the agent of a host, which is connected. In an elastic job it has no ranks yet. If the host has a
 * relay, its messages come over the agent's connection from then on. `rv` is the rendezvous. */
void hvd_plan_delivery_send(const struct hvd_rank_plan *plan, uint32_t host, struct hvd_rv *rv);

#endif
