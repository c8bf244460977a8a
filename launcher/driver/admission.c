/* SPDX-License-Identifier: Apache-2.0 */
#include "admission.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

/* The hosts that have come so far, by their numbers; *n of them. */
static uint32_t *present(const struct hvd_node_table *roster, enum hvd_stage least, uint32_t *n)
{
	uint32_t *v = hvd_xcalloc(roster->n, sizeof(*v));

	*n = 0;
	for (uint32_t h = 0; h < roster->n; h++)
		if (roster->states[h].stage >= least)
			v[(*n)++] = h;
	return v;
}

static bool same_machine(const struct hvd_node_table *roster, uint32_t a, uint32_t b)
{
	return strcmp(roster->nodes[a].machine, roster->nodes[b].machine) == 0;
}

static bool one_machine(const struct hvd_node_table *roster, const uint32_t *v, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		if (!same_machine(roster, v[i], v[0]))
			return false;
	return n > 0;
}

json_t *hvd_admission_order(const struct hvd_node_table *roster, uint32_t from, const struct hvd_endpoints *endpoints,
			    int timeout_ms)
{
	uint32_t to[HVD_MAX_NEIGHBOURS], n, at = 0, *v = present(roster, HVD_STAGE_REGISTERED, &n);
	json_t *order;
	int n_to;

	while (at < n && v[at] != from)
		at++;
	n_to = one_machine(roster, v, n) ? 0 : hvd_network_neighbours(at, n, to);
	for (int i = 0; i < n_to; i++)
		to[i] = v[to[i]];
	order = hvd_probe_order_to(roster, from, to, n_to, endpoints, timeout_ms);
	free(v);
	return order;
}

/* Networks of those that are there, without gaps, become networks of all, with gaps. 1: ask them again. */
static int find_networks(struct hvd_plan *plan, struct hvd_node_table *roster, const uint32_t *v, uint32_t n,
			 bool again, struct hvd_err *err)
{
	int rc = 0;
	struct hvd_node *nodes = hvd_xcalloc(n, sizeof(*nodes));
	struct hvd_edge *edges = hvd_xcalloc(roster->n_edges, sizeof(*edges));
	uint32_t *position = hvd_xcalloc(roster->n, sizeof(*position));
	size_t n_edges = 0;

	memset(position, 0xff, roster->n * sizeof(*position));
	for (uint32_t i = 0; i < n; i++) {
		nodes[i] = roster->nodes[v[i]];
		position[v[i]] = i;
	}
	for (size_t e = 0; e < roster->n_edges; e++) {
		struct hvd_edge edge = roster->edges[e];

		edge.from = position[edge.from];
		edge.to = position[edge.to];
		if (edge.from != UINT32_MAX && edge.to != UINT32_MAX)
			edges[n_edges++] = edge;
	}
	hvd_networks_find(nodes, n, edges, n_edges, &plan->networks);
	if (!hvd_networks_serve_horovod(&plan->networks))
		rc = again && hvd_edges_lost(edges, n_edges)
			     ? 1
			     : hvd_plan_no_network(nodes, n, edges, n_edges, &plan->networks, err);
	for (int k = 0; k < plan->networks.n; k++) {
		uint8_t *iface = hvd_xcalloc(roster->n, 1);

		for (uint32_t i = 0; i < n; i++)
			iface[v[i]] = plan->networks.v[k].iface[i];
		free(plan->networks.v[k].iface);
		plan->networks.v[k].iface = iface;
	}
	free(position);
	free(edges);
	free(nodes);
	return rc;
}

static int set_endpoint(struct hvd_plan *plan, const struct hvd_node_table *roster, uint32_t host, struct hvd_err *err)
{
	plan->endpoint[host] = (int8_t)hvd_plan_endpoint(plan, roster, host);
	if (plan->endpoint[host] >= 0)
		return 0;
	hvd_err_set(err, HVD_E_NET,
		    "the rendezvous server cannot be reached from there at port %u of any of its addresses over IPv4",
		    plan->endpoints->port);
	hvd_err_hint(err, "is a firewall between this host and the one that hvdrun runs on?");
	return hvd_err_host(err, roster->nodes[host].name);
}

/* The interface that another host has in this network, by its name: the two are names of one machine. */
static int iface_of_twin(const struct hvd_network *network, const struct hvd_node_table *roster, uint32_t host,
			 uint32_t twin)
{
	return hvd_node_find_iface(&roster->nodes[host], roster->nodes[twin].ifaces[network->iface[twin]].name);
}

/*
 * All hosts are names of one machine, which need no network; but a host that comes later may be another one. So they
 * use the best network of this machine, as one host alone does; loopback only where it has none. Nobody has shown yet
 * that its other networks lead anywhere.
 */
