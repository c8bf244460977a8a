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

static void look_at_first(struct hvd_crew *crew);

/* ---- hosts that go ---- */

/* Is it this host's turn to say something? One that has registered, or reported, waits for others. */
static bool is_awaited(const struct hvd_crew *crew, uint32_t host)
{
	enum hvd_stage stage = crew->roster.seats[host].stage;

	return crew->places[host].expected && (stage == HVD_STAGE_ABSENT || stage == HVD_STAGE_PROBING);
}

static void set_timer(struct hvd_crew *crew)
{
	hvd_time next = INT64_MAX;

	for (uint32_t h = 0; h < crew->roster.n; h++)
		if (is_awaited(crew, h))
			next = hvd_earlier(next, crew->places[h].deadline);
	if (next == INT64_MAX) {
		event_del(crew->timer);
	} else {
		struct timeval tv = hvd_left_tv(next);

		evtimer_add(crew->timer, &tv);
	}
}

/* What it says from now on is of no interest. */
static void dismiss(struct hvd_client *cl)
{
	cl->role = HVD_ROLE_FORMER;
	hvd_conn_send(cl->conn, json_pack("{s:s}", "t", "end"));
}

static void drop(struct hvd_crew *crew, uint32_t host)
{
	struct hvd_crew_place *p = &crew->places[host];
	struct hvd_client *cl = p->client;

	p->expected = p->here = false;
	p->client = NULL;
	hvd_roster_leave(&crew->roster, host);
	if (crew->venue.meeting)
		hvd_venue_admit(&crew->venue, &crew->roster); /* those that are left, and it no longer */
	if (crew->venue.endpoints.host == (int32_t)host)
		crew->venue.endpoints.host = -1;
	if (cl)
		dismiss(cl);
	set_timer(crew);
}

static void lose(struct hvd_crew *crew, uint32_t host, const struct hvd_err *why, bool unfit)
{
	drop(crew, host);
	crew->ops->gone(host, why, unfit, crew->arg);
	look_at_first(crew);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_crew *crew = arg;
	hvd_time now = hvd_now();
	struct hvd_err why = {0};

	(void)fd;
	(void)what;
	for (uint32_t h = 0; h < crew->roster.n && crew->stage != HVD_CREW_OVER; h++) {
		struct hvd_crew_place *p = &crew->places[h];

		if (!is_awaited(crew, h) || p->deadline > now)
			continue;
		hvd_err_set(&why, HVD_E_TIMEOUT, "%s within %g seconds",
			    p->client ? "it did not say what it reaches" : "no word came from there",
			    crew->opts->start_timeout);
		hvd_err_hint(&why,
			     "is the host up, does a firewall block port %u of %s? --start-timeout gives more time",
			     hvd_clients_port(crew->clients), crew->self.host);
		hvd_err_host(&why, p->name);
		lose(crew, h, &why, false);
	}
	set_timer(crew);
}

static void fail(struct hvd_crew *crew, const struct hvd_err *why)
{
	if (crew->stage == HVD_CREW_OVER)
		return;
	crew->stage = HVD_CREW_OVER;
	event_del(crew->timer);
	crew->ops->failed(why, crew->arg);
}

/* ---- hosts that come ---- */

static void let_in(struct hvd_crew *crew, uint32_t host)
{
	struct hvd_crew_place *p = &crew->places[host];

	p->here = true;
	crew->roster.seats[host].stage = HVD_STAGE_PLANNED;
	hvd_conn_send(p->client->conn, json_pack("{s:s, s:[], s:b}", "t", "plan", "ranks", "stay", 1));
	hvd_verbose(crew->log, "%s can be used", p->name);
	crew->ops->here(host, crew->arg);
}

static void order_probe(struct hvd_crew *crew, uint32_t host)
{
	crew->roster.seats[host].stage = HVD_STAGE_PROBING;
	crew->places[host].deadline = hvd_deadline_in(crew->opts->start_timeout);
	set_timer(crew);
	hvd_conn_send(crew->places[host].client->conn, hvd_admission_order(&crew->roster, host, &crew->venue.endpoints,
									   hvd_probe_patience(crew->roster.rounds)));
}

static void order_probes(struct hvd_crew *crew)
{
	for (uint32_t h = 0; h < crew->roster.n; h++)
		if (crew->roster.seats[h].stage == HVD_STAGE_REGISTERED)
			order_probe(crew, h);
}

