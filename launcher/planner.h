/* SPDX-License-Identifier: Apache-2.0 */
/*
 * planner.h - from what the hosts reported to what each rank is told.
 *
 * Pure: roster and endpoints in, plan out.
 */
#ifndef HVD_PLANNER_H
#define HVD_PLANNER_H

#include "layout.h"
#include "log.h"
#include "network.h"
#include "roster.h"

/* Where the rendezvous listens. */
struct hvd_endpoints {
	struct hvd_addr *addrs; /* at most HVD_MAX_ENDPOINTS */
	size_t n;
	in_port_t port;
	/* Index of the host that it runs on, whose own ranks reach it at any address; -1 when that is none of the
	 * job's. */
	int32_t host;
};

struct hvd_plan {
	struct hvd_layout layout;
	bool local; /* one machine: loopback, no networks */
	bool mpi;   /* the workers' controller is MPI (emit.h); the caller's to set */
	struct hvd_networks networks;
	int8_t *endpoint; /* per host: which of the endpoints */
	const struct hvd_endpoints *endpoints;
};

/* What the agent of host `from` is told to try (task/probe.h): its neighbours, none when all hosts are one machine, and
 * the rendezvous. */
json_t *hvd_probe_order(const struct hvd_roster *roster, uint32_t from, const struct hvd_endpoints *endpoints,
			int timeout_ms);

/* The same for these hosts. */
json_t *hvd_probe_order_to(const struct hvd_roster *roster, const uint32_t *to, int n,
			   const struct hvd_endpoints *endpoints, int timeout_ms);

/* Decide. Fails with HVD_E_NET when the hosts share no network, or one reaches no endpoint; the message then lists
 * every interface and why it dropped out. `endpoints` must outlive the plan. */
int hvd_plan_make(struct hvd_plan *plan, struct hvd_roster *roster, const struct hvd_endpoints *endpoints,
		  const struct hvd_log *log, struct hvd_err *err);
void hvd_plan_clear(struct hvd_plan *plan);

/* A rank's environment: {NAME:VALUE,…}, the launch's own additions included. */
json_t *hvd_plan_env(const struct hvd_plan *plan, const struct hvd_roster *roster, uint32_t rank,
		     const struct hvd_strv *extra);

/* The endpoint that a host should use, of those that it has reached; -1: none. */
int hvd_plan_endpoint(const struct hvd_plan *plan, const struct hvd_roster *roster, uint32_t host);

/* Is endpoint `i` used by any host? */
bool hvd_plan_uses(const struct hvd_plan *plan, const struct hvd_roster *roster, size_t i);

#endif
