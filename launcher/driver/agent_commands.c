/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_commands.h"

#include "lib/rendezvous/server.h"
#include "node_agents_internal.h"

#include <limits.h>

#include <string.h>

static void take_layout(struct hvd_layout *to, struct hvd_layout *from)
{
	hvd_layout_clear(to);
	*to = *from;
	memset(from, 0, sizeof(*from));
}

void hvd_agent_prepare(struct hvd_node_agents *agents, struct hvd_layout *layout)
{
	take_layout(&agents->plan.layout, layout);
	hvd_rv_clear_scope(agents->service.rv, "global"); /* of some that were given up */
}

void hvd_agent_generation(struct hvd_node_agents *agents, struct hvd_layout *layout, bool prepared)
{
	struct hvd_rv *rv = agents->service.rv;

	take_layout(&agents->layout, layout);
	hvd_rv_clear(rv, prepared ? "global" : NULL);
	hvd_rv_service_size(&agents->service, &agents->layout);
}

const struct hvd_layout *hvd_agent_layout(const struct hvd_node_agents *agents)
{
	return &agents->layout;
}

void hvd_agent_start(struct hvd_node_agents *agents, uint32_t worker, int rank, int slots)
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

void hvd_agent_stop(struct hvd_node_agents *agents, uint32_t host, uint32_t worker, bool at_once)
{
	if (host < agents->table.n && agents->table.hosts[host].stage == HVD_STAGE_ADMITTED)
		hvd_conn_send(agents->table.hosts[host].client->conn,
			      json_pack("{s:s, s:I, s:b}", "t", "stop", "worker", (json_int_t)worker, "now", at_once));
}

void hvd_agent_notify(struct hvd_node_agents *agents, uint32_t host, uint32_t worker, const char *to, int64_t when)
{
	if (host < agents->table.n && agents->table.hosts[host].stage == HVD_STAGE_ADMITTED)
		hvd_conn_send(agents->table.hosts[host].client->conn,
			      json_pack("{s:s, s:I, s:s, s:I}", "t", "notify", "worker", (json_int_t)worker, "to", to,
					"time", (json_int_t)when));
}

int hvd_agent_kill_connections(struct hvd_node_agents *agents, const struct hvd_gloo_peers *peers)
{
	int told = 0;

	for (uint32_t h = 0; h < agents->table.n; h++) {
		json_t *at = agents->table.hosts[h].stage == HVD_STAGE_ADMITTED
				     ? hvd_gloo_peers_at(peers, &agents->table.hosts[h].node)
				     : NULL;

		if (!at)
			continue;
		hvd_conn_send(agents->table.hosts[h].client->conn, json_pack("{s:s, s:o}", "t", "cut", "at", at));
		told++;
	}
	return told;
}

/* ---- what agents say ---- */

static void on_exit_message(const struct hvd_agent_events *events, const json_t *msg, void *arg)
{
	int64_t worker, status;

	if (hvd_get_int(msg, "worker", 0, UINT32_MAX, &worker, NULL) == 0 &&
	    hvd_get_int(msg, "status", 0, 0xffff, &status, NULL) == 0)
		events->exited((uint32_t)worker, (int)status, arg);
}

static void on_notified(const struct hvd_agent_events *events, const json_t *msg, void *arg)
{
	const char *why;
	int64_t worker;

	if (hvd_get_int(msg, "worker", 0, UINT32_MAX, &worker, NULL) == 0 &&
	    hvd_get_str(msg, "why", 1024, &why, NULL) == 0)
		events->notified((uint32_t)worker, why, arg);
}

static void on_connections_killed(const struct hvd_agent_events *events, uint32_t host, const json_t *msg, void *arg)
{
	const char *why;
	int64_t n;

	if (hvd_get_int(msg, "n", 0, INT_MAX, &n, NULL) == 0 && hvd_get_str(msg, "why", 1024, &why, NULL) == 0)
		events->connections_killed(host, (int)n, why, arg);
}

void hvd_agent_read(const struct hvd_agent_events *events, const struct hvd_client *cl, const char *type,
		    const json_t *msg, void *arg)
{
	if (cl->role != HVD_ROLE_AGENT)
		return;
	if (strcmp(type, "exit") == 0)
		on_exit_message(events, msg, arg);
	else if (strcmp(type, "output-lost") == 0)
		events->output_lost(arg);
	else if (strcmp(type, "notified") == 0)
		on_notified(events, msg, arg);
	else if (strcmp(type, "cut") == 0)
		on_connections_killed(events, cl->host, msg, arg);
}
