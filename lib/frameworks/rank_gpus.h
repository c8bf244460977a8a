/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_gpus.h - do the ranks of a host see the GPUs that their programs will look for?
 *
 * Most programs of PyTorch use device LOCAL_RANK. A rank has no such device where its host has more ranks than GPUs, where
 * Slurm shows each task only its own GPU, and with instances of MIG, of which CUDA shows a process only the first one.
 */
#ifndef HVD_RANK_GPUS_H
#define HVD_RANK_GPUS_H

#include "lib/base/log.h"
#include "resolve.h"

/* The rank's part of the plan: LOCAL_RANK, LOCAL_WORLD_SIZE, WORLD_SIZE. */
struct hvd_rank_numbers {
	int local_rank, local_size, size;
};

/* Which devices JAX is to use: their indices among those that the rank sees, as "0" or "0,1". NULL: JAX finds that out. The
 * caller frees it. */
char *hvd_rank_gpus_jax(const struct hvd_rank_numbers *numbers, const struct hvd_rank_facts *facts);

/* Log a warning if device LOCAL_RANK is missing, and a note if ranks leave GPUs of their hosts unused. */
void hvd_rank_gpus_tell(const struct hvd_rank_numbers *numbers, const struct hvd_rank_facts *facts,
			const struct hvd_log *log);

#endif
