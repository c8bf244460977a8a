/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_plans.h - the variables of all tasks of a host under srun --hvd, in one piece of memory (memfd).
 *
 * slurmstepd makes the memory before it forks the tasks: they inherit it, and no other process can open it. The host's
 * agent writes the memory once, before hvd-agent plan ends with 0, and each task then maps it and takes its own part:
 *
 *   AGENT NUL                          the agent's pid, in decimal digits
 *   NAME=VALUE NUL ... NUL, by task    the variables of each task, in the order of the tasks' local ids, and an empty
 *                                      string; only the empty string if the task takes no part in the job
 *
 * Uses nothing but libc: the SPANK plugin links it.
 */
#ifndef HVD_STEP_PLANS_H
#define HVD_STEP_PLANS_H

#include "lib/base/strv.h"

#include <stdint.h>
#include <sys/types.h>

/* The memory, in hvd-agent plan and in the agent. */
#define HVD_STEP_PLANS_FD 7

/* In a task's environment, if hvd-agent runs in place of the site's TaskProlog: what the plugin (spank/prolog.c) tells
 * hvd-agent (agent/main_agent.c). */
#define HVD_PROLOG_ENV       "SLURM_HVD_TASK_PROLOG" /* the site's program */
#define HVD_PROLOG_NAMES_ENV "SLURM_HVD_TASK_NAMES"  /* names of the plan's variables, separated by blanks */

/* Write the variables of `n` tasks, and close the descriptor. 0, or -1 with errno. */
int hvd_step_plans_write(int fd, pid_t agent, const struct hvd_strv *tasks, uint32_t n);
/* Where the variables of task `n` (from 0) begin in `memory`; *agent becomes the agent's pid. NULL: there are none, or
 * their end is not within `size`. */
char *hvd_step_plans_nth(char *memory, size_t size, uint32_t n, pid_t *agent);

#endif