/* Once more, and time is left for another after it. */
static bool may_probe_again(const struct hvd_crew *crew)
{
	int round = crew->roster.rounds + 1;

	if (round >= HVD_PROBE_ROUNDS)
		return false;
	for (uint32_t h = 0; h < crew->roster.n; h++)
		if (crew->places[h].expected && !crew->places[h].here &&
		    hvd_left_ms(crew->places[h].deadline) < 2 * hvd_probe_patience(round))
			return false;
	return true;
}

static void let_in_late(struct hvd_crew *crew, uint32_t host)
{
	struct hvd_err why = {0};

	if (hvd_admission_late(&crew->plan, &crew->roster, host, &why) == 0)
		let_in(crew, host);
	else
		lose(crew, host, &why, true);
	set_timer(crew);
}

static int open_venue(struct hvd_crew *crew, struct hvd_err *err)
{
	int32_t own = -1;

	for (uint32_t h = 0; h < crew->roster.n; h++)
		if (crew->places[h].client && strcmp(crew->roster.nodes[h].machine, crew->self.machine) == 0)
			own = (int32_t)h;
	if (hvd_venue_open(&crew->venue, crew->base, &crew->session->key, crew->self.addrs, crew->self.n_addrs,
			   crew->opts->port_lo, crew->opts->port_hi, own, crew->log, err) != 0)
		return -1;
	memcpy(crew->venue.endpoints.machine, crew->self.machine, sizeof(crew->self.machine));
	return crew->ops->opened(hvd_meeting_server(crew->venue.meeting), crew->arg, err);
}

/* --network-interfaces lo: names of one machine, whatever else it has. */
static bool over_loopback(const struct hvd_driver_opts *opts)
{
	bool lo = opts->nics.n > 0;

	for (size_t i = 0; i < opts->nics.n; i++)
		lo = lo && strcmp(opts->nics.v[i], "lo") == 0;
	return lo || opts->loopback;
}

static void open_job(struct hvd_crew *crew)
{
	struct hvd_err why = {0};
	int rc;

	crew->plan.endpoints = &crew->venue.endpoints;
	rc = hvd_admission_first(&crew->plan, &crew->roster, over_loopback(crew->opts), may_probe_again(crew), &why);
	if (rc > 0) {
		hvd_verbose(crew->log, "some hosts got no answer over IPv4, or from the rendezvous: probing again");
		hvd_roster_probe_again(&crew->roster);
		order_probes(crew);
		return;
	}
	if (rc < 0) {
		fail(crew, &why);
		return;
	}
	crew->stage = HVD_CREW_OPEN;
	hvd_plan_check_given(&crew->plan, &crew->roster, crew->log);
	for (int k = 0; k < crew->plan.networks.n; k++)
		for (uint32_t h = 0; h < crew->roster.n; h++)
			if (crew->roster.seats[h].stage == HVD_STAGE_REPORTED)
				hvd_verbose(crew->log, "network %d: %s of %s", k + 1,
					    crew->roster.nodes[h].ifaces[crew->plan.networks.v[k].iface[h]].name,
					    crew->places[h].name);
	for (uint32_t h = 0; h < crew->roster.n; h++) {
		if (crew->roster.seats[h].stage == HVD_STAGE_REPORTED)
			let_in(crew, h);
		else if (crew->roster.seats[h].stage == HVD_STAGE_REGISTERED)
			order_probe(crew, h); /* came while the others were at it */
	}
}

/* The first hosts: have all come, have all reported? */
static void look_at_first(struct hvd_crew *crew)
{
	uint32_t missing = 0, registered = 0, probing = 0, reported = 0;
	struct hvd_err why = {0};

	if (crew->stage != HVD_CREW_GATHERING && crew->stage != HVD_CREW_PROBING)
		return;
	for (uint32_t h = 0; h < crew->roster.n; h++) {
		missing += crew->places[h].expected && !crew->places[h].client;
		registered += crew->roster.seats[h].stage == HVD_STAGE_REGISTERED;
		probing += crew->roster.seats[h].stage == HVD_STAGE_PROBING;
		reported += crew->roster.seats[h].stage == HVD_STAGE_REPORTED;
	}
	if (crew->stage == HVD_CREW_PROBING) {
		if (probing == 0 && reported > 0)
			open_job(crew);
		else if (probing == 0)
			crew->stage = HVD_CREW_GATHERING; /* all of them went */
		return;
	}
	if (missing || !registered)
		return;
	if (!crew->venue.meeting && open_venue(crew, &why) != 0) {
		fail(crew, &why);
		return;
	}
	hvd_venue_admit(&crew->venue, &crew->roster);
	crew->stage = HVD_CREW_PROBING;
	order_probes(crew);
}

/* ---- messages ---- */

