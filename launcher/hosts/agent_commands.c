/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_commands.h"

#include "agent_registry_internal.h"
#include "lib/base/cleanup.h"
#include "lib/base/size.h"
#include "lib/rendezvous/server.h"
#include "preflight.h"

#include <limits.h>
#include <string.h>

static void take_layout(struct hvd_layout *to, struct hvd_layout *from)
{
	hvd_layout_clear(to);
	*to = *from;
	memset(from, 0, sizeof(*from));
}

void hvd_agent_prepare(struct hvd_agent_registry *agents, struct hvd_layout *layout)
{
	take_layout(&agents->plan.layout, layout);
	hvd_rv_clear_scope(agents->service.rv, "global"); /* from ranks that were given up */
}

void hvd_agent_generation(struct hvd_agent_registry *agents, struct hvd_layout *layout, bool prepared)
{
	struct hvd_rv *rv = agents->service.rv;

	if (agents->init_watch)
		hvd_init_watch_stop(agents->init_watch);
	take_layout(&agents->layout, layout);
	hvd_rv_clear(rv, prepared ? "global" : NULL);
	hvd_rv_service_size(&agents->service, &agents->layout);
}

void hvd_agent_renew(struct hvd_agent_registry *agents, int restarts)
{
	agents->plan.restarts = restarts;
	hvd_rv_tcpstore_reset(agents->service.rv);
	if (agents->init_watch)
		hvd_init_watch_begin(agents->init_watch, &agents->layout, &agents->table);
}

const struct hvd_layout *hvd_agent_layout(const struct hvd_agent_registry *agents)
{
	return &agents->layout;
}

static bool is_admitted(const struct hvd_agent_registry *agents, uint32_t host)
{
	return host < agents->table.n && agents->table.hosts[host].stage == HVD_STAGE_HERE;
}

const char *hvd_agent_switch_path(const struct hvd_agent_registry *agents, uint32_t host)
{
	return is_admitted(agents, host) ? agents->table.hosts[host].node.switch_path : NULL;
}

double hvd_agent_rate(const struct hvd_agent_registry *agents, uint32_t host)
{
	return is_admitted(agents, host) ? agents->table.hosts[host].mbps : 0;
}

/* `msg` is taken over. A host that is not admitted is sent nothing: its end was told, or is about to be. */
static void command(struct hvd_agent_registry *agents, uint32_t host, json_t *msg)
{
	if (!is_admitted(agents, host)) {
		json_decref(msg);
		return;
	}
	hvd_conn_send(agents->table.hosts[host].client->conn, msg);
	hvd_agent_answers_ask(agents, host, false);
}

/* From now on all ranks rendezvous through the relay of rank 0's host, and through no other. */
static void open_relay(struct hvd_agent_registry *agents)
{
	int32_t open = hvd_plan_open_relay(&agents->plan, &agents->table);

	if (agents->open_relay >= 0 && agents->open_relay != open)
		command(agents, (uint32_t)agents->open_relay, json_pack("{s:s, s:[]}", "t", "network", "addrs"));
	if (open >= 0)
		command(agents, (uint32_t)open,
			json_pack("{s:s, s:o}", "t", "network", "addrs",
				  hvd_plan_host_addrs(&agents->plan, &agents->table)));
	agents->open_relay = open;
}

void hvd_agent_start(struct hvd_agent_registry *agents, uint32_t id, int rank, int slots)
{
	const struct hvd_rank_slot *slot = &agents->plan.layout.rank_slots[rank];
	json_t *env;

	if (!is_admitted(agents, (uint32_t)slot->host))
		return; /* the plan has no endpoint for the host */
	if (rank == 0)
		open_relay(agents);
	env = hvd_plan_env(&agents->plan, &agents->table, (uint32_t)rank, agents->opts);
	/* The host has more ranks than slots when slots were taken away from the job. */
	command(agents, (uint32_t)slot->host,
		json_pack("{s:s, s:I, s:i, s:i, s:i, s:o}", "t", "start", "id", (json_int_t)id, "rank", rank, "slot",
			  slot->local_rank, "slots", slots > slot->local_rank ? slots : slot->local_rank + 1, "env",
			  env));
}

