/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_table.h - the hosts of a launch: what each has registered, which hosts it has reached, and the stage of its
 * agent.
 *
 * The table keeps the contents of messages, and does no I/O. A host's number in the job identifies it. agent_registry.h
 * describes the stages.
 */
#ifndef HVD_HOST_TABLE_H
#define HVD_HOST_TABLE_H

#include "clocks.h"
#include "launcher/events/event_log.h"
#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/host/host_check.h"
#include "lib/host/host_info.h"
#include "lib/host/layout.h"
#include "lib/host/network.h"
#include "lib/host/stage.h"

/* How far a host of a job of fixed size has left it. */
enum hvd_leaving {
	HVD_LEAVING_NOT,
	HVD_LEAVING_AGENT_DIED, /* its watchdog reports that the agent has ended before the ranks */
	HVD_LEAVING_LOST,       /* the host is lost with its ranks */
	HVD_LEAVING_DONE,       /* its ranks have ended, as the agent has reported */
	HVD_LEAVING_LEFT_OUT,   /* before the plan: it is none of the job's any longer (spares.c) */
};

struct hvd_client;

struct hvd_host_entry {
	enum hvd_stage stage;      /* set by hvd_host_table_enter() */
	char *name;                /* of the host, if it is known before the host registers; else NULL */
	struct hvd_host_info node; /* what the agent has registered */
	struct hvd_client *client; /* from the registration until the connection is closed or lost; else NULL */
	hvd_time deadline;         /* to register, or to report */
	struct {                   /* agent_deadlines.c */
		hvd_time asked_at; /* when it was asked whether it is there */
		hvd_time by;       /* until when it may answer; 0 = no answer is awaited */
		hvd_time came_at;  /* its last answer; 0 = none */
		bool doubted;      /* others have answered meanwhile */
		bool paused;       /* no host has answered: it was given a new time */
	} answer;
	hvd_time probe_sent;    /* when the last order to probe went */
	struct hvd_clock clock; /* the host's, by its messages */
	/* After hvd_host_table_restrict(): maps the agent's numbers of its interfaces, which its report uses, to the
	 * interfaces that were kept; HVD_NO_IFACE for the others. */
	uint8_t *kept;
	uint16_t n_kept;             /* length of `kept` */
	bool named;                  /* the user has named interfaces */
	bool loopback;               /* the user wants the loopback interface: for a job on one machine */
	struct hvd_host_check check; /* what --preflight has found there */
	double mbps;                 /* to and from its neighbours, in Mbit/s, the lower of both; 0 = not measured */
	uint32_t rtt_us;             /* to a neighbour; 0 = not measured */
	struct hvd_addr own_name;    /* where its own name leads, if other hosts do not reach that (own_names.c) */
	enum hvd_leaving leaving;
	uint32_t ended; /* how many of its ranks have ended */
};

/* A zeroed table has no hosts, and hosts come and go. */
struct hvd_host_table {
	bool fixed;    /* every registration must know of as many hosts, and ranks, as the others */
	uint32_t n;    /* hosts; 0 until the first registration, if no one knows the number before */
	uint32_t size; /* ranks */
	struct hvd_host_entry *hosts;
	struct hvd_event_log *events;    /* gets each stage that a host reaches; not owned, may be NULL */
	uint32_t in_stage[HVD_N_STAGES]; /* how many hosts are in each */
	struct hvd_edge *edges;          /* the reports' results: which host reached which */
	size_t n_edges, edges_room;
	bool ipv6;  /* the user has named a subnet of IPv6 */
	int rounds; /* how many rounds of the probe were not enough */
};

/* A fixed number of hosts that are all expected. n and size may be 0: then the first registration decides. */
void hvd_host_table_init(struct hvd_host_table *table, uint32_t n, uint32_t size);
void hvd_host_table_clear(struct hvd_host_table *table);

/* Host `host` is expected. The table grows if it is too short. */
void hvd_host_table_expect(struct hvd_host_table *table, uint32_t host, const char *name);
/* The host becomes AWAY. Everything that is known of it is forgotten except its name, also what other hosts reported
 * of it. */
void hvd_host_table_leave(struct hvd_host_table *table, uint32_t index);
void hvd_host_table_enter(struct hvd_host_table *table, uint32_t host, enum hvd_stage stage);

/* The hosts that have reached stage `least` or a later one: how many; which (the caller frees the list); and whether
 * all of them (at least one) are one machine and one network namespace. */
uint32_t hvd_host_table_count(const struct hvd_host_table *table, enum hvd_stage least);
uint32_t *hvd_host_table_list(const struct hvd_host_table *table, enum hvd_stage least, uint32_t *n);
bool hvd_host_table_one_machine(const struct hvd_host_table *table, enum hvd_stage least);

/* Store the registration of a host that is expected. *index is its number, also after an error if the table has that
 * number. Of an unexpected host, or one that contradicts the others where their number is fixed: -1 with err set. */
int hvd_host_table_register(struct hvd_host_table *table, const json_t *msg, uint32_t *index, struct hvd_err *err);
/* Is this the registration of a host that was left out (spares.c)? */
bool hvd_host_table_left_out(const struct hvd_host_table *table, const json_t *msg);
/* Remove those interfaces and addresses of a host that the user does not want (nicspec.h; NULL or an empty list: all
 * are wanted), and keep the best HVD_MAX_NICS of the others. Call it once for each host that registers. It is an error,
 * which names host and interface, if the host lacks a named interface, or if none is left. */
int hvd_host_table_restrict(struct hvd_host_table *table, uint32_t index, char *const *nics, struct hvd_err *err);

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

/* Store the report of host `index`, which counts the addresses of each target as hvd_host_table_addr() does. Its
 * results about hosts that have left are ignored. */
int hvd_host_table_report(struct hvd_host_table *table, uint32_t index, const json_t *msg, struct hvd_err *err);

/* All hosts that have reported must probe again: they become REGISTERED. Their former results are kept. */
void hvd_host_table_probe_again(struct hvd_host_table *table);

/* Free the results of the reports: the largest part of the table, of no use after the plan. */
void hvd_host_table_forget_edges(struct hvd_host_table *table);

/* Address `i` of a host, in the order in which a probe order lists them; NULL after the last. *iface is the index of
 * its interface. */
const struct hvd_addr *hvd_host_table_addr(const struct hvd_host_info *node, size_t i, uint8_t *iface);

/* The layout that the registrations of all hosts make. */
int hvd_host_table_layout(const struct hvd_host_table *table, struct hvd_layout *layout, struct hvd_err *err);

/* The missing steps of the start, for messages: lists of hosts by what is missing from them; "" for nothing. Caller
 * frees. */
char *hvd_host_table_missing(const struct hvd_host_table *table);

/* The name of a host, as far as it is known. Valid until the next call with the same buffer. */
const char *hvd_host_table_name(const struct hvd_host_table *table, uint32_t index, char buf[32]);

#endif
