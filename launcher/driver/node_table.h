/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_table.h - who belongs to a launch and how far each host has come.
 *
 * Pure bookkeeping of the driver: no sockets here.
 */
#ifndef HVD_NODE_TABLE_H
#define HVD_NODE_TABLE_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/base/strv.h"
#include "lib/job/layout.h"
#include "lib/job/network.h"
#include "lib/job/node.h"

enum hvd_stage {
	HVD_STAGE_ABSENT,     /* has not been heard of */
	HVD_STAGE_REGISTERED, /* has said what it is */
	HVD_STAGE_PROBING,    /* was told to probe */
	HVD_STAGE_REPORTED,   /* has said what it reached */
	HVD_STAGE_PLANNED,    /* has its plan */
};

struct hvd_node_state {
	enum hvd_stage stage;
	uint32_t ended;                                             /* ranks whose shim has told their end */
	bool done;                                                  /* its shim has said goodbye */
	uint32_t planned;                                           /* ranks that have their plan */
	hvd_time registered_at, probed_at, reported_at, planned_at; /* 0 = not yet */
	uint64_t endpoints_ok; /* which of the rendezvous' endpoints it has reached, by bit */
	/* After hvd_node_table_restrict(): from the agent's numbers of its interfaces, which its report uses, to those
	 * that were kept; HVD_NO_IFACE where one was not. */
	uint8_t *kept;
	uint16_t n_told; /* length of `kept` */
	bool named;      /* the user has said which interfaces are wanted */
	bool loopback;   /* and the loopback one is: for a job on one machine */
};

struct hvd_node_table {
	uint32_t n;    /* hosts; 0 until the first one has told */
	uint32_t size; /* ranks */
	struct hvd_node *nodes;
	struct hvd_node_state *states;
	struct hvd_strv names; /* the hosts' names as the scheduler told them; may be empty */
	uint32_t n_registered, n_reported, ranks_planned;
	struct hvd_edge *edges;
	size_t n_edges, edges_room;
	bool ipv6;  /* the user wants IPv6, by a subnet of it */
	int rounds; /* of the probe that are over, and were not enough */
};

/* n and size may be 0: then the first registration decides. */
void hvd_node_table_init(struct hvd_node_table *roster, uint32_t n, uint32_t size);
void hvd_node_table_clear(struct hvd_node_table *roster);

/* Make room for hosts 0 … n-1. Those that are there stay. */
void hvd_node_table_grow(struct hvd_node_table *roster, uint32_t n);
/* Forget all that is known of a host, also what others said of it. */
void hvd_node_table_leave(struct hvd_node_table *roster, uint32_t index);

/* Take over a registration. A second one for the same host, or one that contradicts the others, is an error. */
int hvd_node_table_register(struct hvd_node_table *roster, const json_t *msg, uint32_t *index, struct hvd_err *err);

/* Keep of a host's interfaces and their addresses what the user wants (nicspec.h; NULL or an empty list: everything),
 * and of these the best HVD_MAX_NICS. To be called once for each host that registers. One that was named and is not
 * there, or none at all, is an error that names host and interface. */
int hvd_node_table_restrict(struct hvd_node_table *roster, uint32_t index, char *const *nics, struct hvd_err *err);

/* Take over a report of host `index`, whose order listed for each target the addresses as hvd_node_table_addrs does. */
int hvd_node_table_report(struct hvd_node_table *roster, uint32_t index, const json_t *msg, struct hvd_err *err);

/* What was reached stays, what was not is to be tried again: hosts that have reported are REGISTERED again. */
void hvd_node_table_probe_again(struct hvd_node_table *roster);

/* Address `i` of a host in the order of the probe's lists; NULL past the last. *iface is whose it is. */
const struct hvd_addr *hvd_node_table_addr(const struct hvd_node *node, size_t i, uint8_t *iface);

/* All nodes are one machine and one network namespace? */
bool hvd_node_table_one_machine(const struct hvd_node_table *roster);

int hvd_node_table_layout(const struct hvd_node_table *roster, struct hvd_layout *layout, struct hvd_err *err);

/* What a start that has run out of time waited for: hosts by what is missing from each. Caller frees. */
char *hvd_node_table_missing(const struct hvd_node_table *roster);

/* The name of a host, as far as it is known. Valid until the next call with the same buffer. */
const char *hvd_node_table_name(const struct hvd_node_table *roster, uint32_t index, char buf[32]);

#endif