/* The host that a registration names; -1: the job has none of that number. */
static int64_t host_of(const struct hvd_crew *crew, const json_t *msg)
{
	int64_t host;

	if (crew->roster.n == 0 || hvd_get_int(msg, "node", 0, crew->roster.n - 1, &host, NULL) != 0)
		return -1;
	return host;
}

static void on_register(struct hvd_crew *crew, struct hvd_client *cl, const json_t *msg)
{
	int64_t host = host_of(crew, msg);
	struct hvd_err why = {0};
	struct hvd_node node;

	if (crew->ended && cl->role == HVD_ROLE_NONE && host >= 0) {
		cl->host = (uint32_t)host;
		dismiss(cl);
		return;
	}
	if (cl->role != HVD_ROLE_NONE)
		return;
	if (host < 0 || !crew->places[host].expected || crew->places[host].client ||
	    hvd_node_from_json(msg, &node, &why) != 0) {
		hvd_client_finish(cl); /* it has been given up in the meantime */
		return;
	}
	crew->roster.nodes[host] = node;
	crew->roster.seats[host].stage = HVD_STAGE_REGISTERED;
	crew->places[host].client = cl;
	cl->role = HVD_ROLE_AGENT;
	cl->host = (uint32_t)host;
	hvd_debug(crew->log, "%s: its shim has registered", crew->places[host].name);
	crew->ops->came(cl->host, crew->arg);
	if (hvd_roster_restrict(&crew->roster, cl->host, crew->opts->nics.v, &why) != 0) {
		lose(crew, cl->host, &why, true);
		return;
	}
	if (crew->stage == HVD_CREW_OPEN) {
		hvd_venue_admit(&crew->venue, &crew->roster);
		order_probe(crew, cl->host);
	}
	look_at_first(crew);
}

static void on_report(struct hvd_crew *crew, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_err why = {0};

	if (hvd_roster_report(&crew->roster, cl->host, msg, &why) != 0) {
		hvd_err_host(&why, crew->places[cl->host].name);
		lose(crew, cl->host, &why, true);
	} else if (crew->stage == HVD_CREW_OPEN) {
		let_in_late(crew, cl->host);
	} else {
		look_at_first(crew);
	}
}

static void on_cannot(struct hvd_crew *crew, struct hvd_client *cl, const json_t *msg)
{
	const char *text, *hint;
	struct hvd_err why = {0};

	if (hvd_get_str(msg, "why", 1024, &text, &why) == 0 && hvd_get_str(msg, "hint", 512, &hint, &why) == 0) {
		hvd_err_set(&why, HVD_E_FAILED, "%s", text);
		if (*hint)
			hvd_err_hint(&why, "%s", hint);
	}
	hvd_err_host(&why, crew->places[cl->host].name);
	lose(crew, cl->host, &why, true);
}

static void on_exit_message(struct hvd_crew *crew, const json_t *msg)
{
	int64_t worker, status;

	if (hvd_get_int(msg, "worker", 0, UINT32_MAX, &worker, NULL) == 0 &&
	    hvd_get_int(msg, "status", 0, 0xffff, &status, NULL) == 0)
		crew->ops->exited((uint32_t)worker, (int)status, crew->arg);
}

static void on_notified(struct hvd_crew *crew, const json_t *msg)
{
	const char *why;
	int64_t worker;

	if (hvd_get_int(msg, "worker", 0, UINT32_MAX, &worker, NULL) == 0 &&
	    hvd_get_str(msg, "why", 1024, &why, NULL) == 0)
		crew->ops->notified((uint32_t)worker, why, crew->arg);
}

static void on_cut(struct hvd_crew *crew, uint32_t host, const json_t *msg)
{
	const char *why;
	int64_t n;

	if (hvd_get_int(msg, "n", 0, INT_MAX, &n, NULL) == 0 && hvd_get_str(msg, "why", 1024, &why, NULL) == 0)
		crew->ops->cut(host, (int)n, why, crew->arg);
}

static void on_message(struct hvd_client *cl, json_t *msg, void *arg)
{
	struct hvd_crew *crew = arg;
	const char *type;

	if (crew->stage == HVD_CREW_OVER || hvd_get_str(msg, "t", 16, &type, NULL) != 0)
		return;
	if (strcmp(type, "register") == 0)
		on_register(crew, cl, msg);
	else if (cl->role != HVD_ROLE_AGENT)
		return;
	else if (strcmp(type, "report") == 0)
		on_report(crew, cl, msg);
	else if (strcmp(type, "cannot") == 0)
		on_cannot(crew, cl, msg);
	else if (strcmp(type, "exit") == 0)
		on_exit_message(crew, msg);
	else if (strcmp(type, "output-lost") == 0)
		crew->ops->output_lost(crew->arg);
	else if (strcmp(type, "notified") == 0)
		on_notified(crew, msg);
	else if (strcmp(type, "cut") == 0)
		on_cut(crew, cl->host, msg);
}

