/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include "clients.h"
#include "lib/base/xalloc.h"
#include "lib/job/this_host.h"
#include "lib/process/rlimits.h"
#include "node_table.h"
#include "plan_delivery.h"
#include "planner.h"
#include "rank_ends.h"
#include "rendezvous_service.h"
#include "startclock.h"
#include "trace.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A shim that goes during the start is likely one of a launch being cancelled: its end is told only when nothing
 * else has ended the launch in the meantime. */
#define LOST_SECONDS 1.0
/* A rendezvous server that was killed with its step: srun may take so long to end. */
#define SERVER_LOST_SECONDS 5.0
/* Descriptors for all else than the hosts' connections. */
#define OTHER_FILES 32

struct hvd_driver {
	struct event_base *base;
	const struct hvd_driver_opts *opts;
	struct hvd_session *session;
	const struct hvd_driver_ops *ops;
	void (*host_came)(uint32_t host, void *arg);
	void (*all_ended)(const struct hvd_strv *without_munge, void *arg);
	int (*meeting_open)(struct hvd_rv *rv, void *arg, struct hvd_err *err);
	void *arg;
	const struct hvd_log *log;

	struct hvd_this_host self; /* to tell whether this host is one of the job's, and where it can be reached */

	struct hvd_clients *clients;
	struct hvd_startclock *clock;
	hvd_time began;
	struct event *lost;
	struct hvd_err lost_why;

	struct hvd_node_table table;
	struct hvd_rv_service service;
	struct hvd_plan plan;
	struct hvd_plan_delivery delivery; /* once there is a plan */
	struct hvd_rank_ends ends;         /* … and all shims stay connected */
	bool have_plan, started, over, output_lost, rank_failed;
};

static void write_trace(const struct hvd_driver *dr)
{
	struct hvd_err err = {0};

	if (dr->opts->spec->trace && hvd_trace_write(dr->opts->spec->trace, &dr->table, dr->began, &err) != 0)
		hvd_log_err(dr->log, &err);
}

static void fail(struct hvd_driver *dr, const struct hvd_err *why)
{
	if (dr->over)
		return;
	dr->over = true;
	hvd_startclock_stop(dr->clock);
	event_del(dr->lost);
	hvd_clients_stop_listening(dr->clients);
	hvd_clients_tell(dr->clients, why->code == HVD_E_USAGE ? "misused" : "failed");
	write_trace(dr);
	dr->ops->failed(why, dr->arg);
}

/* ---- probe ---- */

static void order_probe(struct hvd_driver *dr)
{
	int ms = hvd_probe_patience(dr->table.rounds);
	uint32_t n, *hosts;

	if (ms > hvd_startclock_left_ms(dr->clock) / 2)
		ms = hvd_startclock_left_ms(dr->clock) / 2 + 1;
	hosts = hvd_node_table_list(&dr->table, HVD_STAGE_REGISTERED, &n);
	for (struct hvd_client *cl = hvd_clients_first(dr->clients); cl; cl = hvd_clients_next(cl)) {
		if (cl->role != HVD_ROLE_AGENT)
			continue;
		hvd_conn_send(cl->conn, hvd_probe_order(&dr->table, hosts, n, cl->host, &dr->service.endpoints, ms));
		hvd_node_table_enter(&dr->table, cl->host, HVD_STAGE_PROBING);
		dr->table.hosts[cl->host].probed_at = hvd_now();
	}
	free(hosts);
}

/* Once more, and time is left for another after it. */
static bool may_probe_again(const struct hvd_driver *dr)
{
	int round = dr->table.rounds + 1;

	return round < HVD_PROBE_ROUNDS && hvd_startclock_left_ms(dr->clock) > 2 * hvd_probe_patience(round);
}

/* ---- plan ---- */

static void maybe_started(struct hvd_driver *dr)
{
	if (dr->started || !hvd_plan_delivery_complete(&dr->delivery))
		return;
	dr->started = true;
	hvd_startclock_stop(dr->clock);
	write_trace(dr);
	hvd_verbose(dr->log, "all %d ranks have their plan after %.3f s", dr->plan.layout.size,
		    (double)(hvd_now() - dr->began) / 1e9);
	dr->ops->started(dr->arg);
}

