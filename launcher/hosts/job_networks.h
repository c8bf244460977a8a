/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_networks.h - the networks of a plan: which ones connect the hosts, and whether a later host is in them.
 *
 * Pure. A part of the planner (planner.h), which alone uses it.
 */
#ifndef HVD_JOB_NETWORKS_H
#define HVD_JOB_NETWORKS_H

#include "planner.h"

/* The hosts that are planned together: all that have reported. */
struct hvd_plan_group {
	struct hvd_host_table *table;
	uint32_t n, *host; /* their numbers in the table */
};

/* Set plan->networks and plan->local. -1 with err set: no network connects the hosts. 1: another round of the probe,
 * which `again` allows, may find more. With a log for it, *unused becomes the list of interfaces that are in no
 * network; the caller frees it. Changes the order of the table's edges. */
int hvd_job_networks_choose(struct hvd_network_plan *plan, const struct hvd_plan_group *group, bool again,
			    char **unused, const struct hvd_log *log, struct hvd_err *err);
/* Log the networks, with --verbose. */
void hvd_job_networks_tell(const struct hvd_network_plan *plan, const struct hvd_plan_group *group, const char *unused,
			   const struct hvd_log *log);

/* Set a later host's interfaces in the networks. -1 with err set: the host is not in the first network. */
int hvd_job_networks_join(struct hvd_network_plan *plan, const struct hvd_host_table *table, uint32_t host,
			  struct hvd_err *err);

#endif
