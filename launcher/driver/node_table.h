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
#include "lib/job/layout.h"
#include "lib/job/network.h"
#include "lib/job/node.h"

enum hvd_stage {
	HVD_STAGE_ABSENT,     /* not expected, or no longer */
	HVD_STAGE_EXPECTED,   /* has not registered yet */
	HVD_STAGE_REGISTERED, /* has said what it is */
	HVD_STAGE_PROBING,    /* was told to probe */
	HVD_STAGE_REPORTED,   /* has said what it reached */
	HVD_STAGE_ADMITTED,   /* is part of the plan */
	HVD_N_STAGES,
};

struct hvd_client;

struct hvd_node_agent {
	enum hvd_stage stage;      /* set by hvd_node_table_enter() */
	char *name;                /* of the host, as far as it was told before the host registers; or NULL */
	struct hvd_node node;      /* what it registered */
	struct hvd_client *client; /* its connection: from its registration until it is let go or lost, else NULL */
	hvd_time deadline;         /* to register, or to report */
	hvd_time registered_at, probed_at, reported_at, planned_at; /* 0 = not yet */
	uint64_t endpoints_ok; /* which of the rendezvous' endpoints it has reached, by bit */
	/* After hvd_node_table_restrict(): from the agent's numbers of its interfaces, which its report uses, to those
	 * that were kept; HVD_NO_IFACE where one was not. */
	uint8_t *kept;
	uint16_t n_told;  /* length of `kept` */
	bool named;       /* the user has said which interfaces are wanted */
	bool loopback;    /* and the loopback one is: for a job on one machine */
	bool done;        /* its shim has said goodbye */
	uint32_t planned; /* ranks that have their plan */
	uint32_t ended;   /* ranks whose shim has told their end */
};

/* Zeroed, it has no hosts. */
struct hvd_node_table {
	uint32_t n;    /* hosts, by their number in the job; 0 until the first one has told */
	uint32_t size; /* ranks */
	struct hvd_node_agent *hosts;
	uint32_t in_stage[HVD_N_STAGES]; /* how many hosts are in each */
	uint32_t ranks_planned;
	struct hvd_edge *edges;
	size_t n_edges, edges_room;
	bool ipv6;  /* the user wants IPv6, by a subnet of it */
	int rounds; /* of the probe that are over, and were not enough */
};

/* A table of hosts that are all expected. n and size may be 0: then the first registration decides. */
void hvd_node_table_init(struct hvd_node_table *table, uint32_t n, uint32_t size);
void hvd_node_table_clear(struct hvd_node_table *table);

/* Host `host` is expected, in a table that grows where it is too short. */
void hvd_node_table_expect(struct hvd_node_table *table, uint32_t host, const char *name);
/* Forget all that is known of a host, also what others said of it, but for its name: it is ABSENT. */
void hvd_node_table_leave(struct hvd_node_table *table, uint32_t index);
void hvd_node_table_enter(struct hvd_node_table *table, uint32_t host, enum hvd_stage stage);

/* The hosts that have come to stage `least` or further: how many, which (the caller frees the list), and whether all
 * of them (one at least) are one machine and one network namespace. */
uint32_t hvd_node_table_count(const struct hvd_node_table *table, enum hvd_stage least);
uint32_t *hvd_node_table_list(const struct hvd_node_table *table, enum hvd_stage least, uint32_t *n);
bool hvd_node_table_one_machine(const struct hvd_node_table *table, enum hvd_stage least);

/* Take over a registration in a job of fixed size. A second one for the same host, or one that contradicts the others,
 * is an error. */
int hvd_node_table_register(struct hvd_node_table *table, const json_t *msg, uint32_t *index, struct hvd_err *err);
/* Take over a registration where hosts come and go: -1 unless the host is expected, and *index is that host if the
 * table has it. */
int hvd_node_table_register_expected(struct hvd_node_table *table, const json_t *msg, uint32_t *index);

/* Keep of a host's interfaces and their addresses what the user wants (nicspec.h; NULL or an empty list: everything),
 * and of these the best HVD_MAX_NICS. To be called once for each host that registers. One that was named and is not
 * there, or none at all, is an error that names host and interface. */
int hvd_node_table_restrict(struct hvd_node_table *table, uint32_t index, char *const *nics, struct hvd_err *err);

/* Take over a report of host `index`, whose order listed for each target the addresses as hvd_node_table_addrs does. */
int hvd_node_table_report(struct hvd_node_table *table, uint32_t index, const json_t *msg, struct hvd_err *err);

/* What was reached stays, what was not is to be tried again: hosts that have reported are REGISTERED again. */
void hvd_node_table_probe_again(struct hvd_node_table *table);

/* Free what the reports said of who reached whom: the largest part of the table, of no use after the plan. */
void hvd_node_table_forget_edges(struct hvd_node_table *table);

/* Address `i` of a host in the order of the probe's lists; NULL past the last. *iface is whose it is. */
const struct hvd_addr *hvd_node_table_addr(const struct hvd_node *node, size_t i, uint8_t *iface);

int hvd_node_table_layout(const struct hvd_node_table *table, struct hvd_layout *layout, struct hvd_err *err);

/* What a start that has run out of time waited for: hosts by what is missing from each. Caller frees. */
char *hvd_node_table_missing(const struct hvd_node_table *table);

/* The name of a host, as far as it is known. Valid until the next call with the same buffer. */
const char *hvd_node_table_name(const struct hvd_node_table *table, uint32_t index, char buf[32]);

#endif