static void on_gone(struct hvd_client *cl, const struct hvd_err *why, void *arg)
{
	struct hvd_crew *crew = arg;
	struct hvd_err lost = {0};
	uint32_t host = cl->host;

	if (cl->role == HVD_ROLE_FORMER) {
		if (crew->places[host].client == cl)
			crew->places[host].client = NULL;
		crew->ops->left(host, crew->arg);
	}
	if (cl->role != HVD_ROLE_AGENT || crew->stage == HVD_CREW_OVER)
		return;
	hvd_err_set(&lost, HVD_E_NET, "the connection to its shim was lost%s%s", why->code ? ": " : "",
		    why->code ? why->msg : "");
	hvd_err_host(&lost, crew->places[host].name);
	crew->places[host].client = NULL; /* released after this */
	lose(crew, host, &lost, false);
}

static void on_first(void *arg)
{
	(void)arg;
}

/* ---- what is asked of it ---- */

void hvd_crew_expect(struct hvd_crew *crew, uint32_t host, const char *name)
{
	uint32_t had = crew->roster.n;

	hvd_roster_grow(&crew->roster, host + 1);
	if (host >= had) {
		crew->places = hvd_xrealloc(crew->places, host + 1, sizeof(*crew->places));
		memset(&crew->places[had], 0, (host + 1 - had) * sizeof(*crew->places));
		for (int k = 0; k < crew->plan.networks.n; k++) {
			uint8_t **iface = &crew->plan.networks.v[k].iface;

			*iface = hvd_xrealloc(*iface, host + 1, 1);
			memset(*iface + had, 0, host + 1 - had);
		}
		if (crew->plan.endpoint) {
			crew->plan.endpoint = hvd_xrealloc(crew->plan.endpoint, host + 1, 1);
			memset(crew->plan.endpoint + had, 0xff, host + 1 - had);
		}
	}
	free(crew->places[host].name);
	crew->places[host].name = hvd_xstrdup(name);
	crew->places[host].expected = true;
	crew->places[host].deadline = hvd_deadline_in(crew->opts->start_timeout);
	set_timer(crew);
}

void hvd_crew_forget(struct hvd_crew *crew, uint32_t host)
{
	if (host >= crew->roster.n || !crew->places[host].expected)
		return;
	drop(crew, host);
	look_at_first(crew);
}

bool hvd_crew_is_here(const struct hvd_crew *crew, uint32_t host)
{
	return host < crew->roster.n && crew->places[host].here;
}

void hvd_crew_boot(const struct hvd_crew *crew, struct hvd_boot *boot)
{
	hvd_clients_boot(crew->clients, &crew->self, crew->opts, boot);
}

struct hvd_crew *hvd_crew_create(struct event_base *base, const struct hvd_driver_opts *opts,
				 struct hvd_session *session, const struct hvd_crew_ops *ops, void *arg,
				 const struct hvd_log *log, struct hvd_err *err)
{
	static const struct hvd_clients_ops clients_ops = {on_first, on_message, on_gone};
	struct hvd_crew *crew = hvd_xcalloc(1, sizeof(*crew));

	crew->base = base;
	crew->opts = opts;
	crew->session = session;
	crew->ops = ops;
	crew->arg = arg;
	crew->log = log;
	crew->timer = evtimer_new(base, on_timer, crew);
	if (hvd_self_find(&crew->self, HVD_BOOT_MAX_ADDRS, opts->loopback, opts->nics.v, err) == 0 &&
	    (crew->clients = hvd_clients_create(base, session, opts->loopback, opts->port_lo, opts->port_hi,
						&clients_ops, crew, log, err)))
		return crew;
	hvd_crew_destroy(crew);
	return NULL;
}

void hvd_crew_destroy(struct hvd_crew *crew)
{
	if (!crew)
		return;
	hvd_clients_destroy(crew->clients);
	event_free(crew->timer);
	hvd_venue_close(&crew->venue);
	hvd_plan_clear(&crew->plan);
	hvd_layout_clear(&crew->layout);
	for (uint32_t h = 0; h < crew->roster.n; h++)
		free(crew->places[h].name);
	free(crew->places);
	hvd_roster_clear(&crew->roster);
	hvd_self_clear(&crew->self);
	free(crew);
}
