/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay_node.h - a rendezvous server that is the root, an inner relay or a leaf of a tree over loopback, with the
 * handshakes that a launch makes. For tests and benchmarks; several may be in one process.
 */
#ifndef HVD_TESTS_UNIT_RELAY_NODE_H
#define HVD_TESTS_UNIT_RELAY_NODE_H

#include "agent/dial.h"
#include "lib/net/listen.h"
#include "lib/protocol/preauth.h"
#include "lib/rendezvous/server.h"

#include <string.h>

#define RELAY_SECRET "what all of this tree have, 32 b"

struct relay_node {
	struct event_base *base;
	struct hvd_rv_access *access;
	struct hvd_rv *rv;
	in_port_t port; /* for clients, at 127.0.0.1 */
	struct hvd_session session;
	struct hvd_preauth *pending;
	in_port_t relay_port; /* for relays below */
	struct hvd_boot parent;
	struct hvd_dial *link;
	unsigned lost, ups; /* how often it has lost a parent, and got one */
	int conn_fd;        /* of the connection to the parent, once it has had one */
	/* Called when the parent is lost; NULL: nothing is done. */
	void (*parent_lost)(struct relay_node *node);
	void *arg;
	int send_buffer;    /* bytes of the kernel for each connection to a relay below; 0: its default */
	struct hvd_err err; /* why something failed */
};

static inline void relay_node_session(struct hvd_session *s, const char *id)
{
	memset(s, 0, sizeof(*s));
	memset(s->id, 'a', sizeof(s->id) - 1);
	if (id)
		memcpy(s->id, id, sizeof(s->id));
	s->identity.kind = HVD_ID_KEY;
	memcpy(&s->identity.key, RELAY_SECRET, sizeof(s->identity.key));
	hvd_session_bind_key(s);
	s->key = s->identity.key;
}

static inline void relay_node_on_lost(void *arg)
{
	struct relay_node *n = arg;

	n->lost++;
	if (n->parent_lost)
		n->parent_lost(n);
}

static inline void relay_node_proven(struct hvd_conn *conn, void *arg)
{
	const struct relay_node *n = arg;

	if (n->send_buffer > 0)
		setsockopt(hvd_conn_fd(conn), SOL_SOCKET, SO_SNDBUF, &n->send_buffer, sizeof(n->send_buffer));
	hvd_rv_relay_take(n->rv, conn);
}

static inline void relay_node_refused(const struct hvd_addr *from, const struct hvd_err *why, void *arg)
{
	(void)from;
	((struct relay_node *)arg)->err = *why;
}

static inline void relay_node_full(void *arg)
{
	(void)arg;
}

/* Accept relays below, `max` at a time. */
static inline int relay_node_open(struct relay_node *n, unsigned max)
{
	static const struct hvd_preauth_ops ops = {.proven = relay_node_proven,
						   .refused = relay_node_refused,
						   .dropped = relay_node_refused,
						   .full = relay_node_full};
	int fd = hvd_listen_any(true, 0, 0, &n->relay_port, &n->err);

	if (fd < 0)
		return -1;
	n->pending = hvd_preauth_create(n->base, fd, &n->session, max, &ops, n, &n->err);
	return n->pending ? 0 : -1;
}

/* Begin to serve. `cfg` has what differs from hvd_rv_config_init(); a relay has cfg->relay and cfg->relay_id. The
 * caller has set base, parent_lost and arg, and all else is zero. -1 with n->err. */
static inline int relay_node_start(struct relay_node *n, const struct hvd_rv_config *cfg, const struct hvd_log *log)
{
	static const char *const loopback[] = {"127.0.0.1"};
	struct hvd_rv_config c = *cfg;

	relay_node_session(&n->session, NULL);
	n->access = hvd_rv_access_create();
	c.access = n->access;
	c.tcpstore = true;
	c.parent_lost = relay_node_on_lost;
	c.parent_lost_arg = n;
	n->rv = hvd_rv_create(n->base, &c, log, &n->err);
	if (!n->rv || hvd_rv_listen(n->rv, loopback, 1, 0, 0, &n->err) != 0)
		return -1;
	n->port = hvd_rv_port(n->rv);
	return 0;
}

static inline void relay_node_up(struct hvd_conn *conn, void *arg)
{
	struct relay_node *n = arg;

	n->ups++;
	n->conn_fd = hvd_conn_fd(conn);
	hvd_rv_relay_up(n->rv, conn);
}

static inline void relay_node_down(const struct hvd_err *why, void *arg)
{
	struct relay_node *n = arg;

	n->err = *why;
	hvd_rv_relay_up(n->rv, NULL);
}

/* Connect to a parent that listens at this port of loopback. It may be called again after the parent was lost. */
static inline void relay_node_connect(struct relay_node *n, in_port_t port, double seconds)
{
	hvd_dial_destroy(n->link);
	memset(&n->parent, 0, sizeof(n->parent));
	hvd_addr_parse("127.0.0.1", &n->parent.addrs[0]);
	n->parent.n_addrs = 1;
	n->parent.port = port;
	n->link = hvd_dial_create(n->base, &n->parent, &n->session, hvd_deadline_in(seconds), relay_node_up,
				  relay_node_down, n);
}

static inline void relay_node_end(struct relay_node *n)
{
	hvd_dial_destroy(n->link);
	hvd_preauth_destroy(n->pending);
	hvd_rv_destroy(n->rv);
	hvd_rv_access_destroy(n->access);
	memset(n, 0, sizeof(*n));
}

#endif
