/* SPDX-License-Identifier: Apache-2.0 */
/*
 * join.h - hvd-agent as a self-registering agent (hvdrun --launcher=join).
 *
 * The agent offers its host, and waits. When the launch needs the host, the agent becomes the host's agent
 * (spawned.h), in its own directory and environment. It serves one launch once. When the launcher's connection
 * ends, or the agent gets SIGTERM, SIGINT or SIGHUP, it ends its ranks and then itself.
 */
#ifndef HVD_AGENT_JOIN_H
#define HVD_AGENT_JOIN_H

#include "ending.h"
#include "lib/base/log.h"
#include "lib/base/strv.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/conn.h"
#include "lib/protocol/handshake.h"

#include <event2/event.h>
#include <stdbool.h>

struct hvd_join_opts {
	const char *address;  /* where the launch is (lib/host/join.h) */
	const char *key_file; /* "-": stdin has 64 hex digits and a newline, and the agent ends when stdin does */
	const char *name;     /* what the host is called; NULL = its host name */
	const char *slots;    /* a number; NULL = 1 */
	const char *index;    /* a number; NULL = none */
	const char *timeout;  /* seconds to reach the launcher; NULL = 30 */
};

/* A launch needs this agent. */
struct hvd_join {
	struct event_base *base; /* the loop of `conn` */
	struct hvd_conn *conn;   /* to the launcher, whose driver waits for the agent's registration */
	struct hvd_session session;
	struct hvd_boot boot;
	struct hvd_strv args; /* the command line of hvd-agent, from the word `host` on */
	struct hvd_ending *ending;
};

/* Blocks. Returns -1 if the launch needs this agent: *join is set. Otherwise returns the exit status: 0 if the launch
 * did not need the agent, 1 and 2 after an error, 128 plus a signal's number; the user was told why. */
int hvd_join_wait(const struct hvd_join_opts *opts, struct hvd_join *join, const struct hvd_log *log);

#endif