static void find_network_of_one(struct hvd_plan *plan, struct hvd_node_table *roster, const uint32_t *v, uint32_t n)
{
	plan->local = find_networks(plan, roster, v, 1, false, NULL) != 0;
	if (plan->local) {
		hvd_networks_clear(&plan->networks);
		return;
	}
	for (int k = 1; k < plan->networks.n; k++)
		free(plan->networks.v[k].iface);
	if (plan->networks.n > 1)
		plan->networks.n = 1;
	for (uint32_t i = 1; i < n && !plan->local; i++) {
		struct hvd_network *network = &plan->networks.v[0];
		int iface = iface_of_twin(network, roster, v[i], v[0]);

		if (iface >= 0) {
			network->iface[v[i]] = (uint8_t)iface;
			continue;
		}
		plan->local = true; /* the interface went while the hosts came */
		hvd_networks_clear(&plan->networks);
	}
}

int hvd_admission_first(struct hvd_plan *plan, struct hvd_node_table *roster, bool local, bool again,
			struct hvd_err *err)
{
	uint32_t n, *v = present(roster, HVD_STAGE_REPORTED, &n);
	int rc = 0;

	plan->local = local;
	plan->endpoint = hvd_xcalloc(roster->n, sizeof(*plan->endpoint));
	memset(plan->endpoint, 0xff, roster->n);
	if (one_machine(roster, v, n)) {
		if (!local)
			find_network_of_one(plan, roster, v, n);
	} else if (local) {
		rc = hvd_err_set(err, HVD_E_NET, "loopback (lo) connects the ranks of one machine only");
		hvd_err_hint(err, "--network-interfaces names an interface that connects the hosts; without it one is "
				  "looked for");
	} else {
		rc = find_networks(plan, roster, v, n, again, err);
	}
	for (uint32_t i = 0; rc == 0 && i < n; i++)
		if (again && hvd_plan_endpoint(plan, roster, v[i]) < 0)
			rc = 1;
		else
			rc = set_endpoint(plan, roster, v[i], err);
	free(v);
	if (rc > 0) {
		hvd_networks_clear(&plan->networks);
		free(plan->endpoint);
		plan->endpoint = NULL;
		plan->local = false;
	}
	return rc;
}

/* Its interface in one of the networks; -1 when it reached nobody over it. */
static int iface_in(const struct hvd_network *network, const struct hvd_node_table *roster, uint32_t host)
{
	for (size_t e = 0; e < roster->n_edges; e++) {
		const struct hvd_edge *edge = &roster->edges[e];

		if (edge->from == host && edge->result == HVD_REACH_OK && edge->family == network->family &&
		    edge->to_if == network->iface[edge->to] &&
		    edge->to_addr == roster->nodes[edge->to].ifaces[edge->to_if].first)
			return edge->from_if;
	}
	return -1;
}

/* Nobody else is there any longer: by its name. */
static int iface_alone(const struct hvd_network *network, const struct hvd_node_table *roster, uint32_t host)
{
	const struct hvd_node *node = &roster->nodes[host];

	for (int i = 0; i < node->n_ifaces; i++)
		if (hvd_node_has_family(&node->ifaces[i], network->family == 4 ? AF_INET : AF_INET6))
			return i;
	return -1;
}

static int not_reached(const struct hvd_plan *plan, const struct hvd_node_table *roster, uint32_t host,
		       struct hvd_err *err)
{
	char *have = hvd_node_ifaces_text(&roster->nodes[host]);

	if (plan->local)
		hvd_err_set(err, HVD_E_NET,
			    "it is another machine, and the ranks of this job are connected over loopback (lo)");
	else
		hvd_err_set(err, HVD_E_NET, "it does not reach the other hosts over their network; it has %s", have);
	hvd_err_hint(err, plan->local ? "the job goes on without it; --network-interfaces names another interface"
				      : "the job goes on without it; a host must be in the network that the first "
					"hosts share");
	free(have);
	return hvd_err_host(err, roster->nodes[host].name);
}

/* Another host that is in the networks, and is the same machine by another name; -1: there is none. */
static int64_t find_twin(const struct hvd_node_table *roster, uint32_t host)
{
	for (uint32_t h = 0; h < roster->n; h++)
		if (h != host && roster->states[h].stage == HVD_STAGE_PLANNED && same_machine(roster, h, host))
			return h;
	return -1;
}

int hvd_admission_late(struct hvd_plan *plan, const struct hvd_node_table *roster, uint32_t host, struct hvd_err *err)
{
	uint32_t n, *v = present(roster, HVD_STAGE_REPORTED, &n);
	bool alone = n == 1, same = one_machine(roster, v, n);
	int64_t twin = find_twin(roster, host);
	int first = 0;

	free(v);
	if (plan->local && !same)
		return not_reached(plan, roster, host, err);
	for (int k = 0; k < plan->networks.n; k++) {
		const struct hvd_network *network = &plan->networks.v[k];
		int iface = alone       ? iface_alone(network, roster, host)
			    : twin >= 0 ? iface_of_twin(network, roster, host, (uint32_t)twin)
					: iface_in(network, roster, host);

		if (iface < 0 && k == 0)
			return not_reached(plan, roster, host, err);
		if (k == 0)
			first = iface;
		network->iface[host] = (uint8_t)(iface < 0 ? first : iface);
	}
	return set_endpoint(plan, roster, host, err);
}
