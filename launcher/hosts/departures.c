/* SPDX-License-Identifier: Apache-2.0 */
/*
 * departures.c - hosts that leave the job, the end of an agent's connection, and the end of a start that fails.
 *
 * The callers (admission.c, agent_deadlines.c, agent_messages.c) may be in the middle of a decision of their own. So the
 * consequences of a departure, a new decision and new deadlines, come later, from the event loop: see `changed`.
 */
#include "agent_registry_internal.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <string.h>

void hvd_agent_registry_fail(struct hvd_agent_registry *agents, const struct hvd_err *why)
{
	if (agents->phase == HVD_AGENTS_OVER)
		return;
	agents->phase = HVD_AGENTS_OVER;
	for (unsigned i = 0; i < agents->n_listeners; i++)
		if (agents->listeners[i].ops->over)
			agents->listeners[i].ops->over(agents->listeners[i].arg);
	hvd_timer_stop(agents->progress);
	hvd_clients_stop_listening(agents->clients);
	hvd_clients_tell(agents->clients, why->code == HVD_E_USAGE ? "misused" : "failed");
	hvd_agent_registry_changed(agents);
	agents->ops->failed(why, agents->arg);
}

void hvd_agent_registry_missing_hint(const struct hvd_agent_registry *agents, struct hvd_err *why)
{
	const struct hvd_driver_opts *opts = agents->opts;
	struct hvd_boot boot;

	hvd_clients_address(agents->clients, &agents->self, &boot);
	hvd_err_hint(why, "%sis the host up, %sdoes a firewall block port %u of %s? --start-timeout allows more time",
		     opts->by_plugin ? "does plugstack.conf there list hvd.so? " : "",
		     strcmp(opts->id_text, "munge") == 0 ? "is munged running there, " : "", boot.port,
		     agents->self.host);
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
	for (unsigned i = 0; i < agents->n_listeners; i++)
		agents->listeners[i].ops->left(host, agents->listeners[i].arg);
	if (cl)
		hvd_agent_registry_dismiss(cl);
}

/* ---- hosts that are left out (spares.c) ---- */

void hvd_agent_registry_dismiss_spare(struct hvd_client *cl)
{
	cl->role = HVD_ROLE_FORMER;
	hvd_conn_send(cl->conn, json_pack("{s:s, s:b}", "t", "plan", "spare", 1));
}

void hvd_agent_registry_remove_spare(struct hvd_agent_registry *agents, uint32_t host, const char *why)
{
	struct hvd_host_entry *state = &agents->table.hosts[host];
	struct hvd_client *cl = state->client;

	if (!state->name && state->node.name)
		state->name = hvd_xstrdup(state->node.name);
	hvd_event(agents->opts->events, HOST_SPARE, .index = host, .host = state->name, .why = why);
	hvd_host_table_leave(&agents->table, host);
	state->leaving = HVD_LEAVING_LEFT_OUT;
	if (cl)
		hvd_agent_registry_dismiss_spare(cl);
	if (agents->ops->left_out)
		agents->ops->left_out(host, agents->arg);
}

bool hvd_agent_registry_leave_out(struct hvd_agent_registry *agents, uint32_t host, const struct hvd_err *why)
{
	char buf[32];

	if (host >= agents->table.n)
		return false;
	if (agents->table.hosts[host].leaving == HVD_LEAVING_LEFT_OUT)
		return true;
	if (agents->phase >= HVD_AGENTS_OPEN || hvd_spares_left(agents) == 0)
		return false;
	agents->spares.used++;
	hvd_warn(agents->log, "%s left out: %s", hvd_host_table_name(&agents->table, host, buf), why->msg);
	if (why->hint[0] && agents->opts->by_plugin)
		hvd_info(agents->log, "%s", why->hint);
	else if (why->hint[0])
		hvd_verbose(agents->log, "%s", why->hint);
	hvd_agent_registry_remove_spare(agents, host, why->msg);
	hvd_agent_registry_changed(agents);
	return true;
}

/* ---- hosts that are lost ---- */

void hvd_agent_registry_lose(struct hvd_agent_registry *agents, uint32_t host, const struct hvd_err *why, bool unfit)
{
	struct hvd_client *cl;

	if (hvd_agent_registry_leave_out(agents, host, why))
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

void hvd_agent_registry_lose_bad(struct hvd_agent_registry *agents, uint32_t host, const char *bad, const char *hint,
				 bool unfit)
{
	struct hvd_err why = {0};

	hvd_err_set(&why, HVD_E_FAILED, "%s", bad);
	hvd_err_hint(&why, "%s", hint);
	hvd_agent_registry_lose(agents, host, &why, unfit);
}

void hvd_agent_registry_gone(struct hvd_client *cl, const struct hvd_err *why, void *arg)
{
	struct hvd_agent_registry *agents = arg;
	struct hvd_err lost = {0};

	for (unsigned i = 0; i < agents->n_listeners; i++)
		if (agents->listeners[i].ops->disconnected)
			agents->listeners[i].ops->disconnected(cl, why, agents->listeners[i].arg);
	if (cl->host < agents->table.n && agents->table.hosts[cl->host].client == cl) {
		agents->table.hosts[cl->host].client = NULL;
		agents->table.hosts[cl->host].answer.by = 0;
	}
	if (!agents->plan.elastic) {
		agents->ops->disconnected(cl, why, agents->arg);
	} else if (cl->role == HVD_ROLE_FORMER) {
		agents->ops->left(cl->host, why->code == HVD_E_TIMEOUT, agents->arg);
	} else if (cl->role == HVD_ROLE_AGENT && agents->phase != HVD_AGENTS_OVER) {
		hvd_err_set(&lost, why->code == HVD_E_TIMEOUT ? HVD_E_TIMEOUT : HVD_E_NET,
			    "the connection to its node agent was lost%s%s", why->code ? ": " : "",
			    why->code ? why->msg : "");
		hvd_err_host(&lost, agents->table.hosts[cl->host].name);
		/* A connection that the kernel has given up says no more about that. */
		agents->silent_ms = hvd_conn_silent_ms(cl->conn);
		if (why->code == HVD_E_TIMEOUT && agents->silent_ms < HVD_SILENT_MS)
			agents->silent_ms = HVD_CONN_WATCH_SECONDS * 1000;
		hvd_agent_registry_lose(agents, cl->host, &lost, false);
		agents->silent_ms = 0;
	}
}
