/* SPDX-License-Identifier: Apache-2.0 */
/* agent_commands.c - what hosts are told: the ranks to start and to end, and what concerns those that run. */
#include "node_agents_internal.h"

#include "lib/rendezvous/server.h"

#include <string.h>

static void take_layout(struct hvd_layout *to, struct hvd_layout *from)
{
	hvd_layout_clear(to);
	*to = *from;
	memset(from, 0, sizeof(*from));
}

void hvd_node_agents_prepare(struct hvd_node_agents *agents, struct hvd_layout *layout)
{
	take_layout(&agents->plan.layout, layout);
	hvd_rv_clear_scope(agents->service.rv, "global"); /* of some that were given up */
}

void hvd_node_agents_generation(struct hvd_node_agents *agents, struct hvd_layout *layout, bool prepared)
{
	struct hvd_rv *rv = agents->service.rv;

	take_layout(&agents->layout, layout);
	hvd_rv_clear(rv, prepared ? "global" : NULL);
	hvd_rv_service_size(&agents->service, &agents->layout);
}

const struct hvd_layout *hvd_node_agents_layout(const struct hvd_node_agents *agents)
{
	return &agents->layout;
}

void hvd_node_agents_start(struct hvd_node_agents *agents, uint32_t worker, int rank, int slots)
{
	const struct hvd_rank_slot *slot = &agents->plan.layout.rank_slots[rank];
	struct hvd_node_agent *p = &agents->table.hosts[slot->host];

	if (p->stage != HVD_STAGE_ADMITTED)
		return; /* its end is on its way to whoever asks */
	hvd_conn_send(p->client->conn,
		      json_pack("{s:s, s:I, s:i, s:i, s:o}", "t", "start", "worker", (json_int_t)worker, "slot",
				slot->local_rank, "slots", slots > slot->local_rank ? slots : slot->local_rank + 1,
				"env",
				hvd_plan_env(&agents->plan, &agents->table, (uint32_t)rank, &agents->opts->env)));
}

void hvd_node_agents_stop(struct hvd_node_agents *agents, uint32_t host, uint32_t worker, bool at_once)
{
	if (host < agents->table.n && agents->table.hosts[host].stage == HVD_STAGE_ADMITTED)
		hvd_conn_send(agents->table.hosts[host].client->conn,
			      json_pack("{s:s, s:I, s:b}", "t", "stop", "worker", (json_int_t)worker, "now", at_once));
}

void hvd_node_agents_notify(struct hvd_node_agents *agents, uint32_t host, uint32_t worker, const char *to,
			    int64_t when)
{
	if (host < agents->table.n && agents->table.hosts[host].stage == HVD_STAGE_ADMITTED)
		hvd_conn_send(agents->table.hosts[host].client->conn,
			      json_pack("{s:s, s:I, s:s, s:I}", "t", "notify", "worker", (json_int_t)worker, "to", to,
					"time", (json_int_t)when));
}

int hvd_node_agents_cut(struct hvd_node_agents *agents, const struct hvd_gloo_peers *pairs)
{
	int told = 0;

	for (uint32_t h = 0; h < agents->table.n; h++) {
		json_t *at = agents->table.hosts[h].stage == HVD_STAGE_ADMITTED
				     ? hvd_gloo_peers_at(pairs, &agents->table.hosts[h].node)
				     : NULL;

		if (!at)
			continue;
		hvd_conn_send(agents->table.hosts[h].client->conn, json_pack("{s:s, s:o}", "t", "cut", "at", at));
		told++;
	}
	return told;
}

void hvd_node_agents_end(struct hvd_node_agents *agents)
{
	hvd_clients_tell(agents->clients, "end");
	agents->ended = true;
	event_del(agents->timer);
	for (uint32_t h = 0; h < agents->table.n; h++) {
		hvd_node_table_enter(&agents->table, h, HVD_STAGE_ABSENT);
		if (agents->table.hosts[h].client)
			agents->table.hosts[h].client->role = HVD_ROLE_FORMER;
	}
}

void hvd_node_agents_signal(struct hvd_node_agents *agents, int sig)
{
	for (uint32_t h = 0; h < agents->table.n; h++)
		if (agents->table.hosts[h].stage == HVD_STAGE_ADMITTED)
			hvd_conn_send(agents->table.hosts[h].client->conn,
				      json_pack("{s:s, s:i}", "t", "signal", "sig", sig));
}
