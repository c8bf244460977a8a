/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.h - from what the probe saw to the networks that all hosts share.
 *
 * A network is one interface per host such that every probed pair of hosts
 * reached each other over it in both directions. The interfaces' names may
 * differ from host to host: what counts is who reached whom.
 *
 * Pure: no I/O.
 */
#ifndef HVD_NETWORK_H
#define HVD_NETWORK_H

#include "node.h"

#include <stddef.h>

/* What came of one connection attempt, from an interface of one host to an address of another. */
enum hvd_reach {
	HVD_REACH_OK,
	HVD_REACH_REFUSED,     /* connection refused */
	HVD_REACH_SILENT,      /* no answer in time */
	HVD_REACH_UNREACHABLE, /* no route */
	HVD_REACH_DUPLICATE,   /* the asking host has that address itself */
	HVD_REACH_STRANGER,    /* something answered that is not the host that was asked for */
	HVD_REACH_SOURCE,      /* the connection left this host by an address of no usable interface */
	HVD_REACH_NAT,         /* the other side saw another source address than ours */
	HVD_REACH_BROKEN,      /* the connection broke */
	HVD_REACH_MTU,         /* short packets arrive, full ones do not */
	HVD_REACH_N,
};

struct hvd_edge {
	uint32_t from, to;      /* hosts */
	uint8_t from_if, to_if; /* interfaces; from_if is HVD_NO_IFACE when the source is not known */
	uint8_t to_addr;        /* which of its addresses */
	uint8_t family;         /* 4 or 6 */
	uint8_t result;         /* enum hvd_reach */
	uint32_t rtt_us;        /* connect to proof; 0 unless HVD_REACH_OK */
};

#define HVD_NO_IFACE 255

/* Addresses of the rendezvous that hosts try: as many as a host's answer has bits for. */
#define HVD_MAX_ENDPOINTS 64

struct hvd_network {
	uint8_t family; /* 4 or 6 */
	/* It carries what programs do that know no more than the interfaces' names: the address that they take of each
	 * (hvd_node_iface.first) was reached by all neighbours. */
	bool by_name;
	uint8_t *iface;  /* per host: index of its interface */
	int64_t ranking; /* of its worst interface: lower is better */
	uint64_t rtt_us; /* mean of its edges */
};

/* A zeroed struct is empty. */
struct hvd_networks {
	/* Best first: by_name, IPv4 before IPv6, then by what the interfaces are, then by latency. */
	struct hvd_network *v;
	int n;
};

/* Whom host `i` of `n` probes: ring neighbours and power-of-two distances in both directions. Writes at most
 * HVD_MAX_NEIGHBOURS indices and returns how many. */
#define HVD_MAX_NEIGHBOURS 40
int hvd_network_neighbours(uint32_t i, uint32_t n, uint32_t out[HVD_MAX_NEIGHBOURS]);

/* Reorders `edges`. Finding none is no error: *out is empty then. */
void hvd_networks_find(const struct hvd_node *nodes, uint32_t n, struct hvd_edge *edges, size_t n_edges,
		       struct hvd_networks *out);
void hvd_networks_clear(struct hvd_networks *nets); /* NULL is fine */

/* Is the best one good for Horovod? Its rendezvous client knows IPv4 only, and Gloo takes an interface's first address,
 * which is of IPv4 where there is one. */
bool hvd_networks_serve_horovod(const struct hvd_networks *nets);

/* Attempts over IPv4 got no answer, or broke: they may have met a network that loses packets, and another probe may say
 * more. */
bool hvd_edges_lost(const struct hvd_edge *edges, size_t n_edges);

/* Why each interface is in no network, a line for each name, with an example; also where it is in one over IPv6, and
 * IPv4 does not connect the hosts. Then the addresses that several hosts have. `edges` as hvd_networks_find() left
 * them. Caller frees; "" when there is nothing to say. */
char *hvd_networks_explain(const struct hvd_node *nodes, uint32_t n, const struct hvd_edge *edges, size_t n_edges,
			   const struct hvd_networks *nets);

const char *hvd_reach_text(enum hvd_reach reach);

#endif
