/* SPDX-License-Identifier: Apache-2.0 */
#include "planner.h"

#include "lib/base/xalloc.h"
#include "lib/frameworks/emit.h"

#include <stdlib.h>
#include <string.h>

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

json_t *hvd_probe_order(const struct hvd_node_table *roster, uint32_t from, const struct hvd_endpoints *endpoints,
			int timeout_ms)
{
	uint32_t to[HVD_MAX_NEIGHBOURS];
	int n = hvd_node_table_one_machine(roster) ? 0 : hvd_network_neighbours(from, roster->n, to);

	return hvd_probe_order_to(roster, from, to, n, endpoints, timeout_ms);
}

json_t *hvd_probe_order_to(const struct hvd_node_table *roster, uint32_t from, const uint32_t *to, int n,
			   const struct hvd_endpoints *endpoints, int timeout_ms)
{
	const char *machine = roster->nodes[from].machine;
	json_t *targets = json_array(), *list = json_array();
	char text[HVD_ADDR_TEXT];

	for (int i = 0; i < n; i++)
		json_array_append_new(targets,
				      json_pack("{s:I, s:i, s:o, s:b}", "n", (json_int_t)to[i], "p",
						(int)roster->nodes[to[i]].port, "a", host_addrs(&roster->nodes[to[i]]),
						"here", strcmp(roster->nodes[to[i]].machine, machine) == 0));
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

int hvd_plan_no_network(const struct hvd_node *nodes, uint32_t n, const struct hvd_edge *edges, size_t n_edges,
			const struct hvd_networks *nets, struct hvd_err *err)
{
	char *why = hvd_networks_explain(nodes, n, edges, n_edges, nets);

	if (nets->n == 0)
		hvd_err_set(err, HVD_E_NET, "no network interface connects all %u hosts:\n%.900s", n, why);
	else
		hvd_err_set(err, HVD_E_NET,
			    "no network interface connects all %u hosts over IPv4, which Horovod needs:\n%.860s", n,
			    why);
	free(why);
	return hvd_err_hint(err, "mend the network, or leave out the host that differs (srun --exclude=HOST)");
}

static int no_network(struct hvd_plan *plan, struct hvd_node_table *roster, const struct hvd_log *log,
		      struct hvd_err *err)
{
	hvd_plan_no_network(roster->nodes, roster->n, roster->edges, roster->n_edges, &plan->networks, err);
	for (uint32_t h = 0; h < roster->n && h < 64; h++) {
		char *text = hvd_node_ifaces_text(&roster->nodes[h]);

		hvd_verbose(log, "%s has %s", roster->nodes[h].name, text);
		free(text);
	}
	return -1;
}

/* Need it not be IPv4? An MPI has a rendezvous of its own; and who names a subnet of IPv6 has no Horovod, or another.
 */
static bool any_family(const struct hvd_plan *plan, const struct hvd_node_table *roster)
{
	return plan->mpi || roster->ipv6;
}

/* The best endpoint that host `h` has reached: one in its best network first, in the order of networks. Horovod's
 * client knows IPv4 only. */
static int reached_endpoint(const struct hvd_plan *plan, const struct hvd_node_table *roster, uint32_t h)
{
	const struct hvd_endpoints *ep = plan->endpoints;
	uint64_t ok = roster->states[h].endpoints_ok;
	int any = -1;

	for (size_t i = 0; !any_family(plan, roster) && i < ep->n && i < HVD_MAX_ENDPOINTS; i++)
		if (ep->addrs[i].family != AF_INET)
			ok &= ~(UINT64_C(1) << i);

	for (int net = 0; net < plan->networks.n && ep->host >= 0; net++) {
		const struct hvd_network *nw = &plan->networks.v[net];
		const struct hvd_node_iface *iface = &roster->nodes[ep->host].ifaces[nw->iface[ep->host]];

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

int hvd_plan_endpoint(const struct hvd_plan *plan, const struct hvd_node_table *roster, uint32_t host)
{
	int i = plan->local && plan->endpoints->host >= 0 ? local_endpoint(plan->endpoints) : -1;

	return i >= 0 ? i : reached_endpoint(plan, roster, host);
}

static int choose_endpoints(struct hvd_plan *plan, const struct hvd_node_table *roster, const struct hvd_log *log,
			    struct hvd_err *err)
{
	char addr[HVD_ADDR_TEXT];

	plan->endpoint = hvd_xcalloc(roster->n, sizeof(*plan->endpoint));
	for (uint32_t h = 0; h < roster->n; h++) {
		int i = hvd_plan_endpoint(plan, roster, h);

		if (i < 0) {
			hvd_err_set(err, HVD_E_NET,
				    "the rendezvous server cannot be reached from there at port %u of any of its "
				    "%zu addresses%s",
				    plan->endpoints->port, plan->endpoints->n,
				    any_family(plan, roster) ? "" : " over IPv4");
			hvd_err_hint(err, "is a firewall between this host and the nodes? --hvd-rendezvous=batch runs "
					  "it on the first node");
			return hvd_err_host(err, roster->nodes[h].name);
		}
		plan->endpoint[h] = (int8_t)i;
		if (h < 8)
			hvd_verbose(log, "%s: rendezvous at %s port %u", roster->nodes[h].name,
				    hvd_addr_text(&plan->endpoints->addrs[i], addr), plan->endpoints->port);
	}
	return 0;
}

static void tell_networks(const struct hvd_plan *plan, const struct hvd_node_table *roster, const struct hvd_log *log)
{
	char *why;

	if (log->level < HVD_LOG_VERBOSE)
		return;
	for (int i = 0; i < plan->networks.n; i++) {
		const struct hvd_network *nw = &plan->networks.v[i];
		const struct hvd_node_iface *first = &roster->nodes[0].ifaces[nw->iface[0]];

		hvd_verbose(log, "network %d: IPv%d over %s (%s, %d Mb/s, %u us) of %s%s", i + 1, nw->family,
			    first->name, hvd_iface_kind_name(first->kind), first->speed, (unsigned)nw->rtt_us,
			    roster->nodes[0].name, i == 0 ? ": chosen" : "");
		for (uint32_t h = 1; h < roster->n; h++) {
			const struct hvd_node_iface *iface = &roster->nodes[h].ifaces[nw->iface[h]];

			if (strcmp(iface->name, first->name) != 0)
				hvd_verbose(log, "  it is %s on %s", iface->name, roster->nodes[h].name);
		}
	}
	why = hvd_networks_explain(roster->nodes, roster->n, roster->edges, roster->n_edges, &plan->networks);
	if (*why)
		hvd_verbose(log, "not used:\n%s", why);
	free(why);
}

/* Each host has reached the rendezvous somewhere? */
static bool all_reach_endpoints(const struct hvd_plan *plan, const struct hvd_node_table *roster)
{
	for (uint32_t h = 0; h < roster->n; h++)
		if (hvd_plan_endpoint(plan, roster, h) < 0)
			return false;
	return true;
}

static int undecided(struct hvd_plan *plan)
{
	bool mpi = plan->mpi;

	hvd_plan_clear(plan);
	plan->mpi = mpi;
	return 1;
}

int hvd_plan_make(struct hvd_plan *plan, struct hvd_node_table *roster, const struct hvd_endpoints *endpoints,
		  bool again, const struct hvd_log *log, struct hvd_err *err)
{
	bool serves;

	plan->endpoints = endpoints;
	plan->local = hvd_node_table_one_machine(roster);
	if (hvd_node_table_layout(roster, &plan->layout, err) != 0)
		return -1;
	if (!plan->local) {
		hvd_networks_find(roster->nodes, roster->n, roster->edges, roster->n_edges, &plan->networks);
		serves = hvd_networks_serve_horovod(&plan->networks);
		if (again && ((!serves && !roster->ipv6 && hvd_edges_lost(roster->edges, roster->n_edges)) ||
			      !all_reach_endpoints(plan, roster)))
			return undecided(plan);
		if (!serves && (!any_family(plan, roster) || plan->networks.n == 0))
			return no_network(plan, roster, log, err);
		if (!serves && !plan->mpi)
			hvd_warn(log,
				 "the network is one of IPv6, as it was named; Horovod's rendezvous client knows IPv4 "
				 "only");
		tell_networks(plan, roster, log);
		hvd_plan_check_user_ifnames(plan, roster, log);
	}
	return choose_endpoints(plan, roster, log, err);
}

void hvd_plan_clear(struct hvd_plan *plan)
{
	hvd_layout_clear(&plan->layout);
	hvd_networks_clear(&plan->networks);
	free(plan->endpoint);
	memset(plan, 0, sizeof(*plan));
}

/* "ib0,eth0": this host's interface in each network that is like the first one; that IPv6 works over an interface says
 * nothing about its IPv4. Caller frees. */
static char *iface_list(const struct hvd_plan *plan, const struct hvd_node *node, uint32_t h)
{
	char *list = hvd_xstrdup("");

	for (int i = 0; i < plan->networks.n; i++) {
		const char *name = node->ifaces[plan->networks.v[i].iface[h]].name;
		bool skip = plan->networks.v[i].family != plan->networks.v[0].family ||
			    plan->networks.v[i].by_name != plan->networks.v[0].by_name;
		char *longer;

		for (int k = 0; k < i; k++)
			skip |= plan->networks.v[k].iface[h] == plan->networks.v[i].iface[h];
		if (skip)
			continue;
		longer = hvd_xasprintf("%s%s%s", list, *list ? "," : "", name);
		free(list);
		list = longer;
	}
	return list;
}

/* The same where all ranks are on one machine: loopback, unless the user wants others. */
static char *local_list(const struct hvd_node *node, const struct hvd_node_state *state)
{
	char *list = hvd_xstrdup(state->named && !state->loopback ? "" : "lo");

	for (int i = 0; state->named && i < node->n_ifaces; i++) {
		char *longer = hvd_xasprintf("%s%s%s", list, *list ? "," : "", node->ifaces[i].name);

		free(list);
		list = longer;
	}
	return list;
}

json_t *hvd_plan_env(const struct hvd_plan *plan, const struct hvd_node_table *roster, uint32_t rank,
		     const struct hvd_strv *extra)
{
	const struct hvd_rank_slot *slot = &plan->layout.rank_slots[rank];
	uint32_t h = (uint32_t)slot->host;
	const struct hvd_node *node = &roster->nodes[h];
	char *list = plan->local ? local_list(node, &roster->states[h]) : iface_list(plan, node, h);
	char *first = hvd_xstrndup(list, strcspn(list, ","));
	struct hvd_emit in = {
		.mpi = plan->mpi,
		.one_machine = plan->local,
		.slot = slot,
		.hostname = node->name,
		.iface = first,
		.ifaces = list,
		.rendezvous = plan->endpoints->addrs[plan->endpoint[h]],
		.port = plan->endpoints->port,
	};
	struct hvd_strv env = {0};
	json_t *out = json_object();

	hvd_emit_all(&in, &env);
	for (size_t i = 0; i < env.n; i++) {
		char *value = strchr(env.v[i], '=');

		*value = '\0';
		json_object_set_new(out, env.v[i], json_string(value + 1));
	}
	for (size_t i = 0; extra && i < extra->n; i++) {
		const char *value = strchr(extra->v[i], '=');
		char *name = hvd_xstrndup(extra->v[i], (size_t)(value - extra->v[i]));

		json_object_set_new(out, name, json_string(value + 1));
		free(name);
	}
	hvd_strv_free(&env);
	free(first);
	free(list);
	return out;
}

bool hvd_plan_uses(const struct hvd_plan *plan, const struct hvd_node_table *roster, size_t i)
{
	for (uint32_t h = 0; h < roster->n; h++)
		if ((size_t)plan->endpoint[h] == i)
			return true;
	return false;
}
