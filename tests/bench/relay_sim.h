/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay_sim.h - simulated relays: connections to a parent that say what real relays of so many hosts would say while
 * their ranks make a mesh of Gloo contexts, and throw away what they get.
 *
 * One stands for a relay with the ranks of one host, or for an inner relay with those of all hosts below it: it PUTs
 * their values, watches each key that they read, once, and DELETEs the values at the end.
 */
#ifndef HVD_BENCH_RELAY_SIM_H
#define HVD_BENCH_RELAY_SIM_H

#include "lib/protocol/conn.h"
#include "lib/rendezvous/relay_wire.h"
#include "mesh.h"
#include "tests/unit/relay_node.h"

#include <stdio.h>
#include <stdlib.h>

struct sim_relay {
	struct sim *sim;
	struct hvd_boot parent;
	struct hvd_session session;
	struct hvd_dial *link;
	struct hvd_conn *conn;
	int first, n;              /* its ranks */
	unsigned expected, values; /* of watches */
	unsigned calls, answers;   /* that are under way, and that have come */
};

struct sim {
	struct event_base *base;
	int total, per_host;
	size_t body_len; /* 0: as long as Gloo's */
	struct hvd_rv_budget budget;
	struct sim_relay *relays;
	size_t n;
	size_t complete; /* relays that have got all values */
	bool over;       /* connections that end are no error any longer */
};

static inline struct hvd_slice sim_key(char room[32], const char *prefix, int rank)
{
	return (struct hvd_slice){room, (size_t)snprintf(room, 32, "%s%d", prefix, rank)};
}

static inline void sim_call(struct sim_relay *r, enum hvd_store_op_kind kind, int rank, const char *prefix,
			    struct hvd_rv_value *value)
{
	char room[32];
	struct hvd_relay_msg msg = {
		.type = HVD_RELAY_CALL,
		.relay_id = (uint32_t)(1 + rank / r->sim->per_host),
		.call = ++r->calls,
		.op = {.kind = kind, .scope.name = {"global", 6}, .key = sim_key(room, prefix, rank), .value = value},
	};

	msg.done = r->answers + 1; /* answers come in the order of calls */
	hvd_relay_send(r->conn, HVD_CHANNEL_STORE, &msg);
}

static inline void sim_put(struct sim_relay *r, int rank, const char *prefix, const void *data, size_t len)
{
	enum hvd_rv_stored why;
	struct hvd_rv_value *value = hvd_rv_value_new(&r->sim->budget, data, len, &why);

	if (!value)
		abort();
	sim_call(r, HVD_OP_HTTP_PUT, rank, prefix, value);
	hvd_rv_value_unref(value);
}

static inline void sim_watch(struct sim_relay *r, int rank, const char *prefix)
{
	char room[32];
	struct hvd_relay_msg msg = {
		.type = HVD_RELAY_WATCH,
		.watch = ++r->expected,
		.flag = true,
		.op = {.scope.name = {"global", 6}, .key = sim_key(room, prefix, rank)},
	};

	hvd_relay_send(r->conn, HVD_CHANNEL_STORE, &msg);
}

static inline void sim_begin_mesh(struct sim_relay *r)
{
	size_t len = r->sim->body_len > 0 ? r->sim->body_len : GLOO_PEER * (size_t)(r->sim->total - 1);
	unsigned char *body = calloc(1, len + 1);

	if (!body)
		abort();
	for (int i = r->first; i < r->first + r->n; i++) {
		if (r->sim->body_len == 0)
			gloo_value(body, (size_t)r->sim->total - 1, (uint32_t)i);
		sim_put(r, i, "rank_", "node-with-a-name", 16);
		sim_put(r, i, "", body, len);
	}
	free(body);
	for (int i = 0; i < r->first + r->n; i++)
		sim_watch(r, i, "rank_");
	for (int i = 0; i < r->sim->total; i++)
		sim_watch(r, i, "");
}

