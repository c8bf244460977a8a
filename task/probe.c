/* SPDX-License-Identifier: Apache-2.0 */
#include "probe.h"

#include "conn.h"
#include "rendezvous/meeting.h"
#include "responder.h"
#include "xalloc.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NONCE_HEX     (2 * HVD_NONCE_LEN)
#define MAX_TARGETS   HVD_MAX_NEIGHBOURS
#define MAX_ADDRS     (HVD_NODE_MAX_IFACES * HVD_NODE_MAX_ADDRS)
#define MAX_ENDPOINTS HVD_MAX_ENDPOINTS

/* One connection attempt. */
struct attempt {
	struct hvd_probe *probe;
	uint32_t to;   /* host, or index of the endpoint */
	uint32_t at;   /* index of the address in the order */
	bool endpoint; /* to the rendezvous, over HTTP */
	struct hvd_addr addr;
	hvd_time start;
	int fd;                   /* while connecting, else -1 */
	struct event *connecting; /* waits for the connect */
	struct hvd_conn *conn;    /* to an agent */
	struct bufferevent *http; /* to the rendezvous */
	char nonce[NONCE_HEX + 1];
	bool done;
	enum hvd_reach result;
	uint32_t rtt_us;
	uint8_t from_if;
};

struct hvd_probe {
	struct event_base *base;
	struct hvd_key key, session_key;
	const struct hvd_node *node;
	struct hvd_responder *responder;

	struct attempt *attempts;
	size_t n_attempts, n_done;
	struct event *timer;
	void (*done)(json_t *report, void *arg);
	void *done_arg;
};

static void attempt_close(struct attempt *at)
{
	if (at->connecting)
		event_free(at->connecting);
	at->connecting = NULL;
	if (at->fd >= 0)
		close(at->fd);
	at->fd = -1;
	hvd_conn_free(at->conn);
	at->conn = NULL;
	if (at->http)
		bufferevent_free(at->http);
	at->http = NULL;
}

static void report(struct hvd_probe *probe)
{
	json_t *edges = json_array(), *rendezvous = json_array();
	json_t *msg = json_pack("{s:s, s:o, s:o}", "t", "report", "edges", edges, "rendezvous", rendezvous);

	event_del(probe->timer);
	for (size_t i = 0; i < probe->n_attempts; i++) {
		const struct attempt *at = &probe->attempts[i];

		if (at->endpoint)
			json_array_append_new(rendezvous,
					      json_pack("[iii]", (int)at->to, (int)at->result, (int)at->rtt_us));
		else
			json_array_append_new(edges, json_pack("[Iiiii]", (json_int_t)at->to, (int)at->at,
							       (int)at->from_if, (int)at->result, (int)at->rtt_us));
	}
	probe->done(msg, probe->done_arg);
	json_decref(msg);
}

static void finish(struct attempt *at, enum hvd_reach result)
{
	struct hvd_probe *probe = at->probe;

	if (at->done)
		return;
	at->done = true;
	at->result = result;
	/* Who has the address himself talked to himself: say that, it tells the user more. */
	if (result != HVD_REACH_OK && result != HVD_REACH_SOURCE && result != HVD_REACH_NAT && !at->endpoint &&
	    hvd_node_find_addr(probe->node, &at->addr) >= 0)
		at->result = HVD_REACH_DUPLICATE;
	if (result == HVD_REACH_OK)
		at->rtt_us = (uint32_t)((hvd_now() - at->start) / 1000) | 1;
	attempt_close(at);
	if (++probe->n_done == probe->n_attempts)
		report(probe);
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

static void on_pong(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct attempt *at = arg;
	const char *nonce, *seen_text;
	struct hvd_addr seen, self;
	int64_t node;

	if (hvd_get_str(msg, "nonce", NONCE_HEX, &nonce, NULL) != 0 || strcmp(nonce, at->nonce) != 0 ||
	    hvd_get_int(msg, "node", 0, UINT32_MAX, &node, NULL) != 0 || (uint32_t)node != at->to ||
	    hvd_get_str(msg, "seen", HVD_ADDR_TEXT, &seen_text, NULL) != 0 || hvd_addr_parse(seen_text, &seen) != 0)
		finish(at, HVD_REACH_STRANGER);
	else if (hvd_addr_of_self(hvd_conn_fd(conn), &self) != 0 || !hvd_addr_equal(&seen, &self))
		finish(at, HVD_REACH_NAT);
	else
		finish(at, HVD_REACH_OK);
}

static void on_pong_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	(void)conn;
	finish(arg, why->code == HVD_E_NET || why->code == HVD_OK ? HVD_REACH_BROKEN : HVD_REACH_STRANGER);
}

