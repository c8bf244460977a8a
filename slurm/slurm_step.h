/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurm_step.h - the Slurm step in which a process was started, and the environment that another step has left there.
 */
#ifndef HVD_SLURM_STEP_H
#define HVD_SLURM_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Was a process started by a step of srun, as a task or below one? Then `step` becomes "JOB.STEP". A batch script and
 * salloc's interactive step do not count. The answer comes from the ancestors of the process in the directory `proc`
 * ("/proc"), because SLURM_STEP_ID stays in the environment of a job that was submitted from within a step; without a step
 * daemon among them, from the process's control groups. False, too, if neither shows it: /proc hides other users'
 * processes, or the process is in a PID namespace, and Slurm has made no control groups. */
bool hvd_slurm_step_of(pid_t pid, const char *proc, char *step, size_t len);

/* sbatch and salloc pass the variables of the step in which they run on to the job that they make. There these name
 * hosts that the job may not have, a number of tasks, and a CPU binding of which srun takes all as the user's wishes. If
 * the process `pid`, by `proc` as above, is in no step of the job of SLURM_JOB_ID, remove them from this process's
 * environment. If that cannot be seen, the step counts if the job has its nodes. A user's own settings stay. Call this
 * before there are threads. */
void hvd_slurm_forget_other_step(pid_t pid, const char *proc);

#endif
