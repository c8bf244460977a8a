/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_messages.c - the messages between the driver and the agents about hosts.
 *
 * Messages are JSON objects (wire.h), whose type is "t"; lib/protocol/conn.h has the messages of bytes. The table
 * `messages` has those that agents send; launcher/world/rank_messages.c has those about ranks. To an agent
 * (agent/driver_client.h describes the fields):
 *
 *   probe                           probe these hosts: agent/probe.h
 *   measure                         measure how fast bytes arrive from a host: agent/probe.h
 *   plan     settings, …            the host is admitted; stay:true: to an elastic job. Listeners add their parts
 *   plan     spare:true             the host has no part in the job (spares.c)
 *   failed, misused                 the start has failed; misused: by a wrong option
 *   ping                            answer "pong"; an agent that does not is lost (agent_deadlines.c)
 *   try      n, p, a, ms            try to reach a host (silence.c)
 *   check                           check the host again: agent/preflight.c
 *   whose, owner                    lib/protocol/owner_question.h
 *   signal   sig                    send this signal to the ranks
 *   end                             end the ranks and yourself; again: at once. An elastic job sends it twice to a host
 *                                   that it has given up
 */
#include "agent_registry_internal.h"

#include "lib/base/cleanup.h"
#include "lib/protocol/owner_question.h"
#include "preflight.h"

#include <string.h>

/* The host of a client, for an error. */
static void name_host(const struct hvd_agent_registry *agents, const struct hvd_client *cl, struct hvd_err *why)
{
	char buf[32];

	hvd_err_host(why, hvd_host_table_name(&agents->table, cl->host, buf));
}

