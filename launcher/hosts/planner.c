/* SPDX-License-Identifier: Apache-2.0 */
#include "planner.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TOLD 64 /* hosts whose interfaces are listed when no network connects them, with --verbose */

/* ---- which networks connect the hosts ---- */

/* The hosts that are planned together: all that have reported. */
struct group {
	struct hvd_host_table *table;
	uint32_t n, *host; /* their numbers in the table */
};

/* May the networks be without IPv4? An MPI has a rendezvous of its own, and a user who names a subnet of IPv6 has no
 * Horovod, or another one. */
static bool takes_ipv6(const struct hvd_network_plan *plan, const struct hvd_host_table *table)
{
	return plan->mpi || table->ipv6;
}

/* Give the ends of these edges other numbers. */
static void renumber(struct hvd_edge *edges, size_t n, const uint32_t *number)
{
	for (size_t e = 0; e < n; e++) {
		edges[e].from = number[edges[e].from];
		edges[e].to = number[edges[e].to];
	}
}

/* network.h wants hosts that are numbered from 0 without gaps. So the group's hosts are numbered by their place in the
 * group until expand(): the edges between them become the table's first *n_edges edges, with these numbers. Returns
 * shallow copies of the group's nodes. */
static struct hvd_host_info *compact(const struct group *group, size_t *n_edges)
{
	struct hvd_host_table *table = group->table;
	struct hvd_host_info *nodes = hvd_xcalloc(group->n, sizeof(*nodes));
	hvd_cleanup_free uint32_t *number = hvd_xcalloc(table->n, sizeof(*number));

	memset(number, 0xff, table->n * sizeof(*number));
	for (uint32_t i = 0; i < group->n; i++) {
		nodes[i] = table->hosts[group->host[i]].node;
		number[group->host[i]] = i;
	}
	*n_edges = 0;
	for (size_t e = 0; e < table->n_edges; e++) {
		struct hvd_edge edge = table->edges[e];

		if (number[edge.from] == UINT32_MAX || number[edge.to] == UINT32_MAX)
			continue;
		table->edges[e] = table->edges[*n_edges];
		table->edges[(*n_edges)++] = edge;
	}
	renumber(table->edges, *n_edges, number);
	return nodes;
}

static void expand(const struct group *group, size_t n_edges, struct hvd_networks *networks)
{
	renumber(group->table->edges, n_edges, group->host);
	for (int k = 0; k < networks->n; k++) {
		uint8_t *iface = hvd_xcalloc(group->table->n, 1);

		for (uint32_t i = 0; i < group->n; i++)
			iface[group->host[i]] = networks->v[k].iface[i];
		free(networks->v[k].iface);
		networks->v[k].iface = iface;
	}
}

static int no_network(const struct hvd_host_info *nodes, uint32_t n, const struct hvd_edge *edges, size_t n_edges,
		      const struct hvd_networks *networks, const struct hvd_log *log, struct hvd_err *err)
{
	hvd_cleanup_free char *why = hvd_networks_explain(nodes, n, edges, n_edges, networks);

	if (networks->n == 0)
		hvd_err_set(err, HVD_E_NET, "no network interface connects all %u hosts:\n%.900s", n, why);
	else
		hvd_err_set(err, HVD_E_NET,
			    "no network interface connects all %u hosts over IPv4, which Horovod needs:\n%.860s", n,
			    why);
	for (uint32_t i = 0; i < n && i < MAX_TOLD; i++) {
		hvd_cleanup_free char *text = hvd_host_info_ifaces_text(&nodes[i]);

		hvd_verbose(log, "%s has %s", nodes[i].name, text);
	}
	return hvd_err_hint(err, "fix the network, or leave out the host that differs (srun --exclude=HOST)");
}

/* Was there an address of IPv6 that the first round of the probe did not try (hvd_probe_order())? */
static bool left_out_ipv6(const struct group *group)
{
	if (group->table->rounds > 0)
		return false;
	for (uint32_t i = 0; i < group->n; i++) {
		const struct hvd_host_info *node = &group->table->hosts[group->host[i]].node;

		for (int f = 0; f < node->n_ifaces; f++)
			if (hvd_host_info_has_family(&node->ifaces[f], AF_INET) &&
			    hvd_host_info_has_family(&node->ifaces[f], AF_INET6))
				return true;
	}
	return false;
}