static void on_http(struct bufferevent *bev, void *arg)
{
	struct attempt *at = arg;
	struct evbuffer *in = bufferevent_get_input(bev);
	char want[2 * HVD_MAC_LEN + 1];
	struct evbuffer_ptr head = evbuffer_search(in, "\r\n\r\n", 4, NULL);
	size_t len = evbuffer_get_length(in);
	const char *text;

	if (head.pos < 0 || len < (size_t)head.pos + 4 + 2 * HVD_MAC_LEN) {
		if (len > 4096)
			finish(at, HVD_REACH_STRANGER);
		return;
	}
	text = (const char *)evbuffer_pullup(in, -1) + head.pos + 4;
	hvd_meeting_proof(&at->probe->session_key, at->nonce, want);
	finish(at, memcmp(text, want, 2 * HVD_MAC_LEN) == 0 ? HVD_REACH_OK : HVD_REACH_STRANGER);
}

static void on_http_event(struct bufferevent *bev, short what, void *arg)
{
	(void)bev;
	if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
		finish(arg, what & BEV_EVENT_EOF ? HVD_REACH_STRANGER : HVD_REACH_BROKEN);
}

static void connected(struct attempt *at)
{
	static const struct hvd_conn_ops ops = {on_pong, on_pong_closed};
	struct hvd_probe *probe = at->probe;
	struct hvd_addr self;
	int fd = at->fd, iface;

	at->fd = -1;
	if (at->endpoint) {
		at->http = bufferevent_socket_new(probe->base, fd, BEV_OPT_CLOSE_ON_FREE);
		bufferevent_setcb(at->http, on_http, NULL, on_http_event, at);
		bufferevent_enable(at->http, EV_READ | EV_WRITE);
		evbuffer_add_printf(
			bufferevent_get_output(at->http),
			"GET %s%s HTTP/1.1\r\nHost: rendezvous\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
			HVD_MEETING_PROBE_PATH, at->nonce);
		return;
	}
	iface = hvd_addr_of_self(fd, &self) == 0 ? hvd_node_find_addr(probe->node, &self) : -1;
	if (iface < 0) {
		close(fd);
		finish(at, HVD_REACH_SOURCE);
		return;
	}
	at->from_if = (uint8_t)iface;
	at->conn = hvd_conn_new(probe->base, fd, false, &ops, at);
	hvd_conn_set_key(at->conn, &probe->key);
	hvd_conn_set_max(at->conn, HVD_PING_MAX);
	hvd_conn_send(at->conn,
		      json_pack("{s:s, s:I, s:s}", "t", "ping", "to", (json_int_t)at->to, "nonce", at->nonce));
}

static void on_connect(evutil_socket_t fd, short what, void *arg)
{
	struct attempt *at = arg;
	socklen_t len = sizeof(int);
	int error = 0;

	(void)what;
	event_free(at->connecting);
	at->connecting = NULL;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error)
		finish(at, reach_of_errno(error));
	else
		connected(at);
}

