/* SPDX-License-Identifier: Apache-2.0 */
/* network_explain.c - explains to users why interfaces are in no network. */
#include "lib/base/cleanup.h"
#include "lib/base/hostlist.h"
#include "lib/base/xalloc.h"
#include "network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAMES      32
#define MAX_DUPLICATES 8
#define MAX_LACKING    4

const char *hvd_reach_text(enum hvd_reach reach)
{
	static const char *const text[HVD_REACH_N] = {
		[HVD_REACH_OK] = "reached",
		[HVD_REACH_REFUSED] = "connection refused",
		[HVD_REACH_SILENT] = "no answer",
		[HVD_REACH_UNREACHABLE] = "no route",
		[HVD_REACH_DUPLICATE] = "the asking host has the same address",
		[HVD_REACH_STRANGER] = "another process or host answers there",
		[HVD_REACH_SOURCE] = "the connection leaves by another network",
		[HVD_REACH_NAT] = "the address is translated on the way (NAT)",
		[HVD_REACH_BROKEN] = "the connection broke",
		[HVD_REACH_MTU] = "short packets get through, full-size ones do not (MTU)",
	};

	return reach < HVD_REACH_N ? text[reach] : "?";
}

struct probed {
	const struct hvd_host_info *nodes;
	uint32_t n;
	const struct hvd_edge *edges; /* sorted by `from`, then by `to` */
	size_t n_edges;
	const struct hvd_networks *nets;
	struct hvd_addr duplicates[MAX_DUPLICATES]; /* addresses of several hosts that the text names already */
	int n_duplicates;
	char *text;
};

/* Add a line; frees it. */
static void append(struct probed *p, char *more)
{
	hvd_xappendf(&p->text, "%s%s", *p->text ? "\n" : "", more);
	free(more);
}

static const struct hvd_host_iface *iface_of(const struct probed *p, const struct hvd_edge *e)
{
	return &p->nodes[e->to].ifaces[e->to_if];
}

/* The first edge from one host to another; next_between() returns the others. NULL: there is none. */
static const struct hvd_edge *between(const struct probed *p, uint32_t from, uint32_t to)
{
	const struct hvd_edge key = {.from = from, .to = to}, *e = hvd_edge_at(p->edges, p->n_edges, &key);

	/* Without edges there may be no array. */
	return p->n_edges > 0 && e < p->edges + p->n_edges && e->from == from && e->to == to ? e : NULL;
}

static const struct hvd_edge *next_between(const struct probed *p, const struct hvd_edge *e)
{
	const struct hvd_edge *next = e + 1;

	return next < p->edges + p->n_edges && next->from == e->from && next->to == e->to ? next : NULL;
}

/* Was the address of this failed attempt reached by another attempt? */
static bool reached_as_well(const struct probed *p, const struct hvd_edge *failed)
{
	for (const struct hvd_edge *e = between(p, failed->from, failed->to); e; e = next_between(p, e))
		if (e->result == HVD_REACH_OK && e->to_if == failed->to_if && e->to_addr == failed->to_addr)
			return true;
	return false;
}

/* A failed attempt to reach an interface of this name; NULL: there is none. */
static const struct hvd_edge *example(const struct probed *p, const char *name, uint8_t family)
{
	for (size_t i = 0; i < p->n_edges; i++) {
		const struct hvd_edge *e = &p->edges[i];

		if (e->result != HVD_REACH_OK && e->family == family && strcmp(iface_of(p, e)->name, name) == 0 &&
		    !reached_as_well(p, e))
			return e;
	}
	return NULL;
}

/* A list of the hosts that have no usable interface of this name; NULL when all have one. The caller frees it. */
static char *lacking(const struct probed *p, const char *name)
{
	char *list = NULL;
	unsigned count = 0;

	for (uint32_t h = 0; h < p->n; h++) {
		if (hvd_host_info_find_iface(&p->nodes[h], name) >= 0)
			continue;
		if (count++ < MAX_LACKING)
			hvd_xappendf(&list, "%s%s", list ? ", " : "", p->nodes[h].name);
	}
	if (count > MAX_LACKING)
		hvd_xappendf(&list, " and %u more", count - MAX_LACKING);
	return list;
}

