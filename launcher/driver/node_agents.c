/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_agents.c - a host is expected from the start of its shim, has a client from its registration on, and is here
 * when it has been let in. It is forgotten when its connection or its time ends, or when it is told to go.
 */
#include "node_agents_internal.h"

#include "admission.h"
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
	enum hvd_stage stage = agents->roster.states[host].stage;

	return agents->places[host].expected && (stage == HVD_STAGE_ABSENT || stage == HVD_STAGE_PROBING);
}

static void set_timer(struct hvd_node_agents *agents)
{
	hvd_time next = INT64_MAX;

	for (uint32_t h = 0; h < agents->roster.n; h++)
		if (is_awaited(agents, h))
			next = hvd_earlier(next, agents->places[h].deadline);
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
	struct hvd_node_agent *p = &agents->places[host];
	struct hvd_client *cl = p->client;

	p->expected = p->here = false;
	p->client = NULL;
	hvd_node_table_leave(&agents->roster, host);
	if (agents->service.rv)
		hvd_rv_service_admit_nodes(&agents->service,
					   &agents->roster); /* those that are left, and it no longer */
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
	for (uint32_t h = 0; h < agents->roster.n && agents->stage != HVD_AGENTS_OVER; h++) {
		struct hvd_node_agent *p = &agents->places[h];

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
	struct hvd_node_agent *p = &agents->places[host];

	p->here = true;
	agents->roster.states[host].stage = HVD_STAGE_PLANNED;
	hvd_conn_send(p->client->conn, json_pack("{s:s, s:[], s:b}", "t", "plan", "ranks", "stay", 1));
	hvd_verbose(agents->log, "%s can be used", p->name);
	agents->ops->here(host, agents->arg);
}

static void order_probe(struct hvd_node_agents *agents, uint32_t host)
{
	agents->roster.states[host].stage = HVD_STAGE_PROBING;
	agents->places[host].deadline = hvd_deadline_in(agents->opts->spec->deadlines.start);
	set_timer(agents);
	hvd_conn_send(agents->places[host].client->conn,
		      hvd_admission_order(&agents->roster, host, &agents->service.endpoints,
					  hvd_probe_patience(agents->roster.rounds)));
}

static void order_probes(struct hvd_node_agents *agents)
{
	for (uint32_t h = 0; h < agents->roster.n; h++)
		if (agents->roster.states[h].stage == HVD_STAGE_REGISTERED)
			order_probe(agents, h);
}

/* Once more, and time is left for another after it. */
static bool may_probe_again(const struct hvd_node_agents *agents)
{
	int round = agents->roster.rounds + 1;

	if (round >= HVD_PROBE_ROUNDS)
		return false;
	for (uint32_t h = 0; h < agents->roster.n; h++)
		if (agents->places[h].expected && !agents->places[h].here &&
		    hvd_left_ms(agents->places[h].deadline) < 2 * hvd_probe_patience(round))
			return false;
	return true;
}

static void let_in_late(struct hvd_node_agents *agents, uint32_t host)
{
	struct hvd_err why = {0};

	if (hvd_admission_late(&agents->plan, &agents->roster, host, &why) == 0)
		let_in(agents, host);
	else
		lose(agents, host, &why, true);
	set_timer(agents);
}

static int open_venue(struct hvd_node_agents *agents, struct hvd_err *err)
{
	int32_t own = -1;

	for (uint32_t h = 0; h < agents->roster.n; h++)
		if (agents->places[h].client && strcmp(agents->roster.nodes[h].machine, agents->self.machine) == 0)
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

	agents->plan.endpoints = &agents->service.endpoints;
	rc = hvd_admission_first(&agents->plan, &agents->roster, over_loopback(agents->opts), may_probe_again(agents),
				 &why);
	if (rc > 0) {
		hvd_verbose(agents->log, "some hosts got no answer over IPv4, or from the rendezvous: probing again");
		hvd_node_table_probe_again(&agents->roster);
		order_probes(agents);
		return;
	}
	if (rc < 0) {
		fail(agents, &why);
		return;
	}
	agents->stage = HVD_AGENTS_OPEN;
	hvd_plan_check_user_ifnames(&agents->plan, &agents->roster, agents->log);
	for (int k = 0; k < agents->plan.networks.n; k++)
		for (uint32_t h = 0; h < agents->roster.n; h++)
			if (agents->roster.states[h].stage == HVD_STAGE_REPORTED)
				hvd_verbose(agents->log, "network %d: %s of %s", k + 1,
					    agents->roster.nodes[h].ifaces[agents->plan.networks.v[k].iface[h]].name,
					    agents->places[h].name);
	for (uint32_t h = 0; h < agents->roster.n; h++) {
		if (agents->roster.states[h].stage == HVD_STAGE_REPORTED)
			let_in(agents, h);
		else if (agents->roster.states[h].stage == HVD_STAGE_REGISTERED)
			order_probe(agents, h); /* came while the others were at it */
	}
}

/* The first hosts: have all come, have all reported? */
static void look_at_first(struct hvd_node_agents *agents)
{
	uint32_t missing = 0, registered = 0, probing = 0, reported = 0;
	struct hvd_err why = {0};

	if (agents->stage != HVD_AGENTS_GATHERING && agents->stage != HVD_AGENTS_PROBING)
		return;
	for (uint32_t h = 0; h < agents->roster.n; h++) {
		missing += agents->places[h].expected && !agents->places[h].client;
		registered += agents->roster.states[h].stage == HVD_STAGE_REGISTERED;
		probing += agents->roster.states[h].stage == HVD_STAGE_PROBING;
		reported += agents->roster.states[h].stage == HVD_STAGE_REPORTED;
	}
	if (agents->stage == HVD_AGENTS_PROBING) {
		if (probing == 0 && reported > 0)
			open_job(agents);
		else if (probing == 0)
			agents->stage = HVD_AGENTS_GATHERING; /* all of them went */
		return;
	}
	if (missing || !registered)
		return;
	if (!agents->service.rv && open_venue(agents, &why) != 0) {
		fail(agents, &why);
		return;
	}
	hvd_rv_service_admit_nodes(&agents->service, &agents->roster);
	agents->stage = HVD_AGENTS_PROBING;
	order_probes(agents);
}

/* ---- messages ---- */

/* The host that a registration names; -1: the job has none of that number. */
static int64_t host_of(const struct hvd_node_agents *agents, const json_t *msg)
{
	int64_t host;

	if (agents->roster.n == 0 || hvd_get_int(msg, "node", 0, agents->roster.n - 1, &host, NULL) != 0)
		return -1;
	return host;
}

static void on_register(struct hvd_node_agents *agents, struct hvd_client *cl, const json_t *msg)
{
	int64_t host = host_of(agents, msg);
	struct hvd_err why = {0};
	struct hvd_node node;

	if (agents->ended && cl->role == HVD_ROLE_NONE && host >= 0) {
		cl->host = (uint32_t)host;
		dismiss(cl);
		return;
	}
	if (cl->role != HVD_ROLE_NONE)
		return;
	if (host < 0 || !agents->places[host].expected || agents->places[host].client ||
	    hvd_node_from_json(msg, &node, &why) != 0) {
		hvd_client_finish(cl); /* it has been given up in the meantime */
		return;
	}
	agents->roster.nodes[host] = node;
	agents->roster.states[host].stage = HVD_STAGE_REGISTERED;
	agents->places[host].client = cl;
	cl->role = HVD_ROLE_AGENT;
	cl->host = (uint32_t)host;
	hvd_debug(agents->log, "%s: its shim has registered", agents->places[host].name);
	agents->ops->came(cl->host, agents->arg);
	if (hvd_node_table_restrict(&agents->roster, cl->host, agents->opts->spec->interfaces.v, &why) != 0) {
		lose(agents, cl->host, &why, true);
		return;
	}
	if (agents->stage == HVD_AGENTS_OPEN) {
		hvd_rv_service_admit_nodes(&agents->service, &agents->roster);
		order_probe(agents, cl->host);
	}
	look_at_first(agents);
}

static void on_report(struct hvd_node_agents *agents, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_err why = {0};

	if (hvd_node_table_report(&agents->roster, cl->host, msg, &why) != 0) {
		hvd_err_host(&why, agents->places[cl->host].name);
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
	hvd_err_host(&why, agents->places[cl->host].name);
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
		if (agents->places[host].client == cl)
			agents->places[host].client = NULL;
		agents->ops->left(host, agents->arg);
	}
	if (cl->role != HVD_ROLE_AGENT || agents->stage == HVD_AGENTS_OVER)
		return;
	hvd_err_set(&lost, HVD_E_NET, "the connection to its shim was lost%s%s", why->code ? ": " : "",
		    why->code ? why->msg : "");
	hvd_err_host(&lost, agents->places[host].name);
	agents->places[host].client = NULL; /* released after this */
	lose(agents, host, &lost, false);
}

static void on_first(void *arg)
{
	(void)arg;
}

/* ---- what is asked of it ---- */

void hvd_node_agents_expect(struct hvd_node_agents *agents, uint32_t host, const char *name)
{
	uint32_t had = agents->roster.n;

	hvd_node_table_grow(&agents->roster, host + 1);
	if (host >= had) {
		agents->places = hvd_xrealloc(agents->places, host + 1, sizeof(*agents->places));
		memset(&agents->places[had], 0, (host + 1 - had) * sizeof(*agents->places));
		for (int k = 0; k < agents->plan.networks.n; k++) {
			uint8_t **iface = &agents->plan.networks.v[k].iface;

			*iface = hvd_xrealloc(*iface, host + 1, 1);
			memset(*iface + had, 0, host + 1 - had);
		}
		if (agents->plan.endpoint) {
			agents->plan.endpoint = hvd_xrealloc(agents->plan.endpoint, host + 1, 1);
			memset(agents->plan.endpoint + had, 0xff, host + 1 - had);
		}
	}
	free(agents->places[host].name);
	agents->places[host].name = hvd_xstrdup(name);
	agents->places[host].expected = true;
	agents->places[host].deadline = hvd_deadline_in(agents->opts->spec->deadlines.start);
	set_timer(agents);
}

void hvd_node_agents_forget(struct hvd_node_agents *agents, uint32_t host)
{
	if (host >= agents->roster.n || !agents->places[host].expected)
		return;
	drop(agents, host);
	look_at_first(agents);
}

bool hvd_node_agents_is_here(const struct hvd_node_agents *agents, uint32_t host)
{
	return host < agents->roster.n && agents->places[host].here;
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
	for (uint32_t h = 0; h < agents->roster.n; h++)
		free(agents->places[h].name);
	free(agents->places);
	hvd_node_table_clear(&agents->roster);
	hvd_this_host_clear(&agents->self);
	free(agents);
}
