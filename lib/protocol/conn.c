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
	bool busy;            /* a callback runs: memory must not be freed now */
	bool over;            /* `closed` was called, or would have been */
	bool unwanted;        /* the owner freed it while it was busy */
	bool finishing;       /* it has no owner any more, and is freed when its output is sent */
	bool above;           /* the queue is not shorter than `low`: `drained` is due when it is */
	enum hvd_errc unsent; /* why a message could not be sent: the connection ends with the next turn of the loop */
	size_t low;
	/* The message of bytes of which pieces have come. Its memory grows with them. */
	unsigned char *parts;
	size_t n_parts, room, bytes_max;
};

static void destroy(struct hvd_conn *conn)
{
	if (conn->timer)
		event_free(conn->timer);
	bufferevent_free(conn->bev);
	free(conn->parts);
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

/* Take a piece of a message of bytes. One that came in a single piece is not copied. */
static int take_bytes(struct hvd_conn *conn, const struct hvd_frame *frame, struct hvd_err *err)
{
	const unsigned char *data = frame->body;
	size_t len = frame->len;

	if (len > conn->bytes_max || conn->n_parts > conn->bytes_max - len)
		return hvd_err_set(err, HVD_E_LIMIT, "the peer sent a message of more than %zu bytes", conn->bytes_max);
	if (conn->n_parts > 0 || frame->more) {
		len += conn->n_parts;
		if (len > conn->room) {
			conn->room = 2 * len < conn->bytes_max ? 2 * len : conn->bytes_max;
			conn->parts = hvd_xrealloc(conn->parts, conn->room, 1);
		}
		memcpy(conn->parts + conn->n_parts, data, frame->len);
		conn->n_parts = len;
		data = conn->parts;
	}
	if (frame->more)
		return 0;
	conn->ops->bytes(conn, data, len, conn->arg);
	free(conn->parts);
	conn->parts = NULL;
	conn->n_parts = conn->room = 0;
	return 0;
}

static int take(struct hvd_conn *conn, const struct hvd_frame *frame, struct hvd_err *err)
{
	if (!frame->msg)
		return take_bytes(conn, frame, err);
	if (conn->n_parts > 0)
		return hvd_err_set(err, HVD_E_PROTO, "the peer sent another message within a message of bytes");
	conn->ops->message(conn, frame->msg, conn->arg);
	return 0;
}

/* Wait until so much input is there. The most is the room for the longest frame: one that announces more is refused
 * when its head has come. */
static void await_input(struct hvd_conn *conn, size_t n)
{
	bufferevent_setwatermark(conn->bev, EV_READ, n, HVD_WIRE_MAX + 4096);
}

/* Frames are made contiguous one at a time, so that each byte is copied once at most, however it came. */
static void on_read(struct bufferevent *bev, void *arg)
{
	struct hvd_conn *conn = arg;
	struct evbuffer *in = bufferevent_get_input(bev);
	struct hvd_err why = {0};
	struct hvd_frame frame;
	int rc = 1;

	conn->busy = true;
	await_input(conn, 0);
	while (rc == 1 && !conn->over && !conn->unwanted && !conn->finishing) {
		size_t have = evbuffer_get_length(in), want = have < HVD_WIRE_HEAD ? have : HVD_WIRE_HEAD;

		if (have == 0)
			break;
		conn->wire.bytes = conn->ops->bytes && conn->bytes_max > 0;
		rc = hvd_wire_read(&conn->wire, evbuffer_pullup(in, (ev_ssize_t)want), want, &frame, &why);
		if (rc == 0 && frame.used <= have)
			rc = hvd_wire_read(&conn->wire, evbuffer_pullup(in, (ev_ssize_t)frame.used), frame.used, &frame,
					   &why);
		if (rc == 0)
			await_input(conn, have < HVD_WIRE_HEAD ? 0 : frame.used);
		if (rc == 1) {
			if (take(conn, &frame, &why) != 0)
				rc = -1;
			json_decref(frame.msg);
			evbuffer_drain(in, frame.used);
		}
	}
	if (rc < 0)
		over(conn, &why);
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
	else if (evbuffer_get_length(bufferevent_get_input(bev)) > 0 || conn->n_parts > 0)
		hvd_err_set(&why, HVD_E_PROTO, "the peer closed the connection within a message");
	conn->busy = true;
	over(conn, &why);
	leave(conn);
}

static void on_sent(struct bufferevent *bev, void *arg)
{
	struct hvd_conn *conn = arg;

	if (conn->finishing) {
		if (evbuffer_get_length(bufferevent_get_output(bev)) == 0)
			destroy(conn);
	} else if (conn->above && hvd_conn_queued(conn) < conn->low) {
		conn->above = false;
		conn->busy = true;
		if (!conn->over && conn->ops->drained)
			conn->ops->drained(conn, conn->arg);
		leave(conn);
	}
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_conn *conn = arg;
	struct hvd_err why = {0};

	(void)fd;
	(void)what;
	if (conn->unsent == HVD_E_LIMIT)
		hvd_err_set(&why, HVD_E_LIMIT, "a message to the peer is too large to be sent");
	else if (conn->unsent)
		hvd_err_set(&why, conn->unsent, "a message to the peer cannot be sent");
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
	await_input(conn, 0);
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

/* `closed` is called later, from the loop: the sender does not expect it within this call. */
static void give_up(struct hvd_conn *conn, const struct hvd_err *why)
{
	hvd_conn_set_deadline(conn, hvd_now());
	conn->unsent = why->code;
}

static void queued(struct hvd_conn *conn)
{
	conn->above = conn->above || (conn->low > 0 && hvd_conn_queued(conn) >= conn->low);
}

void hvd_conn_send(struct hvd_conn *conn, json_t *msg)
{
	struct hvd_err why = {0};
	unsigned char *bytes;
	size_t len;

	if (!conn->over && !conn->unsent) {
		if (hvd_wire_encode(&conn->wire, msg, &bytes, &len, &why) == 0) {
			bufferevent_write(conn->bev, bytes, len);
			free(bytes);
			queued(conn);
		} else {
			give_up(conn, &why);
		}
	}
	json_decref(msg);
}

/* What of the pieces was not sent yet. */
struct cursor {
	const struct hvd_piece *piece;
	size_t at; /* in it */
};

static void copy_next(struct cursor *from, unsigned char *to, size_t len)
{
	while (len > 0) {
		size_t left = from->piece->n - from->at, n = left < len ? left : len;

		if (n > 0)
			memcpy(to, (const unsigned char *)from->piece->p + from->at, n);
		to += n;
		len -= n;
		from->at += n;
		if (from->at == from->piece->n) {
			from->piece++;
			from->at = 0;
		}
	}
}

void hvd_conn_send_bytes(struct hvd_conn *conn, const struct hvd_piece *pieces, size_t n)
{
	struct evbuffer *out = bufferevent_get_output(conn->bev);
	struct cursor from = {.piece = pieces};
	struct evbuffer_iovec room;
	struct hvd_err why = {0};
	size_t left = 0;

	for (size_t i = 0; i < n; i++)
		left += pieces[i].n;
	do {
		size_t len = left < HVD_CONN_PIECE ? left : HVD_CONN_PIECE;

		if (conn->over || conn->unsent)
			return;
		left -= len;
		if (evbuffer_reserve_space(out, (ev_ssize_t)(HVD_WIRE_BODY + len), &room, 1) != 1)
			abort(); /* only for lack of memory */
		copy_next(&from, (unsigned char *)room.iov_base + HVD_WIRE_BODY, len);
		room.iov_len = HVD_WIRE_BODY + len;
		if (hvd_wire_seal_bytes(&conn->wire, room.iov_base, len, left > 0, &why) == 0)
			evbuffer_commit_space(out, &room, 1);
		else
			give_up(conn, &why);
	} while (left > 0);
	queued(conn);
}

void hvd_conn_set_bytes_max(struct hvd_conn *conn, size_t max)
{
	conn->bytes_max = max;
}

size_t hvd_conn_queued(const struct hvd_conn *conn)
{
	return evbuffer_get_length(bufferevent_get_output(conn->bev));
}

void hvd_conn_set_low(struct hvd_conn *conn, size_t low)
{
	conn->low = low;
	conn->above = low > 0 && hvd_conn_queued(conn) >= low;
	bufferevent_setwatermark(conn->bev, EV_WRITE, low ? low - 1 : 0, 0);
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
