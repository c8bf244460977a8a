/* SPDX-License-Identifier: Apache-2.0 */
/* plan_relay.c - the plan's fields for a host's relay of the rendezvous, and the addresses at which its ranks
 * rendezvous. */
#include "planner.h"

in_port_t hvd_plan_rendezvous(const struct hvd_plan *plan, const struct hvd_host_table *table, uint32_t host,
			      struct hvd_addr *addr)
{
	hvd_addr_parse("127.0.0.1", addr);
	return hvd_relays_at(&plan->relays, host) ? table->hosts[host].node.relay : 0;
}

int32_t hvd_plan_open_relay(const struct hvd_plan *plan, const struct hvd_host_table *table)
{
	uint32_t rank0;

	if (!plan->relays.network || plan->local || plan->layout.size == 0)
		return -1;
	rank0 = (uint32_t)plan->layout.rank_slots[0].host;
	return hvd_relays_at(&plan->relays, rank0) && table->hosts[rank0].node.relay_network ? (int32_t)rank0 : -1;
}

in_port_t hvd_plan_store(const struct hvd_plan *plan, const struct hvd_host_table *table, uint32_t host,
			 struct hvd_addr *addr)
{
	int32_t open = hvd_plan_open_relay(plan, table);

	if (open < 0)
		return hvd_plan_rendezvous(plan, table, host, addr);
	*addr = hvd_plan_host_addr(plan, table, (uint32_t)open);
	return table->hosts[open].node.relay_network;
}

static void add_addr(json_t *list, const struct hvd_addr *addr)
{
	char text[HVD_ADDR_TEXT];

	json_array_append_new(list, json_string(hvd_addr_text(addr, text)));
}

json_t *hvd_plan_host_addrs(const struct hvd_plan *plan, const struct hvd_host_table *table)
{
	json_t *list = json_array();

	for (int h = 0; h < plan->layout.n_hosts; h++) {
		const struct hvd_host_info *node = &table->hosts[h].node;

		if (plan->layout.hosts[h].n == 0)
			continue;
		for (int i = 0; i < node->n_ifaces; i++)
			for (int a = 0; a < node->ifaces[i].n_addrs; a++)
				add_addr(list, &node->ifaces[i].addrs[a]);
		for (uint32_t i = 0; i < node->n_own; i++)
			add_addr(list, &node->own[i]);
	}
	return list;
}

json_t *hvd_plan_network_addrs(const struct hvd_plan *plan, const struct hvd_host_table *table, uint32_t host)
{
	const struct hvd_host_info *node = &table->hosts[host].node;
	json_t *list = plan->local ? json_pack("[s]", "127.0.0.1") : json_array();

	for (int i = 0; i < plan->networks.n; i++) {
		const struct hvd_network *network = &plan->networks.v[i];
		const struct hvd_host_iface *iface = &node->ifaces[network->iface[host]];

		for (int a = 0; network->iface[host] < node->n_ifaces && a < iface->n_addrs; a++)
			if ((iface->addrs[a].family == AF_INET) == (network->family == 4))
				add_addr(list, &iface->addrs[a]);
	}
	return list;
}

json_t *hvd_plan_relay(const struct hvd_plan *plan, const struct hvd_host_table *table, uint32_t host)
{
	const struct hvd_relay_place *place;
	struct hvd_addr addr;
	json_t *relay;
	char text[HVD_ADDR_TEXT];

	if (!hvd_relays_at(&plan->relays, host))
		return NULL;
	place = &plan->relays.place[host];
	addr = hvd_plan_host_addr(plan, table, host);
	relay = json_pack("{s:I, s:s, s:b}", "relay_id", (json_int_t)place->relay_id, "addr",
			  hvd_addr_text(&addr, text), "children", place->children > 0);
	if (place->parent >= 0) {
		json_object_set_new(relay, "up", hvd_plan_network_addrs(plan, table, (uint32_t)place->parent));
		json_object_set_new(relay, "port", json_integer(table->hosts[place->parent].node.relay_children));
	}
	/* In an elastic job nobody is rank 0 yet. */
	if (plan->elastic && plan->relays.network)
		json_object_set_new(relay, "network", json_array());
	else if (hvd_plan_open_relay(plan, table) == (int32_t)host)
		json_object_set_new(relay, "network", hvd_plan_host_addrs(plan, table));
	return relay;
}