static void make_plan(struct hvd_driver *dr)
{
	struct hvd_err why = {0};
	int rc;

	dr->plan.mpi = dr->opts->spec->mpi.on;
	rc = hvd_plan_make(&dr->plan, &dr->table, &dr->service.endpoints, may_probe_again(dr), dr->log, &why);
	if (rc > 0) {
		hvd_verbose(dr->log, "some hosts got no answer over IPv4, or from the rendezvous: probing again");
		hvd_node_table_probe_again(&dr->table);
		order_probe(dr);
		return;
	}
	if (rc < 0) {
		fail(dr, &why);
		return;
	}
	dr->have_plan = true;
	hvd_plan_delivery_begin(&dr->delivery, dr->opts, &dr->plan, &dr->table, dr->log);
	if (hvd_plan_delivery_keeps_all(&dr->delivery))
		hvd_rank_ends_begin(&dr->ends, &dr->plan.layout);
	hvd_rv_service_settle(&dr->service, &dr->plan, &dr->table);
	/* The edges have done their work, and are the largest thing there is. */
	free(dr->table.edges);
	dr->table.edges = NULL;
	dr->table.n_edges = dr->table.edges_room = 0;
	hvd_plan_delivery_send_all(&dr->delivery, dr->clients);
	maybe_started(dr);
}

static void begin_probe(struct hvd_driver *dr)
{
	/* On one machine there is nothing to find out, unless the rendezvous is elsewhere. */
	if (dr->service.endpoints.host >= 0 && hvd_node_table_one_machine(&dr->table, HVD_STAGE_REGISTERED))
		make_plan(dr);
	else
		order_probe(dr);
}

/* ---- rendezvous ---- */

/* Which host of the job is this one? -1: none. */
static int32_t own_index(const struct hvd_driver *dr)
{
	for (uint32_t h = 0; h < dr->table.n; h++)
		if (strcmp(dr->table.hosts[h].node.machine, dr->self.machine) == 0)
			return (int32_t)h;
	return -1;
}

static void begin_meeting(struct hvd_driver *dr)
{
	enum hvd_rendezvous_at at = dr->opts->rendezvous_here ? HVD_RENDEZVOUS_LAUNCH : dr->opts->spec->rendezvous;
	int32_t host = own_index(dr);
	struct hvd_err why = {0};

	if (at == HVD_RENDEZVOUS_LAUNCH || (at == HVD_RENDEZVOUS_AUTO && host >= 0) ||
	    (at == HVD_RENDEZVOUS_BATCH && host == 0)) {
		hvd_verbose(dr->log, "the rendezvous server runs on %s, with the driver", dr->self.host);
		if (hvd_rv_service_open(&dr->service, dr->base, &dr->session->key, &dr->self, dr->opts->port_lo,
					dr->opts->port_hi, host, dr->log, &why) != 0 ||
		    (dr->meeting_open && dr->meeting_open(dr->service.rv, dr->arg, &why) != 0)) {
			fail(dr, &why);
			return;
		}
		hvd_rv_service_admit_nodes(&dr->service, &dr->table);
		begin_probe(dr);
		return;
	}
	hvd_verbose(dr->log, "the rendezvous server runs on %s", dr->table.hosts[0].node.name);
	for (struct hvd_client *cl = hvd_clients_first(dr->clients); cl; cl = hvd_clients_next(cl))
		if (cl->role == HVD_ROLE_AGENT && cl->host == 0)
			hvd_conn_send(cl->conn, json_pack("{s:s}", "t", "serve"));
}

static void on_serving(struct hvd_driver *dr, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_err why = {0};
	int64_t port;

	if (hvd_rv_service_is_open(&dr->service) || !dr->table.n ||
	    hvd_node_table_count(&dr->table, HVD_STAGE_REGISTERED) < dr->table.n ||
	    hvd_get_int(msg, "port", 1, 65535, &port, &why) != 0) {
		hvd_client_finish(cl);
		return;
	}
	cl->role = HVD_ROLE_SERVER;
	hvd_rv_service_elsewhere(&dr->service, cl->conn, &dr->table.hosts[0].node, (in_port_t)port);
	hvd_rv_service_admit_nodes(&dr->service, &dr->table);
	begin_probe(dr);
}

/* ---- messages ---- */

