/* SPDX-License-Identifier: Apache-2.0 */
#include "clients.h"

#include "addr.h"
#include "listen.h"
#include "xalloc.h"

#include <event2/listener.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HANDSHAKE_SECONDS 10.0
#define SEND_SECONDS      5.0
/* Strangers that have not proven anything yet, at once. One more takes the place of the one that has been at it for
 * longest: a shim needs some milliseconds, so that whoever wants to keep shims out would have to connect so many
 * times in such a while, rather than once in ten seconds. */
#define MAX_STRANGERS 4096
/* Refusals that the user is told of; all are with --verbose. */
#define MAX_WARNINGS 8
/* No descriptor is left, and no stranger to take one from. */
#define PAUSE_MS 100

struct list {
	struct hvd_client *first, *last;
};

struct hvd_clients {
	struct event_base *base;
	struct hvd_session *session;
	const struct hvd_clients_ops *ops;
	void *arg;
	const struct hvd_log *log;
	struct evconnlistener *listener;
	in_port_t port;
	struct list strangers, proven; /* oldest first */
	struct event *resume;
	unsigned n_strangers, n_warnings;
	bool met; /* `first` was called */
};

static void append(struct list *list, struct hvd_client *cl)
{
	cl->next = NULL;
	cl->prev = list->last;
	if (cl->prev)
		cl->prev->next = cl;
	else
		list->first = cl;
	list->last = cl;
}

static void take_out(struct list *list, struct hvd_client *cl)
{
	if (cl->prev)
		cl->prev->next = cl->next;
	else
		list->first = cl->next;
	if (cl->next)
		cl->next->prev = cl->prev;
	else
		list->last = cl->prev;
}

static void drop(struct hvd_client *cl)
{
	struct hvd_clients *cls = cl->owner;

	if (cl->hs)
		cls->n_strangers--;
	take_out(cl->hs ? &cls->strangers : &cls->proven, cl);
	free(cl->hs);
	free(cl);
}

void hvd_client_finish(struct hvd_client *cl)
{
	hvd_conn_finish(cl->conn, hvd_deadline_in(SEND_SECONDS));
	drop(cl);
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

	(void)conn;
	cl->owner->ops->message(cl, msg, cl->owner->arg);
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct hvd_client *cl = arg;
	char peer[HVD_ADDR_TEXT];

	/* This side has ended it, and nobody else can say why. */
	if (why->code == HVD_E_AUTH || why->code == HVD_E_LIMIT) {
		peer_text(conn, peer);
		hvd_warn(cl->owner->log, "dropped the connection from %s: %s", peer, why->msg);
	}
	cl->owner->ops->gone(cl, why, cl->owner->arg);
	drop(cl);
	hvd_conn_free(conn);
}

static void warn_of(struct hvd_clients *cls, struct hvd_conn *conn, const struct hvd_err *why)
{
	char peer[HVD_ADDR_TEXT];

	peer_text(conn, peer);
	if (cls->n_warnings == MAX_WARNINGS) {
		hvd_verbose(cls->log, "refused a connection from %s: %s", peer, why->msg);
		return;
	}
	hvd_warn(cls->log, "refused a connection from %s: %s", peer, why->msg);
	if (why->hint[0])
		hvd_info(cls->log, "%s", why->hint);
	if (++cls->n_warnings == MAX_WARNINGS)
		hvd_warn(cls->log, "more refused connections are not told of");
}

static void on_stranger_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	static const struct hvd_conn_ops ops = {on_message, on_closed};
	struct hvd_client *cl = arg;
	struct hvd_clients *cls = cl->owner;
	struct hvd_err why = {0};
	int rc = hvd_handshake_message(cl->hs, conn, msg, &why);

	if (rc > 0) {
		cls->n_strangers--;
		take_out(&cls->strangers, cl);
		append(&cls->proven, cl);
		free(cl->hs);
		cl->hs = NULL;
		hvd_conn_set_deadline(conn, 0);
		hvd_conn_set_ops(conn, &ops, cl);
		if (!cls->met)
			cls->ops->first(cls->arg);
		cls->met = true;
	} else if (rc < 0) {
		warn_of(cls, conn, &why);
		hvd_client_finish(cl);
	}
}

static void on_stranger_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct hvd_client *cl = arg;
	char peer[HVD_ADDR_TEXT];

	/* Shims try all addresses and keep one: connections that just end are ordinary. */
	if (why->code != HVD_OK && why->code != HVD_E_NET) {
		peer_text(conn, peer);
		hvd_verbose(cl->owner->log, "dropped a connection from %s: %s", peer, why->msg);
	}
	drop(cl);
	hvd_conn_free(conn);
}

static void make_room(struct hvd_clients *cls)
{
	struct hvd_client *oldest = cls->strangers.first;

	hvd_conn_free(oldest->conn);
	drop(oldest);
}

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_clients *cls = arg;

	(void)fd;
	(void)what;
	evconnlistener_enable(cls->listener);
}

