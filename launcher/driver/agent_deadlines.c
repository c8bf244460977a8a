/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_deadlines.c - how long agents may take to register and to report, and what is logged meanwhile.
 *
 * With HVD_BARRIER_ALL all hosts share one deadline, which covers the start until every rank has its plan. Else each
 * host has its own, which is set anew when the host is expected and when it is told to probe.
 */
#include "node_agents_internal.h"

#include <stdlib.h>
#include <string.h>

/* A start that takes longer than this says what it waits for, and again in this rhythm. */
#define PROGRESS_SECONDS 1

static void on_progress(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_node_agents *agents = arg;
	char *missing = hvd_node_table_missing(&agents->table);

	(void)fd;
	(void)what;
	hvd_info(agents->log, "still starting, %.0f s left: %s", hvd_left(agents->deadline),
		 *missing ? missing : "probing");
	free(missing);
}

static void out_of_time(struct hvd_node_agents *agents)
{
	char *missing = hvd_node_table_missing(&agents->table);
	struct hvd_err why = {0};

	hvd_err_set(&why, HVD_E_TIMEOUT, "the start took longer than %g seconds: %s",
		    agents->opts->spec->deadlines.start, *missing ? missing : "the rendezvous server did not start");
	hvd_err_hint(&why, "are these hosts up, %sdoes a firewall block port %u of %s? --start-timeout gives more time",
		     strcmp(agents->opts->id_text, "munge") == 0 ? "is munged running there, " : "",
		     hvd_clients_port(agents->clients), agents->self.host);
	free(missing);
	hvd_node_agents_fail(agents, &why);
}

/* Is it this host's turn to say something? A host that has registered, or reported, waits for others. */
static bool is_awaited(const struct hvd_node_agent *host)
{
	return host->stage == HVD_STAGE_EXPECTED || host->stage == HVD_STAGE_PROBING;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_node_agents *agents = arg;
	hvd_time now = hvd_now();
	struct hvd_err why = {0};

	(void)fd;
	(void)what;
	if (agents->barrier == HVD_BARRIER_ALL) {
		out_of_time(agents);
		return;
	}
	for (uint32_t h = 0; h < agents->table.n && agents->phase != HVD_AGENTS_OVER; h++) {
		const struct hvd_node_agent *host = &agents->table.hosts[h];

		if (!is_awaited(host) || host->deadline > now)
			continue;
		hvd_err_set(&why, HVD_E_TIMEOUT, "%s within %g seconds",
			    host->client ? "it did not say what it reaches" : "no word came from there",
			    agents->opts->spec->deadlines.start);
		hvd_err_hint(&why,
			     "is the host up, does a firewall block port %u of %s? --start-timeout gives more time",
			     hvd_clients_port(agents->clients), agents->self.host);
		hvd_err_host(&why, host->name);
		hvd_node_agents_lose(agents, h, &why, false);
	}
	hvd_agent_deadlines_update(agents);
}

void hvd_agent_deadlines_create(struct hvd_node_agents *agents)
{
	agents->timer = evtimer_new(agents->base, on_timer, agents);
	agents->progress = event_new(agents->base, -1, EV_PERSIST, on_progress, agents);
}

void hvd_agent_deadlines_begin(struct hvd_node_agents *agents)
{
	struct timeval tv;

	if (agents->barrier != HVD_BARRIER_ALL || agents->deadline)
		return;
	agents->deadline = hvd_deadline_in(agents->opts->spec->deadlines.start);
	tv = hvd_left_tv(agents->deadline);
	evtimer_add(agents->timer, &tv);
	if (agents->opts->spec->output.progress)
		event_add(agents->progress, &(struct timeval){.tv_sec = PROGRESS_SECONDS});
}

void hvd_agent_deadlines_update(struct hvd_node_agents *agents)
{
	hvd_time next = INT64_MAX;
	struct timeval tv;

	if (agents->barrier == HVD_BARRIER_ALL)
		return;
	for (uint32_t h = 0; h < agents->table.n; h++)
		if (is_awaited(&agents->table.hosts[h]))
			next = hvd_earlier(next, agents->table.hosts[h].deadline);
	tv = hvd_left_tv(next);
	if (next == INT64_MAX)
		event_del(agents->timer);
	else
		evtimer_add(agents->timer, &tv);
}

void hvd_agent_deadlines_stop(struct hvd_node_agents *agents)
{
	event_del(agents->timer);
	event_del(agents->progress);
}
