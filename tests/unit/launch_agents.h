/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch_agents.h - a static job and simulated agents that speak the real protocol to it, over loopback, in one process.
 *
 * Host 0 is this machine, the others are made up. What an agent reports of its probe is what the test wants it to have
 * seen. The loop ends at the condition that is waited for; a watchdog of ten seconds fails the test. The time is that of
 * test_clock.h.
 */
#ifndef HVD_TESTS_LAUNCH_AGENTS_H
#define HVD_TESTS_LAUNCH_AGENTS_H

#include "agent/dial.h"
#include "lib/host/network.h"
#include "lib/protocol/wire.h"
#include "lib/rendezvous/server.h"

#include "loopback.h"
#include "static_job.h"
#include "test_clock.h"
#include "unit.h"

#include <fcntl.h>

#define AGENTS 12

struct agent {
	struct hvd_dial *link;
	struct hvd_conn *conn;
	struct hvd_rv *relay; /* see agent_begin_relay(); NULL = it has not begun */
	struct hvd_session session;
	json_t *hello;     /* what it says first */
	bool unresponsive; /* does not answer the order to probe, nor whether it is there */
	int from_if;       /* the interface that its attempts left by */
	enum hvd_reach to; /* what comes of them */
	json_t *plan, *probe;
	json_t *heard; /* the types of all messages, in order */
	json_t *said;  /* the last message of each type */
	bool down, closed;
	struct hvd_err why;
};

struct launch {
	struct event_base *base;
	struct event *watchdog;
	bool too_long;
	struct hvd_log log;
	struct hvd_launch_spec spec;
	struct hvd_event_log *events;
	struct hvd_driver_opts opts;
	struct hvd_session session;
	struct static_job job;
	struct hvd_boot boot; /* the job's */
	struct hvd_key key;
	struct agent agents[AGENTS];
	int n_agents;
	int exits; /* ends of ranks that the job has logged, and the last one: */
	uint32_t exit_rank;
	int exit_status; /* as a shell has it */
	char exit_host[256];
	int fds_before;
};

static inline void launch_on_watchdog(evutil_socket_t fd, short what, void *arg)
{
	((struct launch *)arg)->too_long = true;
}

static inline void launch_on_event(const struct hvd_event *event, void *arg)
{
	struct launch *l = arg;

	if (event->name != HVD_EV_RANK_ENDED)
		return;
	l->exits++;
	l->exit_rank = (uint32_t)event->rank;
	l->exit_status = (int)event->status;
	snprintf(l->exit_host, sizeof(l->exit_host), "%s", event->host);
}

/* With options as a test wants them; they are changed before launch_start(). */
SETUP(launch_setup, struct launch, l)
{
	struct timeval tv = {.tv_sec = 10};

	l->fds_before = open_fds();
	l->base = event_base_new();
	l->watchdog = evtimer_new(l->base, launch_on_watchdog, l);
	evtimer_add(l->watchdog, &tv);
	l->log = hvd_log_make("test", HVD_LOG_DEBUG);
	l->log.fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	l->spec.deadlines.start = 60;
	l->spec.frameworks = HVD_FW_AUTO;
	l->spec.relay_fan_out = HVD_RELAY_FAN_OUT;
	l->events = hvd_event_log_create("unit", NULL, NULL, NULL);
	hvd_event_log_listen(l->events, launch_on_event, l);
	l->opts = (struct hvd_driver_opts){.spec = &l->spec, .events = l->events, .loopback = true, .id_text = "fd:9"};
	memset(&l->key, 'k', sizeof(l->key));
}

static inline void launch_start(struct launch *l)
{
	struct hvd_identity id = {.kind = HVD_ID_KEY, .key = l->key};
	struct hvd_err err = {0};

	assert_int_equal(hvd_session_create(&l->session, &id, &err), 0);
	if (static_job_create(&l->job, l->base, &l->opts, &l->session, &l->log, &err) != 0)
		fail_msg("%s", err.msg);
	l->boot = l->job.boot;
}

static inline int launch_teardown(void **state)
{
	struct launch *l = *state;
	int leaked;

	for (int i = 0; i < l->n_agents; i++) {
		struct agent *s = &l->agents[i];

		hvd_dial_destroy(s->link);
		hvd_rv_destroy(s->relay);
		hvd_conn_free(s->conn);
		json_decref(s->hello);
		json_decref(s->plan);
		json_decref(s->probe);
		json_decref(s->heard);
		json_decref(s->said);
	}
	static_job_destroy(&l->job);
	hvd_event_log_destroy(l->events);
	hvd_strv_free(&l->spec.interfaces);
	hvd_strv_free(&l->opts.extra_env);
	hvd_strv_free(&l->opts.names);
	event_free(l->watchdog);
	while (event_base_loop(l->base, EVLOOP_NONBLOCK) == 0) /* goodbyes on their way out */
		test_clock += 1000000;
	event_base_free(l->base);
	close(l->log.fd);
	leaked = open_fds() - l->fds_before;
	free(l);
	if (leaked)
		print_error("%d descriptors were not closed\n", leaked);
	return leaked ? -1 : 0;
}

/* ---- shims ---- */

static inline void agent_report(struct agent *s, const json_t *order)
{
	json_t *edges = json_array(), *target, *entry, *report;
	size_t i, a;

	json_array_foreach(json_object_get(order, "targets"), i, target)
	{
		json_array_foreach(json_object_get(target, "a"), a, entry)
		{
			json_array_append_new(edges, json_pack("[O,i,i,i,i]", json_object_get(target, "n"), (int)a,
							       s->from_if, (int)s->to, 50));
		}
	}
	report = json_pack("{s:s, s:o}", "t", "report", "edges", edges);
	if (json_object_get(order, "preflight"))
		json_object_set_new(report, "preflight", json_object());
	hvd_conn_send(s->conn, report);
}

