/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two TCPStore clients that send the same bytes, one after the other: at once, cut into pieces, and through a relay.
 * Each time they get the same answers, and in the end nothing is left. The first byte of the input chooses how a
 * connection begins, the next four where it is cut.
 */
#include "fuzz.h"
#include "fuzz_conn.h"
#include "lib/protocol/conn.h"
#include "lib/rendezvous/tcpstore.h"

#include <sys/socket.h>
#include <unistd.h>

#define HEARD_MAX (8 << 20)

struct client {
	int fd;
	size_t n;
	uint64_t hash; /* of what it was answered */
	uint64_t sum;  /* the same, in whichever order */
};

struct run {
	struct hvd_rv *rv;   /* which clients connect to */
	struct hvd_rv *root; /* the same, or that which `rv` is a relay of */
	struct event_base *base;
	struct client clients[2];
};

/* Read what there is. */
static void hear(struct run *r)
{
	for (int i = 0; i < 2; i++) {
		struct client *c = &r->clients[i];
		static char buf[65536];
		ssize_t n;

		while (c->fd >= 0 && c->n < HEARD_MAX && (n = recv(c->fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0) {
			for (ssize_t k = 0; k < n; k++) {
				c->hash = c->hash * 31 + (unsigned char)buf[k];
				c->sum += (uint64_t)1 << (buf[k] & 63);
			}
			c->n += (size_t)n;
		}
	}
}

static bool asks(const struct run *r)
{
	struct hvd_rv_stream *s;

	TAILQ_FOREACH(s, &r->rv->tcpstore->conns, link)
	if (hvd_tcpstore_conn_of(s)->asks)
		return true;
	return false;
}

/* Until nothing more comes; a relay's answer takes some turns of the loop. */
static void turn(struct run *r)
{
	size_t before;

	do {
		before = r->clients[0].n + r->clients[1].n;
		for (int i = 0; i < (r->root == r->rv ? 1 : 8); i++)
			event_base_loop(r->base, EVLOOP_NONBLOCK);
		hear(r);
	} while (r->clients[0].n + r->clients[1].n != before || asks(r));
}

static void put_relay(struct run *r, struct hvd_rv_config *cfg)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};
	const struct hvd_key key = {{1}};
	struct hvd_conn *up, *down;
	int fds[2];

	cfg->relay = true;
	hvd_addr_parse("10.0.0.1", &cfg->relay_addr);
	r->rv = hvd_rv_create(r->base, cfg, NULL, NULL);
	must(r->rv != NULL && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	down = hvd_conn_new(r->base, fds[0], true, &ops, NULL);
	up = hvd_conn_new(r->base, fds[1], false, &ops, NULL);
	hvd_conn_set_key(down, &key);
	hvd_conn_set_key(up, &key);
	hvd_rv_relay_take(r->root, down);
	hvd_rv_relay_up(r->rv, up);
}

/* How connections begin, in either byte order. */
static size_t head(uint8_t kind, char *out)
{
	static const char little[] = "\x00\xce\xf7\x85\x3c\x0d\x00\x10\x00\x00",
			  big[] = "\x00\x3c\x85\xf7\xce\x0d\x00\x00\x10\x00";

	switch (kind % 4) {
	case 0:
		memcpy(out, little, 10);
		return 10;
	case 1:
		memcpy(out, big, 10);
		return 10;
	case 2:
		memcpy(out, little, 5);
		return 5;
	default:
		return 0;
	}
}

static void deliver(struct run *r, int which, const char *data, size_t len, uint32_t dice, bool cut)
{
	struct hvd_addr addr;
	size_t at = 0, n = cut ? 1 : len;
	int fds[2];

	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	hvd_addr_parse("10.0.0.1", &addr);
	r->clients[which].fd = fds[1];
	if (len == 0) {
		close(fds[0]);
		return;
	}
	hvd_tcpstore_take(r->rv->tcpstore, fds[0], &addr, data, n);
	for (at = n; at < len; at += n) {
		ssize_t sent;

		turn(r);
		n = 1 + dice % 61;
		dice = dice * 1664525 + 1013904223;
		sent = send(fds[1], data + at, n < len - at ? n : len - at, MSG_NOSIGNAL);
		if (sent <= 0)
			break; /* closed */
		n = (size_t)sent;
	}
	turn(r);
}

static void run(struct run *r, const char *data, size_t len, uint32_t dice, bool cut, bool relay)
{
	struct hvd_rv_config cfg;
	struct hvd_rv_stats stats;
	struct hvd_err err;

	hvd_rv_config_init(&cfg);
	cfg.tcpstore = true;
	cfg.store.total_max = 64 << 20;
	r->root = r->rv = hvd_rv_create(r->base, &cfg, NULL, &err);
	must(r->rv != NULL);
	if (relay)
		put_relay(r, &cfg);
	deliver(r, 0, data, len, dice, cut);
	deliver(r, 1, data, len, dice / 3, cut);
	for (int i = 0; i < 2; i++)
		close(r->clients[i].fd);
	event_base_loop(r->base, EVLOOP_NONBLOCK);
	free(hvd_rv_tcpstore_waits(r->rv, 4));
	hvd_rv_tcpstore_reset(r->root);
	turn(r);
	for (int i = 0; i < 2; i++) {
		hvd_rv_stats(i ? r->root : r->rv, &stats);
		must(stats.conns_now == 0 && stats.tcpstore_now == 0 && stats.store.waiters == 0);
		must(stats.store.keys == 0 && (stats.store.bytes == 0 || (relay && i)));
	}
	hvd_rv_destroy(r->rv);
	if (relay)
		hvd_rv_destroy(r->root);
}

static void same(const struct run *a, const struct run *b, bool in_order)
{
	for (int i = 0; i < 2; i++) {
		const struct client *one = &a->clients[i], *other = &b->clients[i];

		must(one->n == other->n && (in_order ? one->hash == other->hash : one->sum == other->sum));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct event_base *base;
	struct run whole = {0}, pieces = {0}, relayed = {0};
	uint32_t dice;
	size_t len;
	char *text;

	if (size < 5)
		return 0;
	if (!base)
		must((base = event_base_new()) != NULL);
	whole.base = pieces.base = relayed.base = base;
	memcpy(&dice, data + 1, 4);
	text = malloc(size + 16);
	must(text != NULL);
	len = head(data[0], text);
	memcpy(text + len, data + 5, size - 5);
	len += size - 5;
	run(&whole, text, len, dice, false, false);
	run(&pieces, text, len, dice, true, false);
	run(&relayed, text, len, dice, dice & 1, true);
	same(&whole, &pieces, true);
	/* LIST_KEYS lists them in no order. */
	same(&whole, &relayed, !memchr(text, HVD_TCPSTORE_LIST_KEYS, len));
	free(text);
	return 0;
}
