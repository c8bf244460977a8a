/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawned.h - the agent of a host (agent.h) that starts, watches and ends the ranks itself (spawned_ranks.h): hvd-agent
 * host and hvd-agent connect.
 *
 * It is started by ssh, by LSF, by hvdrun on its own machine, by srun in a step of an elastic job, or it is a
 * self-registering agent (subcommand_connect.c). When the driver sends "end", or the connection ends, or the agent gets SIGTERM,
 * SIGINT or SIGHUP, it ends its ranks, and then itself. In an elastic job it starts and stops ranks as long as the job
 * runs.
 */
#ifndef HVD_SPAWNED_H
#define HVD_SPAWNED_H

#include "bootstrap.h"
#include "ending.h"
#include "lib/protocol/conn.h"
#include "lib/protocol/handshake.h"
#include "spawned_ranks.h"

/* A launch needs a self-registering agent. */
struct hvd_join {
	struct event_base *base; /* the loop of `conn` */
	struct hvd_conn *conn;   /* to the launcher, whose driver waits for the agent's registration */
	struct hvd_session session;
	struct hvd_ending *ending;
	struct hvd_bootstrap start; /* args: the command line of hvd-agent, from the word `host` on */
};

/* `join`: of a self-registering agent, with its connection to the launch, of which ownership is taken; NULL: the agent
 * connects to the driver. If start->refusal has a code, this host cannot have ranks: the agent reports the reason to the
 * driver, and starts none. Returns the exit status: that of the first rank that failed, as a shell gives it, 0 if none
 * failed. */
int hvd_spawned_run(struct hvd_join *join, struct hvd_bootstrap *start, const struct hvd_spawned_ranks_opts *opts);

#endif
