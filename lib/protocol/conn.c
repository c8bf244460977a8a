/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection is a socket with two events. Input is read into memory that all connections share during a turn of the
 * event loop, and frames are taken from there; the connection keeps the part of a frame that is not complete. A buffer
 * for output exists only while the socket takes no more. Messages of JSON are written at once if nothing is queued
 * before them: they are few, and a process that sends one to each of ten thousand hosts need not have all of them in
 * memory. Messages of bytes are many and small, or long, so they are queued and written together.
 */
#include "conn.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The owner may have been busy when the deadline of a connection passed that is being finished: while the peer takes
 * something in each of these seconds, there are so many more. */
#define MORE_SECONDS 10

/* What is read in one turn of the loop. */
#define TURN_BYTES (64 * 1024)

/* Input of which the rest is to come. Its memory grows with what comes. */
struct kept {
	unsigned char *bytes;
	size_t n, room;
};

/* A channel that was opened. */
struct channel {
	unsigned number;
	size_t max;
	hvd_conn_bytes_fn *fn; /* NULL: what arrives is thrown away */
	void *arg;
};

struct hvd_conn {
	struct hvd_wire wire;
	struct event_base *base;
	int fd;
	struct event readable, writable; /* `writable` is waited for while something is queued */
	struct hvd_timer *timer;         /* NULL while there is no deadline */
	struct evbuffer *out;            /* NULL while nothing is queued */
	const struct hvd_conn_ops *ops;
	void *arg;
	bool busy;            /* a callback runs: memory must not be freed now */
	bool over;            /* `closed` was called, or would have been */
	bool unwanted;        /* the owner freed it while it was busy */
	bool finishing;       /* it has no owner any more, and is freed when its output is sent */
	bool lingering;       /* finishing, and freed only when the peer has closed, too */
	bool above;           /* the queue is not shorter than `low`: `drained` is due when it is */
	enum hvd_errc unsent; /* why a message could not be sent: the connection ends with the next turn of the loop */
	size_t low;
	size_t left;       /* when the deadline passed while it was finishing: what was queued */
	unsigned more;     /* how many seconds it got since that deadline */
	struct kept in;    /* the beginning of a frame */
	size_t need;       /* how many bytes `in` must have to be worth another look */
	struct kept parts; /* the message of bytes of which pieces have come */
	unsigned parts_channel;
	struct channel *channels; /* they are few */
	size_t n_channels;
};

static void destroy(struct hvd_conn *conn)
{
	hvd_timer_free(conn->timer);
	event_del(&conn->readable);
	event_del(&conn->writable);
	if (conn->out)
		evbuffer_free(conn->out);
	close(conn->fd);
	free(conn->in.bytes);
	free(conn->parts.bytes);
	free(conn->channels);
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
	event_del(&conn->readable);
	event_del(&conn->writable);
	if (conn->finishing) {
		conn->unwanted = true;
		return;
	}
	conn->ops->closed(conn, why, conn->arg);
}

static void broken(struct hvd_conn *conn, int error)
{
	struct hvd_err why = {0};

	hvd_err_set(&why,
		    error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH ? HVD_E_TIMEOUT : HVD_E_NET,
		    "the connection broke: %s", strerror(error));
	over(conn, &why);
}

/* ---- input ---- */

/* Keep more, where it will be `most` bytes in the end, or fewer. */
static void keep(struct kept *kept, const unsigned char *data, size_t len, size_t most)
{
	size_t n = kept->n + len;

	if (n > kept->room) {
		kept->room = 2 * n < most ? 2 * n : most;
		kept->bytes = hvd_xrealloc(kept->bytes, kept->room, 1);
	}
	memcpy(kept->bytes + kept->n, data, len);
	kept->n = n;
}

static void forget(struct kept *kept)
{
	free(kept->bytes);
	*kept = (struct kept){0};
}

static struct channel *find_channel(const struct hvd_conn *conn, unsigned number)
{
	for (size_t i = 0; i < conn->n_channels; i++)
		if (conn->channels[i].number == number)
			return &conn->channels[i];
	return NULL;
}

