/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_deadlines.c - how long agents may take to register, to report and to answer, and what is logged meanwhile.
 *
 * With HVD_BARRIER_ALL all hosts share one deadline, which covers the start until every rank has its plan. Otherwise
 * each host has its own, which starts again when the host is expected and when it gets the order to probe.
 *
 * An admitted host is asked whether it is there with each command, and every ASK_SECONDS. If an agent, or all processes
 * of its host, are stopped, the host's kernel still acknowledges what is sent (hvd_conn_watch_host()), and the job
 * would wait for ever for the result of a command.
 *
 * If this process was stopped itself, or had other work, when a time was over, connections and messages may be there that
 * it has not taken. Then it has LATE_SECONDS for connections before it decides that a host is late; and a host with
 * messages that were not read is not late.
 */
#include "agent_registry_internal.h"

#include <stdlib.h>
#include <string.h>

/* How long an agent may take to answer. A moment longer than the kernel waits for the host, so that a host that is lost
 * is reported as such. */
#define ANSWER_SECONDS (HVD_CONN_WATCH_SECONDS + 2)
/* … when others say that its host is gone. */
#define SOON_SECONDS 3
#define ASK_SECONDS  5
/* A timer that is late by so much: this process did not run. And the time to take what has come meanwhile. */
#define LATE_SECONDS 1.0
/* A start that takes longer than this says what it waits for, and again in this rhythm. */
#define PROGRESS_SECONDS 1

static void on_progress(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_agent_registry *agents = arg;
	char *missing = hvd_host_table_missing(&agents->table);

	(void)fd;
	(void)what;
	hvd_info(agents->log, "still starting, %.0f s left: %s", hvd_left(agents->deadline),
		 *missing ? missing : "probing");
	free(missing);
}

int hvd_agent_deadlines_hint(const struct hvd_agent_registry *agents, struct hvd_err *why)
{
	const struct hvd_driver_opts *opts = agents->opts;
	bool munge = strcmp(opts->id_text, "munge") == 0;

	return hvd_err_hint(
		why, "%sis the host up, %sdoes a firewall block port %u of %s? --start-timeout allows more time",
		opts->by_plugin ? "does plugstack.conf there list hvd.so? " : "",
		munge ? "is munged running there, " : "", hvd_clients_port(agents->clients), agents->self.host);
}

static void out_of_time(struct hvd_agent_registry *agents)
{
	char *missing = hvd_host_table_missing(&agents->table);
	struct hvd_err why = {0};

	hvd_err_set(&why, HVD_E_TIMEOUT, "the start took longer than %g seconds: %s",
		    agents->opts->spec->deadlines.start, missing);
	hvd_agent_deadlines_hint(agents, &why);
	free(missing);
	hvd_agent_registry_fail(agents, &why);
}

/* Until when is it this host's turn to say something? A host that has registered, or reported, waits for others: 0. */
static hvd_time due(const struct hvd_host_entry *host)
{
	if (host->stage == HVD_STAGE_EXPECTED || host->stage == HVD_STAGE_PROBING)
		return host->deadline;
	return host->stage == HVD_STAGE_ADMITTED ? host->answer_by : 0;
}

/* A launch whose agents have less time to begin has no more patience later. */
static hvd_time answer_time(const struct hvd_agent_registry *agents, bool soon)
{
	double start = agents->opts->spec->deadlines.start, most = soon ? SOON_SECONDS : ANSWER_SECONDS;

	return (hvd_time)((start < most ? start : most) * 1e9);
}

static void explain(const struct hvd_agent_registry *agents, const struct hvd_host_entry *host, struct hvd_err *why)
{
	if (host->stage == HVD_STAGE_ADMITTED) {
		hvd_err_set(why, HVD_E_TIMEOUT, "its node agent has not answered for %g seconds",
			    (double)((host->answer_by - host->asked_at) / 1000000) / 1000);
		hvd_err_hint(why, "is the host frozen, or is hvd-agent stopped there?");
	} else {
		hvd_err_set(why, HVD_E_TIMEOUT, "%s within %g seconds",
			    host->client ? "its node agent did not report which hosts it reaches"
					 : "its node agent did not register",
			    agents->opts->spec->deadlines.start);
		hvd_agent_deadlines_hint(agents, why);
	}
	hvd_err_host(why, host->name);
}

