/* SPDX-License-Identifier: Apache-2.0 */
#include "clients.h"

#include "lib/base/xalloc.h"
#include "lib/net/addr.h"
#include "lib/net/listen.h"
#include "lib/process/rlimits.h"
#include "lib/protocol/preauth.h"
#include "lib/protocol/worlds.h"
#include "lib/rendezvous/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEND_SECONDS  5.0
#define OFFER_SECONDS 10.0
/* How many connections that have proven nothing yet there may be at once: half of the descriptors, within these
 * limits. */
#define MIN_PENDING 64
#define MAX_PENDING 32768
/* Refused connections that the user is warned of; with --verbose all are logged. */
#define MAX_WARNINGS 8

struct hvd_clients {
	struct hvd_session *session;
	const struct hvd_clients_ops *ops; /* NULL: nobody uses the clients */
	void *arg;
	hvd_offer_fn *offer; /* NULL: agents are started */
	void *offer_arg;
	const struct hvd_log *log;
	struct hvd_preauth *pending;
	bool loopback;
	in_port_t port;
	TAILQ_HEAD(hvd_client_list, hvd_client) proven; /* oldest first */
	unsigned n_warnings;
	bool first_called; /* `first` was called */
};

struct hvd_client_relay {
	SLIST_ENTRY(hvd_client_relay) in;
	struct hvd_client *client;
	unsigned world;
	struct hvd_rv_child *child;
};

void hvd_client_release(struct hvd_client_io *io)
{
	if (io->client)
		io->client->io = NULL;
	io->client = NULL;
}

static void drop(struct hvd_client *cl, const struct hvd_err *why)
{
	struct hvd_client_io *io = cl->io;

	if (io) {
		hvd_client_release(io);
		io->gone(io, why);
	}
	while (!SLIST_EMPTY(&cl->relays))
		hvd_rv_child_over(SLIST_FIRST(&cl->relays)->child); /* on_dropped() follows */
	TAILQ_REMOVE(&cl->owner->proven, cl, in);
	free(cl);
}

void hvd_client_finish(struct hvd_client *cl)
{
	struct hvd_conn *conn = cl->conn;
	struct hvd_err why = {0};

	drop(cl, &why);
	hvd_conn_finish(conn, hvd_deadline_in(SEND_SECONDS));
}

static void peer_text(struct hvd_conn *conn, char text[HVD_ADDR_TEXT])
{
	struct hvd_addr peer = {0};

	if (hvd_addr_of_peer(hvd_conn_fd(conn), &peer) != 0)
		peer.family = AF_UNSPEC;
	hvd_addr_text(&peer, text);
}

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct hvd_client *cl = arg;
	const struct hvd_clients *cls = cl->owner;
	const char *type = "";

	(void)conn;
	hvd_get_str(msg, "t", 16, &type, NULL);
	if (!cl->io && cl->role == HVD_ROLE_NONE && cls->offer)
		cls->offer(cl, type, msg, cls->offer_arg);
	else if (!(cl->io && cl->io->message(cl->io, type, msg)) && cls->ops)
		cls->ops->message(cl, msg, cls->arg);
}

/* ---- the relays of its host ---- */

static void on_drained(struct hvd_conn *conn, void *arg)
{
	const struct hvd_client *cl = arg;

	(void)conn;
	for (const struct hvd_client_relay *relay = SLIST_FIRST(&cl->relays); relay; relay = SLIST_NEXT(relay, in))
		hvd_rv_child_drained(relay->child);
}

static void on_dropped(bool broken, void *arg)
{
	struct hvd_client_relay *relay = arg;

	SLIST_REMOVE(&relay->client->relays, relay, hvd_client_relay, in);
	if (broken)
		hvd_conn_send(relay->client->conn, hvd_world_mark(json_pack("{s:s}", "t", "relay"), relay->world));
	free(relay);
}

void hvd_client_relay(struct hvd_client *cl, unsigned world, struct hvd_rv *rv)
{
	struct hvd_client_relay *relay;

	for (relay = SLIST_FIRST(&cl->relays); relay; relay = SLIST_NEXT(relay, in))
		if (relay->world == world)
			return;
	relay = hvd_xcalloc(1, sizeof(*relay));
	*relay = (struct hvd_client_relay){.client = cl, .world = world};
	SLIST_INSERT_HEAD(&cl->relays, relay, in);
	relay->child = hvd_rv_child_share(rv, cl->conn, on_dropped, relay);
}

/* ---- connections ---- */

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct hvd_client *cl = arg;
	char peer[HVD_ADDR_TEXT];

	/* This side has closed the connection, and the other side cannot say why. */
	if (why->code == HVD_E_AUTH || why->code == HVD_E_LIMIT) {
		peer_text(conn, peer);
		hvd_warn(cl->owner->log, "dropped the connection from %s: %s", peer, why->msg);
	}
	if (cl->owner->ops)
		cl->owner->ops->gone(cl, why, cl->owner->arg);
	drop(cl, why);
	hvd_conn_free(conn);
}

void hvd_client_lose(struct hvd_client *cl, const struct hvd_err *why)
{
	on_closed(cl->conn, why, cl);
}

static void on_proven(struct hvd_conn *conn, void *arg)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed, .drained = on_drained};
	struct hvd_client *cl = hvd_xcalloc(1, sizeof(*cl));
	struct hvd_clients *cls = arg;

	cl->owner = cls;
	cl->conn = conn;
	TAILQ_INSERT_TAIL(&cls->proven, cl, in);
	hvd_conn_set_ops(conn, &ops, cl);
	if (!cls->loopback)
		hvd_conn_watch_host(conn);
	if (cls->offer)
		hvd_conn_set_deadline(conn, hvd_deadline_in(OFFER_SECONDS));
	if (!cls->first_called && cls->ops)
		cls->ops->first(cls->arg);
	cls->first_called = true;
}