static int find_networks(struct hvd_network_plan *plan, const struct group *group, bool again,
			 const struct hvd_log *log, struct hvd_err *err)
{
	struct hvd_edge *edges = group->table->edges;
	struct hvd_networks *found = &plan->networks;
	size_t n_edges;
	hvd_cleanup_free struct hvd_host_info *nodes = compact(group, &n_edges);
	bool serves, ipv6 = takes_ipv6(plan, group->table) && !plan->elastic;
	int rc = 0;

	hvd_networks_find(nodes, group->n, edges, n_edges, found);
	serves = hvd_networks_serve_horovod(found);
	if (!serves && again && !group->table->ipv6 && (hvd_edges_lost(edges, n_edges) || left_out_ipv6(group)))
		rc = 1;
	else if (!serves && (!ipv6 || found->n == 0))
		rc = no_network(nodes, group->n, edges, n_edges, found, log, err);
	else if (plan->explain)
		plan->unused = hvd_networks_explain(nodes, group->n, edges, n_edges, found);
	expand(group, n_edges, found);
	return rc;
}

/* Host and twin are names of one machine: the host's interface with the name of the twin's interface in the network. */
static int iface_of_twin(const struct hvd_network *network, const struct hvd_host_table *table, uint32_t host,
			 uint32_t twin)
{
	const struct hvd_host_info *node = &table->hosts[twin].node;

	return hvd_host_info_find_iface(&table->hosts[host].node, node->ifaces[network->iface[twin]].name);
}

/*
 * All hosts of an elastic job are names of one machine so far. They need no network among themselves, but a later host
 * may be another machine. So they use the machine's best network, as a single host does, and loopback only if it has
 * none. Its other networks are not used: no probe has shown yet that they lead anywhere.
 */
static void find_network_of_one(struct hvd_network_plan *plan, const struct group *group, const struct hvd_log *log)
{
	const struct hvd_host_table *table = group->table;
	struct group first = {.table = group->table, .n = 1, .host = group->host};

	plan->local = find_networks(plan, &first, false, log, NULL) != 0;
	for (int k = 1; k < plan->networks.n; k++)
		free(plan->networks.v[k].iface);
	if (plan->networks.n > 1)
		plan->networks.n = 1;
	for (uint32_t i = 1; i < group->n && !plan->local; i++) {
		struct hvd_network *network = &plan->networks.v[0];
		int iface = iface_of_twin(network, table, group->host[i], group->host[0]);

		network->iface[group->host[i]] = (uint8_t)iface;
		plan->local = iface < 0; /* the interface went while the hosts came */
	}
	if (plan->local)
		hvd_networks_clear(&plan->networks);
}

/* Set plan->networks and plan->local. -1 with err set: no network connects the hosts. 1: another round of the probe,
 * which `again` allows, may find more. Changes the order of the table's edges. */
static int choose(struct hvd_network_plan *plan, const struct group *group, bool again, const struct hvd_log *log,
		  struct hvd_err *err)
{
	bool one = hvd_host_table_one_machine(group->table, HVD_STAGE_REPORTED);

	if (plan->loopback && !one) {
		hvd_err_set(err, HVD_E_NET, "loopback (lo) connects the ranks of one machine only");
		return hvd_err_hint(err, "name an interface that connects the hosts (--network-interfaces), or leave "
					 "the option out to detect one");
	}
	plan->local = one && (plan->loopback || !plan->elastic);
	if (!one)
		return find_networks(plan, group, again, log, err);
	if (!plan->local)
		find_network_of_one(plan, group, log);
	return 0;
}