/* Take a piece of a message of bytes. One that came in a single piece is not copied. */
static int take_bytes(struct hvd_conn *conn, const struct hvd_frame *frame, struct hvd_err *err)
{
	const struct channel *channel = find_channel(conn, frame->channel);
	const unsigned char *data = frame->bytes;
	size_t len = frame->len;

	if (!channel)
		return hvd_err_set(err, HVD_E_PROTO, "the peer sent bytes in channel %u, which is not open",
				   frame->channel);
	if (len > channel->max || conn->parts.n > channel->max - len)
		return hvd_err_set(err, HVD_E_LIMIT, "the peer sent a message of more than %zu bytes", channel->max);
	if (conn->parts.n > 0 || frame->more) {
		keep(&conn->parts, data, len, channel->max);
		conn->parts_channel = frame->channel;
		data = conn->parts.bytes;
		len = conn->parts.n;
	}
	if (frame->more)
		return 0;
	if (channel->fn)
		channel->fn(frame->channel, data, len, channel->arg);
	forget(&conn->parts);
	return 0;
}

static int take(struct hvd_conn *conn, const struct hvd_frame *frame, struct hvd_err *err)
{
	if (conn->parts.n > 0 && (frame->msg || frame->channel != conn->parts_channel))
		return hvd_err_set(err, HVD_E_PROTO, "the peer sent another message within a message of bytes");
	if (!frame->msg)
		return take_bytes(conn, frame, err);
	conn->ops->message(conn, frame->msg, conn->arg);
	return 0;
}

/* Take a frame from the start of the input; *used is how much of it was taken or kept. -1: the frame is refused. */
static int take_next(struct hvd_conn *conn, const unsigned char *data, size_t len, size_t *used, struct hvd_err *err)
{
	size_t more = 0;
	struct hvd_frame frame;
	int rc;

	if (conn->in.n > 0) {
		more = conn->need - conn->in.n < len ? conn->need - conn->in.n : len;
		keep(&conn->in, data, more, conn->need);
	}
	conn->wire.bytes = conn->n_channels > 0;
	rc = hvd_wire_read(&conn->wire, more ? conn->in.bytes : data, more ? conn->in.n : len, &frame, err);
	if (rc < 0)
		return -1;
	if (rc == 0) {
		conn->need = frame.used;
		if (!more)
			keep(&conn->in, data, len, conn->need);
		*used = more ? more : len;
		return 0;
	}
	rc = take(conn, &frame, err);
	json_decref(frame.msg);
	if (more)
		forget(&conn->in);
	*used = more ? more : frame.used;
	return rc;
}

/* Does it have an owner who gets what arrives? */
static bool is_read(const struct hvd_conn *conn)
{
	return !conn->over && !conn->unwanted && !conn->finishing;
}

/* Read once, and take what has come. Returns as read(2). */
static ssize_t take_turn(struct hvd_conn *conn)
{
	unsigned char turn[TURN_BYTES];
	ssize_t n = read(conn->fd, turn, sizeof(turn));
	struct hvd_err why = {0};
	size_t used;

	for (size_t at = 0; (ssize_t)at < n && is_read(conn); at += used)
		if (take_next(conn, turn + at, (size_t)n - at, &used, &why) != 0) {
			over(conn, &why);
			break;
		}
	return n;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_conn *conn = arg;
	struct hvd_err why = {0};
	ssize_t n;

	(void)fd;
	(void)what;
	conn->busy = true;
	n = take_turn(conn);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		broken(conn, errno);
	} else if (n == 0) {
		if (conn->in.n > 0 || conn->parts.n > 0)
			hvd_err_set(&why, HVD_E_PROTO, "the peer closed the connection within a message");
		over(conn, &why);
	}
	leave(conn);
}

/* ---- output ---- */

size_t hvd_conn_queued(const struct hvd_conn *conn)
{
	return conn->out ? evbuffer_get_length(conn->out) : 0;
}