/* Did the two interfaces of a successful edge also reach each other in the other direction? */
static bool mutual(const struct probed *p, const struct hvd_edge *there)
{
	for (const struct hvd_edge *e = between(p, there->to, there->from); e; e = next_between(p, e))
		if (e->result == HVD_REACH_OK && e->family == there->family && e->from_if == there->to_if &&
		    e->to_if == there->from_if)
			return true;
	return false;
}

/* Why does interface `i` of host `h` not reach the interface of the same name on the neighbour `to`? The caller frees
 * the text; NULL if they reach each other. */
static char *why_not(const struct probed *p, uint32_t h, int i, uint32_t to, uint8_t family)
{
	const struct hvd_host_info *here = &p->nodes[h], *there = &p->nodes[to];
	const char *name = here->ifaces[i].name;
	const struct hvd_edge *back = NULL, *other = NULL, *cross = NULL;

	for (const struct hvd_edge *e = between(p, h, to); e; e = next_between(p, e)) {
		bool same = strcmp(there->ifaces[e->to_if].name, name) == 0;

		if (e->result != HVD_REACH_OK || e->family != family)
			continue;
		if (e->from_if == i && mutual(p, e)) {
			if (same)
				return NULL;
			cross = e;
		} else if (e->from_if == i) {
			back = e;
		} else if (same) {
			other = e;
		}
	}
	if (cross)
		return hvd_xasprintf("%s -> %s: it connects to %s there", here->name, there->name,
				     there->ifaces[cross->to_if].name);
	if (back)
		return hvd_xasprintf("%s -> %s: replies leave by another interface than %s", here->name, there->name,
				     there->ifaces[back->to_if].name);
	if (other)
		return hvd_xasprintf("%s -> %s: the connection leaves by %s", here->name, there->name,
				     here->ifaces[other->from_if].name);
	return hvd_xasprintf("%s -> %s: not reached", here->name, there->name);
}

/* An example of two hosts that interfaces of this name do not connect though no attempt failed; NULL: there is none.
 * The caller frees the text. */
static char *unconnected(const struct probed *p, const char *name, uint8_t family)
{
	uint32_t to[HVD_MAX_NEIGHBOURS];

	for (uint32_t h = 0; h < p->n; h++) {
		int i = hvd_host_info_find_iface(&p->nodes[h], name), k = hvd_network_neighbours(h, p->n, to);

		for (int t = 0; i >= 0 && t < k; t++) {
			char *why = why_not(p, h, i, to[t], family);

			if (why)
				return why;
		}
	}
	return NULL;
}

static void remember_duplicate(struct probed *p, const struct hvd_addr *addr)
{
	if (p->n_duplicates < MAX_DUPLICATES)
		p->duplicates[p->n_duplicates++] = *addr;
}

/* A host on which Gloo would take an address of this interface that other hosts cannot reach; NULL: there is none. */
static const struct hvd_host_info *useless_first(const struct probed *p, const char *name)
{
	for (uint32_t h = 0; h < p->n; h++) {
		int i = hvd_host_info_find_iface(&p->nodes[h], name);

		if (i >= 0 && p->nodes[h].ifaces[i].first == HVD_NO_ADDR)
			return &p->nodes[h];
	}
	return NULL;
}

/* Add a line on the interfaces of this name. `by_ipv6`: they connect all hosts by IPv6. */
static void explain_one(struct probed *p, const char *name, uint8_t family, bool by_ipv6)
{
	const struct hvd_edge *e = example(p, name, family);
	const struct hvd_host_info *useless = useless_first(p, name);
	hvd_cleanup_free char *without = lacking(p, name), *why = NULL;
	char addr[HVD_ADDR_TEXT];

	if (e) {
		const struct hvd_addr *to = &iface_of(p, e)->addrs[e->to_addr];

		append(p, hvd_xasprintf("  %s: %s -> %s (%s): %s%s%s%s", name, p->nodes[e->from].name,
					p->nodes[e->to].name, hvd_addr_text(to, addr), hvd_reach_text(e->result),
					by_ipv6 ? "; IPv6 alone connects all hosts" : "",
					without ? "; not usable on " : "", without ? without : ""));
		if (e->result == HVD_REACH_DUPLICATE)
			remember_duplicate(p, to);
	} else if (without) {
		append(p, hvd_xasprintf("  %s: not usable on %s", name, without));
	} else if (useless) {
		append(p, hvd_xasprintf("  %s: Gloo uses its first address on %s, which other hosts cannot reach", name,
					useless->name));
	} else {
		why = unconnected(p, name, family);
		append(p, hvd_xasprintf("  %s: does not connect all hosts%s%s", name, why ? ": " : "", why ? why : ""));
	}
}