/* Log the networks, with --verbose. */
static void tell(const struct hvd_network_plan *plan, const struct group *group, const struct hvd_log *log)
{
	const struct hvd_host_table *table = group->table;
	uint32_t h = group->host[0];

	for (int k = 0; k < plan->networks.n; k++) {
		const struct hvd_network *nw = &plan->networks.v[k];
		const struct hvd_host_iface *first = &table->hosts[h].node.ifaces[nw->iface[h]];

		hvd_verbose(log, "network %d: IPv%d over %s (%s, %d Mb/s, %u us) of %s%s", k + 1, nw->family,
			    first->name, hvd_iface_kind_name(first->kind), first->speed, (unsigned)nw->rtt_us,
			    table->hosts[h].node.name, k == 0 ? ": chosen" : "");
		for (uint32_t i = 1; i < group->n; i++) {
			const struct hvd_host_info *node = &table->hosts[group->host[i]].node;
			const char *name = node->ifaces[nw->iface[group->host[i]]].name;

			if (strcmp(name, first->name) != 0)
				hvd_verbose(log, "  it is %s on %s", name, node->name);
		}
	}
	if (plan->unused && *plan->unused)
		hvd_verbose(log, "not used:\n%s", plan->unused);
}

/* ---- the plan ---- */

static void reset(struct hvd_network_plan *plan)
{
	hvd_networks_clear(&plan->networks);
	plan->local = false;
	free(plan->unused);
	plan->unused = NULL;
}

char *hvd_network_plan_text(const struct hvd_network_plan *plan, const struct hvd_host_table *table)
{
	char *text = hvd_xstrdup(plan->local ? "loopback (lo)" : "");
	uint32_t n, *hosts = hvd_host_table_list(table, HVD_STAGE_REPORTED, &n);

	for (int k = 0; k < plan->networks.n && n > 0; k++) {
		const struct hvd_network *network = &plan->networks.v[k];
		const struct hvd_host_iface *iface = &table->hosts[hosts[0]].node.ifaces[network->iface[hosts[0]]];

		hvd_xappendf(&text, "%s%s (%s, IPv%d, %d Mb/s, %u us)", k ? ", " : "", iface->name,
			     hvd_iface_kind_name(iface->kind), network->family, iface->speed,
			     (unsigned)network->rtt_us);
	}
	free(hosts);
	return text;
}

int hvd_network_plan_make(struct hvd_network_plan *plan, struct hvd_host_table *table, bool again,
			  const struct hvd_log *log, struct hvd_err *err)
{
	struct group group = {.table = table};
	int rc;

	reset(plan);
	group.host = hvd_host_table_list(table, HVD_STAGE_REPORTED, &group.n);
	rc = choose(plan, &group, again, log, err);
	if (rc == 0 && !plan->local) {
		if (!hvd_networks_serve_horovod(&plan->networks) && !plan->mpi)
			hvd_warn(log, "the named network is IPv6; Horovod's rendezvous client supports IPv4 only");
		tell(plan, &group, log);
	}
	free(group.host);
	if (rc == 0)
		hvd_network_plan_check_user_ifnames(plan, table, log);
	if (rc > 0)
		reset(plan);
	return rc;
}

void hvd_network_plan_clear(struct hvd_network_plan *plan)
{
	reset(plan);
	memset(plan, 0, sizeof(*plan));
}

/* ---- a host that comes later ---- */

void hvd_network_plan_grow(struct hvd_network_plan *plan, uint32_t from, uint32_t to)
{
	if (from >= to)
		return;
	for (int k = 0; k < plan->networks.n; k++) {
		uint8_t **iface = &plan->networks.v[k].iface;

		*iface = hvd_xrealloc(*iface, to, 1);
		memset(*iface + from, 0, to - from);
	}
}

/* The host's interface in one of the networks; -1 when it reached no other host over it. */
static int iface_in(const struct hvd_network *network, const struct hvd_host_table *table, uint32_t host)
{
	for (size_t e = 0; e < table->n_edges; e++) {
		const struct hvd_edge *edge = &table->edges[e];

		if (edge->from == host && edge->result == HVD_REACH_OK && edge->family == network->family &&
		    edge->to_if == network->iface[edge->to] &&
		    edge->to_addr == table->hosts[edge->to].node.ifaces[edge->to_if].first)
			return edge->from_if;
	}
	return -1;
}

/* The host could probe nobody, as no other host is there: take its first interface of the network's address family. */
static int iface_alone(const struct hvd_network *network, const struct hvd_host_table *table, uint32_t host)
{
	const struct hvd_host_info *node = &table->hosts[host].node;

	for (int i = 0; i < node->n_ifaces; i++)
		if (hvd_host_info_has_family(&node->ifaces[i], network->family == 4 ? AF_INET : AF_INET6))
			return i;
	return -1;
}