static void on_register(struct hvd_driver *dr, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_err why = {0};

	if (cl->role != HVD_ROLE_NONE) {
		hvd_err_set(&why, HVD_E_PROTO, "a node agent registers a second time");
		if (cl->role == HVD_ROLE_AGENT)
			hvd_err_host(&why, dr->table.hosts[cl->host].node.name);
		fail(dr, &why);
		return;
	}
	if (hvd_node_table_register(&dr->table, msg, &cl->host, &why) != 0 ||
	    hvd_node_table_restrict(&dr->table, cl->host, dr->opts->spec->interfaces.v, &why) != 0) {
		fail(dr, &why);
		return;
	}
	cl->role = HVD_ROLE_AGENT;
	cl->all = dr->opts->mode == HVD_START_HOSTS || json_is_true(json_object_get(msg, "all"));
	cl->rank = dr->table.hosts[cl->host].node.n_ranks ? dr->table.hosts[cl->host].node.ranks[0] : 0;
	hvd_debug(dr->log, "%s has registered (%u of %u)", dr->table.hosts[cl->host].node.name,
		  hvd_node_table_count(&dr->table, HVD_STAGE_REGISTERED), dr->table.n);
	if (dr->host_came)
		dr->host_came(cl->host, dr->arg);
	if (!dr->over && hvd_node_table_count(&dr->table, HVD_STAGE_REGISTERED) == dr->table.n)
		begin_meeting(dr);
}

static void on_join(struct hvd_driver *dr, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_err why = {0};
	int64_t host, rank;

	if (cl->role != HVD_ROLE_NONE || hvd_get_int(msg, "node", 0, UINT32_MAX, &host, &why) != 0 ||
	    hvd_get_int(msg, "rank", 0, UINT32_MAX, &rank, &why) != 0) {
		hvd_client_finish(cl);
		return;
	}
	cl->role = HVD_ROLE_RANK;
	cl->host = (uint32_t)host;
	cl->rank = (uint32_t)rank;
	if (!dr->have_plan)
		return;
	hvd_plan_delivery_send(&dr->delivery, cl);
	maybe_started(dr);
}

static void on_report(struct hvd_driver *dr, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_err why = {0};

	if (cl->role != HVD_ROLE_AGENT)
		return;
	if (hvd_node_table_report(&dr->table, cl->host, msg, &why) != 0) {
		hvd_err_host(&why, dr->table.hosts[cl->host].node.name);
		fail(dr, &why);
		return;
	}
	if (hvd_node_table_count(&dr->table, HVD_STAGE_REPORTED) == dr->table.n)
		make_plan(dr);
}

static void on_cannot(struct hvd_driver *dr, struct hvd_client *cl, const json_t *msg)
{
	const char *host, *text, *hint;
	struct hvd_err why = {0};

	(void)cl;
	if (hvd_get_str(msg, "host", 255, &host, &why) == 0 && hvd_get_str(msg, "why", 1024, &text, &why) == 0 &&
	    hvd_get_str(msg, "hint", 512, &hint, &why) == 0) {
		hvd_err_set(&why, HVD_E_FAILED, "%s", text);
		if (*hint)
			hvd_err_hint(&why, "%s", hint);
		hvd_err_host(&why, host);
	}
	fail(dr, &why);
}

static void on_exit_message(struct hvd_driver *dr, struct hvd_client *cl, const json_t *msg)
{
	int64_t rank, status;
	const char *host = "?";

	(void)cl;
	if (!dr->have_plan || hvd_get_int(msg, "rank", 0, dr->plan.layout.size - 1, &rank, NULL) != 0 ||
	    hvd_get_int(msg, "status", 0, 0xffff, &status, NULL) != 0)
		return;
	dr->rank_failed |= status != 0;
	dr->table.hosts[dr->plan.layout.rank_slots[rank].host].ended++;
	host = dr->plan.layout.hosts[dr->plan.layout.rank_slots[rank].host].name;
	dr->ops->rank_exit((uint32_t)rank, host, (int)status, dr->arg);
}

static void add_end(struct hvd_driver *dr, uint32_t rank)
{
	if (dr->all_ended && hvd_rank_ends_add(&dr->ends, rank))
		dr->all_ended(&dr->ends.without_munge, dr->arg);
}

static void on_done(struct hvd_driver *dr, struct hvd_client *cl, const json_t *msg)
{
	char buf[32];

	if (cl->role == HVD_ROLE_AGENT && dr->have_plan)
		dr->table.hosts[cl->host].done = true;
	if ((cl->role == HVD_ROLE_AGENT || cl->role == HVD_ROLE_RANK) && dr->have_plan) {
		if (json_is_false(json_object_get(msg, "munge")))
			hvd_rank_ends_without_munge(&dr->ends, hvd_node_table_name(&dr->table, cl->host, buf));
		add_end(dr, cl->rank);
	}
	if (cl->role == HVD_ROLE_SERVER && dr->have_plan) {
		cl->role = HVD_ROLE_FORMER;
		hvd_rv_service_lost(&dr->service, cl->conn);
	}
}

