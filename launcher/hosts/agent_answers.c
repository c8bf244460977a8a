/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_answers.c - admitted hosts have to answer, in every kind of job.
 *
 * An admitted host is asked whether it is there with each command, and every ASK_SECONDS. If an agent, or all processes
 * of its host, are stopped, the host's kernel still acknowledges what is sent (hvd_conn_watch_host()), and the job
 * would wait for ever for the end of a rank. A host whose kernel is silent, too, is the business of silence.c, and of
 * the kernel here, which knows more about it.
 *
 * A host that is late is looked at twice. At three quarters of its time: has any other host of the job answered since
 * this one was asked? If none has, the job is paused: Slurm has suspended it, somebody has stopped all of its processes,
 * or all wait for the same file system. Then nobody is late. When one of these hosts answers, the job goes on, and all
 * others are given a new time. If others have answered, the host has the last quarter: hosts of a job that is continued
 * go on one after the other. The last host of a Slurm job has no others; there Slurm is asked.
 */
#include "agent_registry_internal.h"

#include "lib/base/timer.h"
#include "silence.h"

#include <stdlib.h>

/* How long an agent may take to answer; and in a job that fails without the host, which so has more patience. */
#define ANSWER_SECONDS  8.0
#define PATIENT_SECONDS 16.0
/* The same when others say that the host is gone. */
#define SOON_SECONDS 3.0
/* Every host is asked once in ASK_SECONDS; each turn asks a part of them. */
#define ASK_SECONDS 2
#define ASK_TURNS   4
/* For a host whose kernel is silent, too. */
#define AGAIN_SECONDS 1.0

/* A launch whose agents have less time to begin has no more patience later. */
static hvd_time answer_time(const struct hvd_agent_registry *agents, bool soon)
{
	double start = agents->opts->spec->deadlines.start;
	double most = soon ? SOON_SECONDS : agents->plan.elastic ? ANSWER_SECONDS : PATIENT_SECONDS;

	return (hvd_time)((start < most ? start : most) * 1e9);
}

hvd_time hvd_agent_answers_due(const struct hvd_host_entry *host)
{
	if (!host->answer.by || host->answer.doubted)
		return host->answer.by;
	return host->answer.by - (host->answer.by - host->answer.asked_at) / 4;
}

void hvd_agent_answers_defer(struct hvd_host_entry *host, hvd_time until)
{
	host->answer.by = until;
	host->answer.doubted = true;
}

static void await(struct hvd_host_entry *host, hvd_time now, hvd_time by)
{
	host->answer.asked_at = now;
	host->answer.by = by;
	host->answer.doubted = false;
	host->answer.paused = false;
}

/* Let the timer of all deadlines come when this host is due, if not before; then it looks at all hosts anew. */
static void wake(struct hvd_agent_registry *agents, const struct hvd_host_entry *host)
{
	hvd_time due = hvd_agent_answers_due(host);

	if (hvd_agents_share_deadline(agents) || (agents->next && agents->next <= due))
		return;
	agents->next = due;
	hvd_timer_at(agents->timer, due);
}

void hvd_agent_answers_ask(struct hvd_agent_registry *agents, uint32_t host, bool soon)
{
	struct hvd_host_entry *at = &agents->table.hosts[host];
	hvd_time now = hvd_now(), by = now + answer_time(agents, soon);

	if (!at->client || (at->answer.by && at->answer.by <= by))
		return;
	if (at->answer.by) {
		at->answer.by = by;
	} else {
		await(at, now, by);
		hvd_conn_send(at->client->conn, json_pack("{s:s}", "t", "ping"));
	}
	wake(agents, at);
}

bool hvd_agent_registry_admitted(const struct hvd_agent_registry *agents, uint32_t host)
{
	return host < agents->table.n && agents->table.hosts[host].stage == HVD_STAGE_HERE;
}

void hvd_agent_registry_command(struct hvd_agent_registry *agents, uint32_t host, json_t *msg)
{
	if (!hvd_agent_registry_admitted(agents, host)) {
		json_decref(msg);
		return;
	}
	hvd_conn_send(agents->table.hosts[host].client->conn, msg);
	hvd_agent_answers_ask(agents, host, false);
}

