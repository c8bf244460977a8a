/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rendezvous_service.h - where the ranks meet: a rendezvous in this process, or one on the first host.
 *
 * The driver speaks to both in the same way; the one on the first host (see
 * task/serve.h) is told over its connection.
 */
#ifndef HVD_RENDEZVOUS_SERVICE_H
#define HVD_RENDEZVOUS_SERVICE_H

#include "lib/protocol/conn.h"
#include "lib/rendezvous/meeting.h"
#include "node_table.h"
#include "planner.h"

struct hvd_rv_service {
	struct hvd_meeting *meeting; /* here, or NULL */
	struct hvd_conn *server;     /* elsewhere, or NULL; not owned */
	struct hvd_endpoints endpoints;
};

/* Open it here, on these addresses of this host, which is host `host` of the job (-1: none). */
int hvd_rv_service_open(struct hvd_rv_service *service, struct event_base *base, const struct hvd_key *session_key,
			const struct hvd_addr *addrs, size_t n_addrs, in_port_t lo, in_port_t hi, int32_t host,
			const struct hvd_log *log, struct hvd_err *err);
/* It is open on the first host, at this port of all its addresses. */
void hvd_rv_service_elsewhere(struct hvd_rv_service *service, struct hvd_conn *server, const struct hvd_node *first,
			      in_port_t port);
void hvd_rv_service_close(struct hvd_rv_service *service);

/* Let the hosts that the roster knows in, and nobody else: one that has left it is shut out by the next call. */
void hvd_rv_service_admit(struct hvd_rv_service *service, const struct hvd_node_table *roster);
/* How many ranks meet in each scope. */
void hvd_rv_service_size(struct hvd_rv_service *service, const struct hvd_layout *layout);
/* The plan is made: listen on what it uses only, and know how many ranks meet in each scope. */
void hvd_rv_service_settle(struct hvd_rv_service *service, const struct hvd_plan *plan,
			   const struct hvd_node_table *roster);

#endif
