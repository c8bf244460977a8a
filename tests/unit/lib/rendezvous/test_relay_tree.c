/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tree of relays does as a whole: epochs of the store, HTTP, a relay that is stopped, and strangers. What holds
 * of operations of the TCPStore in any order is in test_relay_order.c.
 */
#include "relay_tree.h"
#include "tests/bench/mesh.h"
#include "tests/unit/relay_count.h"

#include <fcntl.h>
#include <malloc.h>

/* Others see what somebody has written, soon. */
static void until_there(struct client *c, const char *key)
{
	hvd_time end = hvd_deadline_in(20);

	while (!check(c, key))
		if (hvd_now() > end)
			fail_msg("at server %d there is no %s", c->node, key);
}

/* Two programs of the same two processes, at different hosts, one after the other: the second finds an empty store. */
TEST(epochs_are_the_roots)
{
	struct tree t;
	struct client a, b;

	plant(&t);
	hvd_rv_tcpstore_ranks(t.nodes[0].rv, 2);
	for (int round = 0; round < 3; round++) {
		come(&t, &a, 3, 4001, false);
		come(&t, &b, 6, 4002, false);
		assert_int_equal(add(&a, "init/", 1), 2 * round + 1);
		assert_int_equal(add(&b, "init/", 1), 2 * round + 2);
		assert_int_equal(check(&a, "all"), round > 0); /* of the base */
		assert_int_equal(check(&b, "all"), round > 0);
		assert_false(check(&a, "/0//x")); /* of the group */
		assert_false(check(&b, "/0//x"));
		set(&a, "/0//x", "of a");
		assert_true(check(&a, "/0//x"));
		until_there(&b, "/0//x");
		assert_get(&b, "/0//x", "of a");
		leave(&a);
		leave(&b);
		come(&t, &a, 7, 4001, false);
		set(&a, "all", "x");
		until_there(&a, "all");
		leave(&a);
		for (int i = 0; i < 200; i++)
			turn(&t, true);
	}
	fell(&t);
}

/* A relay that is stopped, with a watch of a key that is replaced all the time, costs little memory, delays nobody, and
 * knows the newest value when it goes on. */
TEST(a_stopped_relay_delays_nobody)
{
	enum {
		LONG = 200000,
		TIMES = 500 /* 100 MB in all */
	};
	struct tree t;
	struct client writer, reader, stopped;
	char *value = calloc(1, LONG + 1), *text;
	size_t before, after, most = 0;
	int read = 0;

	assert_non_null(value);
	plant(&t);
	come(&t, &writer, 0, 4001, true);
	come(&t, &reader, 3, 4002, true);
	come(&t, &stopped, 7, 4003, true);
	memset(value, 'v', LONG);
	memcpy(value, "000000 ", 7);
	set(&writer, "k", value);
	assert_true(check(&writer, "k"));
	free(get(&stopped, "k"));
	free(get(&reader, "k"));
	before = mallinfo2().uordblks + mallinfo2().hblkhd;
	for (int i = 1; i <= TIMES; i++) {
		hvd_time end = hvd_deadline_in(10);

		snprintf(value, LONG, "%06d", i);
		value[6] = ' ';
		for (int k = 7; k < LONG; k += 7) /* so that it cannot be compressed to nothing */
			value[k] = (char)('a' + dice(&(uint32_t){(uint32_t)(i * LONG + k)}) % 26);
		set(&writer, "k", value);
		add_keys(&writer.out, HVD_TCPSTORE_CHECK, (const char *const[]){"k"}, 1);
		ask(&writer, BYTE);
		while (!answered(&writer)) {
			turn(&t, false);
			assert_true(hvd_now() < end);
		}
		done(&writer);
		if (i % 10)
			continue;
		while (read < i) {
			add_key(&reader.out, HVD_TCPSTORE_GET, "k");
			ask(&reader, BYTES);
			while (!answered(&reader)) {
				turn(&t, false);
				assert_true(hvd_now() < end);
			}
			assert_int_equal(reader.value_len, LONG);
			assert_true(atoi(reader.value) >= read);
			read = atoi(reader.value);
			done(&reader);
		}
		after = mallinfo2().uordblks + mallinfo2().hblkhd;
		most = after > most ? after : most;
	}
	if (most > before + 10 * 1000 * 1000)
		fail_msg("a stopped relay costs %zu bytes", most - before);
	for (;;) {
		text = get(&stopped, "k");
		assert_int_equal(strlen(text), LONG);
		if (atoi(text) == TIMES)
			break;
		free(text);
	}
	free(text);
	free(value);
	leave(&writer);
	leave(&reader);
	leave(&stopped);
	fell(&t);
}

