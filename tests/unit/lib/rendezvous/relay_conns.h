/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay_conns.h - for tests: a relay of a server, and the two ends of a connection between a relay and its parent.
 */
#ifndef HVD_TESTS_RELAY_CONNS_H
#define HVD_TESTS_RELAY_CONNS_H

#include "lib/protocol/conn.h"
#include "lib/rendezvous/server.h"
#include "tests/unit/unit.h"

#include <sys/socket.h>

static inline void no_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
}

static inline void not_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
}

/* As they are once both ends have proven who they are. *up is the relay's. */
static inline void relay_conns(struct event_base *base, struct hvd_conn **up, struct hvd_conn **down)
{
	static const struct hvd_conn_ops ops = {.message = no_message, .closed = not_closed};
	const struct hvd_key key = {{1, 2, 3}};
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	*down = hvd_conn_new(base, fds[0], true, &ops, NULL);
	*up = hvd_conn_new(base, fds[1], false, &ops, NULL);
	hvd_conn_set_key(*down, &key);
	hvd_conn_set_key(*up, &key);
}

/* A relay of `root`, made like it. */
static inline struct hvd_rv *relay_of(struct hvd_rv *root, struct event_base *base, const struct hvd_rv_config *like,
				      const struct hvd_log *log)
{
	struct hvd_rv_config cfg = *like;
	struct hvd_conn *up, *down;
	struct hvd_rv *relay;

	cfg.relay = true;
	cfg.init_event = NULL;
	hvd_addr_parse("127.0.0.1", &cfg.relay_addr);
	relay = hvd_rv_create(base, &cfg, log, NULL);
	assert_non_null(relay);
	relay_conns(base, &up, &down);
	hvd_rv_relay_take(root, down);
	hvd_rv_relay_up(relay, up);
	return relay;
}

#endif
