/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srun_env.h - the environment of a step that hvdrun starts for an agent, not for the user's tasks.
 *
 * srun reads options from SLURM_… and SRUN_…: what sbatch was told (SLURM_GPUS), and what users export
 * (SRUN_CPUS_PER_TASK). They are about the user's tasks. A step that holds one agent would get one task's CPUs, memory
 * and GPUs by them, or would not start at all. So srun does not see them, and the agent's ranks do.
 */
#ifndef HVD_SRUN_ENV_H
#define HVD_SRUN_ENV_H

#include "lib/base/strv.h"

/* Rename all variables of Slurm that may be options of srun for a number, a place, a share or a binding of tasks, so that
 * srun does not know them. Stay: which job it is and how Slurm is reached, how a task's process runs, and where its
 * output goes. */
void hvd_srun_env_set_aside(struct hvd_strv *env);

/* In the step: give these variables their names back in this process's environment, except where Slurm has set a
 * variable of that name for the step. Call this before there are threads. */
void hvd_srun_env_restore(void);

#endif
