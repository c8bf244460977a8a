/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurm_step.h - the step of Slurm's that a process was started in.
 */
#ifndef HVD_SLURM_STEP_H
#define HVD_SLURM_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Is a process a task of a step that srun has started, or a descendant of one? Then `step` is "JOB.STEP". The process
 * of a batch script or of salloc's interactive step is not. Told by its ancestors in `proc` ("/proc"), for the variable
 * SLURM_STEP_ID stays in the environment of a job that was submitted from within a step. False also where that cannot
 * be seen: other users' processes are hidden, or the process is in a namespace of its own. */
bool hvd_slurm_step_of(pid_t pid, const char *proc, char *step, size_t len);

#endif