static int not_reached(const struct hvd_network_plan *plan, const struct hvd_host_table *table, uint32_t host,
		       struct hvd_err *err)
{
	hvd_cleanup_free char *have = hvd_host_info_ifaces_text(&table->hosts[host].node);

	if (plan->local)
		hvd_err_set(err, HVD_E_NET,
			    "it is another machine, and the ranks of this job are connected over loopback (lo)");
	else
		hvd_err_set(err, HVD_E_NET, "it does not reach the other hosts over their network; it has %s", have);
	hvd_err_hint(err, plan->local ? "the job goes on without it; name another interface with --network-interfaces"
				      : "the job goes on without it; a host must be in the network that the first "
					"hosts share");
	return hvd_err_host(err, table->hosts[host].node.name);
}

/* An admitted host that is the same machine by another name; -1: there is none. */
static int64_t find_twin(const struct hvd_host_table *table, uint32_t host)
{
	for (uint32_t h = 0; h < table->n; h++)
		if (h != host && table->hosts[h].stage == HVD_STAGE_HERE &&
		    strcmp(table->hosts[h].node.machine, table->hosts[host].node.machine) == 0)
			return h;
	return -1;
}

int hvd_network_plan_join(struct hvd_network_plan *plan, const struct hvd_host_table *table, uint32_t host,
			  struct hvd_err *err)
{
	bool alone = hvd_host_table_count(table, HVD_STAGE_REPORTED) == 1;
	int64_t twin = find_twin(table, host);
	int first = 0;

	if (plan->local && !hvd_host_table_one_machine(table, HVD_STAGE_REPORTED))
		return not_reached(plan, table, host, err);
	for (int k = 0; k < plan->networks.n; k++) {
		const struct hvd_network *network = &plan->networks.v[k];
		int iface = alone       ? iface_alone(network, table, host)
			    : twin >= 0 ? iface_of_twin(network, table, host, (uint32_t)twin)
					: iface_in(network, table, host);

		if (iface < 0 && k == 0)
			return not_reached(plan, table, host, err);
		if (k == 0)
			first = iface;
		network->iface[host] = (uint8_t)(iface < 0 ? first : iface);
	}
	return 0;
}

/* ---- addresses ---- */

struct hvd_addr hvd_network_plan_addr(const struct hvd_network_plan *plan, const struct hvd_host_table *table,
				      uint32_t h)
{
	const struct hvd_network *network = plan->networks.v;
	const struct hvd_host_info *node = &table->hosts[h].node;
	const struct hvd_host_iface *iface;
	struct hvd_addr addr = {0};

	if (plan->local) {
		hvd_addr_parse("127.0.0.1", &addr);
		return addr;
	}
	if (network->iface[h] >= node->n_ifaces)
		return addr;
	iface = &node->ifaces[network->iface[h]];
	if (network->by_name && iface->first != HVD_NO_ADDR)
		return iface->addrs[iface->first];
	for (int i = iface->n_addrs - 1; i >= 0; i--)
		if ((iface->addrs[i].family == AF_INET) == (network->family == 4))
			addr = iface->addrs[i];
	return addr;
}

json_t *hvd_network_plan_addrs(const struct hvd_network_plan *plan, const struct hvd_host_table *table, uint32_t host)
{
	const struct hvd_host_info *node = &table->hosts[host].node;
	json_t *list = plan->local ? json_pack("[s]", "127.0.0.1") : json_array();
	char text[HVD_ADDR_TEXT];

	for (int i = 0; i < plan->networks.n; i++) {
		const struct hvd_network *network = &plan->networks.v[i];
		const struct hvd_host_iface *iface = &node->ifaces[network->iface[host]];

		for (int a = 0; network->iface[host] < node->n_ifaces && a < iface->n_addrs; a++)
			if ((iface->addrs[a].family == AF_INET) == (network->family == 4))
				json_array_append_new(list, json_string(hvd_addr_text(&iface->addrs[a], text)));
	}
	return list;
}
