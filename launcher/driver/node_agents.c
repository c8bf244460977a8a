/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_agents.c - a host is expected from the start of its shim, has a client from its registration on, and is here
 * when it has been let in. It is forgotten when its connection or its time ends, or when it is told to go.
 */
#include "node_agents_internal.h"

#include "lib/base/xalloc.h"
#include "lib/rendezvous/server.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void look_at_first(struct hvd_node_agents *agents);

/* ---- hosts that go ---- */

/* Is it this host's turn to say something? One that has registered, or reported, waits for others. */
static bool is_awaited(const struct hvd_node_agents *agents, uint32_t host)
{
	enum hvd_stage stage = agents->table.hosts[host].stage;

	return stage == HVD_STAGE_EXPECTED || stage == HVD_STAGE_PROBING;
}

static void set_timer(struct hvd_node_agents *agents)
{
	hvd_time next = INT64_MAX;

	for (uint32_t h = 0; h < agents->table.n; h++)
		if (is_awaited(agents, h))
			next = hvd_earlier(next, agents->table.hosts[h].deadline);
	if (next == INT64_MAX) {
		event_del(agents->timer);
	} else {
		struct timeval tv = hvd_left_tv(next);

		evtimer_add(agents->timer, &tv);
	}
}

/* What it says from now on is of no interest. */
static void dismiss(struct hvd_client *cl)
{
	cl->role = HVD_ROLE_FORMER;
	hvd_conn_send(cl->conn, json_pack("{s:s}", "t", "end"));
}

static void drop(struct hvd_node_agents *agents, uint32_t host)
{
	struct hvd_client *cl = agents->table.hosts[host].client;

	hvd_node_table_leave(&agents->table, host);
	if (agents->service.rv)
		hvd_rv_service_admit_nodes(&agents->service,
					   &agents->table); /* those that are left, and it no longer */
	if (agents->service.endpoints.host == (int32_t)host)
		agents->service.endpoints.host = -1;
	if (cl)
		dismiss(cl);
	set_timer(agents);
}

static void lose(struct hvd_node_agents *agents, uint32_t host, const struct hvd_err *why, bool unfit)
{
	drop(agents, host);
	agents->ops->gone(host, why, unfit, agents->arg);
	look_at_first(agents);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_node_agents *agents = arg;
	hvd_time now = hvd_now();
	struct hvd_err why = {0};

	(void)fd;
	(void)what;
	for (uint32_t h = 0; h < agents->table.n && agents->stage != HVD_AGENTS_OVER; h++) {
		struct hvd_node_agent *p = &agents->table.hosts[h];

		if (!is_awaited(agents, h) || p->deadline > now)
			continue;
		hvd_err_set(&why, HVD_E_TIMEOUT, "%s within %g seconds",
			    p->client ? "it did not say what it reaches" : "no word came from there",
			    agents->opts->spec->deadlines.start);
		hvd_err_hint(&why,
			     "is the host up, does a firewall block port %u of %s? --start-timeout gives more time",
			     hvd_clients_port(agents->clients), agents->self.host);
		hvd_err_host(&why, p->name);
		lose(agents, h, &why, false);
	}
	set_timer(agents);
}

static void fail(struct hvd_node_agents *agents, const struct hvd_err *why)
{
	if (agents->stage == HVD_AGENTS_OVER)
		return;
	agents->stage = HVD_AGENTS_OVER;
	event_del(agents->timer);
	agents->ops->failed(why, agents->arg);
}

/* ---- hosts that come ---- */

static void let_in(struct hvd_node_agents *agents, uint32_t host)
{
	struct hvd_node_agent *p = &agents->table.hosts[host];

	hvd_node_table_enter(&agents->table, host, HVD_STAGE_ADMITTED);
	hvd_conn_send(p->client->conn, json_pack("{s:s, s:[], s:b}", "t", "plan", "ranks", "stay", 1));
	hvd_verbose(agents->log, "%s can be used", p->name);
	agents->ops->here(host, agents->arg);
}