static bool connected_by_ipv6(const struct probed *p, uint32_t host, int iface)
{
	for (int i = 0; i < p->nets->n; i++)
		if (p->nets->v[i].family == 6 && p->nets->v[i].iface[host] == iface)
			return true;
	return false;
}

/* By which address family do programs that know only the interface's name meet over it? 4 if by both; 0: by none. */
static uint8_t connected_by(const struct probed *p, uint32_t host, int iface)
{
	uint8_t family = 0;

	for (int i = 0; i < p->nets->n; i++)
		if (p->nets->v[i].by_name && p->nets->v[i].iface[host] == iface &&
		    (!family || p->nets->v[i].family < family))
			family = p->nets->v[i].family;
	return family;
}

/* List addresses that both the asking and the asked host have, and that the text does not name yet. */
static void explain_duplicates(struct probed *p)
{
	char text[HVD_ADDR_TEXT];

	for (size_t i = 0; i < p->n_edges && p->n_duplicates < MAX_DUPLICATES; i++) {
		const struct hvd_edge *e = &p->edges[i];
		const struct hvd_addr *addr = &iface_of(p, e)->addrs[e->to_addr];
		bool known = e->result != HVD_REACH_DUPLICATE;

		for (int k = 0; !known && k < p->n_duplicates; k++)
			known = hvd_addr_equal(&p->duplicates[k], addr);
		if (known)
			continue;
		remember_duplicate(p, addr);
		append(p, hvd_xasprintf("  %s: %s -> %s (%s): %s", iface_of(p, e)->name, p->nodes[e->from].name,
					p->nodes[e->to].name, hvd_addr_text(addr, text), hvd_reach_text(e->result)));
	}
}

/* List interfaces that hosts left out themselves; hosts that left out the same share a line. */
static void explain_dropped(struct probed *p)
{
	const char *shown[8];
	size_t n_shown = 0;

	for (uint32_t h = 0; h < p->n && n_shown < sizeof(shown) / sizeof(shown[0]); h++) {
		HVD_CLEANUP(hvd_strv_free) struct hvd_strv alike = {0};
		hvd_cleanup_free char *hosts = NULL;
		bool known = !p->nodes[h].dropped;

		for (size_t k = 0; !known && k < n_shown; k++)
			known = strcmp(shown[k], p->nodes[h].dropped) == 0;
		if (known)
			continue;
		shown[n_shown++] = p->nodes[h].dropped;
		for (uint32_t i = h; i < p->n; i++)
			if (p->nodes[i].dropped && strcmp(p->nodes[i].dropped, p->nodes[h].dropped) == 0)
				hvd_strv_add(&alike, p->nodes[i].name);
		hosts = hvd_hostlist_compress(alike.v, alike.n);
		append(p, hvd_xasprintf("  on %s not checked: %s", hosts, p->nodes[h].dropped));
	}
}

char *hvd_networks_explain(const struct hvd_host_info *nodes, uint32_t n, const struct hvd_edge *edges, size_t n_edges,
			   const struct hvd_networks *nets)
{
	struct probed p = {.nodes = nodes, .n = n, .edges = edges, .n_edges = n_edges, .nets = nets};
	char(*seen)[IF_NAMESIZE] = NULL;
	size_t n_seen = 0;

	p.text = hvd_xstrdup("");
	for (uint32_t h = 0; h < n; h++) {
		for (int i = 0; i < nodes[h].n_ifaces; i++) {
			const char *name = nodes[h].ifaces[i].name;
			uint8_t family = hvd_host_info_has_family(&nodes[h].ifaces[i], AF_INET) ? 4 : 6;
			uint8_t by = connected_by(&p, h, i);
			bool known = by && by <= family;

			for (size_t k = 0; !known && k < n_seen; k++)
				known = strcmp(seen[k], name) == 0;
			if (known || n_seen == MAX_NAMES)
				continue;
			seen = hvd_xrealloc(seen, n_seen + 1, sizeof(*seen));
			memcpy(seen[n_seen++], name, IF_NAMESIZE);
			explain_one(&p, name, family, family == 4 && connected_by_ipv6(&p, h, i));
		}
	}
	explain_duplicates(&p);
	explain_dropped(&p);
	free(seen);
	return p.text;
}
