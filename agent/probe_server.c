/* SPDX-License-Identifier: Apache-2.0 */
#include "probe_server.h"

#include "bandwidth.h"
#include "lib/base/xalloc.h"
#include "lib/net/accept.h"
#include "lib/net/listen.h"
#include "lib/net/peer_table.h"
#include "lib/protocol/conn.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#define NONCE_HEX      (2 * HVD_NONCE_LEN)
#define ANSWER_SECONDS 5.0 /* how long one connection may take to send its ping, and then its fill */
#define MAX_ANSWERING  512 /* connections; one more takes the place of another */
#define MAX_STREAMS    4   /* at the same time; the driver has two of them at most under way */
#define MAX_OF_PEER    64  /* of them from one address without a ping; an agent has a few for each address of a host */

/* A connection of another host's agent. */
struct answering {
	struct hvd_peer_entry entry; /* in rs->silent until a signed ping has come; the first member */
	struct hvd_probe_server *rs;
	struct hvd_conn *conn;
	TAILQ_ENTRY(answering) in; /* rs->answering */
};

struct hvd_probe_server {
	struct event_base *base;
	struct hvd_key key;
	uint32_t index;
	struct hvd_acceptor *acceptor;
	in_port_t port;
	TAILQ_HEAD(answering_list, answering) answering; /* oldest first */
	unsigned n_answering;
	struct hvd_bandwidth *streams[MAX_STREAMS]; /* NULL = room for one */
	struct hvd_peer_table *silent;              /* those of them that have not sent a signed ping */
};

static void answering_free(struct answering *an)
{
	struct hvd_probe_server *rs = an->rs;

	TAILQ_REMOVE(&rs->answering, an, in);
	rs->n_answering--;
	hvd_peer_table_remove(rs->silent, &an->entry);
	free(an);
}

static void drop(struct answering *an)
{
	hvd_conn_free(an->conn);
	answering_free(an);
}

/* Drop a connection to make room. Among those without a signed ping, drop one of the address that has most of them, so
 * that a flood from one address hurts only itself. If there is none, drop the oldest connection. */
static void drop_one(struct hvd_probe_server *rs)
{
	struct hvd_peer_entry *silent = hvd_peer_table_busiest(rs->silent);

	drop(silent ? (struct answering *)silent : TAILQ_FIRST(&rs->answering));
}

static void on_ping_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	(void)why;
	hvd_conn_free(conn);
	answering_free(arg);
}

json_t *hvd_fill_message(int fd, const char *type)
{
	int segment = 0;
	socklen_t len = sizeof(segment);
	size_t n = HVD_PAD_MAX;
	char *pad;
	json_t *msg;

	if (getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, &len) == 0 && segment > 0 && segment < HVD_PAD_MAX)
		n = (size_t)segment; /* with the rest of the message the first packet is full */
	pad = hvd_xcalloc(n + 1, 1);
	memset(pad, 'x', n);
	msg = json_pack("{s:s, s:s}", "t", type, "pad", pad);
	free(pad);
	return msg;
}

static void on_streamed(void *arg)
{
	struct hvd_bandwidth **stream = arg;

	hvd_bandwidth_destroy(*stream);
	*stream = NULL;
}

/* Send bytes over the connection, which carries no messages from here on. */
static void serve_stream(struct answering *an, int ms)
{
	struct hvd_probe_server *rs = an->rs;
	int at = 0, fd;

	while (at < MAX_STREAMS && rs->streams[at])
		at++;
	fd = at < MAX_STREAMS ? fcntl(hvd_conn_fd(an->conn), F_DUPFD_CLOEXEC, 0) : -1;
	if (fd >= 0)
		rs->streams[at] = hvd_bandwidth_serve(rs->base, fd, ms, on_streamed, &rs->streams[at]);
	drop(an);
}

static void on_fill(struct hvd_conn *conn, json_t *msg, void *arg)
{
	const char *type;
	int64_t ms;

	if (hvd_get_str(msg, "t", 16, &type, NULL) == 0 && strcmp(type, "stream") == 0 &&
	    hvd_get_int(msg, "ms", 1, HVD_BANDWIDTH_MS, &ms, NULL) == 0) {
		serve_stream(arg, (int)ms);
		return;
	}
	if (hvd_get_str(msg, "t", 16, &type, NULL) == 0 && strcmp(type, "fill") == 0)
		hvd_conn_send(conn, hvd_fill_message(hvd_conn_fd(conn), "filled"));
	hvd_conn_finish(conn, hvd_deadline_in(ANSWER_SECONDS));
	answering_free(arg);
}