static inline void agent_on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct agent *s = arg;
	const char *type = json_string_value(json_object_get(msg, "t"));

	json_array_append(s->heard, json_object_get(msg, "t"));
	json_object_set(s->said, type, msg);
	if (strcmp(type, "plan") == 0) {
		s->plan = json_incref(msg);
	} else if (strcmp(type, "probe") == 0) {
		json_decref(s->probe); /* of the round before */
		s->probe = json_incref(msg);
		if (!s->unresponsive)
			agent_report(s, msg);
	} else if (strcmp(type, "ping") == 0 && !s->unresponsive) {
		hvd_conn_send(conn, json_pack("{s:s}", "t", "pong"));
	}
}

static inline void agent_on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct agent *s = arg;

	if (s->relay)
		hvd_rv_relay_up(s->relay, NULL);
	hvd_conn_free(conn);
	s->conn = NULL;
	s->closed = true;
}

static inline void agent_on_up(struct hvd_conn *conn, void *arg)
{
	static const struct hvd_conn_ops ops = {.message = agent_on_message, .closed = agent_on_closed};
	struct agent *s = arg;

	s->conn = conn;
	hvd_conn_set_ops(conn, &ops, s);
	hvd_conn_send(conn, json_incref(s->hello));
}

static inline void agent_on_down(const struct hvd_err *why, void *arg)
{
	struct agent *s = arg;

	s->down = true;
	s->why = *why;
}

/* Connects, and says `hello` (taken over) as soon as it may. */
static inline struct agent *agent_connect(struct launch *l, json_t *hello)
{
	struct agent *s = &l->agents[l->n_agents++];

	assert_true(l->n_agents <= AGENTS);
	assert_non_null(hello);
	s->hello = hello;
	s->heard = json_array();
	s->said = json_object();
	memcpy(s->session.id, l->boot.session, sizeof(s->session.id));
	s->session.identity = (struct hvd_identity){.kind = HVD_ID_KEY, .key = l->key};
	hvd_session_bind_key(&s->session);
	s->link = hvd_dial_create(l->base, &l->boot, &s->session, hvd_deadline_in(60), agent_on_up, agent_on_down, s);
	return s;
}

/* What host `i` of `n` registers: `per_host` ranks in blocks, eth0 and, where asked for, ib0; a relay at port 4001 +
 * i. */
static inline json_t *registration(int i, int n, int per_host, bool ib)
{
	json_t *ranks = json_array(), *ifaces = json_array();
	struct hvd_host_info self = {0};
	char name[16], addr[32], machine[HVD_MACHINE_LEN + 1];

	for (int r = 0; r < per_host; r++)
		json_array_append_new(ranks, json_integer(i * per_host + r));
	snprintf(name, sizeof(name), "node%d", i);
	snprintf(machine, sizeof(machine), "%032d", i);
	if (i == 0) {
		assert_int_equal(hvd_machine_id(self.machine, NULL), 0);
		memcpy(machine, self.machine, sizeof(machine));
	}
	if (ib) {
		snprintf(addr, sizeof(addr), "10.1.0.%d", i + 1);
		json_array_append_new(ifaces, json_pack("{s:s, s:s, s:i, s:i, s:i, s:[s]}", "n", "ib0", "k",
							"infiniband", "s", 100000, "r", 1, "u", -1, "a", addr));
	}
	snprintf(addr, sizeof(addr), "%s.%d", i ? "10.0.0" : "127.0.0", i + 1);
	json_array_append_new(ifaces, json_pack("{s:s, s:s, s:i, s:i, s:i, s:[s]}", "n", "eth0", "k", "ethernet", "s",
						1000, "r", 9, "u", -1, "a", addr));
	return json_pack("{s:s, s:i, s:i, s:i, s:s, s:s, s:s, s:o, s:i, s:i, s:o, s:s}", "t", "register", "node", i,
			 "nodes", n, "size", n * per_host, "name", name, "host", name, "machine", machine, "ranks",
			 ranks, "port", 4000 + i, "relay", 4001 + i, "ifaces", ifaces, "dropped", "");
}

static inline bool agent_heard(const struct agent *s, const char *type)
{
	json_t *entry;
	size_t i;

	json_array_foreach(s->heard, i, entry)
	{
		if (strcmp(json_string_value(entry), type) == 0)
			return true;
	}
	return false;
}

/* The host has its plan: its relay begins, at a port of loopback that is not the one of the registration. Returns
 * it. */
static inline in_port_t agent_begin_relay(struct launch *l, struct agent *s)
{
	static const char *const loopback[] = {"127.0.0.1"};
	const json_t *plan = json_object_get(s->plan, "relay");
	struct hvd_rv_config cfg;

	hvd_rv_config_init(&cfg);
	cfg.tcpstore = true;
	cfg.relay = true;
	cfg.relay_id = (uint32_t)json_integer_value(json_object_get(plan, "relay_id"));
	assert_int_equal(hvd_addr_parse(json_string_value(json_object_get(plan, "addr")), &cfg.relay_addr), 0);
	s->relay = hvd_rv_create(l->base, &cfg, NULL, NULL);
	assert_non_null(s->relay);
	assert_int_equal(hvd_rv_listen(s->relay, loopback, 1, 0, 0, NULL), 0);
	hvd_rv_relay_share(s->relay, s->conn);
	return hvd_rv_port(s->relay);
}

/* Run the loop, and let the time pass, until the condition holds. */
#define until(l, condition)                                                                                            \
	while (!(condition)) {                                                                                         \
		usleep(20);                                                                                            \
		test_clock_pass((l)->base, 0.001);                                                                     \
		assert_false((l)->too_long);                                                                           \
	}

#endif
