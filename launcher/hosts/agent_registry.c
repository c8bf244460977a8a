/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_registry_internal.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "preflight.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what its user asks ---- */

void hvd_agent_registry_expect(struct hvd_agent_registry *agents, uint32_t host, const char *name)
{
	uint32_t had = agents->table.n;

	hvd_host_table_expect(&agents->table, host, name);
	hvd_network_plan_grow(&agents->plan, had, agents->table.n);
	agents->table.hosts[host].deadline = hvd_deadline_in(agents->opts->spec->deadlines.start);
	hvd_agent_deadlines_update(agents);
}

void hvd_agent_registry_forget(struct hvd_agent_registry *agents, uint32_t host)
{
	if (host >= agents->table.n || agents->table.hosts[host].stage == HVD_STAGE_AWAY)
		return;
	hvd_agent_registry_drop(agents, host, NULL);
	hvd_agent_deadlines_update(agents);
	hvd_admission_check(agents);
}

void hvd_agent_registry_end(struct hvd_agent_registry *agents)
{
	hvd_clients_tell(agents->clients, "end");
	agents->ended = true;
	for (unsigned i = 0; i < agents->n_listeners; i++)
		if (agents->listeners[i].ops->over)
			agents->listeners[i].ops->over(agents->listeners[i].arg);
	hvd_agent_deadlines_stop(agents);
	for (uint32_t h = 0; h < agents->table.n; h++) {
		hvd_host_table_enter(&agents->table, h, HVD_STAGE_AWAY);
		if (agents->table.hosts[h].client)
			agents->table.hosts[h].client->role = HVD_ROLE_FORMER;
	}
}

void hvd_agent_registry_signal(struct hvd_agent_registry *agents, int sig)
{
	for (struct hvd_client *cl = hvd_clients_first(agents->clients); cl; cl = hvd_clients_next(cl))
		if (cl->role == HVD_ROLE_AGENT && cl->host < agents->table.n &&
		    agents->table.hosts[cl->host].stage == HVD_STAGE_HERE)
			hvd_conn_send(cl->conn, json_pack("{s:s, s:i}", "t", "signal", "sig", sig));
}

void hvd_agent_registry_boot(const struct hvd_agent_registry *agents, struct hvd_boot *boot)
{
	const struct hvd_driver_opts *opts = agents->opts;

	memset(boot, 0, sizeof(*boot));
	hvd_clients_address(agents->clients, &agents->self, boot);
	boot->timeout = opts->spec->deadlines.start;
	snprintf(boot->id, sizeof(boot->id), "%s", opts->id_text);
	boot->port_lo = opts->port_lo;
	boot->port_hi = opts->port_hi;
	boot->worlds = agents->n_listeners;
	boot->spares = opts->spec->spares > 0;
	boot->keeps_stderr = opts->spec->stderr_lines > 0;
	boot->verbose = agents->log->level >= HVD_LOG_DEBUG ? 2 : agents->log->level >= HVD_LOG_VERBOSE;
}

unsigned hvd_agent_registry_silent_ms(const struct hvd_agent_registry *agents)
{
	return agents->silent_ms;
}

struct hvd_host_table *hvd_agent_registry_table(struct hvd_agent_registry *agents)
{
	return &agents->table;
}

const struct hvd_network_plan *hvd_agent_registry_networks(const struct hvd_agent_registry *agents)
{
	return &agents->plan;
}

const char *hvd_agent_registry_switch_path(const struct hvd_agent_registry *agents, uint32_t host)
{
	return hvd_agent_registry_admitted(agents, host) ? agents->table.hosts[host].node.switch_path : NULL;
}

double hvd_agent_registry_rate(const struct hvd_agent_registry *agents, uint32_t host)
{
	return hvd_agent_registry_admitted(agents, host) ? agents->table.hosts[host].mbps : 0;
}

void hvd_agent_registry_check(struct hvd_agent_registry *agents, uint32_t host)
{
	json_t *order = hvd_preflight_order(agents->opts->spec, INT_MAX);

	json_object_set_new(order, "t", json_string("check"));
	if (hvd_agent_registry_admitted(agents, host) && agents->table.hosts[host].check.mib)
		json_object_set(order, "mib", agents->table.hosts[host].check.mib);
	hvd_agent_registry_command(agents, host, order);
}

