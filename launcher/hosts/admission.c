/* SPDX-License-Identifier: Apache-2.0 */
/* admission.c - from registered hosts to admitted ones: the rendezvous is opened, agents probe, the planner decides. */
#include "agent_registry_internal.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/agent_settings.h"
#include "preflight.h"

#include <stdlib.h>
#include <string.h>

/* ---- probe ---- */

/* If IPv4 connects the hosts, IPv6 is only of use to an MPI, and to a user who wants to see it. */
static bool tries_all(const struct hvd_agent_registry *agents)
{
	return agents->plan.mpi || agents->log->level >= HVD_LOG_VERBOSE;
}

static void order_probe(struct hvd_agent_registry *agents, const uint32_t *hosts, uint32_t n, uint32_t i,
			json_t **addrs)
{
	struct hvd_host_entry *host = &agents->table.hosts[hosts[i]];
	int ms = hvd_probe_patience(agents->table.rounds), half;
	json_t *order;

	host->deadline = hvd_agents_share_deadline(agents) ? agents->deadline
							   : hvd_deadline_in(agents->opts->spec->deadlines.start);
	half = hvd_left_ms(host->deadline) / 2;
	hvd_host_table_enter(&agents->table, hosts[i], HVD_STAGE_PROBING);
	host->probe_sent = hvd_now();
	if (!host->client)
		return;
	order = hvd_probe_order(&agents->table, hosts, n, i, ms > half ? half + 1 : ms, tries_all(agents), addrs);
	if (agents->opts->spec->preflight && !host->check.known)
		/* The host is checked while it probes, for half of the time that is left at most. */
		json_object_set_new(order, "preflight", hvd_preflight_order(agents->opts->spec, half + 1));
	hvd_conn_send(host->client->conn, order);
}

/* All that have registered and were not told to probe yet. */
void hvd_admission_probe(struct hvd_agent_registry *agents)
{
	uint32_t n, *hosts = hvd_host_table_list(&agents->table, HVD_STAGE_REGISTERED, &n);
	json_t **addrs = hvd_xcalloc(n, sizeof(json_t *));

	for (uint32_t i = 0; i < n; i++)
		if (agents->table.hosts[hosts[i]].stage == HVD_STAGE_REGISTERED)
			order_probe(agents, hosts, n, i, addrs);
	for (uint32_t i = 0; i < n; i++)
		json_decref(addrs[i]);
	free(addrs);
	free(hosts);
	hvd_spares_probing(agents);
	hvd_agent_deadlines_update(agents);
}

/* Is time left for another round, and for one more after it? */
static bool may_probe_again(const struct hvd_agent_registry *agents)
{
	int round = agents->table.rounds + 1;

	if (round >= HVD_PROBE_ROUNDS)
		return false;
	for (uint32_t h = 0; h < agents->table.n; h++) {
		const struct hvd_host_entry *host = &agents->table.hosts[h];

		if (host->stage >= HVD_STAGE_COMING && host->stage < HVD_STAGE_HERE &&
		    hvd_left_ms(host->deadline) < 2 * hvd_probe_patience(round))
			return false;
	}
	return true;
}

/* ---- the decision ---- */

/* An option that is not given is 0. The driver's kill_wait may be Slurm's. */
static json_t *settings(const struct hvd_driver_opts *opts)
{
	struct hvd_agent_settings values;

#define NUMBER(field, most)  values.field = opts->spec->field > 0 ? (unsigned)opts->spec->field : 0;
#define SECONDS(field, most) values.field = opts->spec->field > 0 ? opts->spec->field : 0;
	HVD_AGENT_SETTINGS(NUMBER, SECONDS)
#undef NUMBER
#undef SECONDS
	values.kill_wait = opts->kill_wait;
	return hvd_agent_settings_json(&values);
}