/* ---- HTTP ---- */

/* The status of a request at a server; the body is kept in `body`, terminated. */
static int http(struct tree *t, int node, const char *method, const char *path, const char *sends, char body[4096])
{
	char text[4096];
	size_t n = (size_t)snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n%s",
				    method, path, strlen(sends), sends);
	hvd_time end = hvd_deadline_in(20);
	int fd = dial_loopback(t->nodes[node].port), status = 0;
	const char *at = NULL;

	body[0] = '\0';
	assert_int_equal(send(fd, text, n, MSG_NOSIGNAL), n);
	for (n = 0; !at || strtoul(strstr(text, "Content-Length: ") + 16, NULL, 10) > n - (size_t)(at + 4 - text);) {
		ssize_t got = recv(fd, text + n, sizeof(text) - 1 - n, MSG_DONTWAIT);

		turn(t, true);
		assert_true(hvd_now() < end);
		if (got < 0 && errno == EAGAIN)
			continue;
		if (got <= 0)
			break;
		n += (size_t)got;
		text[n] = '\0';
		at = strstr(text, "\r\n\r\n");
	}
	close(fd);
	if (at && sscanf(text, "HTTP/1.%*d %d", &status) == 1)
		strcpy(body, at + 4);
	return status;
}

/* What the root forgets, puts and removes is seen at leaves that have had the value. */
TEST(leaves_see_what_the_root_does)
{
	static const int leaves[] = {3, 6, 7};
	char body[4096];
	struct tree t;
	struct hvd_err err;

	plant(&t);
	assert_int_equal(http(&t, 3, "PUT", "/s/k", "first", body), 200);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(http(&t, leaves[i], "GET", "/s/k", "", body), 200);
		assert_string_equal(body, "first");
	}
	assert_int_equal(hvd_rv_put(t.nodes[0].rv, "s", "k", "second", 6, &err), 0);
	for (int i = 0; i < 3; i++) {
		do
			assert_int_equal(http(&t, leaves[i], "GET", "/s/k", "", body), 200);
		while (strcmp(body, "first") == 0);
		assert_string_equal(body, "second");
	}
	hvd_rv_clear(t.nodes[0].rv, NULL);
	for (int i = 0; i < 3; i++)
		while (http(&t, leaves[i], "HEAD", "/s/k", "", body) != 404)
			;
	assert_int_equal(http(&t, 7, "PUT", "/s/k", "third", body), 200);
	assert_int_equal(http(&t, 7, "DELETE", "/s/k", "", body), 200);
	assert_int_equal(http(&t, 7, "HEAD", "/s/k", "", body), 404);
	fell(&t);
}

/* Horovod's mesh over four leaves. When all ranks have deleted their keys nothing of it is left, at no server. */
TEST(a_mesh_over_leaves)
{
	static const int leaves[] = {3, 4, 6, 7};
	struct mesh m[4] = {{0}};
	struct tree t;
	struct hvd_err err;
	hvd_time end = hvd_deadline_in(60);
	bool deleting = false;
	int at_barrier = 0, gone = 0;

	plant(&t);
	assert_int_equal(hvd_rv_scope_size(t.nodes[0].rv, "global", 16, &err), 0);
	for (int i = 0; i < 4; i++) {
		m[i] = (struct mesh){.total = 16, .first = 4 * i, .n = 4, .port = t.nodes[leaves[i]].port};
		mesh_start(&m[i]);
	}
	while (gone < 16) {
		at_barrier = gone = 0;
		turn(&t, true);
		for (int i = 0; i < 4; i++) {
			mesh_turn(&m[i], 0);
			at_barrier += m[i].at_barrier;
			gone += m[i].done;
		}
		for (int i = 0; i < 4 && at_barrier == 16 && !deleting; i++)
			mesh_delete(&m[i]);
		deleting = at_barrier == 16;
		if (hvd_now() > end)
			fail_msg("%d of 16 ranks have all addresses, %d have ended", at_barrier, gone);
	}
	for (int i = 0; i < NODES; i++) {
		struct hvd_rv_stats stats;

		do {
			turn(&t, true);
			hvd_rv_stats(t.nodes[i].rv, &stats);
			if (hvd_now() > end)
				fail_msg("server %d keeps %zu values", i, stats.store.keys);
		} while (stats.store.keys > 0);
	}
	for (int i = 0; i < 4; i++)
		mesh_end(&m[i]);
	fell(&t);
}

