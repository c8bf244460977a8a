/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_deadlines.c - how long agents may take to register, to report, and later to answer; and what is logged meanwhile.
 *
 * The hosts of a job that fails without any of them share one deadline, which covers the start until all are admitted.
 * Otherwise each host has its own, which starts again when the host is expected and when it gets the order to probe.
 *
 * If this process was stopped itself, or had other work, when a time was over, connections and messages may be there that
 * it has not taken. Then it has LATE_SECONDS for connections before it decides that a host is late; and a host with
 * messages that were not read is not late.
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

#include "lib/base/cleanup.h"
#include "lib/base/timer.h"

#include <stdlib.h>
#include <string.h>

/* A timer that is late by so much: this process did not run. And the time to take what has come meanwhile. */
#define LATE_SECONDS 1.0
/* A start that takes longer than this says what it waits for, and again in this rhythm. A host that comes later is
 * named once, when it takes this long. */
#define PROGRESS_SECONDS 1
#define COMING_SECONDS   2
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

/* What the start waits for. Caller frees. */
static char *awaited(const struct hvd_agent_registry *agents)
{
	if (agents->phase == HVD_AGENTS_MEASURING)
		return hvd_measure_missing(agents->spares.measure);
	return hvd_host_table_missing(&agents->table);
}

static hvd_time next_deadline(const struct hvd_agent_registry *agents)
{
	return hvd_agents_share_deadline(agents) ? agents->deadline : agents->next;
}

static void on_progress(void *arg)
{
	struct hvd_agent_registry *agents = arg;
	hvd_cleanup_free char *missing = awaited(agents);

	if (agents->phase < HVD_AGENTS_OPEN) {
		hvd_info(agents->log, "still starting, %.0f s left: %s", hvd_left(next_deadline(agents)),
			 *missing ? missing : "probing");
	} else {
		hvd_timer_stop(agents->progress); /* until the next change */
		if (*missing)
			hvd_info(agents->log, "waiting for hosts: %s", missing);
	}
}

static void update_progress(struct hvd_agent_registry *agents)
{
	bool coming = agents->table.in_stage[HVD_STAGE_COMING] || agents->table.in_stage[HVD_STAGE_PROBING];

	if (!coming)
		hvd_timer_stop(agents->progress);
	else if (agents->opts->spec->output.progress && !hvd_timer_runs(agents->progress))
		hvd_timer_every_ms(agents->progress,
				   1000 * (agents->phase < HVD_AGENTS_OPEN ? PROGRESS_SECONDS : COMING_SECONDS));
}

static void out_of_time(struct hvd_agent_registry *agents)
{
	hvd_cleanup_free char *missing = awaited(agents);
	struct hvd_err why = {0};

	hvd_err_set(&why, HVD_E_TIMEOUT, "the start took longer than %g seconds: %s",
		    agents->opts->spec->deadlines.start, missing);
	hvd_agent_registry_missing_hint(agents, &why);
	hvd_agent_registry_fail(agents, &why);
}

/* ---- answers of admitted hosts ---- */

/* A launch whose agents have less time to begin has no more patience later. */
static hvd_time answer_time(const struct hvd_agent_registry *agents, bool soon)
{
	double start = agents->opts->spec->deadlines.start;
	double most = soon ? SOON_SECONDS : agents->plan.elastic ? ANSWER_SECONDS : PATIENT_SECONDS;

	return (hvd_time)((start < most ? start : most) * 1e9);
}

/* When the host has to be looked at unless it has answered; 0 = no answer is awaited. */
static hvd_time answer_due(const struct hvd_host_entry *host)
{
	if (!host->answer.by || host->answer.doubted)
		return host->answer.by;
	return host->answer.by - (host->answer.by - host->answer.asked_at) / 4;
}

/* Put that time off. */
static void defer_answer(struct hvd_host_entry *host, hvd_time until)
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
	hvd_time due = answer_due(host);

	if (hvd_agents_share_deadline(agents) || (agents->next && agents->next <= due))
		return;
	agents->next = due;
	hvd_timer_at(agents->timer, due);
}

/* Ask the agent of an admitted host whether it is there, unless an answer is already awaited. `soon`: it has less time,
 * also for that answer. */
static void ask_host(struct hvd_agent_registry *agents, uint32_t host, bool soon)
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
	ask_host(agents, host, false);
}

void hvd_agent_registry_doubt(struct hvd_agent_registry *agents, uint32_t host)
{
	if (hvd_agent_registry_admitted(agents, host))
		ask_host(agents, host, true);
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
void hvd_agent_deadlines_answered(struct hvd_agent_registry *agents, uint32_t host)
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
		    (double)((answer_due(at) - at->answer.asked_at) / 1000000) / 1000);
	hvd_err_hint(&why, "is the host frozen, or is hvd-agent stopped there?");
	hvd_err_host(&why, hvd_host_table_name(&agents->table, host, (char[32]){0}));
	if (agents->plan.elastic)
		hvd_agent_registry_lose(agents, host, &why, false);
	else
		hvd_client_lose(at->client, &why);
}

