/* SPDX-License-Identifier: Apache-2.0 */
/* agent_messages.c - messages of agents until they are admitted (agent_registry.h), and the end of their
 * connections. */
#include "agent_registry_internal.h"

#include "measure.h"
#include "owner_questions.h"
#include "silence.h"
#include "spares.h"
#include "trace.h"

#include <string.h>

/* Take over a registration. -1: it was refused, and the client may be gone. */
static int take_registration(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_err why = {0};
	char buf[32];

	if (agents->barrier == HVD_BARRIER_ALL && cl->role != HVD_ROLE_NONE) {
		hvd_err_set(&why, HVD_E_PROTO, "a node agent registered twice");
		if (cl->role == HVD_ROLE_AGENT)
			hvd_err_host(&why, hvd_host_table_name(&agents->table, cl->host, buf));
		hvd_agent_registry_fail(agents, &why);
		return -1;
	}
	if (cl->role != HVD_ROLE_NONE)
		return -1;
	if (agents->barrier == HVD_BARRIER_ALL && hvd_host_table_left_out(&agents->table, msg)) {
		hvd_spares_dismiss(cl);
		return -1;
	}
	if (agents->barrier == HVD_BARRIER_ALL) {
		if (hvd_host_table_register(&agents->table, msg, &cl->host, &why) == 0)
			return 0;
		hvd_agent_registry_fail(agents, &why);
		return -1;
	}
	cl->host = UINT32_MAX;
	if (hvd_host_table_register_expected(&agents->table, msg, &cl->host) == 0)
		return 0;
	if (agents->ended && cl->host != UINT32_MAX)
		hvd_agent_registry_dismiss(cl);
	else
		hvd_client_finish(cl); /* the host was given up in the meantime */
	return -1;
}

/* Why the agent cannot do its part: its own words, or that they were no valid ones. */
static void take_reason(const json_t *msg, struct hvd_err *why)
{
	const char *text, *hint;

	if (hvd_get_str(msg, "why", 1024, &text, why) != 0 || hvd_get_str(msg, "hint", 512, &hint, why) != 0)
		return;
	hvd_err_set(why, HVD_E_FAILED, "%s", text);
	if (*hint)
		hvd_err_hint(why, "%s", hint);
}

/* Can the host that has registered take part? -1 with *why set. */
static int check_host(struct hvd_agent_registry *agents, uint32_t host, const json_t *msg, struct hvd_err *why)
{
	const json_t *cannot = json_object_get(msg, "cannot");
	char buf[32];

	if (!cannot && agents->table.hosts[host].node.relay)
		return hvd_host_table_restrict(&agents->table, host, agents->opts->spec->interfaces.v, why);
	if (cannot)
		take_reason(cannot, why);
	else
		hvd_err_set(why, HVD_E_PROTO, "its node agent registered without a relay of the rendezvous");
	hvd_err_host(why, hvd_host_table_name(&agents->table, host, buf));
	return -1;
}

static void on_register(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_host_entry *host;
	struct hvd_err why = {0};
	int64_t clock, wall;
	int rc;

	if (take_registration(agents, cl, msg) != 0)
		return;
	hvd_trace_registered(agents->trace);
	host = &agents->table.hosts[cl->host];
	if (hvd_get_int(msg, "clock", 1, INT64_MAX, &clock, NULL) == 0 &&
	    hvd_get_int(msg, "wall", 1, INT64_MAX, &wall, NULL) == 0)
		hvd_clock_registered(&host->clock, clock, wall);
	host->client = cl;
	if (agents->barrier == HVD_BARRIER_ALL)
		host->deadline = agents->deadline;
	cl->role = HVD_ROLE_AGENT;
	hvd_progress_add(agents->rank_progress, cl);
	hvd_debug(agents->log, "%s has registered (%u of %u)", host->node.name,
		  hvd_host_table_count(&agents->table, HVD_STAGE_REGISTERED), agents->table.n);
	rc = check_host(agents, cl->host, msg, &why);
	if ((rc == 0 || agents->barrier == HVD_BARRIER_AS_THEY_COME) && agents->ops->registered)
		agents->ops->registered(cl->host, agents->arg);
	if (rc != 0) {
		hvd_agent_registry_lose(agents, cl->host, &why, true);
	} else if (agents->phase == HVD_AGENTS_OPEN) {
		hvd_agent_registry_open_to_hosts(agents);
		hvd_admission_probe(agents);
	} else {
		hvd_spares_registered(agents);
		hvd_admission_check(agents);
	}
}

static void on_report(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_err why = {0};
	int64_t clock;
	char buf[32];

	if (cl->role != HVD_ROLE_AGENT)
		return;
	/* When the order to probe had come, by the host's clock. */
	if (hvd_get_int(msg, "clock", 1, INT64_MAX, &clock, NULL) == 0)
		hvd_clock_went(&agents->table.hosts[cl->host].clock, agents->table.hosts[cl->host].probe_sent, clock);
	if (hvd_host_table_report(&agents->table, cl->host, msg, &why) != 0) {
		hvd_err_host(&why, hvd_host_table_name(&agents->table, cl->host, buf));
		hvd_agent_registry_lose(agents, cl->host, &why, true);
	} else if (agents->phase == HVD_AGENTS_OPEN) {
		hvd_admission_join(agents, cl->host);
	} else {
		hvd_admission_check(agents);
	}
}