/* The first byte of a message is its type. */
static inline void sim_on_bytes(unsigned channel, const void *data, size_t len, void *arg)
{
	struct sim_relay *r = arg;
	unsigned char type = len > 0 ? *(const unsigned char *)data : 0;

	(void)channel;
	r->answers += type == HVD_RELAY_ANSWER;
	if (type == HVD_RELAY_VALUE && ++r->values == r->expected)
		r->sim->complete++;
}

static inline void sim_on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct sim_relay *r = arg;

	if (r->sim->over)
		return;
	fprintf(stderr, "relay_sim: the relay of rank %d was closed: %s\n", r->first, why->msg);
	hvd_conn_free(conn);
	exit(1);
}

static inline void sim_on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	(void)conn;
	(void)msg;
	(void)arg;
}

static inline void sim_on_up(struct hvd_conn *conn, void *arg)
{
	static const struct hvd_conn_ops ops = {.message = sim_on_message, .closed = sim_on_closed};
	struct sim_relay *r = arg;
	struct hvd_relay_msg begin = {.type = HVD_RELAY_BEGIN, .level = HVD_RELAY_VERSION};

	r->conn = conn;
	hvd_conn_set_ops(conn, &ops, r);
	hvd_conn_open(conn, HVD_CHANNEL_STORE, SIZE_MAX / 2, sim_on_bytes, r);
	hvd_addr_parse("127.0.0.1", &begin.addr);
	/* Its own, and those of the relays below it. */
	for (int rank = r->first; rank == r->first || rank < r->first + r->n; rank += r->sim->per_host) {
		begin.relay_id = (uint32_t)(1 + rank / r->sim->per_host);
		hvd_relay_send(conn, HVD_CHANNEL_STORE, &begin);
	}
	if (r->n > 0)
		sim_begin_mesh(r);
}

static inline void sim_on_down(const struct hvd_err *why, void *arg)
{
	fprintf(stderr, "relay_sim: the relay of rank %d gets no connection: %s\n", ((struct sim_relay *)arg)->first,
		why->msg);
	exit(1);
}

/* `sim` has base, total, per_host and body_len, and all else is zero; there will be `n` relays at most. */
static inline void sim_start(struct sim *sim, size_t n)
{
	sim->budget = (struct hvd_rv_budget){.value_max = SIZE_MAX / 4, .total_max = SIZE_MAX / 4};
	sim->relays = calloc(n + 1, sizeof(*sim->relays));
	if (!sim->relays)
		abort();
}

/* One more relay, of ranks first … first + n - 1, below the parent at this port. */
static inline void sim_add(struct sim *sim, in_port_t port, int first, int n)
{
	struct sim_relay *r = &sim->relays[sim->n++];

	*r = (struct sim_relay){.sim = sim, .first = first, .n = n};
	relay_node_session(&r->session, NULL);
	hvd_addr_parse("127.0.0.1", &r->parent.addrs[0]);
	r->parent.n_addrs = 1;
	r->parent.port = port;
	r->link = hvd_dial_create(sim->base, &r->parent, &r->session, hvd_deadline_in(60), sim_on_up, sim_on_down, r);
}

static inline void sim_delete(struct sim *sim)
{
	for (size_t i = 0; i < sim->n; i++)
		for (int rank = sim->relays[i].first; rank < sim->relays[i].first + sim->relays[i].n; rank++)
			sim_call(&sim->relays[i], HVD_OP_HTTP_DELETE, rank, "", NULL);
}

static inline bool sim_all_up(const struct sim *sim)
{
	for (size_t i = 0; i < sim->n; i++)
		if (!sim->relays[i].conn)
			return false;
	return true;
}

static inline bool sim_all_answered(const struct sim *sim)
{
	for (size_t i = 0; i < sim->n; i++)
		if (sim->relays[i].answers < sim->relays[i].calls)
			return false;
	return true;
}

static inline void sim_end(struct sim *sim)
{
	sim->over = true;
	for (size_t i = 0; i < sim->n; i++) {
		hvd_dial_destroy(sim->relays[i].link);
		hvd_conn_free(sim->relays[i].conn);
	}
	free(sim->relays);
}

#endif