/* Has this process not run when the time was over? Then the timer comes again, once. */
static bool is_late(struct hvd_agent_registry *agents, hvd_time now)
{
	hvd_time due_at = agents->barrier == HVD_BARRIER_ALL ? agents->deadline : agents->next;
	hvd_time again = hvd_deadline_in(LATE_SECONDS);
	struct timeval tv = hvd_left_tv(again);

	agents->late = !agents->late && now - due_at >= (hvd_time)(LATE_SECONDS * 1e9);
	if (!agents->late)
		return false;
	agents->next = again;
	evtimer_add(agents->timer, &tv);
	return true;
}

/* A host's time is over. Has it sent something that was not read yet? Then it has more time. */
static bool has_sent(struct hvd_host_entry *host)
{
	if (!host->client || !hvd_conn_unread(host->client->conn))
		return false;
	if (host->stage == HVD_STAGE_ADMITTED)
		host->answer_by = hvd_deadline_in(LATE_SECONDS);
	else
		host->deadline = hvd_deadline_in(LATE_SECONDS);
	return true;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_agent_registry *agents = arg;
	hvd_time now = hvd_now();

	(void)fd;
	(void)what;
	if (is_late(agents, now))
		return;
	if (agents->barrier == HVD_BARRIER_ALL) {
		out_of_time(agents);
		return;
	}
	for (uint32_t h = 0; h < agents->table.n && agents->phase != HVD_AGENTS_OVER; h++) {
		struct hvd_host_entry *host = &agents->table.hosts[h];
		struct hvd_err why = {0};

		if (!due(host) || due(host) > now || has_sent(host))
			continue;
		explain(agents, host, &why);
		hvd_agent_registry_lose(agents, h, &why, false);
	}
	hvd_agent_deadlines_update(agents);
}

static void on_ask(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_agent_registry *agents = arg;

	(void)fd;
	(void)what;
	for (uint32_t h = 0; h < agents->table.n && agents->phase != HVD_AGENTS_OVER; h++)
		if (agents->table.hosts[h].stage == HVD_STAGE_ADMITTED)
			hvd_agent_deadlines_ask(agents, h, false);
}

void hvd_agent_deadlines_create(struct hvd_agent_registry *agents)
{
	agents->ask = event_new(agents->base, -1, EV_PERSIST, on_ask, agents);
	if (agents->barrier == HVD_BARRIER_AS_THEY_COME)
		event_add(agents->ask, &(struct timeval){.tv_sec = ASK_SECONDS});
	agents->timer = evtimer_new(agents->base, on_timer, agents);
	agents->progress = event_new(agents->base, -1, EV_PERSIST, on_progress, agents);
}

void hvd_agent_deadlines_begin(struct hvd_agent_registry *agents)
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

void hvd_agent_deadlines_update(struct hvd_agent_registry *agents)
{
	hvd_time next = INT64_MAX;
	struct timeval tv;

	if (agents->barrier == HVD_BARRIER_ALL)
		return;
	for (uint32_t h = 0; h < agents->table.n; h++)
		if (due(&agents->table.hosts[h]))
			next = hvd_earlier(next, due(&agents->table.hosts[h]));
	agents->next = next == INT64_MAX ? 0 : next;
	tv = hvd_left_tv(next);
	if (agents->next)
		evtimer_add(agents->timer, &tv);
	else
		event_del(agents->timer);
}

void hvd_agent_deadlines_ask(struct hvd_agent_registry *agents, uint32_t host, bool soon)
{
	struct hvd_host_entry *at = &agents->table.hosts[host];
	hvd_time now = hvd_now(), by = now + answer_time(agents, soon);

	if (at->answer_by && at->answer_by <= by)
		return;
	if (!at->answer_by) {
		at->asked_at = now;
		hvd_conn_send(at->client->conn, json_pack("{s:s}", "t", "ping"));
	}
	at->answer_by = by;
	if (!agents->next || by < agents->next)
		hvd_agent_deadlines_update(agents);
}

/* The timer is left as it is: it looks at all hosts anew. */
void hvd_agent_deadlines_answered(struct hvd_agent_registry *agents, uint32_t host)
{
	agents->table.hosts[host].answer_by = 0;
}

void hvd_agent_deadlines_stop(struct hvd_agent_registry *agents)
{
	event_del(agents->timer);
	event_del(agents->ask);
	event_del(agents->progress);
}