/* ---- who is not of the launch ---- */

/* Stands between a relay and its parent, and keeps what the relay says. */
struct proxy {
	int listener, below, above;
	in_port_t port;
	char said[65536];
	size_t n;
};

static void pump(struct proxy *p)
{
	char data[4096];
	ssize_t n;

	if (p->below < 0)
		p->below = accept4(p->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (p->below < 0)
		return;
	while ((n = recv(p->below, data, sizeof(data), MSG_DONTWAIT)) > 0) {
		assert_true(p->n + (size_t)n < sizeof(p->said));
		memcpy(p->said + p->n, data, (size_t)n);
		p->n += (size_t)n;
		assert_int_equal(send(p->above, data, (size_t)n, MSG_NOSIGNAL), n);
	}
	while ((n = recv(p->above, data, sizeof(data), MSG_DONTWAIT)) > 0)
		assert_int_equal(send(p->below, data, (size_t)n, MSG_NOSIGNAL), n);
}

/* Say these bytes to the root's port for relays. Returns when the root has closed the connection. */
static void say_to_root(struct tree *t, const char *bytes, size_t n)
{
	hvd_time end = hvd_deadline_in(15);
	int fd = dial_loopback(t->nodes[0].relay_port);
	char sink[4096];
	ssize_t got;

	send(fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	shutdown(fd, SHUT_WR);
	while ((got = recv(fd, sink, sizeof(sink), MSG_DONTWAIT)) > 0 || (got < 0 && errno == EAGAIN)) {
		turn(t, true);
		assert_true(hvd_now() < end);
	}
	close(fd);
}

/* All that a relay has said to its parent, said again by somebody who has heard it: as it was, without the proof of who
 * it is, and its end alone. */
TEST(what_was_heard_is_of_no_use)
{
	struct proxy *p = calloc(1, sizeof(*p));
	struct tree t;
	struct client c, other;
	hvd_time end = hvd_deadline_in(30);
	size_t relays;

	assert_non_null(p);
	plant(&t);
	p->below = -1;
	p->listener = hvd_listen_any(true, 0, 0, &p->port, NULL);
	assert_true(p->listener >= 0);
	fcntl(p->listener, F_SETFL, O_NONBLOCK);
	p->above = dial_loopback(t.nodes[0].relay_port);
	cut(&t.nodes[7]);
	t.nodes[7].parent_lost = NULL;
	while (t.nodes[7].lost == 0)
		turn(&t, true);
	relay_node_connect(&t.nodes[7], p->port, 20);
	while (t.nodes[7].ups < 2) {
		pump(p);
		turn(&t, true);
		assert_true(hvd_now() < end);
	}
	come(&t, &c, 7, 4001, false);
	come(&t, &other, 0, 4002, true);
	add_count(&c.out, HVD_TCPSTORE_ADD, "counter", 1);
	ask(&c, NUMBER);
	while (!answered(&c)) {
		pump(p);
		turn(&t, true);
		assert_true(hvd_now() < end);
	}
	assert_int_equal(c.number, 1);
	done(&c);
	relays = relay_count(t.nodes[0].rv);
	assert_true(p->n > 200);
	say_to_root(&t, p->said, p->n);
	for (size_t from = 1; from < p->n; from += 37)
		say_to_root(&t, p->said + from, p->n - from);
	for (size_t i = 0; i < p->n; i += 41) {
		p->said[i] ^= 0x10;
		say_to_root(&t, p->said, p->n);
		p->said[i] ^= 0x10;
	}
	assert_int_equal(relay_count(t.nodes[0].rv), relays);
	assert_int_equal(add(&other, "counter", 1), 2);
	leave(&c);
	leave(&other);
	close(p->listener);
	close(p->below);
	close(p->above);
	free(p);
	fell(&t);
}

RUN_TESTS()