static struct evbuffer *queue(struct hvd_conn *conn)
{
	if (!conn->out && !(conn->out = evbuffer_new()))
		abort(); /* only for lack of memory */
	return conn->out;
}

static void queued(struct hvd_conn *conn)
{
	conn->above = conn->above || (conn->low > 0 && hvd_conn_queued(conn) >= conn->low);
	event_add(&conn->writable, NULL);
}

/* Nothing can be written any more. The peer's last messages may have arrived, though, and say why. */
static void not_written(struct hvd_conn *conn, int error)
{
	while (is_read(conn) && take_turn(conn) > 0)
		;
	if (!conn->unwanted)
		broken(conn, error);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_conn *conn = arg;
	int n = evbuffer_write(conn->out, fd);

	(void)what;
	conn->busy = true;
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		not_written(conn, errno);
		leave(conn);
		return;
	}
	if (hvd_conn_queued(conn) == 0) {
		evbuffer_free(conn->out);
		conn->out = NULL;
		event_del(&conn->writable);
	}
	if (conn->finishing) {
		if (!conn->out && conn->lingering)
			shutdown(fd, SHUT_WR);
		conn->unwanted |= !conn->out && !conn->lingering;
	} else if (conn->above && hvd_conn_queued(conn) < conn->low) {
		conn->above = false;
		if (!conn->over && conn->ops->drained)
			conn->ops->drained(conn, conn->arg);
	}
	leave(conn);
}

/* ---- time limits and options of the socket ---- */

/* May it go on for a second? */
static bool gets_more(struct hvd_conn *conn)
{
	size_t left = hvd_conn_queued(conn);

	if (!conn->finishing || conn->unsent || left == conn->left || conn->more == MORE_SECONDS)
		return false;
	conn->left = left;
	conn->more++;
	hvd_timer_in_ms(conn->timer, 1 * 1000);
	return true;
}

static void on_deadline(void *arg)
{
	struct hvd_conn *conn = arg;
	struct hvd_err why = {0};

	if (gets_more(conn))
		return;
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
		{IPPROTO_TCP, TCP_KEEPIDLE, 1},
		{IPPROTO_TCP, TCP_KEEPINTVL, 1},
		{IPPROTO_TCP, TCP_KEEPCNT, HVD_CONN_WATCH_SECONDS},
		/* The kernel sends no keepalive probe while sent data is not acknowledged: this limits that time. */
		{IPPROTO_TCP, TCP_USER_TIMEOUT, HVD_CONN_WATCH_SECONDS * 1000},
	};

	set_options(conn->fd, options, sizeof(options) / sizeof(options[0]));
}

unsigned hvd_conn_silent_ms(const struct hvd_conn *conn)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (getsockopt(conn->fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0 || info.tcpi_state != TCP_ESTABLISHED)
		return 0;
	return info.tcpi_last_ack_recv;
}

bool hvd_conn_unread(const struct hvd_conn *conn)
{
	struct pollfd pfd = {.fd = conn->fd, .events = POLLIN};

	return poll(&pfd, 1, 0) > 0;
}

struct hvd_conn *hvd_conn_new(struct event_base *base, int fd, bool server, const struct hvd_conn_ops *ops, void *arg)
{
	struct hvd_conn *conn = hvd_xcalloc(1, sizeof(*conn));

	evutil_make_socket_nonblocking(fd);
	set_usual_options(fd);
	hvd_wire_init(&conn->wire, server);
	conn->base = base;
	conn->fd = fd;
	conn->ops = ops;
	conn->arg = arg;
	event_assign(&conn->readable, base, fd, EV_READ | EV_PERSIST, on_readable, conn);
	event_assign(&conn->writable, base, fd, EV_WRITE | EV_PERSIST, on_writable, conn);
	if (event_add(&conn->readable, NULL) != 0)
		abort(); /* only for lack of memory */
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
	if (conn->over || !conn->out) {
		hvd_conn_free(conn);
		return;
	}
	conn->finishing = true;
	hvd_conn_set_deadline(conn, deadline);
}