static void on_ping(struct hvd_conn *conn, json_t *msg, void *arg)
{
	static const struct hvd_conn_ops ops = {.message = on_fill, .closed = on_ping_closed};
	struct answering *an = arg;
	char seen[HVD_ADDR_TEXT], here[HVD_ADDR_TEXT];
	struct hvd_addr peer, self;
	const char *nonce;
	int64_t to;

	if (hvd_get_str(msg, "nonce", NONCE_HEX, &nonce, NULL) == 0 &&
	    hvd_get_int(msg, "to", 0, UINT32_MAX, &to, NULL) == 0 && hvd_addr_of_peer(hvd_conn_fd(conn), &peer) == 0 &&
	    hvd_addr_of_self(hvd_conn_fd(conn), &self) == 0) {
		hvd_peer_table_remove(an->rs->silent, &an->entry);
		/* A ping for another host is answered too: its sender must learn that it reached the wrong host. */
		hvd_conn_send(conn,
			      json_pack("{s:s, s:I, s:s, s:s, s:s, s:i}", "t", "pong", "node",
					(json_int_t)an->rs->index, "nonce", nonce, "seen", hvd_addr_text(&peer, seen),
					"at", hvd_addr_text(&self, here), "port", (int)an->rs->port));
		hvd_conn_set_ops(conn, &ops, an);
		hvd_conn_set_max(conn, HVD_FILL_MAX);
		hvd_conn_set_deadline(conn, hvd_deadline_in(ANSWER_SECONDS));
		return;
	}
	hvd_conn_finish(conn, hvd_deadline_in(ANSWER_SECONDS));
	answering_free(an);
}

/* This process has no descriptor left for another connection. */
static bool on_full(void *arg)
{
	struct hvd_probe_server *rs = arg;

	if (TAILQ_EMPTY(&rs->answering))
		return false;
	drop_one(rs);
	return true;
}

static void on_accept(void *arg, int fd, const struct sockaddr_storage *peer)
{
	static const struct hvd_conn_ops ops = {.message = on_ping, .closed = on_ping_closed};
	struct hvd_probe_server *rs = arg;
	struct answering *an = hvd_xcalloc(1, sizeof(*an));
	struct hvd_addr from;

	if (rs->n_answering >= MAX_ANSWERING)
		drop_one(rs);
	hvd_addr_from_sockaddr((const struct sockaddr *)peer, &from, NULL);
	hvd_peer_table_add(rs->silent, &from, &an->entry);
	if (an->entry.peer->n > MAX_OF_PEER)
		drop((struct answering *)TAILQ_FIRST(&an->entry.peer->entries));
	an->rs = rs;
	TAILQ_INSERT_TAIL(&rs->answering, an, in);
	rs->n_answering++;
	an->conn = hvd_conn_new(rs->base, fd, true, &ops, an);
	hvd_conn_set_key(an->conn, &rs->key);
	hvd_conn_set_max(an->conn, HVD_PING_MAX);
	hvd_conn_set_deadline(an->conn, hvd_deadline_in(ANSWER_SECONDS));
}

static int listen_for_pings(struct hvd_probe_server *rs, struct hvd_err *err)
{
	static const struct hvd_acceptor_ops ops = {.accepted = on_accept, .full = on_full};
	int fd = hvd_listen_any(false, 0, 0, &rs->port, err);

	if (fd < 0)
		return -1;
	rs->acceptor = hvd_acceptor_create(rs->base, fd, &ops, rs, err);
	if (rs->acceptor)
		return 0;
	close(fd);
	return -1;
}

struct hvd_probe_server *hvd_probe_server_create(struct event_base *base, const struct hvd_key *key, uint32_t index,
						 struct hvd_err *err)
{
	struct hvd_probe_server *rs = hvd_xcalloc(1, sizeof(*rs));

	rs->base = base;
	rs->key = *key;
	rs->index = index;
	TAILQ_INIT(&rs->answering);
	rs->silent = hvd_peer_table_create();
	if (listen_for_pings(rs, err) == 0)
		return rs;
	hvd_probe_server_destroy(rs);
	return NULL;
}

in_port_t hvd_probe_server_port(const struct hvd_probe_server *rs)
{
	return rs->port;
}

void hvd_probe_server_destroy(struct hvd_probe_server *rs)
{
	if (!rs)
		return;
	while (!TAILQ_EMPTY(&rs->answering))
		drop(TAILQ_FIRST(&rs->answering));
	for (int i = 0; i < MAX_STREAMS; i++)
		hvd_bandwidth_destroy(rs->streams[i]);
	hvd_acceptor_destroy(rs->acceptor);
	hvd_peer_table_destroy(rs->silent);
	free(rs);
}