static void start(struct attempt *at, in_port_t port)
{
	struct sockaddr_storage ss;
	socklen_t len = hvd_addr_to_sockaddr(&at->addr, port, &ss);
	unsigned char nonce[HVD_NONCE_LEN];

	at->start = hvd_now();
	if (hvd_random(nonce, sizeof(nonce), NULL) != 0) {
		finish(at, HVD_REACH_BROKEN);
		return;
	}
	hvd_hex(nonce, sizeof(nonce), at->nonce);
	at->fd = socket(at->addr.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (at->fd < 0) {
		finish(at, HVD_REACH_BROKEN);
	} else if (connect(at->fd, (struct sockaddr *)&ss, len) == 0) {
		connected(at);
	} else if (errno != EINPROGRESS) {
		finish(at, reach_of_errno(errno));
	} else {
		at->connecting = event_new(at->probe->base, at->fd, EV_WRITE, on_connect, at);
		event_add(at->connecting, NULL);
	}
}

static void on_timeout(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_probe *probe = arg;

	(void)fd;
	(void)what;
	for (size_t i = 0; i < probe->n_attempts; i++)
		finish(&probe->attempts[i], HVD_REACH_SILENT);
}

static struct attempt *add_attempt(struct hvd_probe *probe, const char *addr)
{
	struct attempt *at = &probe->attempts[probe->n_attempts];

	memset(at, 0, sizeof(*at));
	if (!addr || hvd_addr_parse(addr, &at->addr) != 0)
		return NULL;
	at->probe = probe;
	at->fd = -1;
	at->from_if = HVD_NO_IFACE;
	probe->n_attempts++;
	return at;
}

/* Targets and endpoints become attempts; their ports go to `ports`. */
static int read_order(struct hvd_probe *probe, const json_t *order, in_port_t **ports, int64_t *timeout_ms,
		      struct hvd_err *err)
{
	json_t *targets, *endpoints, *addrs, *entry;
	size_t i, a, total = 0;
	int64_t n, port;

	if (hvd_get_array(order, "targets", MAX_TARGETS, &targets, err) != 0 ||
	    hvd_get_array(order, "rendezvous", MAX_ENDPOINTS, &endpoints, err) != 0 ||
	    hvd_get_int(order, "timeout_ms", 1, 3600000, timeout_ms, err) != 0)
		return -1;
	json_array_foreach(targets, i, entry)
	{
		if (hvd_get_array(entry, "a", MAX_ADDRS, &addrs, err) != 0)
			return -1;
		total += json_array_size(addrs);
	}
	total += json_array_size(endpoints);
	probe->attempts = hvd_xcalloc(total, sizeof(*probe->attempts));
	*ports = hvd_xcalloc(total, sizeof(**ports));
	json_array_foreach(targets, i, entry)
	{
		if (hvd_get_int(entry, "n", 0, UINT32_MAX, &n, err) != 0 ||
		    hvd_get_int(entry, "p", 1, 65535, &port, err) != 0)
			return -1;
		addrs = json_object_get(entry, "a");
		for (a = 0; a < json_array_size(addrs); a++) {
			struct attempt *at = add_attempt(probe, json_string_value(json_array_get(addrs, a)));

			if (!at)
				return hvd_err_set(err, HVD_E_PROTO, "the driver named a malformed address");
			at->to = (uint32_t)n;
			at->at = (uint32_t)a;
			(*ports)[at - probe->attempts] = (in_port_t)port;
		}
	}
	json_array_foreach(endpoints, i, entry)
	{
		struct attempt *at = add_attempt(probe, json_string_value(json_array_get(entry, 0)));

		port = json_integer_value(json_array_get(entry, 1));
		if (!at || port < 1 || port > 65535)
			return hvd_err_set(err, HVD_E_PROTO, "the driver named a malformed endpoint");
		at->endpoint = true;
		at->to = (uint32_t)i;
		(*ports)[at - probe->attempts] = (in_port_t)port;
	}
	return 0;
}

int hvd_probe_run(struct hvd_probe *probe, const json_t *order, void (*done)(json_t *report, void *arg), void *arg,
		  struct hvd_err *err)
{
	in_port_t *ports = NULL;
	struct timeval tv;
	int64_t timeout_ms;

	if (probe->attempts)
		return hvd_err_set(err, HVD_E_PROTO, "the driver ordered a second probe");
	probe->done = done;
	probe->done_arg = arg;
	if (read_order(probe, order, &ports, &timeout_ms, err) != 0) {
		free(ports);
		return -1;
	}
	tv.tv_sec = timeout_ms / 1000;
	tv.tv_usec = timeout_ms % 1000 * 1000;
	probe->timer = evtimer_new(probe->base, on_timeout, probe);
	evtimer_add(probe->timer, &tv);
	/* One more than there are, so that attempts which end at once do not report before all have started. */
	probe->n_attempts++;
	for (size_t i = 0; i + 1 < probe->n_attempts; i++)
		start(&probe->attempts[i], ports[i]);
	probe->n_attempts--;
	free(ports);
	if (probe->n_done == probe->n_attempts)
		report(probe);
	return 0;
}

struct hvd_probe *hvd_probe_create(struct event_base *base, const struct hvd_key *session_key, uint32_t index,
				   const struct hvd_node *node, struct hvd_err *err)
{
	struct hvd_probe *probe = hvd_xcalloc(1, sizeof(*probe));

	probe->base = base;
	probe->session_key = *session_key;
	probe->key = hvd_key_derive(session_key, "probe", NULL, 0);
	probe->node = node;
	probe->responder = hvd_responder_create(base, &probe->key, index, err);
	if (probe->responder)
		return probe;
	hvd_probe_destroy(probe);
	return NULL;
}

in_port_t hvd_probe_port(const struct hvd_probe *probe)
{
	return hvd_responder_port(probe->responder);
}

void hvd_probe_destroy(struct hvd_probe *probe)
{
	if (!probe)
		return;
	for (size_t i = 0; i < probe->n_attempts; i++)
		attempt_close(&probe->attempts[i]);
	free(probe->attempts);
	if (probe->timer)
		event_free(probe->timer);
	hvd_responder_destroy(probe->responder);
	free(probe);
}
