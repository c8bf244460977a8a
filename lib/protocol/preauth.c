/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pending connection is a descriptor to which the greeting was sent. What the peer sends stays in the kernel until its
 * message is complete; then the connection gets an hvd_conn, the handshake ends with that message, and the owner has the
 * connection, or it is closed. So a flood holds no memory of this process but its list. A pending connection ends, too,
 * when it breaks the protocol, is closed by the peer, takes too long, or must make room. All pending connections are in
 * one list by age, for the time limit, and in the table of peers.
 */
#include "preauth.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/net/accept.h"
#include "lib/net/peer_table.h"

#include <errno.h>
#include <event2/event_struct.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#define HANDSHAKE_SECONDS 10.0
#define SEND_SECONDS      5.0

struct unauthenticated {
	struct hvd_peer_entry entry; /* the first member, so that an entry leads back here */
	struct hvd_preauth *owner;
	TAILQ_ENTRY(unauthenticated) link;
	hvd_time until;
	int fd;
	struct event readable;
	struct hvd_handshake hs;
};

struct hvd_preauth {
	struct event_base *base;
	struct hvd_session *session;
	struct hvd_preauth_ops ops;
	void *arg;
	struct hvd_acceptor *acceptor;
	struct hvd_peer_table *peers;
	TAILQ_HEAD(by_age, unauthenticated) pending; /* the oldest first */
	struct hvd_timer *late;
	unsigned max;
	bool full_logged;
};

/* Free the pending connection, whose descriptor is closed or has another owner. */
static void forget(struct unauthenticated *s)
{
	struct hvd_preauth *st = s->owner;

	TAILQ_REMOVE(&st->pending, s, link);
	hvd_peer_table_remove(st->peers, &s->entry);
	event_del(&s->readable);
	free(s);
}

static void drop(struct unauthenticated *s)
{
	event_del(&s->readable);
	close(s->fd);
	forget(s);
}

static struct hvd_addr from(const struct unauthenticated *s)
{
	return s->entry.peer->addr;
}

/* ---- the peer's message ---- */

/* Messages count only once the connection has an owner. */
static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	(void)conn;
	(void)msg;
	(void)arg;
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	(void)conn;
	(void)why;
	(void)arg;
}

static void answer(struct unauthenticated *s, const json_t *msg)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};
	struct hvd_preauth *st = s->owner;
	struct hvd_addr addr = from(s);
	struct hvd_handshake hs = s->hs;
	struct hvd_conn *conn;
	struct hvd_err why = {0};
	int fd = s->fd;

	forget(s);
	conn = hvd_conn_new(st->base, fd, true, &ops, NULL);
	if (hvd_handshake_message(&hs, conn, msg, &why) > 0) {
		st->ops.proven(conn, st->arg);
	} else {
		hvd_conn_finish(conn, hvd_deadline_in(SEND_SECONDS));
		st->ops.refused(&addr, &why, st->arg);
	}
}

static bool peer_has_closed(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLRDHUP};

	return poll(&pfd, 1, 0) > 0;
}

/* The kernel reports the socket when it has so many bytes, or when the peer has closed. */
static void set_least(int fd, size_t n)
{
	int least = (int)n;

	setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least));
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct unauthenticated *s = arg;
	struct hvd_preauth *st = s->owner;
	struct hvd_addr addr = from(s);
	unsigned char bytes[HVD_WIRE_HEAD + HVD_WIRE_MAX_OPEN];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
	struct hvd_err why = {0};
	struct hvd_frame frame;
	struct hvd_wire wire;
	int rc;

	(void)what;
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		event_add(&s->readable, NULL);
		return;
	}
	/* Rank shims connect to all addresses and keep one connection: that others are closed is normal. */
	if (n <= 0) {
		drop(s);
		return;
	}
	hvd_wire_init(&wire, true);
	rc = hvd_wire_read(&wire, bytes, (size_t)n, &frame, &why);
	if (rc == 0 && !peer_has_closed(fd)) {
		set_least(fd, frame.used);
		event_add(&s->readable, NULL);
		return;
	}
	if (rc == 0)
		hvd_err_set(&why, HVD_E_PROTO, "the peer closed the connection within a message");
	if (rc == 1 && recv(fd, bytes, frame.used, MSG_DONTWAIT) == (ssize_t)frame.used) {
		set_least(fd, 1);
		answer(s, frame.msg);
	} else {
		drop(s);
		if (rc != 1)
			st->ops.dropped(&addr, &why, st->arg);
	}
	json_decref(frame.msg);
}

