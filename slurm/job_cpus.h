/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_cpus.h - how many CPUs and GPUs a Slurm job has on each of its hosts. CPUs, by SLURM_JOB_NODELIST and
 * SLURM_JOB_CPUS_PER_NODE, are Slurm's CPUs: hardware threads, unless the site counts cores.
 */
#ifndef HVD_JOB_CPUS_H
#define HVD_JOB_CPUS_H

#include "lib/host/alloc.h"

/* The CPUs of each of these hosts; 0 = not known, as of one that is none of the job's. Hosts of
 * components (hvd_alloc_from_het()) have those of their component. The caller frees the list. */
int *hvd_slurm_job_cpus(char *const *envp, const struct hvd_alloc *hosts);
/* The GPUs of each of them, by SLURM_GPUS_PER_NODE; -1 = not known. */
int *hvd_slurm_gpus_per_node(char *const *envp, const struct hvd_alloc *hosts);

#endif