static void on_cannot(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_err why = {0};
	const char *host;

	if ((agents->barrier == HVD_BARRIER_AS_THEY_COME && cl->role != HVD_ROLE_AGENT) || cl->role == HVD_ROLE_FORMER)
		return;
	if (hvd_get_str(msg, "host", 255, &host, &why) == 0) {
		take_reason(msg, &why);
		hvd_err_host(&why, host);
	}
	if (agents->barrier == HVD_BARRIER_AS_THEY_COME)
		hvd_err_host(&why, agents->table.hosts[cl->host].name);
	if (cl->role == HVD_ROLE_AGENT)
		hvd_agent_registry_lose(agents, cl->host, &why, true);
	else
		hvd_agent_registry_fail(agents, &why);
}

static void on_relay(struct hvd_agent_registry *agents, struct hvd_client *cl)
{
	if (cl->role == HVD_ROLE_AGENT && hvd_relays_at(&agents->plan.relays, cl->host))
		hvd_client_relay(cl, agents->service.rv);
}

static void on_pong(struct hvd_agent_registry *agents, const struct hvd_client *cl)
{
	if (cl->role == HVD_ROLE_AGENT && cl->host < agents->table.n)
		hvd_agent_answers_came(agents, cl->host);
}

static void on_term(const struct hvd_agent_registry *agents, const struct hvd_client *cl)
{
	if (cl->role == HVD_ROLE_AGENT && agents->ops->told_to_end)
		agents->ops->told_to_end(agents->arg);
}

static void on_refused(struct hvd_agent_registry *agents, const struct hvd_client *cl, const json_t *msg)
{
	if (agents->init_watch && cl->host < agents->table.n && agents->table.hosts[cl->host].node.name)
		hvd_init_watch_refused(agents->init_watch, agents->table.hosts[cl->host].node.name, msg);
}

static void on_own_name(struct hvd_agent_registry *agents, const struct hvd_client *cl, const json_t *msg)
{
	if (cl->role == HVD_ROLE_AGENT && cl->host < agents->table.n)
		hvd_own_names_message(&agents->own_names, &agents->table, &agents->plan, cl->host, msg, agents->log);
}

void hvd_agent_registry_message(struct hvd_client *cl, json_t *msg, void *arg)
{
	struct hvd_agent_registry *agents = arg;
	const char *type;

	if (hvd_get_str(msg, "t", 16, &type, NULL) != 0)
		return;
	if (agents->phase == HVD_AGENTS_OVER)
		return;
	if (strcmp(type, "register") == 0)
		on_register(agents, cl, msg);
	else if (strcmp(type, "report") == 0)
		on_report(agents, cl, msg);
	else if (strcmp(type, "measured") == 0 && cl->role == HVD_ROLE_AGENT)
		hvd_measure_message(agents->spares.measure, cl->host, msg);
	else if (strcmp(type, "pong") == 0)
		on_pong(agents, cl);
	else if (strcmp(type, "term") == 0)
		on_term(agents, cl);
	else if (strcmp(type, "tried") == 0)
		hvd_silence_message(agents->silence, cl, msg);
	else if (strcmp(type, "cannot") == 0)
		on_cannot(agents, cl, msg);
	else if (strcmp(type, "activity") == 0)
		hvd_progress_message(agents->rank_progress, cl, msg);
	else if (strcmp(type, "stacks") == 0)
		hvd_stacks_message(agents->stacks, cl, msg);
	else if (strcmp(type, "relay") == 0)
		on_relay(agents, cl);
	else if (strcmp(type, "whose") == 0)
		hvd_owner_questions_ask(&agents->table, cl, msg);
	else if (strcmp(type, "owner") == 0)
		hvd_owner_questions_answer(&agents->table, cl, msg);
	else if (strcmp(type, "own-name") == 0)
		on_own_name(agents, cl, msg);
	else if (strcmp(type, "refused") == 0)
		on_refused(agents, cl, msg);
	else
		agents->ops->message(cl, type, msg, agents->arg);
}

void hvd_agent_registry_gone(struct hvd_client *cl, const struct hvd_err *why, void *arg)
{
	struct hvd_agent_registry *agents = arg;
	struct hvd_err lost = {0};

	hvd_progress_remove(agents->rank_progress, cl);
	hvd_stacks_gone(agents->stacks, cl);
	if (cl->host < agents->table.n && agents->table.hosts[cl->host].client == cl) {
		agents->table.hosts[cl->host].client = NULL;
		agents->table.hosts[cl->host].answer.by = 0;
	}
	if (agents->barrier == HVD_BARRIER_ALL) {
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
