/* SPDX-License-Identifier: Apache-2.0 */
/*
 * planner.h - decides over which networks the ranks of a job communicate, and makes the environment of each rank.
 *
 * Pure: host table in, plan out.
 */
#ifndef HVD_PLANNER_H
#define HVD_PLANNER_H

#include "driver_opts.h"
#include "host_table.h"
#include "lib/base/log.h"
#include "lib/host/layout.h"
#include "lib/host/network.h"
#include "relays.h"

/* Hex digits of a launch's run id. */
#define HVD_RUN_ID_LEN 32

/* The caller sets `mpi`, `elastic`, `loopback`, `run_id` and `restarts`; all else is zero before hvd_plan_make(). */
struct hvd_plan {
	bool mpi;      /* the workers' controller is MPI (emit.h), which needs no IPv4 */
	bool elastic;  /* hosts come and go: there is no layout in the registrations, and others may follow */
	bool loopback; /* the ranks of an elastic job connect over loopback */
	int restarts;  /* how often all ranks started again, in an elastic job of PyTorch's kind */
	/* The launch's random id. Only its ranks learn it: keys in the store contain it. */
	char run_id[HVD_RUN_ID_LEN + 1];

	struct hvd_layout layout; /* of an elastic job: the caller's to set, after hvd_plan_make() */
	bool local;               /* one machine: loopback, no networks */
	struct hvd_networks networks;
	char *tf_workers;         /* as in struct hvd_emit; set by hvd_plan_servers() */
	struct hvd_relays relays; /* the caller's to decide, after hvd_plan_make() */
};

/*
 * The order to probe for an agent (agent/probe.h): its neighbours among `hosts`; none if all hosts that have registered
 * are one machine. The agent is that of hosts[from]; n hosts are in the list. `addrs` has room for n lists, all NULL at
 * first: the addresses of each host, which many orders share. The caller releases them after the last order.
 *
 * In the first round IPv6 addresses are left out if the interface also has an IPv4 address, unless `every` is set or
 * the user has named a subnet of IPv6: if IPv4 connects the hosts, they are of no use.
 */
json_t *hvd_probe_order(const struct hvd_host_table *table, const uint32_t *hosts, uint32_t n, uint32_t from,
			int timeout_ms, bool every, json_t **addrs);

/* A probe that got no answers over IPv4 is repeated, in at most this many rounds. hvd_probe_patience() is how long an
 * attempt of a round may take, in milliseconds. */
#define HVD_PROBE_ROUNDS 3
int hvd_probe_patience(int round);

/* Choose the networks that connect the hosts that have reported, at least one. Returns 0; -1 with HVD_E_NET if no network that carries Horovod
 * connects the hosts (the message gives the reason for every interface); or 1, with *plan unchanged, if another round
 * of the probe, which `again` allows, may change the answer. */
int hvd_plan_make(struct hvd_plan *plan, struct hvd_host_table *table, bool again, const struct hvd_log *log,
		  struct hvd_err *err);
void hvd_plan_clear(struct hvd_plan *plan);

/* The table has grown from `from` hosts to `to`: make room for them in the plan. */
void hvd_plan_grow(struct hvd_plan *plan, uint32_t from, uint32_t to);
/* Add a host that has reported later to the plan of an elastic job. It must reach another host over the first network,
 * unless it is a second name of a machine that is in the plan. -1 with HVD_E_NET: it does not fit. */
int hvd_plan_join(struct hvd_plan *plan, const struct hvd_host_table *table, uint32_t host, struct hvd_err *err);

/* How many ports hosts must reserve for servers in ranks, as in struct hvd_boot. */
void hvd_plan_ports(const struct hvd_launch_spec *spec, unsigned *ports, bool *store_port, unsigned *rank_ports);

/* After hvd_plan_make() of a job of fixed size: check that the ports of all servers in ranks are known, and list them.
 * -1 with err set: a host lacks one that ranks need, or HVD_E_USAGE: the list is too long to be passed. */
int hvd_plan_servers(struct hvd_plan *plan, const struct hvd_host_table *table, const struct hvd_launch_spec *spec,
		     struct hvd_err *err);

/* A rank's environment, as {NAME:VALUE,…}: the variables of the plan, then those that `opts` has for every rank. */
json_t *hvd_plan_env(const struct hvd_plan *plan, const struct hvd_host_table *table, uint32_t rank,
		     const struct hvd_driver_opts *opts);

/* Where the ranks of a host rendezvous: at its relay. Port 0: the host has left an elastic job. */
in_port_t hvd_plan_rendezvous(const struct hvd_plan *plan, const struct hvd_host_table *table, uint32_t host,
			      struct hvd_addr *addr);
/* Where all ranks find PyTorch's store: those of this host at its own relay, or at that of rank 0's host. */
in_port_t hvd_plan_store(const struct hvd_plan *plan, const struct hvd_host_table *table, uint32_t host,
			 struct hvd_addr *addr);
/* The host whose relay is open to all ranks, which is rank 0's; -1: there is none. */
int32_t hvd_plan_open_relay(const struct hvd_plan *plan, const struct hvd_host_table *table);
/* The addresses that may connect to that relay: those of all hosts of the layout. */
json_t *hvd_plan_host_addrs(const struct hvd_plan *plan, const struct hvd_host_table *table);
/* The plan's fields for a host's relay (agent/driver_client.h); NULL if the host has none. */
json_t *hvd_plan_relay(const struct hvd_plan *plan, const struct hvd_host_table *table, uint32_t host);

/* The address of a host in the best network: the address that programs take which know only the interface's name. None
 * for a host that has left an elastic job; rank 0's host may have left while another rank's plan is made. */
struct hvd_addr hvd_plan_host_addr(const struct hvd_plan *plan, const struct hvd_host_table *table, uint32_t host);

/* Users and sites may set the variables that select interfaces; hvd then does not change them. Warn if such a variable
 * selects an interface that does not connect all hosts; with --verbose, log all of them. */
void hvd_plan_check_user_ifnames(const struct hvd_plan *plan, const struct hvd_host_table *table,
				 const struct hvd_log *log);

/* The addresses of a host in the networks that connect all hosts, the best network first; loopback where all hosts are
 * one machine. */
json_t *hvd_plan_network_addrs(const struct hvd_plan *plan, const struct hvd_host_table *table, uint32_t host);

#endif
