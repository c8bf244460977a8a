/* SPDX-License-Identifier: Apache-2.0 */
#include "probe_client.h"

#include "lib/base/digits.h"
#include "lib/base/random.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/conn.h"
#include "probe_server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NONCE_HEX (2 * HVD_NONCE_LEN)

struct hvd_probe_client {
	const struct hvd_asker *asker;
	const struct hvd_target *target;
	hvd_probe_client_done *done;
	void *arg;
	hvd_time start;
	int fd;                   /* while connecting, else -1 */
	struct event *connecting; /* waits for the connect */
	struct hvd_conn *conn;    /* to an agent */
	char nonce[NONCE_HEX + 1];
	int iface;
	bool begun;  /* hvd_probe_client_start() has returned it */
	bool proven; /* the pong was right */
};

void hvd_probe_client_destroy(struct hvd_probe_client *at)
{
	if (!at)
		return;
	hvd_event_unwatch(&at->connecting);
	if (at->fd >= 0)
		close(at->fd);
	hvd_conn_free(at->conn);
	free(at);
}

bool hvd_probe_client_connected(const struct hvd_probe_client *at)
{
	return at->conn;
}

bool hvd_probe_client_proven(const struct hvd_probe_client *at)
{
	return at->proven;
}

/* The owner may destroy the attempt in this call. */
static void finish(struct hvd_probe_client *at, enum hvd_reach result)
{
	struct hvd_probe_client *begun = at->begun ? at : NULL;
	uint32_t rtt_us = result == HVD_REACH_OK ? (uint32_t)((hvd_now() - at->start) / 1000) | 1 : 0;

	at->done(at->arg, begun, result, at->iface, rtt_us);
}

static enum hvd_reach reach_of_errno(int error)
{
	switch (error) {
	case ECONNREFUSED:
		return HVD_REACH_REFUSED;
	case ENETUNREACH:
	case EHOSTUNREACH:
	case EADDRNOTAVAIL:
	case EACCES:
	case EPERM:
		return HVD_REACH_UNREACHABLE;
	case ETIMEDOUT:
		return HVD_REACH_SILENT;
	default:
		return HVD_REACH_BROKEN;
	}
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	(void)conn;
	finish(arg, why->code == HVD_E_NET || why->code == HVD_OK ? HVD_REACH_BROKEN : HVD_REACH_STRANGER);
}

/* The answer to "fill" has come: packets of full size went both ways. */
static void on_filled(struct hvd_conn *conn, json_t *msg, void *arg)
{
	(void)conn;
	(void)msg;
	finish(arg, HVD_REACH_OK);
}

static void on_pong(struct hvd_conn *conn, json_t *msg, void *arg)
{
	static const struct hvd_conn_ops ops = {.message = on_filled, .closed = on_closed};
	struct hvd_probe_client *at = arg;
	const char *nonce, *seen_text;
	const char *at_text;
	struct hvd_addr seen, self, there;
	int64_t node, port;

	if (hvd_get_str(msg, "nonce", NONCE_HEX, &nonce, NULL) != 0 || strcmp(nonce, at->nonce) != 0 ||
	    hvd_get_int(msg, "node", 0, UINT32_MAX, &node, NULL) != 0 || (uint32_t)node != at->target->node ||
	    hvd_get_str(msg, "seen", HVD_ADDR_TEXT, &seen_text, NULL) != 0 || hvd_addr_parse(seen_text, &seen) != 0 ||
	    hvd_get_str(msg, "at", HVD_ADDR_TEXT, &at_text, NULL) != 0 || hvd_addr_parse(at_text, &there) != 0 ||
	    hvd_get_int(msg, "port", 1, 65535, &port, NULL) != 0)
		finish(at, HVD_REACH_STRANGER);
	else if (hvd_addr_of_self(hvd_conn_fd(conn), &self) != 0 || !hvd_addr_equal(&seen, &self) ||
		 !hvd_addr_equal(&there, &at->target->addr) || port != at->target->port)
		finish(at, HVD_REACH_NAT);
	else if (at->target->addr.family != AF_INET &&
		 hvd_host_info_has_family(&at->asker->node->ifaces[at->iface], AF_INET))
		finish(at, HVD_REACH_OK); /* the attempts over IPv4 on this interface test the size of packets */
	else {
		at->proven = true;
		hvd_conn_set_ops(conn, &ops, at);
		hvd_conn_set_max(conn, HVD_FILL_MAX);
		hvd_conn_send(conn, hvd_fill_message(hvd_conn_fd(conn), "fill"));
	}
}

static void ask_agent(struct hvd_probe_client *at, int fd)
{
	static const struct hvd_conn_ops ops = {.message = on_pong, .closed = on_closed};
	struct hvd_addr self;

	at->iface = hvd_addr_of_self(fd, &self) == 0 ? hvd_host_info_find_addr(at->asker->node, &self) : -1;
	if (at->iface < 0) {
		close(fd);
		finish(at, HVD_REACH_SOURCE);
		return;
	}
	at->conn = hvd_conn_new(at->asker->base, fd, false, &ops, at);
	hvd_conn_set_key(at->conn, &at->asker->key);
	hvd_conn_set_max(at->conn, HVD_PING_MAX);
	hvd_conn_send(at->conn, json_pack("{s:s, s:I, s:s}", "t", "ping", "to", (json_int_t)at->target->node, "nonce",
					  at->nonce));
}

/* ---- life ---- */

static void on_connect(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_probe_client *at = arg;
	socklen_t len = sizeof(int);
	int error = 0;

	(void)what;
	hvd_event_unwatch(&at->connecting);
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error) {
		finish(at, reach_of_errno(error));
		return;
	}
	at->fd = -1;
	ask_agent(at, fd);
}

/* Returns HVD_REACH_OK if the attempt goes on, else its result. */
static enum hvd_reach begin(struct hvd_probe_client *at)
{
	struct sockaddr_storage ss;
	socklen_t len = hvd_addr_to_sockaddr(&at->target->addr, at->target->port, &ss);
	unsigned char nonce[HVD_NONCE_LEN];

	/* If this host has the target's address too, the connection would end at some process of this host. */
	if (!at->target->here && hvd_host_info_owns(at->asker->node, &at->target->addr))
		return HVD_REACH_DUPLICATE;
	if (hvd_random(nonce, sizeof(nonce), NULL) != 0)
		return HVD_REACH_BROKEN;
	hvd_hex(nonce, sizeof(nonce), at->nonce);
	at->fd = socket(at->target->addr.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (at->fd < 0)
		return HVD_REACH_BROKEN;
	if (connect(at->fd, (struct sockaddr *)&ss, len) != 0 && errno != EINPROGRESS)
		return reach_of_errno(errno);
	at->connecting = hvd_event_watch(at->asker->base, at->fd, EV_WRITE, on_connect, at);
	return HVD_REACH_OK;
}

struct hvd_probe_client *hvd_probe_client_start(const struct hvd_asker *asker, const struct hvd_target *target,
						hvd_probe_client_done *done, void *arg)
{
	struct hvd_probe_client *at = hvd_xcalloc(1, sizeof(*at));
	enum hvd_reach result;

	at->asker = asker;
	at->target = target;
	at->done = done;
	at->arg = arg;
	at->start = hvd_now();
	at->fd = at->iface = -1;
	result = begin(at);
	if (result == HVD_REACH_OK) {
		at->begun = true;
		return at;
	}
	finish(at, result);
	hvd_probe_client_destroy(at);
	return NULL;
}
