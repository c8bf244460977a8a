/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurm_nodes.h - what libslurm's records of nodes mean here. Only for builds with libslurm.
 */
#ifndef HVD_SLURM_NODES_H
#define HVD_SLURM_NODES_H

#include "lib/base/strv.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef HVD_WITH_SLURM

#include <slurm/slurm.h>

/* Should nothing be started on a node with this node_state? See struct hvd_slurm_nodes in slurm.h. */
bool hvd_slurm_node_unusable(uint32_t node_state);

/* How many nodes a job could be given in place of the node of this name: as far as the records tell, the same can run
 * on them, they can be used and answer, and they are not among `excluded`. -1: there is no record of the node. */
long hvd_slurm_nodes_like(const node_info_msg_t *all, const char *name, const struct hvd_strv *excluded);

#endif

#endif
