/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.c - finds networks as connected components.
 *
 * Two interfaces are joined when each reached an address of the other. A network takes one interface on every host from
 * a component, the one with the most such links, and counts only if all probed pairs of hosts met over these.
 */
#include "network.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

int hvd_network_neighbours(uint32_t i, uint32_t n, uint32_t out[HVD_MAX_NEIGHBOURS])
{
	int count = 0;

	for (uint32_t d = 1; d < n; d *= 2) {
		uint32_t both[2] = {(i + d) % n, (i + n - d) % n};

		for (int b = 0; b < 2; b++) {
			bool known = both[b] == i;

			for (int k = 0; k < count; k++)
				known |= out[k] == both[b];
			if (!known && count < HVD_MAX_NEIGHBOURS)
				out[count++] = both[b];
		}
	}
	return count;
}

/* All interfaces of all hosts in one numbering: interface i of host h has the number first[h] + i. */
struct index {
	uint32_t *first;  /* by host; first[n] is the number of all interfaces */
	uint32_t *parent; /* by interface: the forest of a union-find */
	uint32_t *mutual; /* by interface: how many of its edges have one in the other direction */
	size_t *edges;    /* by host: where its edges begin, when they are sorted; edges[n] is the number of all */
};

/* The interface that stands for the component of interface x. */
static uint32_t find(struct index *ix, uint32_t x)
{
	while (ix->parent[x] != x)
		x = ix->parent[x] = ix->parent[ix->parent[x]];
	return x;
}

static int cmp_edge(const void *pa, const void *pb)
{
	const struct hvd_edge *a = pa, *b = pb;

	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	if (a->to != b->to)
		return a->to < b->to ? -1 : 1;
	if (a->family != b->family)
		return a->family < b->family ? -1 : 1;
	if (a->from_if != b->from_if)
		return a->from_if < b->from_if ? -1 : 1;
	if (a->to_if != b->to_if)
		return a->to_if < b->to_if ? -1 : 1;
	return (a->result != HVD_REACH_OK) - (b->result != HVD_REACH_OK); /* successful attempts first */
}

