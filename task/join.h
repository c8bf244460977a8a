/* SPDX-License-Identifier: Apache-2.0 */
/*
 * join.h - hvd-task as an agent that comes to a launch by itself (hvdrun --launcher=join).
 *
 * The agent offers its host, and waits. When the launch needs the host, the agent starts the hvd-task that is the
 * host's node agent, in its own directory and environment, and carries what that reads and writes. It serves one launch
 * once. When the launcher's connection ends, or the agent gets SIGTERM, SIGINT or SIGHUP, it ends the node agent, and
 * so the ranks, and then itself. When the agent is killed, the kernel tells the node agent (PR_SET_PDEATHSIG).
 */
#ifndef HVD_TASK_JOIN_H
#define HVD_TASK_JOIN_H

#include "lib/base/log.h"

struct hvd_join_opts {
	const char *address;  /* where the launch is (lib/job/join.h) */
	const char *key_file; /* "-": stdin has 64 hex digits and a newline, and the agent ends when stdin does */
	const char *name;     /* what the host is called; NULL = its host name */
	const char *slots;    /* a number; NULL = 1 */
	const char *index;    /* a number; NULL = none */
	const char *timeout;  /* seconds to reach the launcher; NULL = 30 */
};

/* Blocks. Returns the exit status: the node agent's, 0 if the launch did not need this agent, 1 and 2 after an error,
 * of which the user was told. */
int hvd_join_run(const struct hvd_join_opts *opts, const struct hvd_log *log);

#endif
