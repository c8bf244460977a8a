/* SPDX-License-Identifier: Apache-2.0 */
/*
 * planner.h - from what the hosts reported to what each rank is told.
 *
 * Pure: roster and endpoints in, plan out.
 */
#ifndef HVD_PLANNER_H
#define HVD_PLANNER_H

#include "lib/base/log.h"
#include "lib/job/layout.h"
#include "lib/job/network.h"
#include "lib/rendezvous/service.h"
#include "node_table.h"

struct hvd_plan {
	struct hvd_layout layout;
	bool local; /* one machine: loopback, no networks */
	bool mpi;   /* the workers' controller is MPI (emit.h), which needs no IPv4; the caller's to set */
	struct hvd_networks networks;
	int8_t *endpoint; /* per host: which of the endpoints */
	const struct hvd_endpoints *endpoints;
};

/* What the agent of host `from` is told to try (task/probe.h): its neighbours, none when all hosts are one machine, and
 * the rendezvous. */
json_t *hvd_probe_order(const struct hvd_node_table *roster, uint32_t from, const struct hvd_endpoints *endpoints,
			int timeout_ms);

/* The same for these hosts. */
json_t *hvd_probe_order_to(const struct hvd_node_table *roster, uint32_t from, const uint32_t *to, int n,
			   const struct hvd_endpoints *endpoints, int timeout_ms);

/* A probe that got no answers over IPv4 is repeated: rounds at most, and the patience of one, in milliseconds. */
#define HVD_PROBE_ROUNDS 3
int hvd_probe_patience(int round);

/* Decide; plan->mpi is the caller's to set before, all else is zero. Fails with HVD_E_NET when the hosts share no
 * network that carries Horovod, or one reaches no endpoint; the message then lists every interface and why it dropped
 * out. Returns 1, with *plan as it was, when `again` allows to probe once more, and that may change the answer.
 * `endpoints` must outlive the plan. */
int hvd_plan_make(struct hvd_plan *plan, struct hvd_node_table *roster, const struct hvd_endpoints *endpoints,
		  bool again, const struct hvd_log *log, struct hvd_err *err);
void hvd_plan_clear(struct hvd_plan *plan);

/* A rank's environment: {NAME:VALUE,…}, the launch's own additions included. */
json_t *hvd_plan_env(const struct hvd_plan *plan, const struct hvd_node_table *roster, uint32_t rank,
		     const struct hvd_strv *extra);

/* The error for hosts that share no network which carries Horovod. `edges` as hvd_networks_find() left them. Returns
 * -1. */
int hvd_plan_no_network(const struct hvd_node *nodes, uint32_t n, const struct hvd_edge *edges, size_t n_edges,
			const struct hvd_networks *nets, struct hvd_err *err);

/* Tell where variables that user or site have set, and that are left so, select interfaces that do not connect all
 * hosts; verbose: that they are left so. Of hosts that have registered. */
void hvd_plan_check_user_ifnames(const struct hvd_plan *plan, const struct hvd_node_table *roster,
				 const struct hvd_log *log);

/* The endpoint that a host should use, of those that it has reached; -1: none. */
int hvd_plan_endpoint(const struct hvd_plan *plan, const struct hvd_node_table *roster, uint32_t host);

/* Is endpoint `i` used by any host? */
bool hvd_plan_uses(const struct hvd_plan *plan, const struct hvd_node_table *roster, size_t i);

#endif