/* The time of an admitted host is over. */
static void answer_late(struct hvd_agent_registry *agents, uint32_t host)
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
		defer_answer(at, hvd_deadline_in(AGAIN_SECONDS));
	} else {
		lose(agents, host);
	}
}

static void on_ask(void *arg)
{
	struct hvd_agent_registry *agents = arg;

	for (uint32_t h = agents->ask_turn; h < agents->table.n; h += ASK_TURNS)
		if (agents->table.hosts[h].stage == HVD_STAGE_HERE && agents->table.hosts[h].leaving < HVD_LEAVING_LOST)
			ask_host(agents, h, false);
	agents->ask_turn = (agents->ask_turn + 1) % ASK_TURNS;
}

/* ---- all deadlines ---- */

/* Until when is it this host's turn to say something? A host that has registered, or reported, waits for others: 0. */
static hvd_time due(const struct hvd_host_entry *host)
{
	if (host->stage == HVD_STAGE_COMING || host->stage == HVD_STAGE_PROBING)
		return host->deadline;
	return host->stage == HVD_STAGE_HERE ? answer_due(host) : 0;
}

static void explain(const struct hvd_agent_registry *agents, const struct hvd_host_entry *host, struct hvd_err *why)
{
	hvd_err_set(why, HVD_E_TIMEOUT, "%s within %g seconds",
		    host->client ? "its node agent did not report which hosts it reaches"
				 : "its node agent did not register",
		    agents->opts->spec->deadlines.start);
	hvd_agent_registry_missing_hint(agents, why);
	hvd_err_host(why, host->name);
}

/* Has this process not run when the time was over? Then the timer comes again, once. */
static bool is_late(struct hvd_agent_registry *agents, hvd_time now)
{
	hvd_time again = hvd_deadline_in(LATE_SECONDS);

	agents->late = !agents->late && now - next_deadline(agents) >= (hvd_time)(LATE_SECONDS * 1e9);
	if (!agents->late)
		return false;
	agents->next = again;
	hvd_timer_at(agents->timer, again);
	return true;
}

/* A host's time is over. Has it sent something that was not read yet? Then it has more time. */
static bool has_sent(struct hvd_host_entry *host)
{
	if (!host->client || !hvd_conn_unread(host->client->conn))
		return false;
	if (host->stage == HVD_STAGE_HERE)
		defer_answer(host, hvd_deadline_in(LATE_SECONDS));
	else
		host->deadline = hvd_deadline_in(LATE_SECONDS);
	return true;
}

static void on_timer(void *arg)
{
	struct hvd_agent_registry *agents = arg;
	hvd_time now = hvd_now();

	if (is_late(agents, now))
		return;
	if (hvd_agents_share_deadline(agents)) {
		out_of_time(agents);
		return;
	}
	for (uint32_t h = 0; h < agents->table.n && agents->phase != HVD_AGENTS_OVER; h++) {
		struct hvd_host_entry *host = &agents->table.hosts[h];
		struct hvd_err why = {0};

		if (!due(host) || due(host) > now || has_sent(host))
			continue;
		if (host->stage == HVD_STAGE_HERE) {
			answer_late(agents, h);
			continue;
		}
		explain(agents, host, &why);
		hvd_agent_registry_lose(agents, h, &why, false);
	}
	hvd_agent_deadlines_update(agents);
}

void hvd_agent_deadlines_create(struct hvd_agent_registry *agents)
{
	agents->timer = hvd_timer_new(agents->base, on_timer, agents);
	agents->progress = hvd_timer_new(agents->base, on_progress, agents);
	agents->ask = hvd_timer_new(agents->base, on_ask, agents);
}

void hvd_agent_deadlines_begin(struct hvd_agent_registry *agents)
{
	if (agents->plan.elastic || agents->deadline)
		return;
	agents->deadline = hvd_deadline_in(agents->opts->spec->deadlines.start);
	hvd_timer_at(agents->timer, agents->deadline);
	if (agents->opts->spec->output.progress)
		hvd_timer_every_ms(agents->progress, PROGRESS_SECONDS * 1000);
}

void hvd_agent_deadlines_update(struct hvd_agent_registry *agents)
{
	hvd_time next = INT64_MAX;

	if (hvd_agents_share_deadline(agents))
		return;
	for (uint32_t h = 0; h < agents->table.n; h++)
		if (due(&agents->table.hosts[h]))
			next = hvd_earlier(next, due(&agents->table.hosts[h]));
	update_progress(agents);
	agents->next = next == INT64_MAX ? 0 : next;
	if (agents->next)
		hvd_timer_at(agents->timer, next);
	else
		hvd_timer_stop(agents->timer);
}

void hvd_agent_deadlines_open(struct hvd_agent_registry *agents)
{
	hvd_timer_stop(agents->progress);
	hvd_agent_deadlines_update(agents);
	hvd_timer_every_ms(agents->ask, ASK_SECONDS * 1000 / ASK_TURNS);
}

void hvd_agent_deadlines_stop(struct hvd_agent_registry *agents)
{
	hvd_timer_stop(agents->timer);
	hvd_timer_stop(agents->progress);
	hvd_timer_stop(agents->ask);
}
