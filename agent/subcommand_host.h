/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subcommand_host.h - hvd-agent host in a self-registering agent.
 */
#ifndef HVD_SUBCOMMAND_HOST_H
#define HVD_SUBCOMMAND_HOST_H

#include "join.h"
#include "lib/base/log.h"

/* Be the agent that join->args describes, over the agent's connection. Takes ownership of *join. Returns the exit
 * status. */
int hvd_subcommand_host_join(struct hvd_join *join, const struct hvd_log *log);

#endif