static void admit(struct hvd_agent_registry *agents, uint32_t h)
{
	const struct hvd_client *cl = agents->table.hosts[h].client;
	json_t *plan = cl ? json_pack("{s:s, s:b, s:o}", "t", "plan", "func_key", agents->opts->func_key, "settings",
				      settings(agents->opts))
			  : NULL;

	hvd_host_table_enter(&agents->table, h, HVD_STAGE_HERE);
	for (unsigned i = 0; i < agents->n_listeners; i++)
		agents->listeners[i].ops->admitted(h, plan, agents->listeners[i].arg);
	if (plan && agents->plan.elastic)
		json_object_set_new(plan, "stay", json_true());
	if (plan)
		hvd_conn_send(cl->conn, plan);
	if (agents->ops->admitted)
		agents->ops->admitted(h, agents->arg);
}

/* Of a job that goes on without the host: is it bad by --preflight? Then it is lost, and is looked at again when it is tried
 * again. */
static bool lose_bad(struct hvd_agent_registry *agents, uint32_t host)
{
	const char *hint = "";
	hvd_cleanup_free char *bad =
		agents->opts->spec->preflight ? hvd_preflight_bad(&agents->table, host, &hint) : NULL;

	if (bad)
		hvd_agent_registry_lose_bad(agents, host, bad, hint, false);
	return bad;
}

void hvd_admission_join(struct hvd_agent_registry *agents, uint32_t host)
{
	struct hvd_err why = {0};

	if (lose_bad(agents, host))
		return;
	if (hvd_network_plan_join(&agents->plan, &agents->table, host, &why) == 0)
		admit(agents, host);
	else
		hvd_agent_registry_lose(agents, host, &why, true);
	hvd_agent_deadlines_update(agents);
}

/* The networks of the hosts, of which some may be left out; as hvd_network_plan_make(). */
static int choose(struct hvd_agent_registry *agents, struct hvd_err *why)
{
	int rc;

	do
		rc = hvd_network_plan_make(&agents->plan, &agents->table, may_probe_again(agents), agents->log, why);
	while (rc < 0 && hvd_spares_unconnected(agents, why));
	return rc;
}

static void decide(struct hvd_agent_registry *agents);

static void on_measured(struct hvd_agent_registry *agents)
{
	if (agents->phase != HVD_AGENTS_MEASURING)
		return;
	agents->spares.measured = true;
	agents->phase = HVD_AGENTS_PROBING;
	decide(agents);
}

/* There are networks: measure them first? */
static bool measure(struct hvd_agent_registry *agents)
{
	if (agents->opts->spec->preflight != HVD_PREFLIGHT_FULL || agents->spares.measured || agents->plan.local ||
	    agents->plan.networks.n == 0 || agents->table.in_stage[HVD_STAGE_REPORTED] < 2)
		return false;
	agents->phase = HVD_AGENTS_MEASURING;
	agents->spares.measure = hvd_measure_begin(agents, on_measured);
	return true;
}

/* As hosts are admitted: later ones of an elastic job are probed against these networks. */
static void log_networks(const struct hvd_agent_registry *agents)
{
	hvd_cleanup_free char *networks = hvd_network_plan_text(&agents->plan, &agents->table);

	hvd_event(agents->opts->events, NETWORKS_CHOSEN, .networks = networks, .why = agents->plan.unused);
}

