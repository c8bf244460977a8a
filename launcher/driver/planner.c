/* SPDX-License-Identifier: Apache-2.0 */
#include "planner.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TOLD_IFACES    64 /* hosts whose interfaces are listed when no network connects them, with --verbose */
#define MAX_TOLD_ENDPOINTS 8  /* … whose rendezvous endpoint is told, with --verbose */

/* ---- what an agent is told to probe ---- */

static json_t *host_addrs(const struct hvd_node *node)
{
	json_t *addrs = json_array();
	const struct hvd_addr *addr;
	char text[HVD_ADDR_TEXT];
	uint8_t iface;

	for (size_t a = 0; (addr = hvd_node_table_addr(node, a, &iface)); a++)
		json_array_append_new(addrs, json_string(hvd_addr_text(addr, text)));
	return addrs;
}

json_t *hvd_probe_order(const struct hvd_node_table *table, const uint32_t *hosts, uint32_t n, uint32_t from,
			const struct hvd_endpoints *endpoints, int timeout_ms)
{
	const char *machine = table->hosts[hosts[from]].node.machine;
	json_t *targets = json_array(), *list = json_array();
	uint32_t to[HVD_MAX_NEIGHBOURS];
	char text[HVD_ADDR_TEXT];
	int n_to = hvd_node_table_one_machine(table, HVD_STAGE_REGISTERED) ? 0 : hvd_network_neighbours(from, n, to);

	for (int i = 0; i < n_to; i++) {
		const struct hvd_node *node = &table->hosts[hosts[to[i]]].node;

		json_array_append_new(targets, json_pack("{s:I, s:i, s:o, s:b}", "n", (json_int_t)hosts[to[i]], "p",
							 (int)node->port, "a", host_addrs(node), "here",
							 strcmp(node->machine, machine) == 0));
	}
	for (size_t i = 0; i < endpoints->n; i++)
		json_array_append_new(
			list, json_pack("[si]", hvd_addr_text(&endpoints->addrs[i], text), (int)endpoints->port));
	return json_pack("{s:s, s:o, s:o, s:b, s:i}", "t", "probe", "targets", targets, "rendezvous", list, "here",
			 strcmp(endpoints->machine, machine) == 0, "timeout_ms", timeout_ms);
}

int hvd_probe_patience(int round)
{
	return round < 2 ? 2000 : 4000;
}

/* ---- the rendezvous endpoint of a host ---- */

/* Need it not be IPv4? An MPI has a rendezvous of its own; and who names a subnet of IPv6 has no Horovod, or another.
 */
static bool any_family(const struct hvd_plan *plan, const struct hvd_node_table *table)
{
	return plan->mpi || table->ipv6;
}

/* The best endpoint that host `h` has reached: one in its best network first, in the order of networks. Horovod's
 * client knows IPv4 only. */
static int reached_endpoint(const struct hvd_plan *plan, const struct hvd_node_table *table, uint32_t h)
{
	const struct hvd_endpoints *ep = plan->endpoints;
	uint64_t ok = table->hosts[h].endpoints_ok;
	int any = -1;

	for (size_t i = 0; !any_family(plan, table) && i < ep->n && i < HVD_MAX_ENDPOINTS; i++)
		if (ep->addrs[i].family != AF_INET)
			ok &= ~(UINT64_C(1) << i);

	for (int net = 0; net < plan->networks.n && ep->host >= 0; net++) {
		const struct hvd_network *nw = &plan->networks.v[net];
		const struct hvd_node_iface *iface = &table->hosts[ep->host].node.ifaces[nw->iface[ep->host]];

		for (size_t i = 0; i < ep->n && i < HVD_MAX_ENDPOINTS; i++)
			for (int a = 0; a < iface->n_addrs; a++)
				if ((ok >> i & 1) && hvd_addr_equal(&ep->addrs[i], &iface->addrs[a]) &&
				    (iface->addrs[a].family == AF_INET) == (nw->family == 4))
					return (int)i;
	}
	/* Not on a host of the job: what was reached, IPv4 first. */
	for (size_t i = 0; i < ep->n && i < HVD_MAX_ENDPOINTS; i++) {
		if (!(ok >> i & 1) || hvd_addr_loopback(&ep->addrs[i]))
			continue;
		if (ep->addrs[i].family == AF_INET)
			return (int)i;
		if (any < 0)
			any = (int)i;
	}
	return any;
}

static int local_endpoint(const struct hvd_endpoints *ep)
{
	for (size_t i = 0; i < ep->n && i < HVD_MAX_ENDPOINTS; i++)
		if (hvd_addr_loopback(&ep->addrs[i]))
			return (int)i;
	return -1;
}

