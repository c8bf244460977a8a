/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_tasks.h - the tasks of a Slurm step on this host: have all of them ended?
 *
 * slurmstepd starts all tasks, in one session (_fork_all_tasks() in its sources; --pty gives one task a session of its
 * own). Another process with the same parent and session, such as one that a task has left behind, counts as a task. A
 * process that slurmstepd has not started has no other tasks beside it. When slurmstepd has ended, nobody waits for its
 * tasks any longer, so they count as ended.
 *
 * Each running process has a pidfd here, in an epoll instance: nothing is polled, and a reused process number is never
 * taken for an old process. Linux before 5.3 has no pidfds: there the processes are looked up in /proc, five times a
 * second.
 */
#ifndef HVD_STEP_TASKS_H
#define HVD_STEP_TASKS_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct hvd_step_tasks {
	int fd; /* for poll(2), once open: readable when a task may have ended; then call hvd_step_tasks_left() */
	bool orphaned; /* what has started them has ended */
	/* Private: */
	pid_t task, parent, session; /* task 0: there always are tasks; parent 0: nothing is known of other tasks */
	struct hvd_step_task *all;
	size_t n;
	bool ticks; /* fd is a timer: there are no pidfds */
};

/* The task `task`, which runs, and those beside it. It may have ended when the others are searched. In a zeroed struct
 * there are tasks for ever. */
void hvd_step_tasks_init(struct hvd_step_tasks *tasks, pid_t task);
/* Watch all tasks that run now, in this process. A process that is forked afterwards must call this, too, on a copy
 * from before. -1 with err set: no descriptor is left, and nothing is watched. */
int hvd_step_tasks_open(struct hvd_step_tasks *tasks, struct hvd_err *err);
/* Forget the tasks that have ended. If no other is left, look for tasks that were started since. False: none is
 * left. */
bool hvd_step_tasks_left(struct hvd_step_tasks *tasks);
/* A watched task, preferably the one of hvd_step_tasks_init(); 0 = none. */
pid_t hvd_step_tasks_first(const struct hvd_step_tasks *tasks);
/* SIGKILL for the tasks that are watched, and for their process groups: what has started them cannot end them any more. */
void hvd_step_tasks_kill(const struct hvd_step_tasks *tasks);
void hvd_step_tasks_clear(struct hvd_step_tasks *tasks); /* may be zeroed, or not open */

#endif
