/* SPDX-License-Identifier: Apache-2.0 */
#include "planner.h"

#include "job_networks.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- what an agent is told to probe ---- */

/* The place in the list is the address's number: one that is not tried is empty. */
static json_t *host_addrs(const struct hvd_host_info *node, bool every)
{
	json_t *addrs = json_array();
	const struct hvd_addr *addr;
	char text[HVD_ADDR_TEXT];
	uint8_t iface;

	for (size_t a = 0; (addr = hvd_host_table_addr(node, a, &iface)); a++) {
		bool tried =
			every || addr->family == AF_INET || !hvd_host_info_has_family(&node->ifaces[iface], AF_INET);

		json_array_append_new(addrs, json_string(tried ? hvd_addr_text(addr, text) : ""));
	}
	return addrs;
}

json_t *hvd_probe_order(const struct hvd_host_table *table, const uint32_t *hosts, uint32_t n, uint32_t from,
			int timeout_ms, bool every, json_t **addrs)
{
	const char *machine = table->hosts[hosts[from]].node.machine;
	json_t *targets = json_array();
	uint32_t to[HVD_MAX_NEIGHBOURS];
	int n_to = hvd_host_table_one_machine(table, HVD_STAGE_REGISTERED) ? 0 : hvd_network_neighbours(from, n, to);

	for (int i = 0; i < n_to; i++) {
		const struct hvd_host_info *node = &table->hosts[hosts[to[i]]].node;

		if (!addrs[to[i]])
			addrs[to[i]] = host_addrs(node, every || table->ipv6 || table->rounds > 0);
		json_array_append_new(targets, json_pack("{s:I, s:i, s:O, s:b}", "n", (json_int_t)hosts[to[i]], "p",
							 (int)node->port, "a", addrs[to[i]], "here",
							 strcmp(node->machine, machine) == 0));
	}
	return json_pack("{s:s, s:o, s:i}", "t", "probe", "targets", targets, "timeout_ms", timeout_ms);
}

int hvd_probe_patience(int round)
{
	return round < 2 ? 2000 : 4000;
}

/* ---- the plan ---- */

static void reset(struct hvd_network_plan *plan)
{
	hvd_networks_clear(&plan->networks);
	plan->local = false;
}

static int decide(struct hvd_network_plan *plan, struct hvd_plan_group *group, bool again, const struct hvd_log *log,
		  struct hvd_err *err)
{
	char *unused = NULL;
	int rc = hvd_job_networks_choose(plan, group, again, &unused, log, err);

	if (rc == 0 && !plan->local) {
		if (!hvd_networks_serve_horovod(&plan->networks) && !plan->mpi)
			hvd_warn(log, "the named network is IPv6; Horovod's rendezvous client supports IPv4 only");
		hvd_job_networks_tell(plan, group, unused, log);
	}
	if (rc == 0)
		hvd_network_plan_check_user_ifnames(plan, group->table, log);
	free(unused);
	return rc;
}

int hvd_network_plan_make(struct hvd_network_plan *plan, struct hvd_host_table *table, bool again,
			  const struct hvd_log *log, struct hvd_err *err)
{
	struct hvd_plan_group group = {.table = table};
	int rc;

	reset(plan);
	group.host = hvd_host_table_list(table, HVD_STAGE_REPORTED, &group.n);
	rc = decide(plan, &group, again, log, err);
	if (rc > 0)
		reset(plan);
	free(group.host);
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

int hvd_network_plan_join(struct hvd_network_plan *plan, const struct hvd_host_table *table, uint32_t host,
			  struct hvd_err *err)
{
	return hvd_job_networks_join(plan, table, host, err);
}

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
