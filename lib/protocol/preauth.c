/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pending connection begins as a descriptor to which the greeting was sent. When its first bytes arrive, it gets an
 * hvd_conn and does the handshake; most connections of a flood never get that far. It ends when it is authenticated,
 * refused, breaks the protocol, is closed by the peer, takes too long, or must make room. All pending connections are
 * in one list by age, for the time limit, and in the table of peers.
 */
#include "preauth.h"

#include "lib/base/xalloc.h"
#include "lib/net/accept.h"
#include "lib/net/peer_table.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define HANDSHAKE_SECONDS 10.0
#define SEND_SECONDS      5.0

struct unauthenticated {
	struct hvd_peer_entry entry; /* the first member, so that an entry leads back here */
	struct hvd_preauth *owner;
	struct unauthenticated *prev, *next; /* by age */
	hvd_time until;
	int fd; /* -1 when there is a connection */
	struct event *said;
	struct hvd_conn *conn;
	struct hvd_handshake hs;
};

struct hvd_preauth {
	struct event_base *base;
	struct hvd_session *session;
	struct hvd_preauth_ops ops;
	void *arg;
	struct hvd_acceptor *acceptor;
	struct hvd_peer_table *peers;
	struct unauthenticated *first, *last; /* the oldest, the newest */
	struct event *late;
	unsigned max;
	bool told_full;
};

/* Free the pending connection, whose connection or descriptor is closed or has another owner. */
static void forget(struct unauthenticated *s)
{
	struct hvd_preauth *st = s->owner;

	if (s->prev)
		s->prev->next = s->next;
	else
		st->first = s->next;
	if (s->next)
		s->next->prev = s->prev;
	else
		st->last = s->prev;
	hvd_peer_table_remove(st->peers, &s->entry);
	if (s->said)
		event_free(s->said);
	free(s);
}

static void drop(struct unauthenticated *s)
{
	hvd_conn_free(s->conn);
	if (s->said) {
		event_free(s->said);
		s->said = NULL;
	}
	if (s->fd >= 0)
		close(s->fd);
	forget(s);
}

static struct hvd_addr from(const struct unauthenticated *s)
{
	return s->entry.peer->addr;
}

/* ---- pending connections that have sent something ---- */

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct unauthenticated *s = arg;
	struct hvd_preauth *st = s->owner;
	struct hvd_addr addr = from(s);
	struct hvd_err why = {0};
	int rc = hvd_handshake_message(&s->hs, conn, msg, &why);

	if (rc == 0)
		return;
	forget(s);
	if (rc > 0) {
		st->ops.proven(conn, st->arg);
	} else {
		hvd_conn_finish(conn, hvd_deadline_in(SEND_SECONDS));
		st->ops.refused(&addr, &why, st->arg);
	}
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct unauthenticated *s = arg;
	struct hvd_preauth *st = s->owner;
	struct hvd_addr addr = from(s);

	(void)conn;
	drop(s);
	/* Rank shims connect to all addresses and keep one connection: that others are closed is normal. */
	if (why->code != HVD_OK && why->code != HVD_E_NET)
		st->ops.dropped(&addr, why, st->arg);
}

static void on_said(evutil_socket_t fd, short what, void *arg)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};
	struct unauthenticated *s = arg;
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	(void)what;
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		event_add(s->said, NULL);
		return;
	}
	if (n <= 0) {
		drop(s);
		return;
	}
	event_free(s->said);
	s->said = NULL;
	s->fd = -1;
	s->conn = hvd_conn_new(s->owner->base, fd, true, &ops, s);
}

/* ---- begin and end ---- */

static void watch_the_oldest(struct hvd_preauth *st)
{
	struct timeval tv;

	if (!st->first || event_pending(st->late, EV_TIMEOUT, NULL))
		return;
	tv = hvd_left_tv(st->first->until);
	event_add(st->late, &tv);
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_preauth *st = arg;
	struct hvd_err why = {0};

	(void)fd;
	(void)what;
	hvd_err_set(&why, HVD_E_TIMEOUT, "the peer took too long");
	while (st->first && st->first->until <= hvd_now()) {
		struct hvd_addr addr = from(st->first);

		drop(st->first);
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
	s->said = event_new(st->base, fd, EV_READ, on_said, s);
	s->prev = st->last;
	if (s->prev)
		s->prev->next = s;
	else
		st->first = s;
	st->last = s;
	hvd_peer_table_add(st->peers, &addr, &s->entry);
	if (!s->said || greet(s) != 0) {
		drop(s);
		return;
	}
	event_add(s->said, NULL);
	if (hvd_peer_table_count(st->peers) > st->max)
		drop((struct unauthenticated *)hvd_peer_table_busiest(st->peers));
	watch_the_oldest(st);
}

static bool on_full(void *arg)
{
	struct hvd_preauth *st = arg;

	if (st->first) {
		drop((struct unauthenticated *)hvd_peer_table_busiest(st->peers));
		return true;
	}
	if (!st->told_full)
		st->ops.full(st->arg);
	st->told_full = true;
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
	st->peers = hvd_peer_table_create();
	st->late = evtimer_new(base, on_late, st);
	if (st->late && (st->acceptor = hvd_acceptor_create(base, fd, &acceptor_ops, st, err)))
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
	while (st->first)
		drop(st->first);
	hvd_acceptor_destroy(st->acceptor);
	hvd_peer_table_destroy(st->peers);
	if (st->late)
		event_free(st->late);
	free(st);
}