/* Out of descriptors, mostly. The connection stays in the kernel's queue, and would be reported again at once. */
static void on_accept_error(struct evconnlistener *listener, void *arg)
{
	struct hvd_clients *cls = arg;
	struct timeval tv = {.tv_usec = PAUSE_MS * 1000};

	if (cls->strangers.first) {
		make_room(cls);
		return;
	}
	evconnlistener_disable(listener);
	evtimer_add(cls->resume, &tv);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *sa, int len, void *arg)
{
	static const struct hvd_conn_ops ops = {on_stranger_message, on_stranger_closed};
	struct hvd_clients *cls = arg;
	struct hvd_client *cl;
	struct hvd_err why = {0};

	(void)listener;
	(void)sa;
	(void)len;
	if (cls->n_strangers >= MAX_STRANGERS)
		make_room(cls);
	cl = hvd_xcalloc(1, sizeof(*cl));
	cl->owner = cls;
	cl->hs = hvd_xcalloc(1, sizeof(*cl->hs));
	append(&cls->strangers, cl);
	cls->n_strangers++;
	cl->conn = hvd_conn_new(cls->base, fd, true, &ops, cl);
	hvd_conn_set_deadline(cl->conn, hvd_deadline_in(HANDSHAKE_SECONDS));
	if (hvd_handshake_start(cl->hs, cls->session, cl->conn, true, &why) != 0) {
		hvd_log_err(cls->log, &why);
		hvd_client_finish(cl);
	}
}

struct hvd_client *hvd_clients_first(const struct hvd_clients *cls)
{
	return cls->proven.first;
}

struct hvd_client *hvd_clients_next(const struct hvd_client *cl)
{
	return cl->next;
}

void hvd_clients_tell(struct hvd_clients *cls, const char *type)
{
	for (struct hvd_client *cl = hvd_clients_first(cls); cl; cl = hvd_clients_next(cl))
		hvd_conn_send(cl->conn, json_pack("{s:s}", "t", type));
}

struct hvd_clients *hvd_clients_create(struct event_base *base, struct hvd_session *session, bool loopback,
				       in_port_t lo, in_port_t hi, const struct hvd_clients_ops *ops, void *arg,
				       const struct hvd_log *log, struct hvd_err *err)
{
	struct hvd_clients *cls = hvd_xcalloc(1, sizeof(*cls));
	int fd = hvd_listen_any(loopback, lo, hi, &cls->port, err);

	cls->base = base;
	cls->session = session;
	cls->ops = ops;
	cls->arg = arg;
	cls->log = log;
	if (fd < 0) {
		free(cls);
		return NULL;
	}
	cls->listener = evconnlistener_new(base, on_accept, cls, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
	cls->resume = evtimer_new(base, on_resume, cls);
	if (cls->listener && cls->resume) {
		evconnlistener_set_error_cb(cls->listener, on_accept_error);
		return cls;
	}
	if (cls->listener)
		evconnlistener_free(cls->listener);
	else
		close(fd);
	free(cls);
	hvd_err_set(err, HVD_E_SYS, "cannot listen for the hosts of the job");
	return NULL;
}

in_port_t hvd_clients_port(const struct hvd_clients *cls)
{
	return cls->port;
}

void hvd_clients_boot(const struct hvd_clients *cls, const struct hvd_self *self, const struct hvd_driver_opts *opts,
		      struct hvd_boot *boot)
{
	memset(boot, 0, sizeof(*boot));
	memcpy(boot->session, cls->session->id, sizeof(boot->session));
	boot->port = cls->port;
	boot->n_addrs = (unsigned)self->n_addrs;
	memcpy(boot->addrs, self->addrs, self->n_addrs * sizeof(*boot->addrs));
	/* Loopback is for the rendezvous; a shim on another host would only meet its own there. */
	if (!opts->loopback && boot->n_addrs > 1)
		boot->n_addrs--;
	boot->timeout = opts->start_timeout;
	snprintf(boot->id, sizeof(boot->id), "%s", opts->id_text);
	boot->port_lo = opts->port_lo;
	boot->port_hi = opts->port_hi;
	boot->verbose = cls->log->level >= HVD_LOG_DEBUG ? 2 : cls->log->level >= HVD_LOG_VERBOSE;
}

void hvd_clients_stop_listening(struct hvd_clients *cls)
{
	event_del(cls->resume);
	evconnlistener_disable(cls->listener);
}

void hvd_clients_destroy(struct hvd_clients *cls)
{
	if (!cls)
		return;
	while (cls->strangers.first)
		hvd_client_finish(cls->strangers.first);
	while (cls->proven.first)
		hvd_client_finish(cls->proven.first);
	event_free(cls->resume);
	evconnlistener_free(cls->listener);
	free(cls);
}
