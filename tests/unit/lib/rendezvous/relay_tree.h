/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay_tree.h - a tree of rendezvous servers in one process, and clients of the TCPStore at any of them, for tests.
 *
 * All of it runs in the thread of the test, which turns the event loops while it waits.
 */
#ifndef HVD_TESTS_UNIT_RELAY_TREE_H
#define HVD_TESTS_UNIT_RELAY_TREE_H

#include "tests/unit/loopback.h"
#include "tests/unit/relay_node.h"
#include "tests/unit/tcpstore_bytes.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define NODES 8 /* the root is the first */

/* ---- the tree ---- */

struct tree {
	struct event_base *base, *slow; /* `slow` has the servers that are seldom run */
	struct relay_node nodes[NODES];
	int parent[NODES];
	size_t keys_max, total_max; /* of relays; 0: the default */
	struct hvd_log log;
	int fds_before;
};

static inline void on_lost_go_to_root(struct relay_node *node)
{
	struct tree *t = node->arg;

	relay_node_connect(node, t->nodes[0].relay_port, 20);
}

static inline void start_node(struct tree *t, int i, int parent, bool slow)
{
	struct relay_node *n = &t->nodes[i];
	struct hvd_rv_config cfg;

	hvd_rv_config_init(&cfg);
	cfg.relay = i > 0;
	cfg.relay_id = (uint32_t)i;
	cfg.relay_addr = (struct hvd_addr){0};
	if (i > 0) {
		char text[32];

		if (t->keys_max)
			cfg.store.scope_keys_max = t->keys_max;
		if (t->total_max)
			cfg.store.total_max = t->total_max;
		snprintf(text, sizeof(text), "10.0.0.%d", i);
		assert_int_equal(hvd_addr_parse(text, &cfg.relay_addr), 0);
	}
	n->base = slow ? t->slow : t->base;
	n->arg = t;
	n->parent_lost = on_lost_go_to_root;
	n->send_buffer = 16384; /* so that messages wait for relays that do not read */
	if (relay_node_start(n, &cfg, &t->log) != 0 || relay_node_open(n, 64) != 0)
		fail_msg("server %d: %s", i, n->err.msg);
	t->parent[i] = parent;
	if (i > 0)
		relay_node_connect(n, t->nodes[parent].relay_port, 20);
}

static inline void turn(struct tree *t, bool slow)
{
	event_base_loop(t->base, EVLOOP_NONBLOCK);
	if (slow)
		event_base_loop(t->slow, EVLOOP_NONBLOCK);
}

/* The root; 1 and 2 below it; 3 and 4 below 1; 5 and 6 below 2; 7 below the root, and slow. */
static inline void plant_with(struct tree *t, size_t keys_max, size_t total_max)
{
	static const int parent[NODES] = {-1, 0, 0, 1, 1, 2, 2, 0};

	memset(t, 0, sizeof(*t));
	t->keys_max = keys_max;
	t->total_max = total_max;
	t->fds_before = open_fds();
	t->base = event_base_new();
	t->slow = event_base_new();
	t->log = hvd_log_make("test", HVD_LOG_ERROR);
	for (int i = 0; i < NODES; i++)
		start_node(t, i, parent[i], i == 7);
	for (int i = 1; i < NODES; i++)
		while (t->nodes[i].ups == 0) {
			assert_string_equal(t->nodes[i].err.msg, "");
			turn(t, true);
		}
}

static inline void plant(struct tree *t)
{
	plant_with(t, 0, 0);
}

static inline void fell(struct tree *t)
{
	for (int i = NODES - 1; i >= 0; i--)
		if (t->nodes[i].rv)
			relay_node_end(&t->nodes[i]);
	turn(t, true);
	event_base_free(t->base);
	event_base_free(t->slow);
	assert_int_equal(open_fds(), t->fds_before);
}

/* Cut a relay's connection to its parent: it gets a new one, to the root. */
static inline void cut(struct relay_node *n)
{
	if (n->rv && n->ups > 0 && n->lost == n->ups - 1)
		shutdown(n->conn_fd, SHUT_RDWR);
}

/* ---- clients of the TCPStore ---- */

enum reply {
	BYTE,
	NUMBER,
	BYTES,
	POPPED, /* NUMBER, and BYTES if that is above 0 */
};

struct client {
	struct tree *tree;
	int fd, node;
	struct event *ev;
	struct bytes out;
	char *in;
	size_t in_len, in_room;
	enum reply reply;
	bool busy, closed;
	/* The answer: */
	int64_t number;
	const char *value; /* within `in`, not terminated; NULL: none */
	size_t value_len, used;
};

static inline bool have(const struct client *c, size_t at, size_t n)
{
	return c->in_len >= at + n;
}

