/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_ranks.h - which ranks of the launch NCCL means.
 *
 * NCCL knows a rank of a communicator by its number there, an address of its host, and its process's number in the
 * process's own pid namespace. A rank of the launch is meant if its host has that address, and one of its processes that
 * number, and no other rank's has. In a container with addresses of its own no rank is found.
 */
#ifndef HVD_DRIVER_NCCL_RANKS_H
#define HVD_DRIVER_NCCL_RANKS_H

#include "launcher/hosts/host_table.h"

#include <jansson.h>

/* Add "host":NAME and "rank":R to those RANKs of `nccl` (agent/nccl_comms.h) whose host and rank are found. `ranks` has for
 * each host of the table, by its number, an array of the ranks in agent/stacks.h, or something else. Anything in another
 * form is left out. */
void hvd_nccl_ranks_find(json_t *nccl, const json_t *ranks, const struct hvd_host_table *table);

#endif
