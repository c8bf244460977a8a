/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_tasks.h - the tasks of a Slurm step on this host, to tell when the last one has ended.
 *
 * slurmstepd starts them all, in one session (_fork_all_tasks() in its sources; --pty gives one a session of its own).
 * What else has both of this, as a process that a task has left behind, is taken for one. A process that slurmstepd has
 * not started has no other tasks beside it. When slurmstepd has ended nobody waits for its tasks any longer, so they
 * count as ended.
 *
 * Each process that runs has a pidfd here, in an epoll instance: nothing is polled, and the number of a process that
 * has ended is never taken for it. Linux before 5.3 has no pidfds: there the processes are looked at in /proc, five
 * times a second.
 */
#ifndef HVD_STEP_TASKS_H
#define HVD_STEP_TASKS_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct hvd_step_tasks {
	int fd; /* for poll(2), once open: readable when a task may have ended; then call hvd_step_tasks_left() */
	/* Private: */
	pid_t task, parent, session; /* task 0: there always are tasks; parent 0: nothing is known of other tasks */
	struct hvd_step_task *all;
	size_t n;
	bool orphaned; /* what has started them has ended */
	bool ticks;    /* fd is a timer: there are no pidfds */
};

/* The task `task`, which runs, and those beside it. It may have ended when the others are looked for. In a struct that
 * is zeroed instead there are tasks for ever. */
void hvd_step_tasks_init(struct hvd_step_tasks *tasks, pid_t task);
/* Watch all that run now, in this process: one that is forked after the call calls it, too, on a copy from before. -1
 * with err set: no descriptor is left; then nothing is watched. */
int hvd_step_tasks_open(struct hvd_step_tasks *tasks, struct hvd_err *err);
/* Forget the tasks that have ended. When there is no other, look for tasks that were started since. False: none is
 * left. */
bool hvd_step_tasks_left(struct hvd_step_tasks *tasks);
/* A task that is watched, the one of hvd_step_tasks_init() first; 0 = none. */
pid_t hvd_step_tasks_first(const struct hvd_step_tasks *tasks);
void hvd_step_tasks_clear(struct hvd_step_tasks *tasks); /* may be zeroed, or not open */

#endif