static int plan_endpoint(const struct hvd_plan *plan, const struct hvd_node_table *table, uint32_t host)
{
	int i = plan->local && plan->endpoints->host >= 0 ? local_endpoint(plan->endpoints) : -1;

	return i >= 0 ? i : reached_endpoint(plan, table, host);
}

static int set_endpoint(struct hvd_plan *plan, const struct hvd_node_table *table, uint32_t host, struct hvd_err *err)
{
	int i = plan_endpoint(plan, table, host);

	plan->endpoint[host] = (int8_t)i;
	if (i >= 0)
		return 0;
	hvd_err_set(err, HVD_E_NET,
		    "the rendezvous server cannot be reached from there at port %u of any of its %zu addresses%s",
		    plan->endpoints->port, plan->endpoints->n, any_family(plan, table) ? "" : " over IPv4");
	hvd_err_hint(err, plan->elastic ? "is a firewall between this host and the one that hvdrun runs on?"
					: "is a firewall between this host and the nodes? --hvd-rendezvous=batch runs "
					  "it on the first node");
	return hvd_err_host(err, table->hosts[host].node.name);
}

/* ---- the networks that the hosts share ---- */

/* The hosts that are planned together. network.h wants them numbered without gaps, which other hosts leave. */
struct group {
	struct hvd_node_table *table;
	enum hvd_stage least;   /* that each of them has come to */
	uint32_t n, *host;      /* their numbers in the table */
	struct hvd_node *nodes; /* shallow copies */
	size_t n_edges;         /* of the table's edges, those within the group, which come first */
};

static void number_edges(struct group *group, const uint32_t *number)
{
	struct hvd_edge *edges = group->table->edges;

	for (size_t e = 0; e < group->n_edges; e++) {
		edges[e].from = number[edges[e].from];
		edges[e].to = number[edges[e].to];
	}
}

/* Until group_end() the edges have the group's numbers. */
static void group_begin(struct group *group)
{
	struct hvd_node_table *table = group->table;
	uint32_t *number = hvd_xcalloc(table->n, sizeof(*number));

	memset(number, 0xff, table->n * sizeof(*number));
	group->nodes = hvd_xcalloc(group->n, sizeof(*group->nodes));
	for (uint32_t i = 0; i < group->n; i++) {
		group->nodes[i] = table->hosts[group->host[i]].node;
		number[group->host[i]] = i;
	}
	group->n_edges = 0;
	for (size_t e = 0; e < table->n_edges; e++) {
		struct hvd_edge edge = table->edges[e];

		if (number[edge.from] == UINT32_MAX || number[edge.to] == UINT32_MAX)
			continue;
		table->edges[e] = table->edges[group->n_edges];
		table->edges[group->n_edges++] = edge;
	}
	number_edges(group, number);
	free(number);
}

static void group_end(struct group *group, struct hvd_networks *networks)
{
	number_edges(group, group->host);
	free(group->nodes);
	for (int k = 0; k < networks->n; k++) {
		uint8_t *iface = hvd_xcalloc(group->table->n, 1);

		for (uint32_t i = 0; i < group->n; i++)
			iface[group->host[i]] = networks->v[k].iface[i];
		free(networks->v[k].iface);
		networks->v[k].iface = iface;
	}
}

static int no_network(const struct group *group, const struct hvd_networks *networks, const struct hvd_log *log,
		      struct hvd_err *err)
{
	char *why = hvd_networks_explain(group->nodes, group->n, group->table->edges, group->n_edges, networks);

	if (networks->n == 0)
		hvd_err_set(err, HVD_E_NET, "no network interface connects all %u hosts:\n%.900s", group->n, why);
	else
		hvd_err_set(err, HVD_E_NET,
			    "no network interface connects all %u hosts over IPv4, which Horovod needs:\n%.860s",
			    group->n, why);
	free(why);
	for (uint32_t i = 0; i < group->n && i < MAX_TOLD_IFACES; i++) {
		char *text = hvd_node_ifaces_text(&group->nodes[i]);

		hvd_verbose(log, "%s has %s", group->nodes[i].name, text);
		free(text);
	}
	return hvd_err_hint(err, "mend the network, or leave out the host that differs (srun --exclude=HOST)");
}

/* 1: the hosts are to probe again. *unused, if wanted, tells which interfaces are in no network; the caller frees it.
 */
