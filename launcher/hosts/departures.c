/* SPDX-License-Identifier: Apache-2.0 */
/*
 * departures.c - hosts that leave the job, and the end of a start that fails.
 *
 * The callers (admission.c, agent_deadlines.c, agent_messages.c) may be in the middle of a decision of their own. So the
 * consequences of a departure, a new decision and new deadlines, come later, from the event loop: see `changed`.
 */
#include "agent_registry_internal.h"

#include "lib/base/timer.h"
#include "spares.h"

void hvd_agent_registry_fail(struct hvd_agent_registry *agents, const struct hvd_err *why)
{
	if (agents->phase == HVD_AGENTS_OVER)
		return;
	agents->phase = HVD_AGENTS_OVER;
	agents->listener->over(agents->listener_arg);
	hvd_timer_stop(agents->progress);
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

void hvd_agent_registry_drop(struct hvd_agent_registry *agents, uint32_t host, const char *why)
{
	struct hvd_client *cl = agents->table.hosts[host].client;

	if (why)
		hvd_event(agents->opts->events, HOST_LOST, .index = host, .host = agents->table.hosts[host].name,
			  .why = why);
	else
		hvd_event(agents->opts->events, HOST_LEFT, .index = host, .host = agents->table.hosts[host].name);
	hvd_host_table_leave(&agents->table, host);
	agents->listener->left(host, agents->listener_arg);
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