void hvd_conn_linger(struct hvd_conn *conn, hvd_time deadline)
{
	if (!conn)
		return;
	if (conn->over) {
		hvd_conn_free(conn);
		return;
	}
	conn->finishing = conn->lingering = true;
	hvd_conn_set_deadline(conn, deadline);
	if (!conn->out)
		shutdown(conn->fd, SHUT_WR);
}

/* `closed` is called later, from the loop: the sender does not expect it within this call. */
static void give_up(struct hvd_conn *conn, enum hvd_errc why)
{
	hvd_conn_set_deadline(conn, hvd_now());
	conn->unsent = why;
}

/* Write what the socket takes now. An error is left to the loop. */
static size_t write_now(struct hvd_conn *conn, const unsigned char *bytes, size_t len)
{
	ssize_t n = send(conn->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);

	return n > 0 ? (size_t)n : 0;
}

void hvd_conn_send(struct hvd_conn *conn, json_t *msg)
{
	struct hvd_err why = {0};
	unsigned char *bytes;
	size_t len, done;

	if (!conn->over && !conn->unsent) {
		if (hvd_wire_encode(&conn->wire, msg, &bytes, &len, &why) == 0) {
			done = conn->out ? 0 : write_now(conn, bytes, len);
			if (done < len) {
				evbuffer_add(queue(conn), bytes + done, len - done);
				queued(conn);
			}
			free(bytes);
		} else {
			give_up(conn, why.code);
		}
	}
	json_decref(msg);
}

/* The place in the pieces up to which they were sent. */
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

void hvd_conn_send_bytes(struct hvd_conn *conn, unsigned channel, const struct hvd_piece *pieces, size_t n)
{
	struct cursor from = {.piece = pieces};
	struct evbuffer_iovec room;
	size_t left = 0;

	if (conn->over || conn->unsent)
		return;
	if (!conn->wire.keyed) {
		give_up(conn, HVD_E_AUTH);
		return;
	}
	for (size_t i = 0; i < n; i++)
		left += pieces[i].n;
	do {
		size_t len = left < HVD_CONN_PIECE ? left : HVD_CONN_PIECE;

		left -= len;
		if (evbuffer_reserve_space(queue(conn), (ev_ssize_t)(HVD_WIRE_BYTES + len), &room, 1) != 1)
			abort(); /* only for lack of memory */
		copy_next(&from, (unsigned char *)room.iov_base + HVD_WIRE_BYTES, len);
		room.iov_len = HVD_WIRE_BYTES + len;
		hvd_wire_seal_bytes(&conn->wire, room.iov_base, channel, len, left > 0, NULL);
		evbuffer_commit_space(conn->out, &room, 1);
	} while (left > 0);
	queued(conn);
}

void hvd_conn_open(struct hvd_conn *conn, unsigned channel, size_t max, hvd_conn_bytes_fn *fn, void *arg)
{
	struct channel *c = find_channel(conn, channel);

	if (!c) {
		conn->channels = hvd_xrealloc(conn->channels, conn->n_channels + 1, sizeof(*c));
		c = &conn->channels[conn->n_channels++];
	}
	*c = (struct channel){channel, max, fn, arg};
}

void hvd_conn_mute(struct hvd_conn *conn, unsigned channel)
{
	struct channel *c = find_channel(conn, channel);

	if (c)
		c->fn = NULL;
}

void hvd_conn_set_low(struct hvd_conn *conn, size_t low)
{
	conn->low = low;
	conn->above = low > 0 && hvd_conn_queued(conn) >= low;
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
	if (conn->unsent)
		return;
	if (conn->timer) {
		hvd_timer_free(conn->timer);
		conn->timer = NULL;
	}
	if (!deadline)
		return;
	conn->timer = hvd_timer_new(conn->base, on_deadline, conn);
	hvd_timer_at(conn->timer, deadline);
}

int hvd_conn_fd(const struct hvd_conn *conn)
{
	return conn->fd;
}

void hvd_conn_set_ops(struct hvd_conn *conn, const struct hvd_conn_ops *ops, void *arg)
{
	conn->ops = ops;
	conn->arg = arg;
}
