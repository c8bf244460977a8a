/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rendezvous_service.h - what the driver says to its rendezvous (lib/rendezvous/service.h), in terms of node table and
 * plan.
 */
#ifndef HVD_DRIVER_RENDEZVOUS_SERVICE_H
#define HVD_DRIVER_RENDEZVOUS_SERVICE_H

#include "lib/rendezvous/service.h"
#include "node_table.h"
#include "planner.h"

/* Admit the hosts of the node table, and nobody else: a host that has left the table is shut out by the next call. */
void hvd_rv_service_admit_nodes(struct hvd_rv_service *service, const struct hvd_node_table *nodes);
/* The plan is made: listen only on the addresses that it uses, and learn how many ranks meet in each scope. */
void hvd_rv_service_settle(struct hvd_rv_service *service, const struct hvd_plan *plan,
			   const struct hvd_node_table *nodes);

#endif
