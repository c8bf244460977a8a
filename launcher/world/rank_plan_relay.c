/* SPDX-License-Identifier: Apache-2.0 */
/* rank_plan_relay.c - what a host's relay is told of the rendezvous, and the addresses at which its ranks
 * rendezvous. */
#include "rank_plan.h"

in_port_t hvd_rank_plan_rendezvous(const struct hvd_rank_plan *plan, uint32_t host, struct hvd_addr *addr)
{
	hvd_addr_parse("127.0.0.1", addr);
	return hvd_relays_at(&plan->relays, host) ? plan->table->hosts[host].node.relay : 0;
}

int32_t hvd_rank_plan_open_relay(const struct hvd_rank_plan *plan)
{
	uint32_t rank0;

	if (!plan->relays.network || plan->networks->local || plan->layout.size == 0)
		return -1;
	rank0 = (uint32_t)plan->layout.rank_slots[0].host;
	return hvd_relays_at(&plan->relays, rank0) && plan->table->hosts[rank0].node.relay_network ? (int32_t)rank0
												   : -1;
}

in_port_t hvd_rank_plan_store(const struct hvd_rank_plan *plan, uint32_t host, struct hvd_addr *addr)
{
	int32_t open = hvd_rank_plan_open_relay(plan);

	if (open < 0)
		return hvd_rank_plan_rendezvous(plan, host, addr);
	*addr = hvd_network_plan_addr(plan->networks, plan->table, (uint32_t)open);
	return plan->table->hosts[open].node.relay_network;
}

static void add_addr(json_t *list, const struct hvd_addr *addr)
{
	char text[HVD_ADDR_TEXT];

	json_array_append_new(list, json_string(hvd_addr_text(addr, text)));
}

json_t *hvd_rank_plan_host_addrs(const struct hvd_rank_plan *plan)
{
	json_t *list = json_array();

	for (int h = 0; h < plan->layout.n_hosts; h++) {
		const struct hvd_host_info *node = &plan->table->hosts[h].node;

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

json_t *hvd_rank_plan_relay(const struct hvd_rank_plan *plan, uint32_t host)
{
	const struct hvd_relay_place *place;
	struct hvd_addr addr;
	json_t *relay;
	char text[HVD_ADDR_TEXT];

	if (!hvd_relays_at(&plan->relays, host))
		return NULL;
	place = &plan->relays.place[host];
	addr = hvd_network_plan_addr(plan->networks, plan->table, host);
	relay = json_pack("{s:I, s:s, s:b}", "relay_id", (json_int_t)place->relay_id, "addr",
			  hvd_addr_text(&addr, text), "children", place->children > 0);
	if (place->parent >= 0) {
		json_object_set_new(relay, "up",
				    hvd_network_plan_addrs(plan->networks, plan->table, (uint32_t)place->parent));
		json_object_set_new(relay, "port", json_integer(plan->table->hosts[place->parent].node.relay_children));
	}
	/* In an elastic job nobody is rank 0 yet. */
	if (plan->networks->elastic && plan->relays.network)
		json_object_set_new(relay, "network", json_array());
	else if (hvd_rank_plan_open_relay(plan) == (int32_t)host)
		json_object_set_new(relay, "network", hvd_rank_plan_host_addrs(plan));
	return relay;
}
