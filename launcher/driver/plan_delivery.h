/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_delivery.h - the plan on its way to the shims: who is sent which part of it, and which ranks have theirs.
 *
 *   to an agent that starts ranks   {"t":"plan", "ranks":[ENV,…]}   ENV of each rank of its host: {NAME:VALUE,…}
 *   to the shim of one rank         {"t":"plan", "env":ENV, "keep":B}   B: stay connected
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

/* The plan is made. Nothing that is passed is owned, and all of it must outlive the handout. The table is told how far
 * each host has come. */
void hvd_plan_delivery_begin(struct hvd_plan_delivery *handout, const struct hvd_driver_opts *opts,
			     const struct hvd_plan *plan, struct hvd_node_table *table, const struct hvd_log *log);
void hvd_plan_delivery_clear(struct hvd_plan_delivery *handout); /* a zeroed struct is fine */

/* Give a shim what it waits for; nothing, when it waits for no plan. A rank that asks again counts once. The client may
 * be gone afterwards. */
void hvd_plan_delivery_send(struct hvd_plan_delivery *handout, struct hvd_client *cl);
/* … and all shims that are there. */
void hvd_plan_delivery_send_all(struct hvd_plan_delivery *handout, const struct hvd_clients *clients);

/* Do the shims of all ranks stay connected while their ranks run? Else those of node agents at most. */
bool hvd_plan_delivery_keeps_all(const struct hvd_plan_delivery *handout);

/* Has every rank its plan? */
bool hvd_plan_delivery_complete(const struct hvd_plan_delivery *handout);

#endif