void hvd_agent_stop(struct hvd_agent_registry *agents, uint32_t host, uint32_t id, bool kill)
{
	command(agents, host, json_pack("{s:s, s:I, s:b}", "t", "stop", "id", (json_int_t)id, "kill", kill));
}

void hvd_agent_check(struct hvd_agent_registry *agents, uint32_t host)
{
	json_t *order = hvd_preflight_order(agents->opts->spec, INT_MAX);

	json_object_set_new(order, "t", json_string("check"));
	if (is_admitted(agents, host) && agents->table.hosts[host].check.mib)
		json_object_set(order, "mib", agents->table.hosts[host].check.mib);
	command(agents, host, order);
}

void hvd_agent_doubt(struct hvd_agent_registry *agents, uint32_t host)
{
	if (is_admitted(agents, host))
		hvd_agent_answers_ask(agents, host, true);
}

void hvd_agent_notify(struct hvd_agent_registry *agents, uint32_t host, uint32_t id, const char *to, int64_t when)
{
	command(agents, host,
		json_pack("{s:s, s:I, s:s, s:I}", "t", "notify", "id", (json_int_t)id, "to", to, "time",
			  (json_int_t)when));
}

int hvd_agent_kill_connections(struct hvd_agent_registry *agents, const struct hvd_gloo_peers *peers)
{
	int count = 0;

	for (uint32_t h = 0; h < agents->table.n; h++) {
		json_t *at = is_admitted(agents, h) ? hvd_gloo_peers_at(peers, &agents->table.hosts[h].node) : NULL;

		if (at)
			command(agents, h, json_pack("{s:s, s:o}", "t", "kill-connections", "at", at));
		count += at != NULL;
	}
	return count;
}

/* ---- answers ---- */

void hvd_agent_command_notified(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)
{
	const char *why;
	int64_t id;

	(void)cl;
	if (hvd_get_int(msg, "id", 0, INT_MAX, &id, NULL) == 0 && hvd_get_str(msg, "why", 1024, &why, NULL) == 0 &&
	    agents->ops->notified)
		agents->ops->notified((uint32_t)id, why, agents->arg);
}

void hvd_agent_command_connections_killed(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)
{
	const char *why;
	int64_t n;

	if (hvd_get_int(msg, "n", 0, INT_MAX, &n, NULL) == 0 && hvd_get_str(msg, "why", 1024, &why, NULL) == 0 &&
	    agents->ops->connections_killed)
		agents->ops->connections_killed(cl->host, (int)n, why, agents->arg);
}

/* What an agent's processes may use, and the GPUs' memory before the ranks, are known from the first check: since then
 * the agent has raised its limit of open files. */
static void take_check(struct hvd_host_check *check, const struct hvd_host_check *first, const json_t *found)
{
	hvd_host_check_read(found, check);
	json_decref(check->mib);
	check->mib = json_incref(first->mib);
	check->memlock = first->memlock;
	check->nofile = first->nofile;
}

void hvd_agent_command_checked(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_host_check first;
	struct hvd_err why = {0};
	const char *hint = "";
	hvd_cleanup_free char *bad = NULL;

	if (!is_admitted(agents, cl->host) || !json_is_object(json_object_get(msg, "preflight")) ||
	    !agents->ops->checked)
		return;
	first = agents->table.hosts[cl->host].check;
	take_check(&agents->table.hosts[cl->host].check, &first, json_object_get(msg, "preflight"));
	bad = hvd_preflight_worse(&agents->table.hosts[cl->host], &first, &hint);
	hvd_host_check_clear(&first);
	if (!agents->ops->checked(cl->host, bad, agents->arg))
		return;
	hvd_err_set(&why, HVD_E_FAILED, "%s", bad);
	hvd_err_hint(&why, "%s", hint);
	hvd_agent_registry_lose(agents, cl->host, &why, false);
}