static void decide(struct hvd_agent_registry *agents)
{
	struct hvd_err why = {0};
	int rc;

	rc = hvd_spares_judge(agents, &why);
	if (rc == 0 && agents->table.in_stage[HVD_STAGE_REPORTED] == 0) {
		hvd_agent_registry_changed(agents);
		return;
	}
	if (rc == 0)
		rc = choose(agents, &why);
	if (rc == 0 && measure(agents))
		return;
	if (rc == 0 && agents->opts->spec->spares > 0 && !agents->plan.elastic) {
		rc = hvd_spares_settle(agents, &why);
		if (rc == 0)
			rc = hvd_network_plan_make(&agents->plan, &agents->table, false, agents->log, &why);
	}
	if (rc > 0) {
		hvd_verbose(agents->log, "some hosts got no answer over IPv4: probing again");
		hvd_host_table_probe_again(&agents->table);
		hvd_admission_probe(agents);
		return;
	}
	for (unsigned i = 0; i < agents->n_listeners && rc == 0; i++)
		rc = agents->listeners[i].ops->decided(agents->listeners[i].arg, &why);
	if (rc < 0) {
		hvd_agent_registry_fail(agents, &why);
		return;
	}
	agents->phase = HVD_AGENTS_OPEN;
	log_networks(agents);
	hvd_spares_stop(agents);
	hvd_agent_deadlines_open(agents);
	if (!agents->plan.local && !agents->opts->loopback)
		agents->silence = hvd_silence_watch(agents);
	for (uint32_t h = 0; h < agents->table.n; h++)
		if (agents->table.hosts[h].stage == HVD_STAGE_REPORTED)
			admit(agents, h);
	hvd_host_table_forget_edges(&agents->table);
	if (agents->ops->decided)
		agents->ops->decided(agents->arg);
	else
		hvd_admission_probe(agents); /* of hosts that came while the others were at it */
}

/* ---- rendezvous ---- */

/* On one machine nothing is to be found out. */
static void skip_probe(struct hvd_agent_registry *agents)
{
	for (uint32_t h = 0; h < agents->table.n; h++)
		if (agents->table.hosts[h].stage == HVD_STAGE_REGISTERED)
			hvd_host_table_enter(&agents->table, h, HVD_STAGE_REPORTED);
	decide(agents);
}

static void begin_probe(struct hvd_agent_registry *agents)
{
	agents->phase = HVD_AGENTS_PROBING;
	/* Other hosts may follow in an elastic job. */
	if (!agents->plan.elastic && !agents->opts->spec->preflight &&
	    hvd_host_table_one_machine(&agents->table, HVD_STAGE_REGISTERED))
		skip_probe(agents);
	else
		hvd_admission_probe(agents);
}

static void open_rendezvous(struct hvd_agent_registry *agents)
{
	struct hvd_err why = {0};
	int rc = 0;

	agents->listeners_open = true;
	for (unsigned i = 0; i < agents->n_listeners && rc == 0; i++)
		rc = agents->listeners[i].ops->open(agents->listeners[i].arg, &why);
	if (rc != 0)
		hvd_agent_registry_fail(agents, &why);
	else
		begin_probe(agents);
}

/* Have all hosts of a job of fixed size been left out? Then nobody comes any longer. */
static bool none_left(struct hvd_agent_registry *agents)
{
	struct hvd_err why = {0};

	if (agents->plan.elastic || agents->table.n == 0 || agents->table.in_stage[HVD_STAGE_AWAY] < agents->table.n ||
	    hvd_spares_settle(agents, &why) == 0)
		return false;
	hvd_agent_registry_fail(agents, &why);
	return true;
}

/* All hosts that have probed went. Others may have registered meanwhile. */
static void gather_again(struct hvd_agent_registry *agents)
{
	agents->phase = HVD_AGENTS_GATHERING;
	hvd_spares_stop(agents);
	agents->spares.measured = false;
	hvd_agent_registry_changed(agents);
}

/* Go on when nobody is awaited any longer. */
void hvd_admission_check(struct hvd_agent_registry *agents)
{
	const uint32_t *in = agents->table.in_stage;

	if (agents->phase < HVD_AGENTS_OPEN && none_left(agents))
		return;
	if (agents->phase == HVD_AGENTS_GATHERING && in[HVD_STAGE_COMING] == 0 && in[HVD_STAGE_REGISTERED] > 0) {
		if (agents->listeners_open)
			begin_probe(agents);
		else
			open_rendezvous(agents);
	} else if (agents->phase == HVD_AGENTS_PROBING && in[HVD_STAGE_PROBING] == 0) {
		if (in[HVD_STAGE_REPORTED] > 0)
			decide(agents);
		else
			gather_again(agents);
	}
}