/* Take over a registration. -1: it was refused, and the client may be gone. */
static int take_registration(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_err why = {0};

	if (hvd_host_table_left_out(&agents->table, msg)) {
		hvd_agent_registry_dismiss_spare(cl);
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

static bool has_relays(const struct hvd_agent_registry *agents, const struct hvd_host_info *node)
{
	for (unsigned w = 0; w < agents->n_listeners; w++)
		if (!hvd_host_info_relay(node, w).loopback)
			return false;
	return true;
}

/* Can the host that has registered take part? -1 with *why set. */
static int check_host(struct hvd_agent_registry *agents, const struct hvd_client *cl, const json_t *msg,
		      struct hvd_err *why)
{
	const json_t *cannot = json_object_get(msg, "cannot");

	if (!cannot && has_relays(agents, &agents->table.hosts[cl->host].node))
		return hvd_host_table_restrict(&agents->table, cl->host, agents->opts->spec->interfaces.v, why);
	if (cannot)
		take_reason(cannot, why);
	else
		hvd_err_set(why, HVD_E_PROTO, "its node agent registered without a relay of the rendezvous");
	name_host(agents, cl, why);
	return -1;
}

static void on_register(void *arg, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_agent_registry *agents = arg;
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
	for (unsigned i = 0; i < agents->n_listeners; i++)
		if (agents->listeners[i].ops->registered)
			agents->listeners[i].ops->registered(cl, agents->listeners[i].arg);
	hvd_debug(agents->log, "%s has registered (%u of %u)", host->node.name,
		  hvd_host_table_count(&agents->table, HVD_STAGE_REGISTERED), agents->table.n);
	rc = check_host(agents, cl, msg, &why);
	if (agents->ops->registered)
		agents->ops->registered(cl->host, agents->arg);
	if (rc != 0) {
		hvd_agent_registry_lose(agents, cl->host, &why, true);
	} else if (agents->phase == HVD_AGENTS_OPEN) {
		hvd_admission_probe(agents);
	} else {
		hvd_spares_registered(agents);
		hvd_admission_check(agents);
	}
}

static void on_report(void *arg, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_agent_registry *agents = arg;
	struct hvd_err why = {0};
	int64_t clock;

	/* When the order to probe had come, by the host's clock. */
	if (hvd_get_int(msg, "clock", 1, INT64_MAX, &clock, NULL) == 0)
		hvd_clock_went(&agents->table.hosts[cl->host].clock, agents->table.hosts[cl->host].probe_sent, clock);
	if (hvd_host_table_report(&agents->table, cl->host, msg, &why) != 0) {
		name_host(agents, cl, &why);
		hvd_agent_registry_lose(agents, cl->host, &why, true);
	} else if (agents->phase == HVD_AGENTS_OPEN) {
		hvd_admission_join(agents, cl->host);
	} else {
		hvd_admission_check(agents);
	}
}

static void on_cannot(void *arg, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_agent_registry *agents = arg;
	struct hvd_err why = {0};
	const char *host;

	if (hvd_get_str(msg, "host", 255, &host, &why) == 0) {
		take_reason(msg, &why);
		hvd_err_host(&why, host);
	}
	if (cl->role == HVD_ROLE_AGENT) {
		name_host(agents, cl, &why);
		hvd_agent_registry_lose(agents, cl->host, &why, true);
	} else if (!agents->plan.elastic) {
		hvd_agent_registry_fail(agents, &why);
	}
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

static void on_checked(void *arg, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_agent_registry *agents = arg;
	struct hvd_host_entry *entry = &agents->table.hosts[cl->host];
	struct hvd_host_check first = entry->check;
	const json_t *found = json_object_get(msg, "preflight");
	hvd_cleanup_free char *bad = NULL;
	const char *hint = "";

	if (entry->stage != HVD_STAGE_HERE || !json_is_object(found) || !agents->ops->checked)
		return;
	take_check(&entry->check, &first, found);
	bad = hvd_preflight_worse(entry, &first, &hint);
	hvd_host_check_clear(&first);
	if (agents->ops->checked(cl->host, bad, agents->arg))
		hvd_agent_registry_lose_bad(agents, cl->host, bad, hint, false);
}

static void on_term(void *arg, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_agent_registry *agents = arg;
	(void)cl;
	(void)msg;
	if (agents->ops->told_to_end)
		agents->ops->told_to_end(agents->arg);
}

static void on_done(void *arg, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_agent_registry *agents = arg;
	bool told = cl->role == HVD_ROLE_FORMER;

	if (!told)
		agents->table.hosts[cl->host].leaving = HVD_LEAVING_DONE;
	if (agents->ops->done)
		agents->ops->done(cl->host, !json_is_false(json_object_get(msg, "munge")), told, agents->arg);
}

static void on_orphan(void *arg, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_agent_registry *agents = arg;
	struct hvd_err why = {0};
	const char *parent;

	if (hvd_get_str(msg, "parent", 31, &parent, NULL) != 0)
		return;
	hvd_err_set(&why, HVD_E_FAILED, "%s ended before the ranks that it had started", parent);
	hvd_err_hint(&why, "was it killed, or is the host out of memory? (dmesg and the scheduler's log there)");
	name_host(agents, cl, &why);
	hvd_agent_registry_lose(agents, cl->host, &why, false);
}

static void on_died(void *arg, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_agent_registry *agents = arg;
	struct hvd_host_entry *entry;
	struct hvd_loss loss;
	char buf[32];
	int64_t host;

	if (hvd_loss_parse(msg, &loss, NULL) != 0 || agents->table.n == 0 ||
	    hvd_get_int(msg, "node", 0, agents->table.n - 1, &host, NULL) != 0) {
		hvd_client_finish(cl);
		return;
	}
	entry = &agents->table.hosts[host];
	if (entry->leaving == HVD_LEAVING_NOT)
		entry->leaving = HVD_LEAVING_AGENT_DIED;
	loss.of = HVD_LOSS_AGENT;
	loss.host = hvd_host_table_name(&agents->table, (uint32_t)host, buf);
	hvd_clock_came(&entry->clock, loss.at, hvd_now());
	loss.at = hvd_clock_here(&entry->clock, loss.at);
	if (agents->ops->agent_died)
		agents->ops->agent_died((uint32_t)host, &loss, agents->arg);
}

/* ---- whose a socket is (lib/protocol/owner_question.h) ----
 *
 * The driver passes questions from one agent to another, and the answers back, and keeps nothing of them: a question
 * names its asker, and so does the answer. The relay that asks limits how many questions are open, and gives each a
 * deadline. */

/* The connection to the agent of an admitted host; NULL = there is none. */
static struct hvd_conn *agent_of(const struct hvd_host_table *table, uint32_t host)
{
	const struct hvd_host_entry *entry = host < table->n ? &table->hosts[host] : NULL;

	return entry && entry->stage == HVD_STAGE_HERE && entry->client ? entry->client->conn : NULL;
}

/* The agent of the host that has this address; NULL = there is none. */
static struct hvd_conn *agent_at(const struct hvd_host_table *table, const struct hvd_addr *addr)
{
	for (uint32_t h = 0; h < table->n; h++)
		if (agent_of(table, h) && !hvd_addr_loopback(addr) && hvd_host_info_owns(&table->hosts[h].node, addr))
			return agent_of(table, h);
	return NULL;
}

static void on_whose(void *arg, struct hvd_client *cl, const json_t *msg)
{
	const struct hvd_host_table *table = &((struct hvd_agent_registry *)arg)->table;
	struct hvd_owner_question question;
	struct hvd_conn *to;

	if (agent_of(table, cl->host) != cl->conn || hvd_owner_question_read(msg, &question, NULL) != 0)
		return;
	to = agent_at(table, &question.from);
	question.asker = cl->host;
	hvd_conn_send(to ? to : cl->conn,
		      to ? hvd_owner_question_to_json(&question)
			 : hvd_owner_answer_to_json(&(struct hvd_owner_answer){
				   .id = question.id, .world = question.world, .asker = HVD_OWNER_NO_ASKER}));
}

static void on_owner(void *arg, struct hvd_client *cl, const json_t *msg)
{
	const struct hvd_host_table *table = &((struct hvd_agent_registry *)arg)->table;
	struct hvd_owner_answer answer;
	struct hvd_conn *to;

	if (agent_of(table, cl->host) != cl->conn || hvd_owner_answer_read(msg, &answer, NULL) != 0)
		return;
	to = agent_of(table, answer.asker);
	answer.asker = HVD_OWNER_NO_ASKER;
	if (to)
		hvd_conn_send(to, hvd_owner_answer_to_json(&answer));
}

/* Readers that pass the message on. */
#define PASS_ON(name, call)                                                                                            \
	static void name(void *arg, struct hvd_client *cl, const json_t *msg)                                          \
	{                                                                                                              \
		struct hvd_agent_registry *agents = arg;                                                               \
		(void)msg;                                                                                             \
		call;                                                                                                  \
	}
PASS_ON(on_pong, hvd_agent_deadlines_answered(agents, cl->host))
PASS_ON(on_measured, hvd_measure_message(agents->spares.measure, cl->host, msg))
PASS_ON(on_tried, hvd_silence_message(agents->silence, cl->host, msg))

#define NEW    HVD_FROM_NEW
#define AGENT  HVD_FROM_AGENT
#define FORMER HVD_FROM_FORMER

/* clang-format off */
static const struct hvd_driver_message messages[] = {
	{"register",    NEW,          false, on_register},   /* lib/host/host_info.h */
	{"report",      AGENT,        false, on_report},     /* agent/probe.h, lib/host/host_check.h */
	{"cannot",      NEW | AGENT,  false, on_cannot},     /* host, why, hint: it cannot do its part */
	{"measured",    AGENT,        false, on_measured},   /* agent/probe.h */
	{"checked",     AGENT,        true,  on_checked}, /* preflight: lib/host/host_check.h */
	{"pong",        AGENT,        false, on_pong},       /* answers "ping" */
	{"tried",       AGENT,        true,  on_tried},      /* n, answered: silence.c */
	{"own-name",    AGENT,        true,  hvd_own_name_message}, /* own_names.c */
	{"whose",       AGENT,        true,  on_whose},      /* lib/protocol/owner_question.h */
	{"owner",       AGENT,        true,  on_owner},
	{"term",        AGENT,        false, on_term},       /* it got SIGTERM, and so have its ranks: their step is to
							      * end, or the job is preempted */
	{"orphan",      AGENT,        true,  on_orphan},     /* parent: the name of the process that had started the ranks.
							      * It has gone, and they are ended */
	{"done",        AGENT | FORMER, true, on_done},      /* munge: it answers. The agent ends */
	{"died",        NEW,          false, on_died},       /* node, and loss.h: a watchdog reports the agent */
	{NULL, 0, false, NULL},
};
/* clang-format on */

static bool may_send(const struct hvd_agent_registry *agents, const struct hvd_client *cl, unsigned from)
{
	switch (cl->role) {
	case HVD_ROLE_NONE:
		return from & HVD_FROM_NEW;
	case HVD_ROLE_AGENT:
		return (from & HVD_FROM_AGENT) && cl->host < agents->table.n;
	case HVD_ROLE_FORMER:
		return ((from & HVD_FROM_FORMER) || (agents->ended && (from & HVD_FROM_LAST))) &&
		       cl->host < agents->table.n;
	}
	return false;
}

/* Is the message one of this list? Then it is read, if it may be. */
static bool read_message(struct hvd_agent_registry *agents, struct hvd_client *cl, const json_t *msg, const char *type,
			 const struct hvd_driver_message *list, void *arg)
{
	for (; list->type; list++)
		if (strcmp(list->type, type) == 0) {
			if (may_send(agents, cl, list->from) && (!list->planned || agents->phase == HVD_AGENTS_OPEN))
				list->read(arg, cl, msg);
			return true;
		}
	return false;
}

void hvd_agent_registry_message(struct hvd_client *cl, json_t *msg, void *arg)
{
	struct hvd_agent_registry *agents = arg;
	const char *type;
	unsigned world;

	if (hvd_get_str(msg, "t", 16, &type, NULL) == 0 && agents->phase != HVD_AGENTS_OVER &&
	    !read_message(agents, cl, msg, type, messages, agents) && hvd_world_of(msg, &world, NULL) == 0 &&
	    world < agents->n_listeners)
		read_message(agents, cl, msg, type, agents->listeners[world].ops->messages,
			     agents->listeners[world].arg);
}
