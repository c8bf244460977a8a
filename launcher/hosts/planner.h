/* SPDX-License-Identifier: Apache-2.0 */
/*
 * planner.h - decides over which networks the hosts of a job communicate.
 *
 * Pure: host table in, plan out.
 */
#ifndef HVD_PLANNER_H
#define HVD_PLANNER_H

#include "driver_opts.h"
#include "host_table.h"
#include "lib/base/log.h"
#include "lib/host/network.h"

/* The caller sets `mpi`, `elastic` and `loopback`; all else is zero before hvd_network_plan_make(). */
struct hvd_network_plan {
	bool mpi;      /* the controller of the job is MPI (emit.h), which needs no IPv4 */
	bool elastic;  /* hosts come and go: others may follow */
	bool loopback; /* an elastic job may use loopback */
	bool explain;  /* somebody reads `unused`: to make it is a look at all attempts of the probe */
	bool local;    /* one machine: loopback, no networks */
	struct hvd_networks networks;
	char *unused; /* owned: why interfaces are in no network, a line for each; "": nothing to explain; NULL: not made */
};

/* Choose the networks that connect the hosts that have reported, at least one. Returns 0; -1 with HVD_E_NET if no network
 * that carries Horovod connects the hosts (the message gives the reason for every interface); or 1, with *plan unchanged,
 * if another round of the probe, which `again` allows, may change the answer. */
int hvd_network_plan_make(struct hvd_network_plan *plan, struct hvd_host_table *table, bool again,
			  const struct hvd_log *log, struct hvd_err *err);
void hvd_network_plan_clear(struct hvd_network_plan *plan);

/* The networks, the best first, as interfaces of one of the hosts: "ib0 (InfiniBand, 200000 Mb/s), eth0 (…)". The caller
 * frees it. */
char *hvd_network_plan_text(const struct hvd_network_plan *plan, const struct hvd_host_table *table);

/* The table has grown from `from` hosts to `to`: make room for them in the plan. */
void hvd_network_plan_grow(struct hvd_network_plan *plan, uint32_t from, uint32_t to);
/* Add a host that has reported later to the plan of an elastic job. It must reach another host over the first network,
 * unless it is a second name of a machine that is in the plan. -1 with HVD_E_NET: it does not fit. */
int hvd_network_plan_join(struct hvd_network_plan *plan, const struct hvd_host_table *table, uint32_t host,
			  struct hvd_err *err);

/* The address of a host in the best network: the address that programs take which know only the interface's name. None
 * for a host that has left an elastic job; rank 0's host may have left while another rank's plan is made. */
struct hvd_addr hvd_network_plan_addr(const struct hvd_network_plan *plan, const struct hvd_host_table *table,
				      uint32_t host);

/* Users and sites may set the variables that select interfaces; hvd then does not change them. Warn if such a variable
 * selects an interface that does not connect all hosts; with --verbose, log all of them. */
void hvd_network_plan_check_user_ifnames(const struct hvd_network_plan *plan, const struct hvd_host_table *table,
					 const struct hvd_log *log);

/* The addresses of a host in the networks that connect all hosts, the best network first; loopback where all hosts are
 * one machine. */
json_t *hvd_network_plan_addrs(const struct hvd_network_plan *plan, const struct hvd_host_table *table, uint32_t host);

#endif