static void on_output_lost(struct hvd_driver *dr, struct hvd_client *cl, const json_t *msg)
{
	(void)cl;
	(void)msg;
	dr->output_lost = true;
}

/* The host's ranks are being ended; `why` is not a matter of the start any longer. */
static void on_orphan(struct hvd_driver *dr, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_err why = {0};
	const char *parent;
	char buf[32];

	if (!dr->have_plan || (cl->role != HVD_ROLE_AGENT && cl->role != HVD_ROLE_RANK) ||
	    hvd_get_str(msg, "parent", 31, &parent, NULL) != 0)
		return;
	hvd_err_set(&why, HVD_E_FAILED, "%s ended before the ranks that it had started", parent);
	dr->ops->host_gone(hvd_node_table_name(&dr->table, cl->host, buf), &why, dr->arg);
}

static void on_message(struct hvd_client *cl, json_t *msg, void *arg)
{
	static const struct {
		const char *type;
		void (*fn)(struct hvd_driver *dr, struct hvd_client *cl, const json_t *msg);
	} known[] = {
		{"register", on_register}, {"join", on_join},     {"report", on_report},
		{"serving", on_serving},   {"cannot", on_cannot}, {"exit", on_exit_message},
		{"done", on_done},         {"orphan", on_orphan}, {"output-lost", on_output_lost},
	};
	struct hvd_driver *dr = arg;
	const char *type;

	if (dr->over || hvd_get_str(msg, "t", 16, &type, NULL) != 0)
		return;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(known[i].type, type) == 0) {
			known[i].fn(dr, cl, msg);
			return;
		}
}

/* After the start. A killed shim's rank has gone with it, and the backend sees that. */
static void on_gone_later(struct hvd_driver *dr, const struct hvd_client *cl, const struct hvd_err *why)
{
	const struct hvd_node_agent *state = &dr->table.hosts[cl->host];
	char buf[32];

	if (cl->role == HVD_ROLE_AGENT ? !state->done && state->ended < dr->table.hosts[cl->host].node.n_ranks
				       : why->code == HVD_E_TIMEOUT)
		dr->ops->host_gone(hvd_node_table_name(&dr->table, cl->host, buf), why, dr->arg);
	add_end(dr, cl->rank);
}

static void on_gone(struct hvd_client *cl, const struct hvd_err *why, void *arg)
{
	struct hvd_driver *dr = arg;
	struct timeval tv = {.tv_sec = (time_t)(dr->have_plan ? SERVER_LOST_SECONDS : LOST_SECONDS)};
	const char *host;
	char buf[32];

	if (dr->have_plan && (cl->role == HVD_ROLE_AGENT || cl->role == HVD_ROLE_RANK)) {
		on_gone_later(dr, cl, why);
		return;
	}
	if (cl->role != HVD_ROLE_AGENT && cl->role != HVD_ROLE_SERVER)
		return;
	hvd_rv_service_lost(&dr->service, cl->conn);
	host = hvd_node_table_name(&dr->table, cl->host, buf);
	if (!dr->over && !dr->lost_why.code) {
		hvd_err_set(&dr->lost_why, HVD_E_FAILED, "%s%s%s",
			    cl->role == HVD_ROLE_SERVER ? "the rendezvous server has ended"
							: "its node agent ended before the start was complete",
			    why->code ? ": " : "", why->code ? why->msg : "");
		hvd_err_host(&dr->lost_why, host);
		evtimer_add(dr->lost, &tv);
	}
}

static void on_first(void *arg)
{
	struct hvd_driver *dr = arg;

	hvd_startclock_run(dr->clock, dr->self.host, hvd_clients_port(dr->clients));
}

/* ---- life ---- */

static void on_late(const struct hvd_err *why, void *arg)
{
	fail(arg, why);
}

static void on_lost(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_driver *dr = arg;

	(void)fd;
	(void)what;
	if (!dr->have_plan) {
		fail(dr, &dr->lost_why);
	} else {
		/* After a failed rank it is likely that its step was ended, which may take long elsewhere. */
		hvd_log(dr->log, dr->rank_failed ? HVD_LOG_VERBOSE : HVD_LOG_WARN,
			"%s: %s; ranks that are already connected go on", dr->lost_why.host, dr->lost_why.msg);
		dr->lost_why.code = HVD_OK;
	}
}