static int find_networks(struct hvd_plan *plan, struct group *group, bool again, char **unused,
			 const struct hvd_log *log, struct hvd_err *err)
{
	struct hvd_node_table *table = group->table;
	bool serves, ipv6 = any_family(plan, table) && !plan->elastic;
	int rc = 0;

	group_begin(group);
	hvd_networks_find(group->nodes, group->n, table->edges, group->n_edges, &plan->networks);
	serves = hvd_networks_serve_horovod(&plan->networks);
	if (!serves && again && !table->ipv6 && hvd_edges_lost(table->edges, group->n_edges))
		rc = 1;
	else if (!serves && (!ipv6 || plan->networks.n == 0))
		rc = no_network(group, &plan->networks, log, err);
	else if (unused && log->level >= HVD_LOG_VERBOSE)
		*unused = hvd_networks_explain(group->nodes, group->n, table->edges, group->n_edges, &plan->networks);
	group_end(group, &plan->networks);
	return rc;
}

/* The interface that another host has in this network, by its name: the two are names of one machine. */
static int iface_of_twin(const struct hvd_network *network, const struct hvd_node_table *table, uint32_t host,
			 uint32_t twin)
{
	const struct hvd_node *node = &table->hosts[twin].node;

	return hvd_node_find_iface(&table->hosts[host].node, node->ifaces[network->iface[twin]].name);
}

/*
 * All hosts of an elastic job are names of one machine, which need no network; but a host that comes later may be
 * another machine. So they use the best network of this machine, as one host alone does; loopback only where it has
 * none. Nobody has shown yet that its other networks lead anywhere.
 */
