/* SPDX-License-Identifier: Apache-2.0 */
#include "bandwidth.h"

#include "lib/base/deadline.h"
#include "lib/base/digits.h"
#include "lib/base/random.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/conn.h"
#include "probe_server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NONCE_HEX   (2 * HVD_NONCE_LEN)
#define PIECE       (256 * 1024)
#define PIECES      4    /* in one turn of the event loop */
#define PATIENCE_MS 1500 /* until the first byte */

struct hvd_bandwidth {
	struct event_base *base;
	struct hvd_conn *conn; /* until the bytes begin */
	int fd;                /* from then on; else -1 */
	struct hvd_timer *limit;
	struct event *ready;
	char nonce[NONCE_HEX + 1];
	uint32_t node;
	int ms;
	hvd_time first, last; /* bytes; 0 = none has come */
	int64_t bytes;
	uint32_t rtt_us;
	bool finished;
	char *piece;
	void (*done)(double mbps, uint32_t rtt_us, void *arg);
	void (*over)(void *arg);
	void *arg;
};

void hvd_bandwidth_destroy(struct hvd_bandwidth *st)
{
	if (!st)
		return;
	hvd_conn_free(st->conn);
	hvd_event_unwatch(&st->ready);
	hvd_timer_free(st->limit);
	if (st->fd >= 0)
		close(st->fd);
	free(st->piece);
	free(st);
}

/* The owner may destroy the stream in this call. */
static void finish(void *arg)
{
	struct hvd_bandwidth *st = arg;
	double seconds = (double)(st->last - st->first) / 1e9;

	if (st->finished)
		return;
	st->finished = true;
	if (st->ready)
		event_del(st->ready);
	hvd_timer_stop(st->limit);
	if (st->over)
		st->over(st->arg);
	else if (st->bytes == 0 || seconds <= 0)
		st->done(0, 0, st->arg);
	else
		st->done((double)st->bytes * 8 / 1e6 / seconds, st->rtt_us, st->arg);
}

static struct hvd_bandwidth *create(struct event_base *base, int ms, void *arg)
{
	struct hvd_bandwidth *st = hvd_xcalloc(1, sizeof(*st));

	st->base = base;
	st->fd = -1;
	st->ms = ms;
	st->arg = arg;
	st->limit = hvd_timer_new(base, finish, st);
	st->piece = hvd_xcalloc(1, PIECE);
	return st;
}

/* ---- the side that sends ---- */

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_bandwidth *st = arg;
	ssize_t n = 0;

	(void)what;
	for (int i = 0; i < PIECES && st->bytes < HVD_STREAM_BYTES; i++) {
		n = send(fd, st->piece, PIECE, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n <= 0)
			break;
		st->bytes += n;
	}
	if (st->bytes >= HVD_STREAM_BYTES || (n < 0 && errno != EAGAIN && errno != EINTR))
		finish(st);
}

struct hvd_bandwidth *hvd_bandwidth_serve(struct event_base *base, int fd, int ms, void (*over)(void *arg), void *arg)
{
	struct hvd_bandwidth *st = create(base, ms, arg);

	st->fd = fd;
	st->over = over;
	st->ready = hvd_event_watch(base, fd, EV_WRITE | EV_PERSIST, on_writable, st);
	hvd_timer_in_ms(st->limit, ms);
	return st;
}

/* ---- the side that asks ---- */

static void on_bytes(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_bandwidth *st = arg;
	ssize_t n = 0;

	(void)what;
	for (int i = 0; i < PIECES; i++) {
		n = recv(fd, st->piece, PIECE, MSG_DONTWAIT);
		if (n <= 0)
			break;
		/* The bytes of the first look show nothing of the time that they took. */
		if (!st->first) {
			st->first = st->last = hvd_now();
			hvd_timer_in_ms(st->limit, st->ms);
			continue;
		}
		st->bytes += n;
		st->last = hvd_now();
	}
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		finish(st);
}

/* "stream" has gone out: from here on the socket carries no messages. */
static void on_asked(struct hvd_conn *conn, void *arg)
{
	struct hvd_bandwidth *st = arg;

	st->fd = fcntl(hvd_conn_fd(conn), F_DUPFD_CLOEXEC, 0);
	hvd_conn_free(conn);
	st->conn = NULL;
	if (st->fd < 0) {
		finish(st);
		return;
	}
	st->ready = hvd_event_watch(st->base, st->fd, EV_READ | EV_PERSIST, on_bytes, st);
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	(void)conn;
	(void)why;
	finish(arg);
}

static void on_pong(struct hvd_conn *conn, json_t *msg, void *arg)
{
	static const struct hvd_conn_ops ops = {.closed = on_closed, .drained = on_asked};
	struct hvd_bandwidth *st = arg;
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);
	const char *nonce;
	int64_t node;

	if (hvd_get_str(msg, "nonce", NONCE_HEX, &nonce, NULL) != 0 || strcmp(nonce, st->nonce) != 0 ||
	    hvd_get_int(msg, "node", 0, UINT32_MAX, &node, NULL) != 0 || (uint32_t)node != st->node) {
		finish(st);
		return;
	}
	if (getsockopt(hvd_conn_fd(conn), IPPROTO_TCP, TCP_INFO, &info, &len) == 0)
		st->rtt_us = info.tcpi_rtt | 1;
	hvd_conn_set_ops(conn, &ops, st);
	hvd_conn_set_low(conn, 1);
	hvd_conn_send(conn, json_pack("{s:s, s:i}", "t", "stream", "ms", st->ms));
	if (hvd_conn_queued(conn) == 0)
		on_asked(conn, st);
}

static int begin(struct hvd_bandwidth *st, const struct hvd_key *key, const struct hvd_addr *addr, in_port_t port,
		 struct hvd_err *err)
{
	static const struct hvd_conn_ops ops = {.message = on_pong, .closed = on_closed};
	struct sockaddr_storage ss;
	socklen_t len = hvd_addr_to_sockaddr(addr, port, &ss);
	unsigned char nonce[HVD_NONCE_LEN];
	int fd;

	if (hvd_random(nonce, sizeof(nonce), err) != 0)
		return -1;
	hvd_hex(nonce, sizeof(nonce), st->nonce);
	fd = socket(addr->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return hvd_err_sys(err, "cannot make a socket");
	if (connect(fd, (struct sockaddr *)&ss, len) != 0 && errno != EINPROGRESS) {
		hvd_err_sys(err, "cannot connect");
		close(fd);
		return -1;
	}
	st->conn = hvd_conn_new(st->base, fd, false, &ops, st);
	hvd_conn_set_key(st->conn, key);
	hvd_conn_set_max(st->conn, HVD_PING_MAX);
	hvd_conn_send(st->conn,
		      json_pack("{s:s, s:I, s:s}", "t", "ping", "to", (json_int_t)st->node, "nonce", st->nonce));
	hvd_timer_in_ms(st->limit, PATIENCE_MS);
	return 0;
}

struct hvd_bandwidth *hvd_bandwidth_ask(struct event_base *base, const struct hvd_key *key, uint32_t node,
					const struct hvd_addr *addr, in_port_t port, int ms,
					void (*done)(double mbps, uint32_t rtt_us, void *arg), void *arg,
					struct hvd_err *err)
{
	struct hvd_bandwidth *st = create(base, ms, arg);

	st->node = node;
	st->done = done;
	if (begin(st, key, addr, port, err) == 0)
		return st;
	hvd_bandwidth_destroy(st);
	return NULL;
}
