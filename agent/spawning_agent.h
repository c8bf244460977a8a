/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawning_agent.h - hvd-agent host, where no scheduler watches the ranks: it starts them, watches them and ends them.
 *
 * A supervisor gets the plan, starts its ranks (spawned_ranks.h), tells the driver how each of them ended, and keeps
 * its connection to the driver until they have all ended. When the driver says so, or the connection ends, or the
 * supervisor gets SIGTERM, SIGINT or SIGHUP, it ends its ranks, and then itself.
 *
 * The backend starts one process for each host (fork, ssh, blaunch, lsrun), or an agent has come by itself (join.h).
 * This process is the host's node agent, and starts all ranks of the host. In an elastic job it starts and stops ranks
 * for as long as the job runs: the driver's messages are in launcher/driver/agent_registry.h.
 */
#ifndef HVD_SPAWNING_AGENT_H
#define HVD_SPAWNING_AGENT_H

#include "join.h"
#include "lib/base/log.h"
#include "lib/protocol/boot.h"
#include "spawned_ranks.h"
#include "taskinfo.h"

/* Returns the exit status: that of the first rank that failed, as a shell gives it. If `refusal` has a code, this host
 * cannot have ranks: the driver is told why, and none is started. */
int hvd_spawning_agent_run(const struct hvd_boot *boot, struct hvd_taskinfo *info,
			   const struct hvd_spawned_ranks_opts *opts, const struct hvd_err *refusal,
			   const struct hvd_log *log);

/* The same in an agent that came by itself, over its connection, which is taken over. */
int hvd_spawning_agent_connect(struct hvd_join *join, struct hvd_taskinfo *info,
			       const struct hvd_spawned_ranks_opts *opts, const struct hvd_log *log);

#endif