void hvd_agent_registry_end_ranks(struct hvd_agent_registry *agents)
{
	hvd_clients_tell(agents->clients, "end");
}

/* ---- life ---- */

/* Hosts have gone, or the start has failed (departures.c). */
static void on_changed(void *arg)
{
	struct hvd_agent_registry *agents = arg;

	if (agents->phase == HVD_AGENTS_OVER) {
		hvd_agent_deadlines_stop(agents);
		return;
	}
	hvd_agent_deadlines_update(agents);
	hvd_admission_check(agents);
}

static void on_first(void *arg)
{
	hvd_agent_deadlines_begin(arg);
}

/* --network-interfaces lo: the hosts are names of one machine, whatever other interfaces it has. */
static bool over_loopback(const struct hvd_driver_opts *opts)
{
	bool lo = opts->spec->interfaces.n > 0;

	for (size_t i = 0; i < opts->spec->interfaces.n; i++)
		lo = lo && strcmp(opts->spec->interfaces.v[i], "lo") == 0;
	return lo || opts->loopback;
}

struct hvd_agent_registry *hvd_agent_registry_create(struct event_base *base, bool fails_without,
						     const struct hvd_driver_opts *opts, struct hvd_session *session,
						     const struct hvd_agent_registry_ops *ops, void *arg,
						     const struct hvd_log *log, struct hvd_err *err)
{
	static const struct hvd_clients_ops clients_ops = {on_first, hvd_agent_registry_message,
							   hvd_agent_registry_gone};
	struct hvd_agent_registry *agents = hvd_xcalloc(1, sizeof(*agents));

	*agents = (struct hvd_agent_registry){
		.base = base, .opts = opts, .session = session, .ops = ops, .arg = arg, .log = log};
	agents->plan.elastic = !fails_without;
	agents->plan.loopback = agents->plan.elastic && over_loopback(opts);
	agents->plan.mpi = opts->spec->mpi.on && !agents->plan.elastic;
	agents->plan.explain = log->level >= HVD_LOG_VERBOSE || opts->spec->events || opts->spec->report;
	agents->changed = hvd_timer_new(base, on_changed, agents);
	hvd_agent_deadlines_create(agents);
	if (fails_without)
		hvd_host_table_init(&agents->table, opts->hosts, opts->ranks);
	agents->table.events = opts->events;
	for (uint32_t h = 0; fails_without && h < opts->names.n; h++)
		hvd_host_table_expect(&agents->table, h, opts->names.v[h]);
	if (hvd_this_host_query(&agents->self, opts->loopback, opts->spec->interfaces.v, err) != 0 ||
	    !(agents->clients = opts->clients ? opts->clients
					      : hvd_clients_create(base, session, opts->loopback, opts->port_lo,
								   opts->port_hi, &clients_ops, agents, log, err))) {
		hvd_agent_registry_destroy(agents);
		return NULL;
	}
	hvd_clients_use(agents->clients, &clients_ops, agents);
	if (!opts->queued)
		hvd_agent_deadlines_begin(agents);
	return agents;
}

int hvd_agent_registry_listen(struct hvd_agent_registry *agents, const struct hvd_host_listener *ops, void *arg,
			      struct hvd_err *err)
{
	if (agents->n_listeners == HVD_MAX_WORLDS)
		return hvd_err_set(err, HVD_E_LIMIT, "a launch has at most %d worlds", HVD_MAX_WORLDS);
	agents->listeners[agents->n_listeners].ops = ops;
	agents->listeners[agents->n_listeners].arg = arg;
	return (int)agents->n_listeners++;
}

void hvd_agent_registry_destroy(struct hvd_agent_registry *agents)
{
	if (!agents)
		return;
	if (agents->clients && agents->clients == agents->opts->clients)
		hvd_clients_use(agents->clients, NULL, NULL);
	else
		hvd_clients_destroy(agents->clients);
	hvd_timer_free(agents->changed);
	hvd_timer_free(agents->timer);
	hvd_timer_free(agents->ask);
	hvd_timer_free(agents->progress);
	hvd_spares_stop(agents);
	hvd_silence_destroy(agents->silence);
	hvd_network_plan_clear(&agents->plan);
	hvd_host_table_clear(&agents->table);
	free(agents);
}