/* Each host's agent has a connection, and all of them are there at once. */
static int check_room(const struct hvd_driver_opts *opts, struct hvd_err *err)
{
	unsigned long files = hvd_nofile();

	if (opts->hosts + OTHER_FILES <= files)
		return 0;
	hvd_err_set(err, HVD_E_LIMIT, "%u hosts need a connection each, and this process may open %lu files",
		    (unsigned)opts->hosts, files);
	return hvd_err_hint(err,
			    "raise the limit where the launch begins to more than %u: ulimit -Hn, or LimitNOFILE= "
			    "of the service that it runs in",
			    (unsigned)opts->hosts + OTHER_FILES);
}

struct hvd_driver *hvd_driver_create(struct event_base *base, const struct hvd_driver_opts *opts,
				     struct hvd_session *session, const struct hvd_driver_ops *ops, void *arg,
				     const struct hvd_log *log, struct hvd_err *err)
{
	static const struct hvd_clients_ops clients_ops = {on_first, on_message, on_gone};
	struct hvd_driver *dr = hvd_xcalloc(1, sizeof(*dr));

	dr->base = base;
	dr->opts = opts;
	dr->session = session;
	dr->ops = ops;
	dr->arg = arg;
	dr->log = log;
	dr->began = hvd_now();
	hvd_node_table_init(&dr->table, opts->hosts, opts->ranks);
	for (uint32_t h = 0; h < opts->names.n; h++)
		hvd_node_table_expect(&dr->table, h, opts->names.v[h]);
	dr->clock = hvd_startclock_create(base, opts, &dr->table, on_late, dr, log);
	dr->lost = evtimer_new(base, on_lost, dr);
	if (check_room(opts, err) != 0 ||
	    hvd_this_host_query(&dr->self, HVD_BOOT_MAX_ADDRS, opts->loopback, opts->spec->interfaces.v, err) != 0 ||
	    !(dr->clients = hvd_clients_create(base, session, opts->loopback, opts->port_lo, opts->port_hi,
					       &clients_ops, dr, log, err))) {
		hvd_driver_destroy(dr);
		return NULL;
	}
	if (opts->mode != HVD_START_RANKS)
		on_first(dr);
	return dr;
}

void hvd_driver_watch_hosts(struct hvd_driver *dr, void (*came)(uint32_t host, void *arg))
{
	dr->host_came = came;
}

void hvd_driver_watch_ends(struct hvd_driver *dr, void (*all_ended)(const struct hvd_strv *without_munge, void *arg))
{
	dr->all_ended = all_ended;
}

char *hvd_driver_hosts_behind(const struct hvd_driver *dr)
{
	return hvd_rank_ends_behind(&dr->ends);
}

void hvd_driver_lose_host(struct hvd_driver *dr, const char *host)
{
	if (hvd_rank_ends_add_host(&dr->ends, host) && dr->all_ended)
		dr->all_ended(&dr->ends.without_munge, dr->arg);
}

void hvd_driver_watch_meeting(struct hvd_driver *dr, int (*opened)(struct hvd_rv *rv, void *arg, struct hvd_err *err))
{
	dr->meeting_open = opened;
}

bool hvd_driver_output_lost(const struct hvd_driver *dr)
{
	return dr->output_lost;
}

const struct hvd_layout *hvd_driver_layout(const struct hvd_driver *dr)
{
	return dr->have_plan ? &dr->plan.layout : NULL;
}

void hvd_driver_give_up(struct hvd_driver *dr, const struct hvd_err *why)
{
	fail(dr, why);
}

void hvd_driver_boot(const struct hvd_driver *dr, struct hvd_boot *boot)
{
	hvd_clients_boot(dr->clients, &dr->self, dr->opts, boot);
}

void hvd_driver_end_ranks(struct hvd_driver *dr)
{
	hvd_clients_tell(dr->clients, "end");
}

void hvd_driver_signal_ranks(struct hvd_driver *dr, int sig)
{
	for (struct hvd_client *cl = hvd_clients_first(dr->clients); cl; cl = hvd_clients_next(cl))
		if (cl->role == HVD_ROLE_AGENT || cl->role == HVD_ROLE_RANK)
			hvd_conn_send(cl->conn, json_pack("{s:s, s:i}", "t", "signal", "sig", sig));
}

void hvd_driver_destroy(struct hvd_driver *dr)
{
	if (!dr)
		return;
	hvd_clients_destroy(dr->clients);
	hvd_startclock_destroy(dr->clock);
	event_free(dr->lost);
	hvd_rv_service_close(&dr->service);
	hvd_plan_clear(&dr->plan);
	hvd_node_table_clear(&dr->table);
	hvd_this_host_clear(&dr->self);
	hvd_plan_delivery_clear(&dr->delivery);
	hvd_rank_ends_clear(&dr->ends);
	free(dr);
}
