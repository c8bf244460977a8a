/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_delivery.h - which shim is sent which part of the plan, and which ranks have theirs.
 *
 *   to an agent that starts ranks   {"t":"plan", "ranks":[ENV,…]}   ENV of each rank of its host: {NAME:VALUE,…}
 *   to the shim of one rank         {"t":"plan", "env":ENV, "keep":B}   B: stay connected
 *
 * A node agent's has "relay":{…}, too, where its host has a relay of the rendezvous (task/agent.h).
 */
#ifndef HVD_PLAN_DELIVERY_H
#define HVD_PLAN_DELIVERY_H

#include "clients.h"
#include "driver_opts.h"
#include "lib/base/log.h"
#include "node_table.h"
#include "planner.h"

struct hvd_plan_delivery {
	const struct hvd_driver_opts *opts;
	const struct hvd_plan *plan;
	struct hvd_node_table *table;
	const struct hvd_log *log;
	bool *has_plan; /* by rank */
};

/* The plan is made. Nothing that is passed is owned, and all of it must outlive the delivery. The table is told how
 * many ranks of each host have their plan. */
void hvd_plan_delivery_begin(struct hvd_plan_delivery *delivery, const struct hvd_driver_opts *opts,
			     const struct hvd_plan *plan, struct hvd_node_table *table, const struct hvd_log *log);
void hvd_plan_delivery_clear(struct hvd_plan_delivery *delivery); /* a zeroed struct is fine */

/* Send a shim its part of the plan, if it waits for one. A rank that asks again counts once. The client may be gone
 * afterwards. */
void hvd_plan_delivery_send(struct hvd_plan_delivery *delivery, struct hvd_client *cl);
/* The same for all shims that are connected. */
void hvd_plan_delivery_send_all(struct hvd_plan_delivery *delivery, const struct hvd_clients *clients);

/* Do the shims of all ranks stay connected while their ranks run? If not, those of node agents may. */
bool hvd_plan_delivery_keeps_all(const struct hvd_plan_delivery *delivery);

/* Has every rank its plan? */
bool hvd_plan_delivery_complete(const struct hvd_plan_delivery *delivery);

#endif