void hvd_client_attach(struct hvd_client *cl, struct hvd_client_io *io)
{
	io->client = cl;
	cl->io = io;
	hvd_conn_set_deadline(cl->conn, 0);
}

static void on_refused(const struct hvd_addr *from, const struct hvd_err *why, void *arg)
{
	struct hvd_clients *cls = arg;
	char peer[HVD_ADDR_TEXT];

	hvd_addr_text(from, peer);
	if (cls->n_warnings == MAX_WARNINGS) {
		hvd_verbose(cls->log, "refused a connection from %s: %s", peer, why->msg);
		return;
	}
	hvd_warn(cls->log, "refused a connection from %s: %s", peer, why->msg);
	if (why->hint[0])
		hvd_info(cls->log, "%s", why->hint);
	if (++cls->n_warnings == MAX_WARNINGS)
		hvd_warn(cls->log, "further refused connections are not reported");
}

static void on_unproven(const struct hvd_addr *from, const struct hvd_err *why, void *arg)
{
	struct hvd_clients *cls = arg;
	char peer[HVD_ADDR_TEXT];

	hvd_verbose(cls->log, "dropped a connection from %s: %s", hvd_addr_text(from, peer), why->msg);
}

static void on_full(void *arg)
{
	struct hvd_clients *cls = arg;

	hvd_warn(cls->log,
		 "no descriptor is left for another connection: the limit is %lu, and the hosts of the job "
		 "need at least one each",
		 hvd_nofile());
	hvd_info(cls->log,
		 "raise the limit where the launch starts: ulimit -Hn, or LimitNOFILE= of the service that it runs in");
}

struct hvd_client *hvd_clients_first(const struct hvd_clients *cls)
{
	return TAILQ_FIRST(&cls->proven);
}

struct hvd_client *hvd_clients_next(const struct hvd_client *cl)
{
	return TAILQ_NEXT(cl, in);
}

void hvd_clients_tell(struct hvd_clients *cls, const char *type)
{
	for (struct hvd_client *cl = hvd_clients_first(cls); cl; cl = hvd_clients_next(cl))
		hvd_conn_send(cl->conn, json_pack("{s:s}", "t", type));
}

/* The other half of the descriptors is for clients and for the rendezvous. */
static unsigned max_pending(void)
{
	unsigned long half = hvd_nofile() / 2;

	return half < MIN_PENDING ? MIN_PENDING : half > MAX_PENDING ? MAX_PENDING : (unsigned)half;
}

struct hvd_clients *hvd_clients_create(struct event_base *base, struct hvd_session *session, bool loopback,
				       in_port_t lo, in_port_t hi, const struct hvd_clients_ops *ops, void *arg,
				       const struct hvd_log *log, struct hvd_err *err)
{
	static const struct hvd_preauth_ops pending_ops = {on_proven, on_refused, on_unproven, on_full};
	struct hvd_clients *cls;
	in_port_t port;
	int fd = hvd_listen_any(loopback, lo, hi, &port, err);

	if (fd < 0)
		return NULL;
	cls = hvd_xcalloc(1, sizeof(*cls));
	TAILQ_INIT(&cls->proven);
	cls->port = port;
	cls->session = session;
	cls->loopback = loopback;
	cls->ops = ops;
	cls->arg = arg;
	cls->log = log;
	cls->pending = hvd_preauth_create(base, fd, session, max_pending(), &pending_ops, cls, err);
	if (cls->pending)
		return cls;
	close(fd);
	free(cls);
	hvd_err_prefix(err, "cannot listen for the hosts of the job");
	return NULL;
}

void hvd_clients_take_offers(struct hvd_clients *cls, hvd_offer_fn *offer, void *arg)
{
	cls->offer = offer;
	cls->offer_arg = arg;
}

void hvd_clients_use(struct hvd_clients *cls, const struct hvd_clients_ops *ops, void *arg)
{
	struct hvd_client *next;

	cls->ops = ops;
	cls->arg = arg;
	for (struct hvd_client *cl = ops ? NULL : TAILQ_FIRST(&cls->proven); cl; cl = next) {
		next = TAILQ_NEXT(cl, in);
		if (cl->role != HVD_ROLE_NONE || !cl->io)
			hvd_client_finish(cl);
	}
}

void hvd_clients_address(const struct hvd_clients *cls, const struct hvd_this_host *self, struct hvd_boot *boot)
{
	memcpy(boot->session, cls->session->id, sizeof(boot->session));
	boot->port = cls->port;
	/* The last address is 127.0.0.1, which leads an agent on another host to its own host. */
	boot->n_addrs = (unsigned)self->n_addrs - (!cls->loopback && self->n_addrs > 1);
	memcpy(boot->addrs, self->addrs, boot->n_addrs * sizeof(*boot->addrs));
}

void hvd_clients_stop_listening(struct hvd_clients *cls)
{
	hvd_preauth_stop(cls->pending);
}

void hvd_clients_destroy(struct hvd_clients *cls)
{
	if (!cls)
		return;
	hvd_preauth_destroy(cls->pending);
	while (!TAILQ_EMPTY(&cls->proven))
		hvd_client_finish(TAILQ_FIRST(&cls->proven));
	free(cls);
}