const struct hvd_edge *hvd_edge_at(const struct hvd_edge *edges, size_t n, const struct hvd_edge *key)
{
	while (n > 0) {
		size_t half = n / 2;

		if (cmp_edge(&edges[half], key) < 0) {
			edges += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return edges;
}

/* Sort by cmp_edge(), and fill in ix->edges. In place: the edges of a large job are most of the driver's memory, and
 * qsort() takes as much again. So it gets the edges of one host at a time. */
static void sort_edges(struct index *ix, uint32_t n, struct hvd_edge *edges, size_t n_edges)
{
	size_t *begin = ix->edges, *next = hvd_xcalloc(n, sizeof(*next));

	for (size_t e = 0; e < n_edges; e++)
		begin[edges[e].from + 1]++;
	for (uint32_t h = 0; h < n; h++) {
		next[h] = begin[h];
		begin[h + 1] += begin[h];
	}
	/* next[h]: the first place of host h whose edge may be another host's. Each exchange fills a place for good. */
	for (uint32_t h = 0; h < n; h++)
		while (next[h] < begin[h + 1]) {
			struct hvd_edge *here = &edges[next[h]], *there = &edges[next[here->from]++], moved = *here;

			*here = *there;
			*there = moved;
		}
	for (uint32_t h = 0; h < n; h++)
		if (begin[h + 1] > begin[h])
			qsort(&edges[begin[h]], begin[h + 1] - begin[h], sizeof(*edges), cmp_edge);
	free(next);
}

/* The first successful edge between these interfaces; NULL: there is none. `edges` are sorted by sort_edges(). */
static const struct hvd_edge *lookup(const struct index *ix, const struct hvd_edge *edges, uint32_t from, uint32_t to,
				     uint8_t from_if, uint8_t to_if, uint8_t family)
{
	struct hvd_edge key = {.from = from, .to = to, .from_if = from_if, .to_if = to_if, .family = family};
	const struct hvd_edge *end = edges + ix->edges[from + 1];
	const struct hvd_edge *e = hvd_edge_at(edges + ix->edges[from], ix->edges[from + 1] - ix->edges[from], &key);

	return e < end && cmp_edge(e, &key) == 0 ? e : NULL;
}

/* Join interfaces that reached each other in both directions. */
static void join_mutual(struct index *ix, const struct hvd_edge *edges, size_t n_edges, uint8_t family)
{
	for (size_t e = 0; e < n_edges; e++) {
		const struct hvd_edge *a = &edges[e];

		if (a->result != HVD_REACH_OK || a->family != family || a->from_if == HVD_NO_IFACE)
			continue;
		if (!lookup(ix, edges, a->to, a->from, a->to_if, a->from_if, family))
			continue;
		uint32_t x = ix->first[a->from] + a->from_if, y = ix->first[a->to] + a->to_if;

		ix->mutual[x]++;
		ix->parent[find(ix, x)] = find(ix, y);
	}
}

/* On every host choose the interface of the component `root` that has the most mutual edges, the better ranked one of
 * equals. False when a host has no interface in the component. */
static bool pick(struct index *ix, const struct hvd_host_info *nodes, uint32_t n, uint32_t root,
		 struct hvd_network *net)
{
	net->ranking = INT64_MIN;
	for (uint32_t h = 0; h < n; h++) {
		int best = -1;

		for (int i = 0; i < nodes[h].n_ifaces; i++) {
			uint32_t x = ix->first[h] + (uint32_t)i;

			if (find(ix, x) != root ||
			    !hvd_host_info_has_family(&nodes[h].ifaces[i], net->family == 4 ? AF_INET : AF_INET6))
				continue;
			if (best < 0 || ix->mutual[x] > ix->mutual[ix->first[h] + (uint32_t)best] ||
			    (ix->mutual[x] == ix->mutual[ix->first[h] + (uint32_t)best] &&
			     nodes[h].ifaces[i].ranking < nodes[h].ifaces[best].ranking))
				best = i;
		}
		if (best < 0)
			return false;
		net->iface[h] = (uint8_t)best;
		if (nodes[h].ifaces[best].ranking > net->ranking)
			net->ranking = nodes[h].ifaces[best].ranking;
	}
	return true;
}

/* Was the address with index `addr` reached too? `e` is the first successful edge between two interfaces; edges to
 * other addresses of the same interface follow it. */
static bool reached_addr(const struct hvd_edge *e, const struct hvd_edge *end, uint8_t addr)
{
	for (const struct hvd_edge *x = e; x < end && cmp_edge(x, e) == 0; x++)
		if (x->to_addr == addr)
			return true;
	return false;
}

/* Did every probed pair of hosts meet over the interfaces that were chosen? Fills in by_name and rtt_us. */
static bool holds(const struct index *ix, const struct hvd_host_info *nodes, const struct hvd_edge *edges,
		  size_t n_edges, uint32_t n, struct hvd_network *net)
{
	uint32_t to[HVD_MAX_NEIGHBOURS];
	uint64_t sum = 0, count = 0;

	net->by_name = true;
	for (uint32_t h = 0; h < n; h++) {
		const struct hvd_host_iface *iface = &nodes[h].ifaces[net->iface[h]];
		int k = hvd_network_neighbours(h, n, to);

		net->by_name = net->by_name && iface->first < iface->n_addrs &&
			       iface->addrs[iface->first].family == (net->family == 4 ? AF_INET : AF_INET6);
		for (int i = 0; i < k; i++) {
			const struct hvd_edge *e =
				lookup(ix, edges, h, to[i], net->iface[h], net->iface[to[i]], net->family);

			if (!e)
				return false;
			net->by_name = net->by_name &&
				       reached_addr(e, edges + n_edges, nodes[to[i]].ifaces[net->iface[to[i]]].first);
			sum += e->rtt_us;
			count++;
		}
	}
	net->rtt_us = count ? sum / count : 0;
	return true;
}

static bool same_picks(const struct hvd_network *a, const struct hvd_network *b, uint32_t n)
{
	return memcmp(a->iface, b->iface, n) == 0;
}

static int cmp_network(const void *pa, const void *pb)
{
	const struct hvd_network *a = pa, *b = pb;

	if (a->by_name != b->by_name)
		return a->by_name ? -1 : 1;
	if (a->family != b->family)
		return a->family < b->family ? -1 : 1;
	if (a->ranking != b->ranking)
		return a->ranking < b->ranking ? -1 : 1;
	return a->rtt_us < b->rtt_us ? -1 : a->rtt_us > b->rtt_us;
}

static void add_networks(struct index *ix, const struct hvd_host_info *nodes, uint32_t n, const struct hvd_edge *edges,
			 size_t n_edges, uint8_t family, struct hvd_networks *out)
{
	/* A network has an interface on every host, so the first host's interfaces lead to all networks. */
	for (int i = 0; i < nodes[0].n_ifaces; i++) {
		struct hvd_network net = {.family = family, .iface = hvd_xcalloc(n, 1)};
		bool good = pick(ix, nodes, n, find(ix, ix->first[0] + (uint32_t)i), &net) &&
			    holds(ix, nodes, edges, n_edges, n, &net);

		for (int k = 0; good && k < out->n; k++) {
			if (!same_picks(&out->v[k], &net, n))
				continue;
			good = false;
			if (net.by_name && !out->v[k].by_name) {
				free(out->v[k].iface);
				out->v[k] = net;
				net.iface = NULL;
			}
		}
		if (!good) {
			free(net.iface);
			continue;
		}
		out->v = hvd_xrealloc(out->v, (size_t)out->n + 1, sizeof(*out->v));
		out->v[out->n++] = net;
	}
}

void hvd_networks_find(const struct hvd_host_info *nodes, uint32_t n, struct hvd_edge *edges, size_t n_edges,
		       struct hvd_networks *out)
{
	struct index ix = {.first = hvd_xcalloc(n + 1, sizeof(uint32_t))};
	uint32_t total = 0;

	memset(out, 0, sizeof(*out));
	if (n == 0) {
		free(ix.first);
		return;
	}
	for (uint32_t h = 0; h < n; h++) {
		ix.first[h] = total;
		total += nodes[h].n_ifaces;
	}
	ix.first[n] = total;
	ix.parent = hvd_xcalloc(total, sizeof(*ix.parent));
	ix.mutual = hvd_xcalloc(total, sizeof(*ix.mutual));
	ix.edges = hvd_xcalloc((size_t)n + 1, sizeof(*ix.edges));
	sort_edges(&ix, n, edges, n_edges);
	for (uint8_t family = 4; family <= 6; family += 2) {
		for (uint32_t x = 0; x < total; x++) {
			ix.parent[x] = x;
			ix.mutual[x] = 0;
		}
		join_mutual(&ix, edges, n_edges, family);
		add_networks(&ix, nodes, n, edges, n_edges, family, out);
	}
	if (out->n > 1)
		qsort(out->v, (size_t)out->n, sizeof(*out->v), cmp_network);
	free(ix.first);
	free(ix.parent);
	free(ix.mutual);
	free(ix.edges);
}

void hvd_networks_clear(struct hvd_networks *nets)
{
	if (!nets)
		return;
	for (int i = 0; i < nets->n; i++)
		free(nets->v[i].iface);
	free(nets->v);
	memset(nets, 0, sizeof(*nets));
}

bool hvd_networks_serve_horovod(const struct hvd_networks *nets)
{
	return nets->n > 0 && nets->v[0].by_name && nets->v[0].family == 4;
}

bool hvd_edges_lost(const struct hvd_edge *edges, size_t n_edges)
{
	for (size_t e = 0; e < n_edges; e++)
		if (edges[e].family == 4 && (edges[e].result == HVD_REACH_SILENT ||
					     edges[e].result == HVD_REACH_BROKEN || edges[e].result == HVD_REACH_MTU))
			return true;
	return false;
}
