/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_plan.h - what ranks are told of their job: the networks, the rendezvous, the layout, as variables of each rank.
 *
 * Pure: hosts and networks in, plan out.
 */
#ifndef HVD_RANK_PLAN_H
#define HVD_RANK_PLAN_H

#include "launcher/hosts/planner.h"
#include "lib/host/layout.h"
#include "relays.h"

/* Hex digits of a launch's run id. */
#define HVD_RUN_ID_LEN 32

/* How many ports hosts reserve for servers in ranks, in this order: where a rank 0 is, or may come to be, those of
 * PyTorch's stores and the other ones; then `each` for each rank. And by themselves on every host, as many as it may need of
 * --ports of roles. */
struct hvd_rank_ports {
	unsigned stores, others, each, roles;
};

struct hvd_rank_plan {
	/* The caller's, not owned. */
	const struct hvd_driver_opts *opts;
	const struct hvd_host_table *table;
	const struct hvd_network_plan *networks;

	int restarts; /* how often all ranks started again, in an elastic job of PyTorch's kind */
	/* The launch's random id. Only its ranks learn it: keys in the store contain it. */
	char run_id[HVD_RUN_ID_LEN + 1];
	struct hvd_rank_ports ports;        /* of all worlds of the launch */
	struct hvd_rank_ports ports_before; /* of the worlds before this one */
	struct hvd_layout layout;           /* of the ranks that start from now on */
	unsigned job_store;                 /* the number of the store that all worlds share; 0: there is none */
	char *tf_workers;                   /* as in struct hvd_emit; set by hvd_rank_plan_servers() */
	struct hvd_relays relays;
};

/* Free what the plan owns, and leave it zeroed. */
void hvd_rank_plan_clear(struct hvd_rank_plan *plan);

/* Add the ports that hosts must reserve for these ranks to those of the worlds before. */
void hvd_rank_plan_add_ports(struct hvd_rank_plan *plan, struct hvd_rank_ports *ports);
/* There are networks and the layout of a job of fixed size: check that the ports of all servers in ranks are known, and
 * list them. -1 with err set: a host lacks one that ranks need, or HVD_E_USAGE: the list is too long to be passed. */
int hvd_rank_plan_servers(struct hvd_rank_plan *plan, struct hvd_err *err);

/* A rank's environment, as {NAME:VALUE,…}: the variables of the plan, then those that the options have for every rank. */
json_t *hvd_rank_plan_env(const struct hvd_rank_plan *plan, uint32_t rank);

/* With --ports of a role: the i-th port of the rank that is the `local_rank`-th on this host, whether it is there yet or not. 0:
 * there is none, or the host has not registered. */
in_port_t hvd_rank_plan_port(const struct hvd_rank_plan *plan, uint32_t host, int local_rank, unsigned i);

/* The host whose relay is open to all ranks, which is rank 0's; -1: there is none. */
int32_t hvd_rank_plan_open_relay(const struct hvd_rank_plan *plan);
/* Where the ranks of a host rendezvous: at its relay. Port 0: the host has left an elastic job. */
in_port_t hvd_rank_plan_rendezvous(const struct hvd_rank_plan *plan, uint32_t host, struct hvd_addr *addr);
/* Where all ranks find PyTorch's store: those of this host at its own relay, or at that of rank 0's host. */
in_port_t hvd_rank_plan_store(const struct hvd_rank_plan *plan, uint32_t host, struct hvd_addr *addr);
/* The addresses that may connect to that relay: those of all hosts of the layout, or, if there are several worlds, of the
 * launch, since programs of one may use the store of another, as torchft's replica groups do. */
json_t *hvd_rank_plan_host_addrs(const struct hvd_rank_plan *plan);
/* What a host's relay is told (agent/driver_client.h); NULL if the host has none. */
json_t *hvd_rank_plan_relay(const struct hvd_rank_plan *plan, uint32_t host);

#endif
