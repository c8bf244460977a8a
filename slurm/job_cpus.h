/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_cpus.h - how many CPUs and GPUs a Slurm job has on each of its hosts. CPUs, by SLURM_JOB_NODELIST and
 * SLURM_JOB_CPUS_PER_NODE, are Slurm's CPUs: hardware threads, unless the site counts cores.
 */
#ifndef HVD_JOB_CPUS_H
#define HVD_JOB_CPUS_H

#include "lib/host/alloc.h"

/* Each of these hosts has so many CPUs, 0 = not known, as of one that is none of the job's; and GPUs, by SLURM_GPUS_PER_NODE,
 * -1 = not known. Hosts of components (hvd_alloc_from_het()) have those of their component. The caller frees both lists. */
void hvd_slurm_job_counts(char *const *envp, const struct hvd_alloc *hosts, int **cpus, int **gpus);

#endif