static void order_probe(struct hvd_node_agents *agents, const uint32_t *hosts, uint32_t n, uint32_t i)
{
	struct hvd_node_agent *host = &agents->table.hosts[hosts[i]];

	host->deadline = hvd_deadline_in(agents->opts->spec->deadlines.start);
	hvd_node_table_enter(&agents->table, hosts[i], HVD_STAGE_PROBING);
	hvd_conn_send(host->client->conn, hvd_probe_order(&agents->table, hosts, n, i, &agents->service.endpoints,
							  hvd_probe_patience(agents->table.rounds)));
}

/* All that have registered and have not been told yet. */
static void order_probes(struct hvd_node_agents *agents)
{
	uint32_t n, *hosts = hvd_node_table_list(&agents->table, HVD_STAGE_REGISTERED, &n);

	for (uint32_t i = 0; i < n; i++)
		if (agents->table.hosts[hosts[i]].stage == HVD_STAGE_REGISTERED)
			order_probe(agents, hosts, n, i);
	free(hosts);
	set_timer(agents);
}

/* Once more, and time is left for another after it. */
static bool may_probe_again(const struct hvd_node_agents *agents)
{
	int round = agents->table.rounds + 1;

	if (round >= HVD_PROBE_ROUNDS)
		return false;
	for (uint32_t h = 0; h < agents->table.n; h++)
		if (agents->table.hosts[h].stage >= HVD_STAGE_EXPECTED &&
		    agents->table.hosts[h].stage < HVD_STAGE_ADMITTED &&
		    hvd_left_ms(agents->table.hosts[h].deadline) < 2 * hvd_probe_patience(round))
			return false;
	return true;
}

static void let_in_late(struct hvd_node_agents *agents, uint32_t host)
{
	struct hvd_err why = {0};

	if (hvd_plan_join(&agents->plan, &agents->table, host, &why) == 0)
		let_in(agents, host);
	else
		lose(agents, host, &why, true);
	set_timer(agents);
}

static int open_venue(struct hvd_node_agents *agents, struct hvd_err *err)
{
	int32_t own = -1;

	for (uint32_t h = 0; h < agents->table.n; h++)
		if (own < 0 && strcmp(agents->table.hosts[h].node.machine, agents->self.machine) == 0)
			own = (int32_t)h;
	if (hvd_rv_service_open(&agents->service, agents->base, &agents->session->key, &agents->self,
				agents->opts->port_lo, agents->opts->port_hi, own, agents->log, err) != 0)
		return -1;
	return agents->ops->opened(agents->service.rv, agents->arg, err);
}

/* --network-interfaces lo: names of one machine, whatever else it has. */
static bool over_loopback(const struct hvd_driver_opts *opts)
{
	bool lo = opts->spec->interfaces.n > 0;

	for (size_t i = 0; i < opts->spec->interfaces.n; i++)
		lo = lo && strcmp(opts->spec->interfaces.v[i], "lo") == 0;
	return lo || opts->loopback;
}

static void open_job(struct hvd_node_agents *agents)
{
	struct hvd_err why = {0};
	int rc;

	agents->plan.elastic = true;
	agents->plan.loopback = over_loopback(agents->opts);
	rc = hvd_plan_make(&agents->plan, &agents->table, &agents->service.endpoints, may_probe_again(agents),
			   agents->log, &why);
	if (rc > 0) {
		hvd_verbose(agents->log, "some hosts got no answer over IPv4, or from the rendezvous: probing again");
		hvd_node_table_probe_again(&agents->table);
		order_probes(agents);
		return;
	}
	if (rc < 0) {
		fail(agents, &why);
		return;
	}
	agents->stage = HVD_AGENTS_OPEN;
	for (uint32_t h = 0; h < agents->table.n; h++)
		if (agents->table.hosts[h].stage == HVD_STAGE_REPORTED)
			let_in(agents, h);
	order_probes(agents); /* of hosts that came while the others were at it */
}

/* The first hosts: have all come, have all reported? */
static void look_at_first(struct hvd_node_agents *agents)
{
	const uint32_t *in = agents->table.in_stage;
	struct hvd_err why = {0};

	if (agents->stage != HVD_AGENTS_GATHERING && agents->stage != HVD_AGENTS_PROBING)
		return;
	if (agents->stage == HVD_AGENTS_PROBING) {
		if (in[HVD_STAGE_PROBING] == 0 && in[HVD_STAGE_REPORTED] > 0)
			open_job(agents);
		else if (in[HVD_STAGE_PROBING] == 0)
			agents->stage = HVD_AGENTS_GATHERING; /* all of them went */
		return;
	}
	if (in[HVD_STAGE_EXPECTED] > 0 || in[HVD_STAGE_REGISTERED] == 0)
		return;
	if (!agents->service.rv && open_venue(agents, &why) != 0) {
		fail(agents, &why);
		return;
	}
	hvd_rv_service_admit_nodes(&agents->service, &agents->table);
	agents->stage = HVD_AGENTS_PROBING;
	order_probes(agents);
}