static void find_network_of_one(struct hvd_plan *plan, const struct group *group, const struct hvd_log *log)
{
	const struct hvd_node_table *table = group->table;
	struct group first = {.table = group->table, .n = 1, .host = group->host};

	plan->local = find_networks(plan, &first, false, NULL, log, NULL) != 0;
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

static void tell_networks(const struct hvd_plan *plan, const struct group *group, const char *unused,
			  const struct hvd_log *log)
{
	const struct hvd_node_table *table = group->table;
	uint32_t h = group->host[0];

	for (int k = 0; k < plan->networks.n; k++) {
		const struct hvd_network *nw = &plan->networks.v[k];
		const struct hvd_node_iface *first = &table->hosts[h].node.ifaces[nw->iface[h]];

		hvd_verbose(log, "network %d: IPv%d over %s (%s, %d Mb/s, %u us) of %s%s", k + 1, nw->family,
			    first->name, hvd_iface_kind_name(first->kind), first->speed, (unsigned)nw->rtt_us,
			    table->hosts[h].node.name, k == 0 ? ": chosen" : "");
		for (uint32_t i = 1; i < group->n; i++) {
			const struct hvd_node *node = &table->hosts[group->host[i]].node;
			const char *name = node->ifaces[nw->iface[group->host[i]]].name;

			if (strcmp(name, first->name) != 0)
				hvd_verbose(log, "  it is %s on %s", name, node->name);
		}
	}
	if (unused && *unused)
		hvd_verbose(log, "not used:\n%s", unused);
}

/* ---- the plan ---- */

static void reset(struct hvd_plan *plan)
{
	hvd_layout_clear(&plan->layout);
	hvd_networks_clear(&plan->networks);
	free(plan->endpoint);
	plan->endpoint = NULL;
	plan->local = false;
}

static int choose_networks(struct hvd_plan *plan, struct group *group, bool again, char **unused,
			   const struct hvd_log *log, struct hvd_err *err)
{
	bool one = hvd_node_table_one_machine(group->table, group->least);

	if (plan->loopback && !one) {
		hvd_err_set(err, HVD_E_NET, "loopback (lo) connects the ranks of one machine only");
		return hvd_err_hint(err, "--network-interfaces names an interface that connects the hosts; without it "
					 "one is looked for");
	}
	plan->local = one && (plan->loopback || !plan->elastic);
	if (!one)
		return find_networks(plan, group, again, unused, log, err);
	if (!plan->local)
		find_network_of_one(plan, group, log);
	return 0;
}

static bool all_reach_endpoints(const struct hvd_plan *plan, const struct group *group)
{
	for (uint32_t i = 0; i < group->n; i++)
		if (plan_endpoint(plan, group->table, group->host[i]) < 0)
			return false;
	return true;
}

static int choose_endpoints(struct hvd_plan *plan, const struct group *group, const struct hvd_log *log,
			    struct hvd_err *err)
{
	char addr[HVD_ADDR_TEXT];

	for (uint32_t i = 0; i < group->n; i++) {
		uint32_t h = group->host[i];

		if (set_endpoint(plan, group->table, h, err) != 0)
			return -1;
		if (i < MAX_TOLD_ENDPOINTS)
			hvd_verbose(log, "%s: rendezvous at %s port %u", group->table->hosts[h].node.name,
				    hvd_addr_text(&plan->endpoints->addrs[plan->endpoint[h]], addr),
				    plan->endpoints->port);
	}
	return 0;
}

static int decide(struct hvd_plan *plan, struct group *group, bool again, const struct hvd_log *log,
		  struct hvd_err *err)
{
	char *unused = NULL;
	int rc = choose_networks(plan, group, again, &unused, log, err);

	if (rc == 0 && again && !all_reach_endpoints(plan, group))
		rc = 1;
	if (rc == 0 && !plan->local) {
		if (!hvd_networks_serve_horovod(&plan->networks) && !plan->mpi)
			hvd_warn(log,
				 "the network is one of IPv6, as it was named; Horovod's rendezvous client knows IPv4 "
				 "only");
		tell_networks(plan, group, unused, log);
		hvd_plan_check_user_ifnames(plan, group->table, log);
	}
	free(unused);
	return rc == 0 ? choose_endpoints(plan, group, log, err) : rc;
}

int hvd_plan_make(struct hvd_plan *plan, struct hvd_node_table *table, const struct hvd_endpoints *endpoints,
		  bool again, const struct hvd_log *log, struct hvd_err *err)
{
	struct group group = {.table = table, .least = plan->elastic ? HVD_STAGE_REPORTED : HVD_STAGE_REGISTERED};
	int rc;

	plan->endpoints = endpoints;
	if (!plan->elastic && hvd_node_table_layout(table, &plan->layout, err) != 0)
		return -1;
	plan->endpoint = hvd_xcalloc(table->n, sizeof(*plan->endpoint));
	memset(plan->endpoint, 0xff, table->n);
	group.host = hvd_node_table_list(table, group.least, &group.n);
	rc = decide(plan, &group, again, log, err);
	if (rc > 0)
		reset(plan);
	free(group.host);
	return rc;
}

void hvd_plan_clear(struct hvd_plan *plan)
{
	reset(plan);
	memset(plan, 0, sizeof(*plan));
}

/* ---- a host that comes later ---- */

void hvd_plan_grow(struct hvd_plan *plan, uint32_t from, uint32_t to)
{
	if (from >= to || !plan->endpoint)
		return;
	for (int k = 0; k < plan->networks.n; k++) {
		uint8_t **iface = &plan->networks.v[k].iface;

		*iface = hvd_xrealloc(*iface, to, 1);
		memset(*iface + from, 0, to - from);
	}
	plan->endpoint = hvd_xrealloc(plan->endpoint, to, 1);
	memset(plan->endpoint + from, 0xff, to - from);
}

/* The host's interface in one of the networks; -1 when it reached no other host over it. */
static int iface_in(const struct hvd_network *network, const struct hvd_node_table *table, uint32_t host)
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

/* No other host is there that it could reach: its first interface of the network's family. */
static int iface_alone(const struct hvd_network *network, const struct hvd_node_table *table, uint32_t host)
{
	const struct hvd_node *node = &table->hosts[host].node;

	for (int i = 0; i < node->n_ifaces; i++)
		if (hvd_node_has_family(&node->ifaces[i], network->family == 4 ? AF_INET : AF_INET6))
			return i;
	return -1;
}

static int not_reached(const struct hvd_plan *plan, const struct hvd_node_table *table, uint32_t host,
		       struct hvd_err *err)
{
	char *have = hvd_node_ifaces_text(&table->hosts[host].node);

	if (plan->local)
		hvd_err_set(err, HVD_E_NET,
			    "it is another machine, and the ranks of this job are connected over loopback (lo)");
	else
		hvd_err_set(err, HVD_E_NET, "it does not reach the other hosts over their network; it has %s", have);
	hvd_err_hint(err, plan->local ? "the job goes on without it; --network-interfaces names another interface"
				      : "the job goes on without it; a host must be in the network that the first "
					"hosts share");
	free(have);
	return hvd_err_host(err, table->hosts[host].node.name);
}

/* An admitted host that is the same machine by another name; -1: there is none. */
static int64_t find_twin(const struct hvd_node_table *table, uint32_t host)
{
	for (uint32_t h = 0; h < table->n; h++)
		if (h != host && table->hosts[h].stage == HVD_STAGE_ADMITTED &&
		    strcmp(table->hosts[h].node.machine, table->hosts[host].node.machine) == 0)
			return h;
	return -1;
}

int hvd_plan_join(struct hvd_plan *plan, const struct hvd_node_table *table, uint32_t host, struct hvd_err *err)
{
	bool alone = hvd_node_table_count(table, HVD_STAGE_REPORTED) == 1;
	int64_t twin = find_twin(table, host);
	int first = 0;

	if (plan->local && !hvd_node_table_one_machine(table, HVD_STAGE_REPORTED))
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
	return set_endpoint(plan, table, host, err);
}

bool hvd_plan_uses(const struct hvd_plan *plan, const struct hvd_node_table *table, size_t i)
{
	for (uint32_t h = 0; h < table->n; h++)
		if ((size_t)plan->endpoint[h] == i)
			return true;
	return false;
}
