/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawning_agent.h - hvd-agent host and hvd-agent connect: start, watch and end the ranks of this host.
 *
 * A spawning agent gets the plan, starts its ranks (spawned_ranks.h), reports their ends to the driver, and keeps its
 * connection to the driver until all of them have ended. When the driver sends "end", or the connection ends, or the
 * agent gets SIGTERM, SIGINT or SIGHUP, it ends its ranks, and then itself.
 *
 * It is the one agent of its host, and starts all ranks of the host. The backend starts it (fork, ssh, blaunch, lsrun),
 * or it is a self-registering agent (join.h). In an elastic job it starts and stops ranks as long as the job runs; the
 * driver's messages are in launcher/driver/agent_commands.h.
 */
#ifndef HVD_SPAWNING_AGENT_H
#define HVD_SPAWNING_AGENT_H

#include "join.h"
#include "lib/base/log.h"
#include "lib/protocol/boot.h"
#include "spawned_ranks.h"
#include "taskinfo.h"

/* Returns the exit status: that of the first rank that failed, as a shell gives it, 0 if none failed. If `refusal` has a
 * code, this host cannot have ranks: the agent reports the reason to the driver, and starts none. */
int hvd_spawning_agent_run(const struct hvd_boot *boot, struct hvd_taskinfo *info,
			   const struct hvd_spawned_ranks_opts *opts, const struct hvd_err *refusal,
			   const struct hvd_log *log);

/* The same in a self-registering agent, over its connection. Takes ownership of *join. */
int hvd_spawning_agent_connect(struct hvd_join *join, struct hvd_taskinfo *info,
			       const struct hvd_spawned_ranks_opts *opts, const struct hvd_log *log);

#endif