/* ---- messages ---- */

static void on_register(struct hvd_node_agents *agents, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_err why = {0};

	if (cl->role != HVD_ROLE_NONE)
		return;
	cl->host = UINT32_MAX;
	if (hvd_node_table_register_expected(&agents->table, msg, &cl->host) != 0) {
		if (agents->ended && cl->host != UINT32_MAX)
			dismiss(cl);
		else
			hvd_client_finish(cl); /* it has been given up in the meantime */
		return;
	}
	agents->table.hosts[cl->host].client = cl;
	cl->role = HVD_ROLE_AGENT;
	hvd_debug(agents->log, "%s: its node agent has registered", agents->table.hosts[cl->host].name);
	agents->ops->came(cl->host, agents->arg);
	if (hvd_node_table_restrict(&agents->table, cl->host, agents->opts->spec->interfaces.v, &why) != 0) {
		lose(agents, cl->host, &why, true);
		return;
	}
	if (agents->stage == HVD_AGENTS_OPEN) {
		hvd_rv_service_admit_nodes(&agents->service, &agents->table);
		order_probes(agents);
	}
	look_at_first(agents);
}

static void on_report(struct hvd_node_agents *agents, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_err why = {0};

	if (hvd_node_table_report(&agents->table, cl->host, msg, &why) != 0) {
		hvd_err_host(&why, agents->table.hosts[cl->host].name);
		lose(agents, cl->host, &why, true);
	} else if (agents->stage == HVD_AGENTS_OPEN) {
		let_in_late(agents, cl->host);
	} else {
		look_at_first(agents);
	}
}

static void on_cannot(struct hvd_node_agents *agents, struct hvd_client *cl, const json_t *msg)
{
	const char *text, *hint;
	struct hvd_err why = {0};

	if (hvd_get_str(msg, "why", 1024, &text, &why) == 0 && hvd_get_str(msg, "hint", 512, &hint, &why) == 0) {
		hvd_err_set(&why, HVD_E_FAILED, "%s", text);
		if (*hint)
			hvd_err_hint(&why, "%s", hint);
	}
	hvd_err_host(&why, agents->table.hosts[cl->host].name);
	lose(agents, cl->host, &why, true);
}

static void on_exit_message(struct hvd_node_agents *agents, const json_t *msg)
{
	int64_t worker, status;

	if (hvd_get_int(msg, "worker", 0, UINT32_MAX, &worker, NULL) == 0 &&
	    hvd_get_int(msg, "status", 0, 0xffff, &status, NULL) == 0)
		agents->ops->exited((uint32_t)worker, (int)status, agents->arg);
}

static void on_notified(struct hvd_node_agents *agents, const json_t *msg)
{
	const char *why;
	int64_t worker;

	if (hvd_get_int(msg, "worker", 0, UINT32_MAX, &worker, NULL) == 0 &&
	    hvd_get_str(msg, "why", 1024, &why, NULL) == 0)
		agents->ops->notified((uint32_t)worker, why, agents->arg);
}

static void on_cut(struct hvd_node_agents *agents, uint32_t host, const json_t *msg)
{
	const char *why;
	int64_t n;

	if (hvd_get_int(msg, "n", 0, INT_MAX, &n, NULL) == 0 && hvd_get_str(msg, "why", 1024, &why, NULL) == 0)
		agents->ops->cut(host, (int)n, why, agents->arg);
}

