/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A root and a relay whose peers say anything in any order: relays below both, the relay's parent, and clients of the
 * TCPStore. Each message is well formed (fuzz_relay_wire.c has the others). Whatever peers say, the invariants of
 * COHERENCE.md hold, which the servers assert, and in the end nobody waits.
 *
 * The input is steps of four bytes: what happens, and of which peer, key and number.
 */
#include "fuzz.h"
#include "fuzz_conn.h"
#include "lib/rendezvous/downstream.h"
#include "lib/rendezvous/internal.h"
#include "lib/rendezvous/relay_wire.h"
#include "lib/rendezvous/tcpstore.h"
#include "lib/rendezvous/upstream.h"
#include "tests/unit/tcpstore_bytes.h"

#include <sys/socket.h>
#include <unistd.h>

#define STEPS_MAX 400
#define CHILDREN  2
#define CLIENTS   2

enum {
	ROOT,
	RELAY,
	SERVERS
};

/* A connection, whose near end is a server's. */
struct peer {
	struct hvd_conn *near, *far;
	struct hvd_rv_child *child; /* of a server's child: NULL after the server has dropped it */
};

struct world {
	struct event_base *base;
	struct hvd_rv *rv[SERVERS];
	struct peer children[SERVERS][CHILDREN], parent;
	int clients[SERVERS][CLIENTS];
	uint64_t calls[8]; /* ids of calls that the relay has made */
	unsigned n_calls;
	struct hvd_rv_budget budget;
};

static const char *const keys[] = {"a", "b", "init/", "/default_pg/0//x"};

/* ---- connections ---- */

/* What the relay says to its parent. */
static void on_bytes(unsigned channel, const void *data, size_t len, void *arg)
{
	struct world *w = arg;
	struct hvd_relay_msg msg;

	(void)channel;
	must(hvd_relay_parse(data, len, true, &w->budget, &msg, NULL) == 0);
	if (msg.type == HVD_RELAY_CALL)
		w->calls[w->n_calls++ % 8] = msg.call;
	hvd_relay_msg_clear(&msg);
}

static void connect_peer(struct world *w, struct peer *p)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};
	const struct hvd_key key = {{1}};
	int fds[2];

	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	p->near = hvd_conn_new(w->base, fds[0], true, &ops, w);
	p->far = hvd_conn_new(w->base, fds[1], false, &ops, w);
	hvd_conn_set_key(p->near, &key);
	hvd_conn_set_key(p->far, &key);
	hvd_conn_open(p->far, HVD_CHANNEL_STORE, 1 << 20, p == &w->parent ? on_bytes : NULL, w);
}

static void on_dropped(bool broken, void *arg)
{
	(void)broken;
	((struct peer *)arg)->child = NULL;
}

/* ---- messages ---- */

/* As one piece, in memory of its own. */
static char *encode(const struct hvd_relay_msg *msg, size_t *len)
{
	struct hvd_relay_bytes bytes;
	char *text, *at;

	*len = 0;
	hvd_relay_encode(msg, &bytes);
	for (size_t i = 0; i < bytes.n; i++)
		*len += bytes.pieces[i].n;
	at = text = malloc(*len + 1);
	must(text != NULL);
	for (size_t i = 0; i < bytes.n; i++) {
		memcpy(at, bytes.pieces[i].p, bytes.pieces[i].n);
		at += bytes.pieces[i].n;
	}
	return text;
}

static struct hvd_rv_value *value(struct world *w, uint8_t n)
{
	static const char text[] = "12345678";
	enum hvd_rv_stored why;

	return hvd_rv_value_new(&w->budget, text, n % 8, &why);
}

static void from_child(struct world *w, int server, int number, struct hvd_relay_msg *msg)
{
	struct peer *p = &w->children[server][number];
	size_t len;
	char *text = encode(msg, &len);

	if (p->child)
		hvd_downstream_bytes(HVD_CHANNEL_STORE, text, len, p->child);
	free(text);
	hvd_rv_value_unref(msg->op.value);
}

/* The server has a child there again. */
static void begin_child(struct world *w, int server, int number)
{
	struct hvd_relay_msg msg = {
		.type = HVD_RELAY_BEGIN, .level = HVD_RELAY_VERSION, .relay_id = 10 + (uint32_t)number};
	struct peer *p = &w->children[server][number];

	if (p->child)
		return;
	p->child = hvd_rv_child_share(w->rv[server], p->near, on_dropped, p);
	from_child(w, server, number, &msg);
}

