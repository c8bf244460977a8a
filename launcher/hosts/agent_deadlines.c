/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_deadlines.c - how long agents may take to register and to report, and what is logged meanwhile.
 *
 * The hosts of a job that fails without any of them share one deadline, which covers the start until all are admitted.
 * Otherwise each host has its own, which starts again when the host is expected and when it gets the order to probe.
 * From its admission on, a host has to answer (agent_answers.c).
 *
 * If this process was stopped itself, or had other work, when a time was over, connections and messages may be there that
 * it has not taken. Then it has LATE_SECONDS for connections before it decides that a host is late; and a host with
 * messages that were not read is not late.
 */
#include "agent_registry_internal.h"

#include "lib/base/timer.h"
#include "measure.h"

#include <stdlib.h>
#include <string.h>

/* A timer that is late by so much: this process did not run. And the time to take what has come meanwhile. */
#define LATE_SECONDS 1.0
/* A start that takes longer than this says what it waits for, and again in this rhythm. A host that comes later is
 * named once, when it takes this long. */
#define PROGRESS_SECONDS 1
#define COMING_SECONDS   2

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
	char *missing = awaited(agents);

	if (agents->phase < HVD_AGENTS_OPEN) {
		hvd_info(agents->log, "still starting, %.0f s left: %s", hvd_left(next_deadline(agents)),
			 *missing ? missing : "probing");
	} else {
		hvd_timer_stop(agents->progress); /* until the next change */
		if (*missing)
			hvd_info(agents->log, "waiting for hosts: %s", missing);
	}
	free(missing);
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
	char *missing = awaited(agents);
	struct hvd_err why = {0};

	hvd_err_set(&why, HVD_E_TIMEOUT, "the start took longer than %g seconds: %s",
		    agents->opts->spec->deadlines.start, missing);
	hvd_missing_host_hint(agents, &why);
	free(missing);
	hvd_agent_registry_fail(agents, &why);
}

/* Until when is it this host's turn to say something? A host that has registered, or reported, waits for others: 0. */
static hvd_time due(const struct hvd_host_entry *host)
{
	if (host->stage == HVD_STAGE_COMING || host->stage == HVD_STAGE_PROBING)
		return host->deadline;
	return host->stage == HVD_STAGE_HERE ? hvd_agent_answers_due(host) : 0;
}

static void explain(const struct hvd_agent_registry *agents, const struct hvd_host_entry *host, struct hvd_err *why)
{
	hvd_err_set(why, HVD_E_TIMEOUT, "%s within %g seconds",
		    host->client ? "its node agent did not report which hosts it reaches"
				 : "its node agent did not register",
		    agents->opts->spec->deadlines.start);
	hvd_missing_host_hint(agents, why);
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
		hvd_agent_answers_defer(host, hvd_deadline_in(LATE_SECONDS));
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
			hvd_agent_answers_late(agents, h);
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
	hvd_agent_answers_begin(agents);
}

void hvd_agent_deadlines_stop(struct hvd_agent_registry *agents)
{
	hvd_timer_stop(agents->timer);
	hvd_timer_stop(agents->progress);
	hvd_agent_answers_stop(agents);
}
