/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.h - finds the networks that connect all hosts, in the results of the probe.
 *
 * A network is a choice of one interface on each host, such that every probed pair of hosts reached each other over
 * these interfaces, in both directions. Interfaces of one network may have different names on different hosts.
 *
 * Does no I/O.
 */
#ifndef HVD_NETWORK_H
#define HVD_NETWORK_H

#include "host_info.h"

#include <stddef.h>

/* The result of one attempt to connect from an interface of one host to an address of another. */
enum hvd_reach {
	HVD_REACH_OK,
	HVD_REACH_REFUSED,     /* connection refused */
	HVD_REACH_SILENT,      /* no answer in time */
	HVD_REACH_UNREACHABLE, /* no route */
	HVD_REACH_DUPLICATE,   /* the asking host has that address itself */
	HVD_REACH_STRANGER,    /* another host or process than the intended one answered */
	HVD_REACH_SOURCE,      /* the connection's source address is not of a usable interface */
	HVD_REACH_NAT,         /* the other host saw another source address than the asking host has */
	HVD_REACH_BROKEN,      /* the connection broke */
	HVD_REACH_MTU,         /* short packets arrive, packets of full size do not */
	HVD_REACH_N,
};

/* One attempt, and its result. There are hundreds for each host of a large job, so it is small. */
struct hvd_edge {
	uint32_t from, to;      /* indices of hosts */
	uint8_t from_if, to_if; /* indices of their interfaces; from_if is HVD_NO_IFACE when the source is unknown */
	uint8_t to_addr;        /* index of the address of to_if */
	uint8_t family : 4;     /* 4 or 6 */
	uint8_t result : 4;     /* enum hvd_reach */
	uint32_t rtt_us;        /* microseconds from connect to the proof of identity; 0 unless HVD_REACH_OK */
};

#define HVD_NO_IFACE 255

struct hvd_network {
	uint8_t family; /* 4 or 6 */
	/* Programs that know only the interfaces' names can use the network: for every interface, all neighbours have
	 * reached the address that such programs take (hvd_host_iface.first). */
	bool by_name;
	uint8_t *iface;  /* owned; for each host the index of its interface */
	int64_t ranking; /* the worst hvd_host_iface.ranking of its interfaces: lower is better */
	uint64_t rtt_us; /* mean of its edges, in microseconds */
};

/* A zeroed struct is empty. */
struct hvd_networks {
	/* Owned; best first: those with by_name, then IPv4 before IPv6, then by ranking, then by rtt_us. */
	struct hvd_network *v;
	int n;
};

/* The hosts that host `i` of `n` probes, its neighbours: those at distances 1, 2, 4, 8 … in both directions of a ring.
 * Writes their indices and returns how many there are. */
#define HVD_MAX_NEIGHBOURS 40
int hvd_network_neighbours(uint32_t i, uint32_t n, uint32_t out[HVD_MAX_NEIGHBOURS]);

/* Find the networks. Sorts `edges`. There may be none; *out is then empty. The caller clears *out. */
void hvd_networks_find(const struct hvd_host_info *nodes, uint32_t n, struct hvd_edge *edges, size_t n_edges,
		       struct hvd_networks *out);
void hvd_networks_clear(struct hvd_networks *nets); /* NULL is fine */

/* Can Horovod use the best network? Horovod's rendezvous client knows IPv4 only, and Gloo takes an interface's first
 * address, which is an IPv4 one if the interface has any. */
bool hvd_networks_serve_horovod(const struct hvd_networks *nets);

/* Did an attempt over IPv4 get no answer, or break? Then the network may lose packets, and another probe may
 * succeed. */
bool hvd_edges_lost(const struct hvd_edge *edges, size_t n_edges);

/* Explain, in one line for each interface name, why interfaces of this name are in no network, or only in an IPv6
 * network, with an example. Then list addresses that several hosts have, and interfaces that hosts left out themselves.
 * `edges` are sorted as hvd_networks_find() does. The caller frees the text; "" if there is nothing to explain. */
char *hvd_networks_explain(const struct hvd_host_info *nodes, uint32_t n, const struct hvd_edge *edges, size_t n_edges,
			   const struct hvd_networks *nets);

/* Among sorted edges the first one that is not before `key` in their order; edges + n if there is none. */
const struct hvd_edge *hvd_edge_at(const struct hvd_edge *edges, size_t n, const struct hvd_edge *key);

/* The result in words, for messages: static text. */
const char *hvd_reach_text(enum hvd_reach reach);

#endif