static void child_says(struct world *w, uint8_t a, uint8_t b, uint8_t c)
{
	static const enum hvd_relay_type types[] = {HVD_RELAY_WATCH, HVD_RELAY_WATCH,  HVD_RELAY_UNWATCH,
						    HVD_RELAY_CALL,  HVD_RELAY_UNUSED, HVD_RELAY_CALL,
						    HVD_RELAY_CALL,  HVD_RELAY_CANCEL};
	struct hvd_relay_msg msg = {.type = types[a >> 2 & 7], .flag = b & 64};
	const char *key = keys[b & 3];

	begin_child(w, a & 1, a >> 1 & 1);
	msg.op.scope.epoch = c & 3;
	if (b & 128)
		msg.op.scope.name = (struct hvd_slice){"s", 1};
	msg.op.key = (struct hvd_slice){key, strlen(key)};
	if (msg.type == HVD_RELAY_CALL || msg.type == HVD_RELAY_CANCEL) {
		msg.relay_id = 10 + (a >> 1 & 1) + (a >> 6 & 2);
		msg.call = 1 + (c >> 2 & 31);
		msg.op.kind = (enum hvd_store_op_kind)(1 + (b >> 2 & 15) + (c >> 7) * 4);
		msg.op.client_number = 1 + (c & 1);
		msg.op.number = 1 + (a >> 5 & 1);
		msg.done = a & 32 ? msg.call : 1;
		if (hvd_store_op_has_value(msg.op.kind))
			msg.op.value = value(w, c);
	} else {
		msg.watch = (b >> 2 & 3) * 4 + (b & 3); /* each has one key */
	}
	from_child(w, a & 1, a >> 1 & 1, &msg);
}

static void parent_says(struct world *w, uint8_t a, uint8_t b, uint8_t c)
{
	static const enum hvd_relay_type types[] = {HVD_RELAY_VALUE, HVD_RELAY_ABSENT,   HVD_RELAY_ASK,
						    HVD_RELAY_WAKE,  HVD_RELAY_ANSWER,   HVD_RELAY_ANSWER,
						    HVD_RELAY_VALUE, HVD_RELAY_ASK_WAITS};
	struct hvd_relay_msg msg = {.type = types[a & 7], .flag = a & 8, .level = 1 + (b & 3)};
	size_t len;
	char *text;

	if (a == 255)
		msg.type = HVD_RELAY_RENEW;
	msg.watch = 1 + b % 12;
	if (msg.type == HVD_RELAY_ANSWER) {
		msg.relay_id = a & 16 ? 10 + (a >> 5 & 1) : 1;
		msg.call = a & 16 ? 1 + (b & 31) : w->calls[(w->n_calls + 7 - b % 3) % 8];
		msg.result.status = c & 64 ? (enum hvd_store_status)(c >> 3 & 7) % HVD_OP_LOST : HVD_OP_DONE;
		msg.result.number = c & 3;
	}
	if (msg.type == HVD_RELAY_VALUE || (msg.type == HVD_RELAY_ANSWER && c & 128))
		msg.result.value = value(w, c);
	text = encode(&msg, &len);
	hvd_upstream_bytes(HVD_CHANNEL_STORE, text, len, w->rv[RELAY]->store_api.upstream);
	free(text);
	hvd_rv_value_unref(msg.result.value);
}

static void client_says(struct world *w, uint8_t a, uint8_t b, uint8_t c)
{
	static const enum hvd_tcpstore_query queries[] = {
		HVD_TCPSTORE_SET,       HVD_TCPSTORE_GET,       HVD_TCPSTORE_CHECK,       HVD_TCPSTORE_WAIT,
		HVD_TCPSTORE_ADD,       HVD_TCPSTORE_WAIT,      HVD_TCPSTORE_CANCEL_WAIT, HVD_TCPSTORE_QUEUE_PUSH,
		HVD_TCPSTORE_QUEUE_POP, HVD_TCPSTORE_BARRIER,   HVD_TCPSTORE_DELETE_KEY,  HVD_TCPSTORE_APPEND,
		HVD_TCPSTORE_LIST_KEYS, HVD_TCPSTORE_QUEUE_LEN, HVD_TCPSTORE_GETNUMKEYS,  HVD_TCPSTORE_WAIT};
	enum hvd_tcpstore_query query = queries[b & 15];
	int *fd = &w->clients[a & 1][a >> 1 & 1], fds[2];
	const char *key = keys[c & 3];
	struct bytes out = {0};
	struct hvd_addr addr;

	if (*fd < 0) {
		must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
		hvd_addr_parse("10.0.0.1", &addr);
		*fd = fds[1];
		add_validate(&out);
		add_ping(&out, 1000 + (a >> 1 & 1));
		hvd_tcpstore_take(w->rv[a & 1]->tcpstore, fds[0], &addr, out.p, out.n);
		out.n = 0;
	}
	switch (query) {
	case HVD_TCPSTORE_CHECK:
	case HVD_TCPSTORE_WAIT:
		add_keys(&out, query, keys + (c & 1), 1 + (c >> 2 & 1));
		break;
	case HVD_TCPSTORE_ADD:
	case HVD_TCPSTORE_BARRIER:
		add_count(&out, query, key, 1 + (c >> 4 & 1));
		break;
	case HVD_TCPSTORE_CANCEL_WAIT:
	case HVD_TCPSTORE_LIST_KEYS:
	case HVD_TCPSTORE_GETNUMKEYS:
		add_query(&out, query);
		break;
	case HVD_TCPSTORE_SET:
	case HVD_TCPSTORE_APPEND:
	case HVD_TCPSTORE_QUEUE_PUSH:
		add_pair(&out, query, key, "7");
		break;
	default:
		add_key(&out, query, key);
		break;
	}
	if (send(*fd, out.p, out.n, MSG_NOSIGNAL) < 0) { /* the server has closed it */
		close(*fd);
		*fd = -1;
	}
	free(out.p);
}

