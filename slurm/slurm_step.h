/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurm_step.h - in which step of Slurm a process was started, and what another step has left in its environment.
 */
#ifndef HVD_SLURM_STEP_H
#define HVD_SLURM_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Was a process started by a step of srun, as a task or below one? Then `step` becomes "JOB.STEP". A batch script and
 * salloc's interactive step do not count. The answer comes from the ancestors of the process in the directory `proc`
 * ("/proc"), because SLURM_STEP_ID stays in the environment of a job that was submitted from within a step. False, too,
 * if the ancestors cannot be seen: /proc hides other users' processes, or the process is in a PID namespace. */
bool hvd_slurm_step_of(pid_t pid, const char *proc, char *step, size_t len);

/* Slurm tells the tasks of a step their CPU binding (SLURM_CPU_BIND and others). sbatch hands that on to a job which is
 * submitted from within a step, where srun takes it for the user's wish, and refuses the CPUs that the job has. Where
 * the process `pid`, by `proc` as above, is in no step, remove it from this process's environment. What a user has set
 * stays. Before there are threads. */
void hvd_slurm_forget_other_binding(pid_t pid, const char *proc);

#endif
