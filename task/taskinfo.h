/* SPDX-License-Identifier: Apache-2.0 */
/*
 * taskinfo.h - where a shim finds itself: which rank of which host.
 *
 * What the launch backend's environment says, per backend one reader. The
 * driver holds it against what the other hosts say.
 */
#ifndef HVD_TASKINFO_H
#define HVD_TASKINFO_H

#include "lib/base/err.h"

#include <stdint.h>

struct hvd_taskinfo {
	char name[256]; /* this host, as the scheduler calls it */
	uint32_t node;  /* its index, 0 … nodes-1 */
	uint32_t nodes;
	uint32_t rank; /* of this process; unused where one shim starts a host's ranks */
	uint32_t size;
	uint32_t local_rank;
	uint32_t local_size;
	uint32_t *ranks; /* this host's ranks by local rank, local_size of them; owned */
};

/* Inside a Slurm step: SLURM_PROCID, SLURM_LOCALID, SLURM_NODEID, SLURM_GTIDS, SLURM_STEP_NUM_NODES,
 * SLURM_STEP_NUM_TASKS, SLURMD_NODENAME (srun(1), "OUTPUT ENVIRONMENT VARIABLES"). On error *info holds nothing to
 * free. */
int hvd_taskinfo_slurm(struct hvd_taskinfo *info, struct hvd_err *err);

/* Started by an MPI, which tells rank and size only: OMPI_COMM_WORLD_* (Open MPI, IBM Spectrum MPI), PMI_RANK with
 * MPI_LOCALRANKID (MPICH and Intel MPI: hydra), else PMIX_RANK. `hosts` is where the launcher had it put them,
 * "HOST:SLOTS,…", slot by slot; an MPI that says otherwise is an error. */
int hvd_taskinfo_mpi(const char *hosts, struct hvd_taskinfo *info, struct hvd_err *err);

/* A task of jsrun (doc: JSM_NAMESPACE_*; PMIX_RANK and OMPI_COMM_WORLD_* where they are there as well). `hosts` as
 * above; all variables must tell the same. */
int hvd_taskinfo_jsrun(const char *hosts, struct hvd_taskinfo *info, struct hvd_err *err);

/* As the launcher told a shim that starts a whole host: `host` is "INDEX:HOSTS:NAME", `ranks` "FIRST:COUNT". */
int hvd_taskinfo_host(const char *host, const char *ranks, struct hvd_taskinfo *info, struct hvd_err *err);

void hvd_taskinfo_free(struct hvd_taskinfo *info);

#endif