/* ---- what happens ---- */

static void turn(struct world *w)
{
	static char buf[65536];

	event_base_loop(w->base, EVLOOP_NONBLOCK);
	for (int s = 0; s < SERVERS; s++)
		for (int i = 0; i < CLIENTS; i++)
			while (w->clients[s][i] >= 0 && recv(w->clients[s][i], buf, sizeof(buf), MSG_DONTWAIT) > 0)
				;
}

static void come_and_go(struct world *w, uint8_t a, uint8_t b)
{
	struct peer *p = &w->children[b & 1][b >> 1 & 1];
	int *fd = &w->clients[b & 1][b >> 1 & 1];

	switch (a % 6) {
	case 0:
		if (p->child)
			hvd_rv_child_over(p->child);
		p->child = NULL;
		break;
	case 1:
		hvd_rv_relay_share(w->rv[RELAY], w->parent.near);
		break;
	case 2:
		/* The parent is lost. */
		hvd_upstream_bytes(HVD_CHANNEL_STORE, "", 0, w->rv[RELAY]->store_api.upstream);
		hvd_rv_relay_share(w->rv[RELAY], w->parent.near);
		break;
	case 3:
		hvd_rv_tcpstore_reset(w->rv[ROOT]);
		break;
	case 4:
		if (*fd >= 0)
			close(*fd);
		*fd = -1;
		break;
	default:
		hvd_rv_put(w->rv[ROOT], "s", keys[b >> 2 & 3], "v", 1, NULL);
		break;
	}
}

static void begin(struct world *w, size_t total_max)
{
	struct hvd_rv_config cfg;

	w->budget = (struct hvd_rv_budget){.value_max = 1 << 20, .total_max = 64 << 20};
	for (int s = 0; s < SERVERS; s++) {
		hvd_rv_config_init(&cfg);
		cfg.tcpstore = true;
		cfg.relay = s == RELAY;
		cfg.relay_id = 1;
		cfg.store.total_max = total_max;
		cfg.store.value_max = 1 << 20;
		if (cfg.relay)
			hvd_addr_parse("10.0.0.1", &cfg.relay_addr);
		w->rv[s] = hvd_rv_create(w->base, &cfg, NULL, NULL);
		must(w->rv[s] != NULL);
		for (int i = 0; i < CHILDREN; i++)
			connect_peer(w, &w->children[s][i]);
		for (int i = 0; i < CLIENTS; i++)
			w->clients[s][i] = -1;
	}
	connect_peer(w, &w->parent);
	hvd_rv_relay_share(w->rv[RELAY], w->parent.near);
}

static void end_peer(struct peer *p)
{
	hvd_conn_free(p->near);
	hvd_conn_free(p->far);
}

static void end(struct world *w)
{
	struct hvd_rv_stats stats;

	for (int s = 0; s < SERVERS; s++)
		for (int i = 0; i < CLIENTS; i++) {
			if (w->clients[s][i] >= 0)
				close(w->clients[s][i]);
			w->clients[s][i] = -1;
			if (w->children[s][i].child)
				hvd_rv_child_over(w->children[s][i].child);
		}
	hvd_rv_relay_up(w->rv[RELAY], NULL); /* which closes its clients */
	turn(w);
	turn(w);
	for (int s = 0; s < SERVERS; s++) {
		hvd_rv_stats(w->rv[s], &stats);
		must(stats.tcpstore_now == 0 && stats.store.waiters == 0);
		hvd_rv_destroy(w->rv[s]);
		for (int i = 0; i < CHILDREN; i++)
			end_peer(&w->children[s][i]);
	}
	end_peer(&w->parent);
	event_base_loop(w->base, EVLOOP_NONBLOCK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct event_base *base;
	struct world w = {0};

	if (!base)
		must((base = event_base_new()) != NULL);
	w.base = base;
	if (size < 5)
		return 0;
	begin(&w, data[0] & 1 ? 64 << 20 : 8000 + data[0] * 32u);
	data++;
	size--;
	for (int i = 0; i < STEPS_MAX && size >= 4; i++, data += 4, size -= 4)
		switch (data[0] & 7) {
		case 0:
		case 1:
			child_says(&w, data[1], data[2], data[3]);
			break;
		case 2:
		case 3:
			parent_says(&w, data[1], data[2], data[3]);
			break;
		case 4:
		case 5:
			client_says(&w, data[1], data[2], data[3]);
			break;
		case 6:
			turn(&w);
			break;
		default:
			come_and_go(&w, data[1], data[2]);
			break;
		}
	end(&w);
	return 0;
}