void hvd_agent_registry_doubt(struct hvd_agent_registry *agents, uint32_t host)
{
	if (hvd_agent_registry_admitted(agents, host))
		hvd_agent_answers_ask(agents, host, true);
}

/* One host of a paused job has answered. */
static void go_on(struct hvd_agent_registry *agents)
{
	hvd_time now = hvd_now();

	for (uint32_t h = 0; h < agents->table.n; h++)
		if (agents->table.hosts[h].answer.paused) {
			await(&agents->table.hosts[h], now, now + answer_time(agents, false));
			wake(agents, &agents->table.hosts[h]);
		}
}

/* The timer is left as it is: it looks at all hosts anew. */
void hvd_agent_answers_came(struct hvd_agent_registry *agents, uint32_t host)
{
	struct hvd_host_entry *at = &agents->table.hosts[host];
	bool paused = at->answer.paused;

	at->answer.by = 0;
	at->answer.paused = false;
	at->answer.came_at = hvd_now();
	if (paused)
		go_on(agents);
}

/* Have all hosts of the job stopped answering, this one included? */
static bool is_paused(const struct hvd_agent_registry *agents, uint32_t host)
{
	const struct hvd_host_entry *at = &agents->table.hosts[host];
	bool others = false;

	for (uint32_t h = 0; h < agents->table.n; h++) {
		const struct hvd_host_entry *other = &agents->table.hosts[h];

		if (h == host || other->stage != HVD_STAGE_HERE || !other->client || other->node.job != at->node.job)
			continue;
		if (other->answer.came_at >= at->answer.asked_at)
			return false;
		others = true;
	}
	return others ||
	       (at->node.job && agents->opts->ask_paused && agents->opts->ask_paused(at->node.job, agents->log));
}

static void lose(struct hvd_agent_registry *agents, uint32_t host)
{
	struct hvd_host_entry *at = &agents->table.hosts[host];
	struct hvd_err why = {0};

	hvd_err_set(&why, HVD_E_TIMEOUT, "its node agent has not answered for %g seconds",
		    (double)((hvd_agent_answers_due(at) - at->answer.asked_at) / 1000000) / 1000);
	hvd_err_hint(&why, "is the host frozen, or is hvd-agent stopped there?");
	hvd_err_host(&why, hvd_host_table_name(&agents->table, host, (char[32]){0}));
	if (agents->plan.elastic)
		hvd_agent_registry_lose(agents, host, &why, false);
	else
		hvd_client_lose(at->client, &why);
}

void hvd_agent_answers_late(struct hvd_agent_registry *agents, uint32_t host)
{
	struct hvd_host_entry *at = &agents->table.hosts[host];

	if (!at->answer.doubted && is_paused(agents, host)) {
		if (!at->answer.paused)
			hvd_verbose(agents->log, "%s: no host of the job answers: is the job suspended?",
				    hvd_host_table_name(&agents->table, host, (char[32]){0}));
		await(at, hvd_now(), hvd_now() + answer_time(agents, false));
		at->answer.paused = true;
	} else if (!at->answer.doubted) {
		at->answer.doubted = true;
	} else if (hvd_conn_silent_ms(at->client->conn) >= HVD_SILENT_MS) {
		hvd_agent_answers_defer(at, hvd_deadline_in(AGAIN_SECONDS));
	} else {
		lose(agents, host);
	}
}

static void on_ask(void *arg)
{
	struct hvd_agent_registry *agents = arg;

	for (uint32_t h = agents->ask_turn; h < agents->table.n; h += ASK_TURNS)
		if (agents->table.hosts[h].stage == HVD_STAGE_HERE && agents->table.hosts[h].leaving < HVD_LEAVING_LOST)
			hvd_agent_answers_ask(agents, h, false);
	agents->ask_turn = (agents->ask_turn + 1) % ASK_TURNS;
}

void hvd_agent_answers_create(struct hvd_agent_registry *agents)
{
	agents->ask = hvd_timer_new(agents->base, on_ask, agents);
}

void hvd_agent_answers_begin(struct hvd_agent_registry *agents)
{
	hvd_timer_every_ms(agents->ask, ASK_SECONDS * 1000 / ASK_TURNS);
}

void hvd_agent_answers_stop(struct hvd_agent_registry *agents)
{
	hvd_timer_stop(agents->ask);
}
