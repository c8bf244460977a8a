/* SPDX-License-Identifier: Apache-2.0 */
/*
 * taskinfo.h - which rank, on which host, a process of hvd-agent is.
 *
 * There is one reader for each source: a scheduler, an MPI or the launcher. The driver compares the information of all
 * hosts.
 */
#ifndef HVD_TASKINFO_H
#define HVD_TASKINFO_H

#include "lib/base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct hvd_taskinfo {
	char name[256]; /* this host, as the scheduler calls it */
	uint32_t node;  /* its index, 0 … nodes-1 */
	uint32_t nodes;
	uint32_t rank; /* of this process; 0 where one process starts all ranks of the host, and so is local_rank */
	uint32_t size;
	uint32_t local_rank;
	uint32_t local_size;
	uint32_t *ranks; /* this host's ranks by local rank, local_size of them; owned */
};

/* All readers return 0, or -1 with err set; *info then holds nothing to free. */

/* In a Slurm step, from SLURM_PROCID, SLURM_LOCALID, SLURM_NODEID, SLURM_GTIDS, SLURM_STEP_NUM_NODES,
 * SLURM_STEP_NUM_TASKS and SLURMD_NODENAME (srun(1), "OUTPUT ENVIRONMENT VARIABLES"). */
int hvd_taskinfo_slurm(struct hvd_taskinfo *info, struct hvd_err *err);

/* In a process that an MPI has started. The MPI gives only rank and size, and perhaps local rank and local size:
 * OMPI_COMM_WORLD_* (Open MPI, IBM Spectrum MPI), PMI_RANK with MPI_LOCALRANKID (MPICH, Intel MPI), else PMIX_RANK.
 * `hosts`, "HOST:SLOTS,…", is where the launcher had the MPI put the ranks, slot by slot. It is an error if the MPI's
 * variables disagree with it. */
int hvd_taskinfo_mpi(const char *hosts, struct hvd_taskinfo *info, struct hvd_err *err);

/* In a task of jsrun, from JSM_NAMESPACE_* and, where they are set, PMIX_RANK and OMPI_COMM_WORLD_*, which must agree.
 * `hosts` as above. */
int hvd_taskinfo_jsrun(const char *hosts, struct hvd_taskinfo *info, struct hvd_err *err);

/* In a process that starts all ranks of a host, from its command line: `host` is "INDEX:HOSTS:NAME", `ranks`
 * "FIRST:COUNT". */
int hvd_taskinfo_host(const char *host, const char *ranks, struct hvd_taskinfo *info, struct hvd_err *err);

/* If the plan numbers the ranks anew ("numbers" and "size", launcher/world/rank_numbers.c), do so here. The host may have
 * fewer ranks afterwards. -1 with err set: the numbers are malformed, and *info is unchanged. */
int hvd_taskinfo_renumber(struct hvd_taskinfo *info, const json_t *plan, struct hvd_err *err);

/* May this host have rank 0? `spares`: the job has spare hosts. */
bool hvd_taskinfo_may_have_rank0(const struct hvd_taskinfo *info, bool spares);

void hvd_taskinfo_free(struct hvd_taskinfo *info);

#endif
