/* SPDX-License-Identifier: Apache-2.0 */
#include "planner.h"

#include "job_networks.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TOLD 8 /* hosts whose rendezvous endpoint is told, with --verbose */

/* ---- what an agent is told to probe ---- */

/* The place in the list is the address's number: one that is not tried is empty. */
static json_t *host_addrs(const struct hvd_node *node, bool every)
{
	json_t *addrs = json_array();
	const struct hvd_addr *addr;
	char text[HVD_ADDR_TEXT];
	uint8_t iface;

	for (size_t a = 0; (addr = hvd_node_table_addr(node, a, &iface)); a++) {
		bool tried = every || addr->family == AF_INET || !hvd_node_has_family(&node->ifaces[iface], AF_INET);

		json_array_append_new(addrs, json_string(tried ? hvd_addr_text(addr, text) : ""));
	}
	return addrs;
}

json_t *hvd_probe_order(const struct hvd_node_table *table, const uint32_t *hosts, uint32_t n, uint32_t from,
			const struct hvd_endpoints *endpoints, int timeout_ms, bool every, json_t **addrs)
{
	const char *machine = table->hosts[hosts[from]].node.machine;
	json_t *targets = json_array(), *list = json_array();
	uint32_t to[HVD_MAX_NEIGHBOURS];
	char text[HVD_ADDR_TEXT];
	int n_to = hvd_node_table_one_machine(table, HVD_STAGE_REGISTERED) ? 0 : hvd_network_neighbours(from, n, to);

	for (int i = 0; i < n_to; i++) {
		const struct hvd_node *node = &table->hosts[hosts[to[i]]].node;

		if (!addrs[to[i]])
			addrs[to[i]] = host_addrs(node, every || table->ipv6 || table->rounds > 0);
		json_array_append_new(targets, json_pack("{s:I, s:i, s:O, s:b}", "n", (json_int_t)hosts[to[i]], "p",
							 (int)node->port, "a", addrs[to[i]], "here",
							 strcmp(node->machine, machine) == 0));
	}
	for (size_t i = 0; endpoints && i < endpoints->n; i++)
		json_array_append_new(
			list, json_pack("[si]", hvd_addr_text(&endpoints->addrs[i], text), (int)endpoints->port));
	return json_pack("{s:s, s:o, s:o, s:b, s:i}", "t", "probe", "targets", targets, "rendezvous", list, "here",
			 endpoints && strcmp(endpoints->machine, machine) == 0, "timeout_ms", timeout_ms);
}

int hvd_probe_patience(int round)
{
	return round < 2 ? 2000 : 4000;
}

/* ---- the rendezvous endpoint of a host ---- */

/* The best endpoint that host `h` has reached: one in its best network first, in the order of networks. Horovod's
 * client knows IPv4 only. */
static int reached_endpoint(const struct hvd_plan *plan, const struct hvd_node_table *table, uint32_t h)
{
	const struct hvd_endpoints *ep = plan->endpoints;
	uint64_t ok = table->hosts[h].endpoints_ok;
	int any = -1;

	for (size_t i = 0; !hvd_plan_takes_ipv6(plan, table) && i < ep->n && i < HVD_MAX_ENDPOINTS; i++)
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
	if (i >= 0 || plan->by_relays || plan->relays.used)
		return 0;
	hvd_err_set(err, HVD_E_NET,
		    "the rendezvous server cannot be reached from there at port %u of any of its %zu addresses%s",
		    plan->endpoints->port, plan->endpoints->n, hvd_plan_takes_ipv6(plan, table) ? "" : " over IPv4");
	hvd_err_hint(err, plan->elastic ? "is a firewall between this host and the one that hvdrun runs on?"
					: "is a firewall between this host and the nodes?");
	return hvd_err_host(err, table->hosts[host].node.name);
}

/* ---- the plan ---- */

static void reset(struct hvd_plan *plan)
{
	hvd_layout_clear(&plan->layout);
	hvd_networks_clear(&plan->networks);
	hvd_relays_clear(&plan->relays);
	free(plan->endpoint);
	free(plan->tf_workers);
	plan->tf_workers = NULL;
	plan->endpoint = NULL;
	plan->local = false;
}

static bool all_reach_endpoints(const struct hvd_plan *plan, const struct hvd_plan_group *group)
{
	for (uint32_t i = 0; i < group->n && !plan->by_relays; i++)
		if (plan_endpoint(plan, group->table, group->host[i]) < 0)
			return false;
	return true;
}

static int choose_endpoints(struct hvd_plan *plan, const struct hvd_plan_group *group, const struct hvd_log *log,
			    struct hvd_err *err)
{
	char addr[HVD_ADDR_TEXT];

	for (uint32_t i = 0; i < group->n; i++) {
		uint32_t h = group->host[i];

		if (set_endpoint(plan, group->table, h, err) != 0)
			return -1;
		if (i < MAX_TOLD && plan->endpoint[h] >= 0)
			hvd_verbose(log, "%s: rendezvous at %s port %u", group->table->hosts[h].node.name,
				    hvd_addr_text(&plan->endpoints->addrs[plan->endpoint[h]], addr),
				    plan->endpoints->port);
	}
	return 0;
}

static int decide(struct hvd_plan *plan, struct hvd_plan_group *group, bool again, const struct hvd_log *log,
		  struct hvd_err *err)
{
	char *unused = NULL;
	int rc = hvd_job_networks_choose(plan, group, again, &unused, log, err);

	if (rc == 0 && again && !all_reach_endpoints(plan, group))
		rc = 1;
	if (rc == 0 && !plan->local) {
		if (!hvd_networks_serve_horovod(&plan->networks) && !plan->mpi)
			hvd_warn(log,
				 "the network is one of IPv6, as it was named; Horovod's rendezvous client knows IPv4 "
				 "only");
		hvd_job_networks_tell(plan, group, unused, log);
		hvd_plan_check_user_ifnames(plan, group->table, log);
	}
	free(unused);
	return rc == 0 ? choose_endpoints(plan, group, log, err) : rc;
}

int hvd_plan_make(struct hvd_plan *plan, struct hvd_node_table *table, const struct hvd_endpoints *endpoints,
		  bool again, const struct hvd_log *log, struct hvd_err *err)
{
	struct hvd_plan_group group = {.table = table,
				       .least = plan->elastic ? HVD_STAGE_REPORTED : HVD_STAGE_REGISTERED};
	int rc;

	reset(plan);
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

int hvd_plan_join(struct hvd_plan *plan, const struct hvd_node_table *table, uint32_t host, struct hvd_err *err)
{
	return hvd_job_networks_join(plan, table, host, err) == 0 ? set_endpoint(plan, table, host, err) : -1;
}

bool hvd_plan_uses(const struct hvd_plan *plan, const struct hvd_node_table *table, size_t i)
{
	for (uint32_t h = 0; h < table->n; h++)
		if ((size_t)plan->endpoint[h] == i)
			return true;
	return false;
}

struct hvd_addr hvd_plan_host_addr(const struct hvd_plan *plan, const struct hvd_node_table *table, uint32_t h)
{
	const struct hvd_network *network = plan->networks.v;
	const struct hvd_node *node = &table->hosts[h].node;
	const struct hvd_node_iface *iface;
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
