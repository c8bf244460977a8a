/* SPDX-License-Identifier: Apache-2.0 */
#include "conn.h"

#include "lib/base/xalloc.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

struct hvd_conn {
	struct hvd_wire wire;
	struct bufferevent *bev;
	struct event *timer; /* NULL while there is no deadline */
	const struct hvd_conn_ops *ops;
	void *arg;
	bool busy;      /* a callback runs: memory must not be freed now */
	bool over;      /* `closed` was called, or would have been */
	bool unwanted;  /* the owner freed it while it was busy */
	bool finishing; /* it has no owner any more, and is freed when its output is sent */
	bool unsent;    /* a message was too large to be sent: the connection ends with the next turn of the loop */
};

static void destroy(struct hvd_conn *conn)
{
	if (conn->timer)
		event_free(conn->timer);
	bufferevent_free(conn->bev);
	free(conn);
}

/* Callbacks have run: free the connection if one of them wanted it freed. */
static void leave(struct hvd_conn *conn)
{
	conn->busy = false;
	if (conn->unwanted)
		destroy(conn);
}

static void over(struct hvd_conn *conn, const struct hvd_err *why)
{
	if (conn->over)
		return;
	conn->over = true;
	bufferevent_disable(conn->bev, EV_READ | EV_WRITE);
	if (conn->finishing) {
		conn->unwanted = true;
		return;
	}
	conn->ops->closed(conn, why, conn->arg);
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct hvd_conn *conn = arg;
	struct evbuffer *in = bufferevent_get_input(bev);
	struct hvd_err why = {0};

	conn->busy = true;
	while (!conn->over && !conn->unwanted && !conn->finishing) {
		json_t *msg;
		size_t used;
		int rc = hvd_wire_decode(&conn->wire, evbuffer_pullup(in, -1), evbuffer_get_length(in), &used, &msg,
					 &why);

		if (rc == 0)
			break;
		if (rc < 0) {
			over(conn, &why);
			break;
		}
		evbuffer_drain(in, used);
		conn->ops->message(conn, msg, conn->arg);
		json_decref(msg);
	}
	leave(conn);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct hvd_conn *conn = arg;
	struct hvd_err why = {0};
	int error = EVUTIL_SOCKET_ERROR();

	if (!(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)))
		return;
	if (what & BEV_EVENT_ERROR)
		hvd_err_set(&why,
			    error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH ? HVD_E_TIMEOUT
												: HVD_E_NET,
			    "the connection broke: %s", evutil_socket_error_to_string(error));
	else if (evbuffer_get_length(bufferevent_get_input(bev)) > 0)
		hvd_err_set(&why, HVD_E_PROTO, "the peer closed the connection within a message");
	conn->busy = true;
	over(conn, &why);
	leave(conn);
}

static void on_sent(struct bufferevent *bev, void *arg)
{
	struct hvd_conn *conn = arg;

	if (conn->finishing && evbuffer_get_length(bufferevent_get_output(bev)) == 0)
		destroy(conn);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_conn *conn = arg;
	struct hvd_err why = {0};

	(void)fd;
	(void)what;
	if (conn->unsent)
		hvd_err_set(&why, HVD_E_LIMIT, "a message to the peer is too large to be sent");
	else
		hvd_err_set(&why, HVD_E_TIMEOUT, "the peer took too long");
	conn->busy = true;
	over(conn, &why);
	leave(conn);
}

struct option {
	int level, name, value;
};

static void set_options(int fd, const struct option *options, size_t n)
{
	for (size_t i = 0; i < n; i++)
		setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

/* With keepalive, a peer whose host has vanished is noticed within a minute. */
static void set_usual_options(int fd)
{
	static const struct option options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},    {SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 20},
		{IPPROTO_TCP, TCP_KEEPINTVL, 10}, {IPPROTO_TCP, TCP_KEEPCNT, 4},
	};

	set_options(fd, options, sizeof(options) / sizeof(options[0]));
}

