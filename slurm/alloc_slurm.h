/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc_slurm.h - the allocation of a Slurm job or step, from the environment that Slurm gives to it.
 *
 * Environments are untrusted input, and are passed in: nothing here reads the environment of the process.
 */
#ifndef HVD_ALLOC_SLURM_H
#define HVD_ALLOC_SLURM_H

#include "lib/base/err.h"
#include "lib/base/strv.h"
#include "lib/host/alloc.h"

#include <stdbool.h>

/* Does this environment belong to a Slurm job? A heterogeneous job counts. */
bool hvd_alloc_in_slurm(char *const *envp);

/* Does it belong to a heterogeneous job? */
bool hvd_alloc_is_het(char *const *envp);
/* Returns 0, or -1 with err set (HVD_E_USAGE) if the job is a heterogeneous one. */
int hvd_alloc_refuse_het(char *const *envp, struct hvd_err *err);

/* The hosts of the step that the environment belongs to, else those of the job. The slots of a host are the first known
 * one of these:
 *   slots_per_host, if it is greater than 0;
 *   tasks per GPU (SLURM_NTASKS_PER_GPU), if it is known how the GPUs are spread over the hosts;
 *   tasks, if the user asked for tasks (SLURM_NTASKS, SLURM_NTASKS_PER_NODE). In a step only if the step has more tasks
 *     than nodes: a shell that was started as a step has one task, and is there for the GPUs;
 *   GPUs (SLURM_GPUS_PER_NODE, SLURM_GPUS_ON_NODE, SLURM_JOB_GPUS, SLURM_STEP_GPUS, SLURM_GPUS, divided by
 *     SLURM_GPUS_PER_TASK or SLURM_TRES_PER_TASK). If the environment leaves open how they are spread over several
 *     hosts, and ask_controller is set, the controller is asked, see slurm.h;
 *   1.
 * Fails with HVD_E_NOENT if there is no job, and refuses heterogeneous jobs. After an error *out is empty. */
int hvd_alloc_from_slurm(struct hvd_alloc *out, char *const *envp, int slots_per_host, bool ask_controller,
			 struct hvd_err *err);

/* How many GPUs the job has on each of its hosts; -1: its user has not asked for them so. */
int hvd_slurm_gpus_per_node(char *const *envp);

/* Append the variables of a component of a heterogeneous job, by the names that a job of its own would have them by: Slurm
 * adds _HET_GROUP_ and the number of the component to them. */
void hvd_slurm_component_env(char *const *envp, int component, struct hvd_strv *out);

/* The same as hvd_alloc_from_slurm() for a heterogeneous job: the hosts of all of its components, each with the number of its
 * own. The slots follow from the variables of the component, as if it were a job of its own. In a step, too, the hosts are
 * those of the job.
 * HVD_E_USAGE if two components share a host. */
int hvd_alloc_from_het(struct hvd_alloc *out, char *const *envp, int slots_per_host, bool ask_controller,
		       struct hvd_err *err);

#endif