static void on_message(struct hvd_client *cl, json_t *msg, void *arg)
{
	struct hvd_node_agents *agents = arg;
	const char *type;

	if (agents->stage == HVD_AGENTS_OVER || hvd_get_str(msg, "t", 16, &type, NULL) != 0)
		return;
	if (strcmp(type, "register") == 0)
		on_register(agents, cl, msg);
	else if (cl->role != HVD_ROLE_AGENT)
		return;
	else if (strcmp(type, "report") == 0)
		on_report(agents, cl, msg);
	else if (strcmp(type, "cannot") == 0)
		on_cannot(agents, cl, msg);
	else if (strcmp(type, "exit") == 0)
		on_exit_message(agents, msg);
	else if (strcmp(type, "output-lost") == 0)
		agents->ops->output_lost(agents->arg);
	else if (strcmp(type, "notified") == 0)
		on_notified(agents, msg);
	else if (strcmp(type, "cut") == 0)
		on_cut(agents, cl->host, msg);
}

static void on_gone(struct hvd_client *cl, const struct hvd_err *why, void *arg)
{
	struct hvd_node_agents *agents = arg;
	struct hvd_err lost = {0};
	uint32_t host = cl->host;

	if (cl->role == HVD_ROLE_FORMER) {
		if (agents->table.hosts[host].client == cl)
			agents->table.hosts[host].client = NULL;
		agents->ops->left(host, agents->arg);
	}
	if (cl->role != HVD_ROLE_AGENT || agents->stage == HVD_AGENTS_OVER)
		return;
	hvd_err_set(&lost, HVD_E_NET, "the connection to its node agent was lost%s%s", why->code ? ": " : "",
		    why->code ? why->msg : "");
	hvd_err_host(&lost, agents->table.hosts[host].name);
	agents->table.hosts[host].client = NULL; /* released after this */
	lose(agents, host, &lost, false);
}

static void on_first(void *arg)
{
	(void)arg;
}

/* ---- what is asked of it ---- */

void hvd_node_agents_expect(struct hvd_node_agents *agents, uint32_t host, const char *name)
{
	uint32_t had = agents->table.n;

	hvd_node_table_expect(&agents->table, host, name);
	hvd_plan_grow(&agents->plan, had, agents->table.n);
	agents->table.hosts[host].deadline = hvd_deadline_in(agents->opts->spec->deadlines.start);
	set_timer(agents);
}

void hvd_node_agents_forget(struct hvd_node_agents *agents, uint32_t host)
{
	if (host >= agents->table.n || agents->table.hosts[host].stage == HVD_STAGE_ABSENT)
		return;
	drop(agents, host);
	look_at_first(agents);
}

bool hvd_node_agents_is_here(const struct hvd_node_agents *agents, uint32_t host)
{
	return host < agents->table.n && agents->table.hosts[host].stage == HVD_STAGE_ADMITTED;
}

void hvd_node_agents_boot(const struct hvd_node_agents *agents, struct hvd_boot *boot)
{
	hvd_clients_boot(agents->clients, &agents->self, agents->opts, boot);
}

struct hvd_node_agents *hvd_node_agents_create(struct event_base *base, const struct hvd_driver_opts *opts,
					       struct hvd_session *session, const struct hvd_node_agents_ops *ops,
					       void *arg, const struct hvd_log *log, struct hvd_err *err)
{
	static const struct hvd_clients_ops clients_ops = {on_first, on_message, on_gone};
	struct hvd_node_agents *agents = hvd_xcalloc(1, sizeof(*agents));

	agents->base = base;
	agents->opts = opts;
	agents->session = session;
	agents->ops = ops;
	agents->arg = arg;
	agents->log = log;
	agents->timer = evtimer_new(base, on_timer, agents);
	if (hvd_this_host_query(&agents->self, HVD_BOOT_MAX_ADDRS, opts->loopback, opts->spec->interfaces.v, err) ==
		    0 &&
	    (agents->clients = hvd_clients_create(base, session, opts->loopback, opts->port_lo, opts->port_hi,
						  &clients_ops, agents, log, err)))
		return agents;
	hvd_node_agents_destroy(agents);
	return NULL;
}

void hvd_node_agents_destroy(struct hvd_node_agents *agents)
{
	if (!agents)
		return;
	hvd_clients_destroy(agents->clients);
	event_free(agents->timer);
	hvd_rv_service_close(&agents->service);
	hvd_plan_clear(&agents->plan);
	hvd_layout_clear(&agents->layout);
	hvd_node_table_clear(&agents->table);
	hvd_this_host_clear(&agents->self);
	free(agents);
}
