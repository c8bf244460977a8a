/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subcommand_host.h - hvd-agent host in an agent that has come by itself.
 */
#ifndef HVD_SUBCOMMAND_HOST_H
#define HVD_SUBCOMMAND_HOST_H

#include "join.h"
#include "lib/base/log.h"

/* Be the node agent that joined->args describes, over the agent's connection. Takes over *joined. Returns the exit
 * status. */
int hvd_subcommand_host_joined(struct hvd_joined *joined, const struct hvd_log *log);

#endif
