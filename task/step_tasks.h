/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_tasks.h - the tasks of a Slurm step on this host, to tell when the last one has ended.
 *
 * slurmstepd starts them all, in one session (_fork_all_tasks() in its sources; --pty gives one a session of its own).
 * What else has both of this, as a process that a task has left behind, is taken for one. A process that slurmstepd has
 * not started has no other tasks beside it.
 */
#ifndef HVD_STEP_TASKS_H
#define HVD_STEP_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct hvd_step_tasks {
	pid_t task; /* the one to begin with */
	pid_t parent, session;
	pid_t *others; /* found when the first task has ended, by when all have been started; NULL = not yet */
	size_t n, at;
};

/* A task that runs. */
void hvd_step_tasks_init(struct hvd_step_tasks *tasks, pid_t task);
/* A pidfd of a task that still runs: of the one of hvd_step_tasks_init() first, then of others. -1: there is none any
 * longer, or the kernel has no pidfds (before Linux 5.3). The caller closes it. */
int hvd_step_tasks_next(struct hvd_step_tasks *tasks);
void hvd_step_tasks_clear(struct hvd_step_tasks *tasks);

#endif