/* ---- begin and end ---- */

static void watch_the_oldest(struct hvd_preauth *st)
{
	if (!TAILQ_EMPTY(&st->pending) && !hvd_timer_runs(st->late))
		hvd_timer_at(st->late, TAILQ_FIRST(&st->pending)->until);
}

static void on_late(void *arg)
{
	struct hvd_preauth *st = arg;
	struct unauthenticated *s;
	struct hvd_err why = {0};

	hvd_err_set(&why, HVD_E_TIMEOUT, "the peer took too long");
	while ((s = TAILQ_FIRST(&st->pending)) && s->until <= hvd_now()) {
		struct hvd_addr addr = from(s);

		drop(s);
		st->ops.dropped(&addr, &why, st->arg);
	}
	watch_the_oldest(st);
}

/* Send the greeting, which fits into the empty buffer of a new connection. -1: most likely the peer has closed it. */
static int greet(struct unauthenticated *s)
{
	json_t *hello = hvd_handshake_hello(&s->hs, s->owner->session, NULL);
	struct hvd_wire wire;
	unsigned char *bytes;
	size_t len;
	int rc = -1;

	hvd_wire_init(&wire, true);
	if (hello && hvd_wire_encode(&wire, hello, &bytes, &len, NULL) == 0) {
		rc = send(s->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len ? 0 : -1;
		free(bytes);
	}
	json_decref(hello);
	return rc;
}

static void on_accepted(void *arg, int fd, const struct sockaddr_storage *peer)
{
	struct hvd_preauth *st = arg;
	struct unauthenticated *s;
	struct hvd_addr addr = {0};

	hvd_addr_from_sockaddr((const struct sockaddr *)peer, &addr, NULL);
	s = hvd_xcalloc(1, sizeof(*s));
	s->owner = st;
	s->fd = fd;
	s->until = hvd_deadline_in(HANDSHAKE_SECONDS);
	event_assign(&s->readable, st->base, fd, EV_READ, on_readable, s);
	TAILQ_INSERT_TAIL(&st->pending, s, link);
	hvd_peer_table_add(st->peers, &addr, &s->entry);
	if (greet(s) != 0) {
		drop(s);
		return;
	}
	event_add(&s->readable, NULL);
	if (hvd_peer_table_count(st->peers) > st->max)
		drop((struct unauthenticated *)hvd_peer_table_busiest(st->peers));
	watch_the_oldest(st);
}

static bool on_full(void *arg)
{
	struct hvd_preauth *st = arg;

	if (!TAILQ_EMPTY(&st->pending)) {
		drop((struct unauthenticated *)hvd_peer_table_busiest(st->peers));
		return true;
	}
	if (!st->full_logged)
		st->ops.full(st->arg);
	st->full_logged = true;
	return false;
}

struct hvd_preauth *hvd_preauth_create(struct event_base *base, int fd, struct hvd_session *session, unsigned max,
				       const struct hvd_preauth_ops *ops, void *arg, struct hvd_err *err)
{
	static const struct hvd_acceptor_ops acceptor_ops = {.accepted = on_accepted, .full = on_full};
	struct hvd_preauth *st = hvd_xcalloc(1, sizeof(*st));

	st->base = base;
	st->session = session;
	st->max = max;
	st->ops = *ops;
	st->arg = arg;
	TAILQ_INIT(&st->pending);
	st->peers = hvd_peer_table_create();
	st->late = hvd_timer_new(base, on_late, st);
	st->acceptor = hvd_acceptor_create(base, fd, &acceptor_ops, st, err);
	if (st->acceptor)
		return st;
	hvd_preauth_destroy(st);
	return NULL;
}

void hvd_preauth_stop(struct hvd_preauth *st)
{
	hvd_acceptor_pause(st->acceptor);
}

void hvd_preauth_destroy(struct hvd_preauth *st)
{
	if (!st)
		return;
	while (!TAILQ_EMPTY(&st->pending))
		drop(TAILQ_FIRST(&st->pending));
	hvd_acceptor_destroy(st->acceptor);
	hvd_peer_table_destroy(st->peers);
	hvd_timer_free(st->late);
	free(st);
}
