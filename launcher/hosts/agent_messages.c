/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_messages.c - the messages between the driver and the agents, and the end of an agent's connection.
 *
 * Messages are JSON objects (wire.h), whose type is "t"; messages of bytes are those of the host's relay. The table
 * `messages` has those that agents send. To an agent (agent/driver_client.h describes the fields):
 *
 *   probe                           probe these hosts: agent/probe.h
 *   measure                         measure how fast bytes arrive from a host: agent/probe.h
 *   plan     ranks, relay, …        the host's part of the plan (plan_delivery.h)
 *   plan     ranks:[], stay:true    the host is part of an elastic job
 *   plan     spare:true             the host has no part in the job (spares.h)
 *   failed, misused                 the start has failed; misused: by a wrong option
 *   ping                            answer "pong"; an agent that does not is lost (agent_answers.c)
 *   try      n, p, a, ms            try to reach a host (silence.h)
 *   relay                           the relay has broken the protocol, or there was no room: it must start again
 *   network  addrs:[ADDR,…]         only ranks at these addresses may connect to the host's relay
 *   whose, owner                    lib/protocol/owner_question.h
 *   watch, stacks                   agent/activity.c, agent/rank_watch.c
 *   signal   sig                    send this signal to the ranks
 *   end                             end the ranks and yourself; again: at once. An elastic job sends it twice to a host
 *                                   that it has given up
 * and in an elastic job, about ranks by the id of their process (rank_messages.h):
 *   start    id, rank, slot, slots, env:{NAME:VALUE,…}
 *   stop     id, kill               kill: by SIGKILL at once
 *   notify   id, to, time           agent/worker_notify.c
 *   kill-connections  at:{…}        agent/kill_connections.h
 *   check                           check the host again: agent/recheck.c
 */
#include "agent_registry_internal.h"

#include "measure.h"
#include "owner_questions.h"
#include "silence.h"
#include "spares.h"

#include <string.h>

/* Take over a registration. -1: it was refused, and the client may be gone. */
static int take_registration(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_err why = {0};

	if (hvd_host_table_left_out(&agents->table, msg)) {
		hvd_spares_dismiss(cl);
		return -1;
	}
	cl->host = UINT32_MAX;
	if (hvd_host_table_register(&agents->table, msg, &cl->host, &why) == 0)
		return 0;
	if (!agents->plan.elastic)
		hvd_agent_registry_fail(agents, &why);
	else if (agents->ended && cl->host != UINT32_MAX)
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
	host = &agents->table.hosts[cl->host];
	if (hvd_get_int(msg, "clock", 1, INT64_MAX, &clock, NULL) == 0 &&
	    hvd_get_int(msg, "wall", 1, INT64_MAX, &wall, NULL) == 0)
		hvd_clock_registered(&host->clock, clock, wall);
	host->client = cl;
	cl->role = HVD_ROLE_AGENT;
	hvd_progress_add(agents->rank_progress, cl);
	hvd_debug(agents->log, "%s has registered (%u of %u)", host->node.name,
		  hvd_host_table_count(&agents->table, HVD_STAGE_REGISTERED), agents->table.n);
	rc = check_host(agents, cl->host, msg, &why);
	if (agents->ops->registered)
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
	char buf[32];

	if (hvd_get_str(msg, "host", 255, &host, &why) == 0) {
		take_reason(msg, &why);
		hvd_err_host(&why, host);
	}
	if (cl->role == HVD_ROLE_AGENT) {
		hvd_err_host(&why, hvd_host_table_name(&agents->table, cl->host, buf));
		hvd_agent_registry_lose(agents, cl->host, &why, true);
	} else if (!agents->plan.elastic) {
		hvd_agent_registry_fail(agents, &why);
	}
}

static void on_relay(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)
{
	(void)msg;
	if (hvd_relays_at(&agents->plan.relays, cl->host))
		hvd_client_relay(cl, agents->service.rv);
}

static void on_term(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)
{
	(void)cl;
	(void)msg;
	if (agents->ops->told_to_end)
		agents->ops->told_to_end(agents->arg);
}

static void on_refused(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)
{
	if (agents->init_watch && agents->table.hosts[cl->host].node.name)
		hvd_init_watch_refused(agents->init_watch, agents->table.hosts[cl->host].node.name, msg);
}

/* Readers that pass the message on. */
#define PASS_ON(name, call)                                                                                            \
	static void name(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)                  \
	{                                                                                                              \
		(void)msg;                                                                                             \
		call;                                                                                                  \
	}
PASS_ON(on_pong, hvd_agent_answers_came(agents, cl->host))
PASS_ON(on_own_name,
	hvd_own_names_message(&agents->own_names, &agents->table, &agents->plan, cl->host, msg, agents->log))
PASS_ON(on_measured, hvd_measure_message(agents->spares.measure, cl->host, msg))
PASS_ON(on_tried, hvd_silence_message(agents->silence, cl->host, msg))
PASS_ON(on_activity, hvd_progress_message(agents->rank_progress, cl, msg))
PASS_ON(on_stacks, hvd_stacks_message(agents->stacks, cl, msg))
PASS_ON(on_whose, hvd_owner_questions_ask(&agents->table, cl, msg))
PASS_ON(on_owner, hvd_owner_questions_answer(&agents->table, cl, msg))