void hvd_conn_watch_host(struct hvd_conn *conn)
{
	static const struct option options[] = {
		{IPPROTO_TCP, TCP_KEEPIDLE, HVD_CONN_WATCH_SECONDS - 8},
		{IPPROTO_TCP, TCP_KEEPINTVL, 2},
		{IPPROTO_TCP, TCP_KEEPCNT, 4},
		/* The kernel sends no keepalive probe while sent data is not acknowledged: this limits that time. */
		{IPPROTO_TCP, TCP_USER_TIMEOUT, HVD_CONN_WATCH_SECONDS * 1000},
	};

	set_options(bufferevent_getfd(conn->bev), options, sizeof(options) / sizeof(options[0]));
}

struct hvd_conn *hvd_conn_new(struct event_base *base, int fd, bool server, const struct hvd_conn_ops *ops, void *arg)
{
	struct hvd_conn *conn = hvd_xcalloc(1, sizeof(*conn));

	evutil_make_socket_nonblocking(fd);
	set_usual_options(fd);
	hvd_wire_init(&conn->wire, server);
	conn->ops = ops;
	conn->arg = arg;
	conn->bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!conn->bev)
		abort(); /* only for lack of memory */
	bufferevent_setcb(conn->bev, on_read, on_sent, on_event, conn);
	/* Room for the longest frame. A frame that announces more is refused when its head has come. */
	bufferevent_setwatermark(conn->bev, EV_READ, 0, HVD_WIRE_MAX + 4096);
	bufferevent_enable(conn->bev, EV_READ | EV_WRITE);
	return conn;
}

void hvd_conn_free(struct hvd_conn *conn)
{
	if (!conn)
		return;
	if (conn->busy)
		conn->unwanted = true;
	else
		destroy(conn);
}

void hvd_conn_finish(struct hvd_conn *conn, hvd_time deadline)
{
	if (!conn)
		return;
	if (conn->over || evbuffer_get_length(bufferevent_get_output(conn->bev)) == 0) {
		hvd_conn_free(conn);
		return;
	}
	conn->finishing = true;
	hvd_conn_set_deadline(conn, deadline);
}

void hvd_conn_send(struct hvd_conn *conn, json_t *msg)
{
	unsigned char *bytes;
	size_t len;

	if (!conn->over && !conn->unsent && hvd_wire_encode(&conn->wire, msg, &bytes, &len, NULL) == 0) {
		bufferevent_write(conn->bev, bytes, len);
		free(bytes);
	} else if (!conn->over && !conn->unsent) {
		/* `closed` is called later, from the loop: the sender does not expect it within this call. */
		hvd_conn_set_deadline(conn, hvd_now());
		conn->unsent = true;
	}
	json_decref(msg);
}

void hvd_conn_set_key(struct hvd_conn *conn, const struct hvd_key *key)
{
	hvd_wire_set_key(&conn->wire, key);
}

void hvd_conn_set_max(struct hvd_conn *conn, size_t max)
{
	hvd_wire_set_max(&conn->wire, max);
}

void hvd_conn_set_deadline(struct hvd_conn *conn, hvd_time deadline)
{
	struct timeval tv;

	if (conn->unsent)
		return;
	if (conn->timer) {
		event_free(conn->timer);
		conn->timer = NULL;
	}
	if (!deadline)
		return;
	tv = hvd_left_tv(deadline);
	conn->timer = evtimer_new(bufferevent_get_base(conn->bev), on_deadline, conn);
	evtimer_add(conn->timer, &tv);
}

int hvd_conn_fd(const struct hvd_conn *conn)
{
	return bufferevent_getfd(conn->bev);
}

void hvd_conn_set_ops(struct hvd_conn *conn, const struct hvd_conn_ops *ops, void *arg)
{
	conn->ops = ops;
	conn->arg = arg;
}
