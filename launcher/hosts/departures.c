/* SPDX-License-Identifier: Apache-2.0 */
/*
 * departures.c - hosts that leave the job, and the end of a start that fails.
 *
 * The callers (admission.c, agent_deadlines.c, agent_messages.c) may be in the middle of a decision of their own. So the
 * consequences of a departure, a new decision and new deadlines, come later, from the event loop: see `changed`.
 */
#include "agent_registry_internal.h"

#include "lib/base/timer.h"
#include "relays.h"
#include "spares.h"

#include <stdlib.h>

void hvd_agent_registry_fail(struct hvd_agent_registry *agents, const struct hvd_err *why)
{
	if (agents->phase == HVD_AGENTS_OVER)
		return;
	agents->phase = HVD_AGENTS_OVER;
	if (agents->init_watch)
		hvd_init_watch_stop(agents->init_watch);
	hvd_timer_stop(agents->progress);
	hvd_progress_stop(agents->rank_progress);
	hvd_clients_stop_listening(agents->clients);
	hvd_clients_tell(agents->clients, why->code == HVD_E_USAGE ? "misused" : "failed");
	hvd_agent_registry_changed(agents);
	agents->ops->failed(why, agents->arg);
}

/* Tell an agent to end. Its later messages are ignored. */
void hvd_agent_registry_dismiss(struct hvd_client *cl)
{
	cl->role = HVD_ROLE_FORMER;
	hvd_conn_send(cl->conn, json_pack("{s:s}", "t", "end"));
}

void hvd_agent_registry_open_to_hosts(struct hvd_agent_registry *agents)
{
	uint32_t *relay_ids;
	size_t n;

	relay_ids = hvd_relays_ids(&agents->plan.relays, &n);
	hvd_rv_service_admit_relays(&agents->service, relay_ids, n);
	free(relay_ids);
}

void hvd_agent_registry_drop(struct hvd_agent_registry *agents, uint32_t host, const char *why)
{
	struct hvd_client *cl = agents->table.hosts[host].client;

	if (why)
		hvd_event(agents->opts->events, HOST_LOST, .index = host, .host = agents->table.hosts[host].name,
			  .why = why);
	else
		hvd_event(agents->opts->events, HOST_LEFT, .index = host, .host = agents->table.hosts[host].name);
	hvd_host_table_leave(&agents->table, host);
	hvd_relays_leave(&agents->plan.relays, host);
	if (agents->service.rv)
		hvd_agent_registry_open_to_hosts(agents); /* the remaining ones */
	if (cl)
		hvd_agent_registry_dismiss(cl);
}

void hvd_agent_registry_lose(struct hvd_agent_registry *agents, uint32_t host, const struct hvd_err *why, bool unfit)
{
	struct hvd_client *cl;

	if (hvd_spares_leave_out(agents, host, why))
		return;
	if (!agents->plan.elastic) {
		if (agents->phase == HVD_AGENTS_OPEN)
			agents->ops->gone(host, why, unfit, agents->arg);
		else
			hvd_agent_registry_fail(agents, why);
		return;
	}
	cl = agents->table.hosts[host].client;
	hvd_agent_registry_drop(agents, host, why->msg);
	/* Should the agent go on: others run in the place of its ranks, which have no time to end. */
	if (cl)
		hvd_agent_registry_dismiss(cl);
	agents->ops->gone(host, why, unfit, agents->arg);
	hvd_agent_registry_changed(agents);
}