/* Who may send a message: bits. */
#define NEW    1 /* who has not registered: an agent, or a shim or watchdog whose agent has gone */
#define AGENT  2 /* a host's agent that has not been told to end */
#define FORMER 4 /* an agent that was told to end */
#define LAST   8 /* the same, in a job that ends: the report of the first failure may arrive last */

/* The messages of agents. A message that is malformed, or does not come from one of `from`, or `planned` is true and it
 * comes before the first hosts are admitted, is ignored. */
/* clang-format off */
static const struct {
	const char *type;
	unsigned from;
	bool planned;
	void (*read)(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg);
} messages[] = {
	/* --- the host; fields: agent/driver_client.h --- */
	{"register",    NEW,          false, on_register},   /* lib/host/host_info.h */
	{"report",      AGENT,        false, on_report},     /* agent/probe.h, lib/host/host_check.h */
	{"cannot",      NEW | AGENT,  false, on_cannot},     /* host, why, hint: it cannot do its part */
	{"measured",    AGENT,        false, on_measured},   /* agent/probe.h */
	{"checked",     AGENT,        true,  hvd_agent_command_checked}, /* preflight: lib/host/host_check.h */
	{"pong",        AGENT,        false, on_pong},       /* answers "ping" */
	{"tried",       AGENT,        true,  on_tried},      /* n, answered: silence.h */
	{"own-name",    AGENT,        true,  on_own_name},   /* own_names.h */
	{"term",        AGENT,        false, on_term},       /* it got SIGTERM, and so have its ranks: their step is to
							      * end, or the job is preempted */
	/* --- the rendezvous --- */
	{"relay",       AGENT,        false, on_relay},      /* answers "relay": bytes that follow are those of a relay that
							      * has started again */
	{"whose",       AGENT,        true,  on_whose},      /* lib/protocol/owner_question.h */
	{"owner",       AGENT,        true,  on_owner},
	{"refused",     AGENT,        true,  on_refused},    /* init_watch.h */
	/* --- ranks; id: that of the rank's process (rank_messages.h) --- */
	{"exit",        NEW | AGENT | LAST, true, hvd_rank_message_exit}, /* id, and lib/host/rank_end.h */
	{"lost",        AGENT,        true,  hvd_rank_message_lost},      /* id: its shim has ended without a report */
	{"unkillable",  AGENT | LAST, true,  hvd_rank_message_unkillable}, /* id, rank, and lib/host/unkillable.h */
	{"orphan",      AGENT,        true,  hvd_rank_message_orphan},    /* parent: the name of the process that had started
									   * the ranks. It has gone, and they are ended */
	{"done",        AGENT | FORMER, true, hvd_rank_message_done},     /* munge: it answers. The agent ends */
	{"died",        NEW,          false, hvd_rank_message_died},      /* node, and loss.h: a watchdog reports the agent */
	{"output-lost", AGENT | LAST, false, hvd_rank_message_output_lost},
	{"stacks",      AGENT | FORMER, true, on_stacks},    /* agent/rank_watch.c */
	{"activity",    AGENT | FORMER, true, on_activity},  /* agent/activity.c */
	{"notified",    AGENT,        true,  hvd_agent_command_notified}, /* id, why: agent/worker_notify.c */
	{"kill-connections", AGENT,   true,  hvd_agent_command_connections_killed}, /* n, why: agent/kill_connections.h */
};
/* clang-format on */

static bool may_send(const struct hvd_agent_registry *agents, const struct hvd_client *cl, unsigned from)
{
	switch (cl->role) {
	case HVD_ROLE_NONE:
		return from & NEW;
	case HVD_ROLE_AGENT:
		return (from & AGENT) && cl->host < agents->table.n;
	case HVD_ROLE_FORMER:
		return ((from & FORMER) || (agents->ended && (from & LAST))) && cl->host < agents->table.n;
	}
	return false;
}

void hvd_agent_registry_message(struct hvd_client *cl, json_t *msg, void *arg)
{
	struct hvd_agent_registry *agents = arg;
	const char *type;

	if (hvd_get_str(msg, "t", 16, &type, NULL) != 0 || agents->phase == HVD_AGENTS_OVER)
		return;
	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++)
		if (strcmp(messages[i].type, type) == 0) {
			if (may_send(agents, cl, messages[i].from) &&
			    (!messages[i].planned || agents->phase == HVD_AGENTS_OPEN))
				messages[i].read(agents, cl, msg);
			return;
		}
}

void hvd_agent_registry_gone(struct hvd_client *cl, const struct hvd_err *why, void *arg)
{
	struct hvd_agent_registry *agents = arg;
	struct hvd_err lost = {0};

	hvd_progress_remove(agents->rank_progress, cl);
	hvd_stacks_gone(agents->stacks, cl, why);
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
