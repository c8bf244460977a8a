/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clients.h - the agents that are connected to the driver, one of each host, and watchdogs that report their end.
 *
 * Each connection must first prove that it belongs to the launch (preauth.h). Messages of other connections are not
 * passed on. Refused connections are logged. The hosts of all others are watched (hvd_conn_watch_host()).
 */
#ifndef HVD_CLIENTS_H
#define HVD_CLIENTS_H

#include "driver_opts.h"
#include "lib/base/log.h"
#include "lib/host/this_host.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/conn.h"
#include "lib/protocol/handshake.h"

#include <event2/event.h>
#include <sys/queue.h>

enum hvd_role {
	HVD_ROLE_NONE,   /* has sent no message that shows its role */
	HVD_ROLE_AGENT,  /* a host's node agent */
	HVD_ROLE_FORMER, /* an agent that was told to end */
};

struct hvd_rv;

struct hvd_client;

/* A self-registering agent (lib/host/join.h): waits until it is needed, and passes on the output and input of its
 * ranks. */
struct hvd_client_io {
	struct hvd_client *client; /* NULL: its connection has ended */
	/* Every message of JSON. True: it was only for this object. */
	bool (*message)(struct hvd_client_io *io, const char *type, const json_t *msg);
	/* The connection has ended, or is about to be closed. */
	void (*gone)(struct hvd_client_io *io, const struct hvd_err *why);
};

struct hvd_client {
	struct hvd_clients *owner;
	TAILQ_ENTRY(hvd_client) in;
	struct hvd_conn *conn;
	enum hvd_role role;
	uint32_t host;
	/* Of its host, without those that the rendezvous has dropped. */
	SLIST_HEAD(hvd_client_relays, hvd_client_relay) relays;
	struct hvd_client_io *io; /* not owned; NULL: it was started, and its ranks' output goes another way */
};

struct hvd_clients_ops {
	void (*first)(void *arg); /* the first connection has proven that it belongs to the launch */
	/* A message of a client. The client may be finished from within. */
	void (*message)(struct hvd_client *cl, json_t *msg, void *arg);
	/* A connection has ended; the client is released after the call. */
	void (*gone)(struct hvd_client *cl, const struct hvd_err *why, void *arg);
};

struct hvd_clients;

/* Listen (listen.h). `session` and `log` are not owned. `ops` may be NULL until hvd_clients_use(). NULL with err set. */
struct hvd_clients *hvd_clients_create(struct event_base *base, struct hvd_session *session, bool loopback,
				       in_port_t lo, in_port_t hi, const struct hvd_clients_ops *ops, void *arg,
				       const struct hvd_log *log, struct hvd_err *err);
void hvd_clients_destroy(struct hvd_clients *cls); /* finishes all clients; NULL is fine */
/* All agents register themselves: pass the first message of each connection, which must come within seconds, to
 * `offer`, which finishes the client or calls hvd_client_attach(). */
typedef void hvd_offer_fn(struct hvd_client *cl, const char *type, const json_t *msg, void *arg);
void hvd_clients_take_offers(struct hvd_clients *cls, hvd_offer_fn *offer, void *arg);
/* Call these ops from now on. NULL: their user ends; finish all clients that do not wait to be needed. */
void hvd_clients_use(struct hvd_clients *cls, const struct hvd_clients_ops *ops, void *arg);
/* Set session, port and addresses of *boot; `self` is this host. */
void hvd_clients_address(const struct hvd_clients *cls, const struct hvd_this_host *self, struct hvd_boot *boot);
void hvd_clients_stop_listening(struct hvd_clients *cls);

/* `io` gets the messages of the client first, until its `client` is NULL. */
void hvd_client_attach(struct hvd_client *cl, struct hvd_client_io *io);
/* `io` no longer passes on the output of its client's ranks. An `io` without a client is fine. */
void hvd_client_release(struct hvd_client_io *io);

/* All clients, the oldest first. NULL after the last. */
struct hvd_client *hvd_clients_first(const struct hvd_clients *cls);
struct hvd_client *hvd_clients_next(const struct hvd_client *cl);

/* Send {"t":type} to all clients. */
void hvd_clients_tell(struct hvd_clients *cls, const char *type);

/* The client's host has a relay of `rv`, the rendezvous of this world. The relay's messages come over the client's
 * connection. */
void hvd_client_relay(struct hvd_client *cl, unsigned world, struct hvd_rv *rv);

/* The client's host is lost: end as when its connection ends with this error. */
void hvd_client_lose(struct hvd_client *cl, const struct hvd_err *why);
/* Close the connection after the queued messages were sent. The client is released at once. */
void hvd_client_finish(struct hvd_client *cl);

#endif