static inline bool take_bytes(struct client *c, size_t at)
{
	uint64_t len;

	if (!have(c, at, 8))
		return false;
	memcpy(&len, c->in + at, 8);
	if (!have(c, at + 8, len))
		return false;
	c->value = c->in + at + 8;
	c->value_len = len;
	c->used = at + 8 + len;
	return true;
}

static inline bool take_answer(struct client *c)
{
	c->value = NULL;
	c->value_len = 0;
	if (c->reply == BYTES)
		return take_bytes(c, 0);
	c->used = c->reply == BYTE ? 1 : 8;
	if (!have(c, 0, c->used))
		return false;
	c->number = 0;
	memcpy(&c->number, c->in, c->used);
	return c->reply != POPPED || c->number <= 0 || take_bytes(c, 8);
}

static inline void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct client *c = arg;
	ssize_t n;

	if (c->in_room - c->in_len < 65536) {
		c->in_room = c->in_len + 131072;
		c->in = realloc(c->in, c->in_room);
		assert_non_null(c->in);
	}
	n = recv(fd, c->in + c->in_len, c->in_room - c->in_len, MSG_DONTWAIT);
	if (n > 0) {
		c->in_len += (size_t)n;
	} else if (n == 0 || errno != EAGAIN) {
		c->closed = true;
		event_del(c->ev);
	}
}

/* Send what is in c->out; the answer to the last request is `reply`. */
static inline void ask(struct client *c, enum reply reply)
{
	size_t sent = 0;

	assert_false(c->busy);
	c->busy = true;
	c->reply = reply;
	while (sent < c->out.n) {
		ssize_t n = send(c->fd, c->out.p + sent, c->out.n - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0)
			sent += (size_t)n;
		else if (errno == EAGAIN)
			turn(c->tree, true);
		else
			fail_msg("a client's connection to server %d has ended: %s", c->node, strerror(errno));
	}
	c->out.n = 0;
}

/* Is the answer there? It is valid until done(). */
static inline bool answered(struct client *c)
{
	if (c->busy && !take_answer(c) && c->closed)
		fail_msg("server %d has closed a connection in place of an answer", c->node);
	return c->busy && take_answer(c);
}

static inline void done(struct client *c)
{
	memmove(c->in, c->in + c->used, c->in_len - c->used);
	c->in_len -= c->used;
	c->busy = false;
}

static inline void await(struct client *c)
{
	hvd_time end = hvd_deadline_in(30);

	while (!answered(c)) {
		turn(c->tree, true);
		if (hvd_now() > end)
			fail_msg("server %d has not answered for 30 seconds", c->node);
	}
}

/* Connect to a server of the tree as the process `pid`, and add to "init/" if `init`. */
static inline void come(struct tree *t, struct client *c, int node, uint32_t pid, bool init)
{
	memset(c, 0, sizeof(*c));
	c->tree = t;
	c->node = node;
	c->fd = dial_loopback(t->nodes[node].port);
	c->ev = event_new(t->base, c->fd, EV_READ | EV_PERSIST, on_readable, c);
	event_add(c->ev, NULL);
	add_validate(&c->out);
	add_ping(&c->out, pid);
	ask(c, BYTE); /* four bytes */
	while (c->in_len < 4)
		turn(t, true);
	c->used = 4;
	done(c);
	if (!init)
		return;
	add_count(&c->out, HVD_TCPSTORE_ADD, "init/", 1);
	ask(c, NUMBER);
	await(c);
	done(c);
}

static inline void leave(struct client *c)
{
	event_free(c->ev);
	close(c->fd);
	free(c->out.p);
	free(c->in);
	memset(c, 0, sizeof(*c));
}

static inline int64_t ask_number(struct client *c, enum reply reply)
{
	int64_t n;

	ask(c, reply);
	await(c);
	n = c->number;
	done(c);
	return n;
}

static inline int64_t add(struct client *c, const char *key, int64_t n)
{
	add_count(&c->out, HVD_TCPSTORE_ADD, key, n);
	return ask_number(c, NUMBER);
}

static inline bool check(struct client *c, const char *key)
{
	add_keys(&c->out, HVD_TCPSTORE_CHECK, &key, 1);
	return ask_number(c, BYTE) == 0;
}

static inline void set(struct client *c, const char *key, const char *value)
{
	add_pair(&c->out, HVD_TCPSTORE_SET, key, value);
}

/* The value as a string, which the caller frees. */
static inline char *get(struct client *c, const char *key)
{
	char *text;

	add_key(&c->out, HVD_TCPSTORE_GET, key);
	ask(c, BYTES);
	await(c);
	text = strndup(c->value, c->value_len);
	done(c);
	return text;
}

static inline void assert_get(struct client *c, const char *key, const char *value)
{
	char *text = get(c, key);

	if (strcmp(text, value) != 0)
		fail_msg("at server %d, %s is \"%.60s\" in place of \"%.60s\"", c->node, key, text, value);
	free(text);
}

#endif
