/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detached.h - a process of this program that stays on a host as long as the ranks that others start there.
 *
 * It is forked by hvd-agent shim or plan in a task of Slurm, or of an MPI, where the user's program, or the rank shim
 * in front of it, goes on in the task's place, so the task cannot do the work itself. It is in the step's control
 * group: scancel, time limits and accounting reach it. It is no child of the task, and of no process that the task
 * waits for; it has a session of its own, and after the start none of the task's descriptors, so that the reader of the
 * task's output sees its end. It ignores the signals that Slurm or the user sends to all processes of the step, because
 * the ranks may need it while they act on them.
 *
 * There are two processes. The watchdog only waits, for the end of the tasks (step_tasks.h) or of the detached, and
 * kills the detached when the tasks have ended and it has not, HVD_DETACHED_LAST_MS later: a detached that hangs, or
 * that somebody has stopped, would otherwise stay on the host with its ports, because Slurm with proctrack/linuxproc
 * does not find it. The detached waits for the end of the tasks, too, and kills the watchdog then. So both are gone at
 * once, unless both were stopped; then Slurm kills them, or they end when they go on. A detached that is stopped while
 * tasks run is sent SIGCONT after a while (stopped_child.h). A watchdog that somebody kills is not replaced, and the
 * detached goes on: the ranks need it.
 */
#ifndef HVD_DETACHED_H
#define HVD_DETACHED_H

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "step_tasks.h"

#include <event2/event.h>
#include <stdbool.h>

struct hvd_detached {
	struct hvd_log log; /* on standard error of what has started it, and, after hvd_detached_detach(), of a task
			       that runs */
	pid_t task;         /* that task; 0 = the first of `tasks` */
	/* Private: */
	int err; /* standard error of what has started it; 0 = closed */
	struct hvd_step_tasks tasks;
	struct event *ended;
	pid_t watchdog; /* 0: there is none */
	void (*over)(void *arg);
	void *arg;
};

struct hvd_detached_opts {
	const char *name, *purpose;  /* that ps(1) shows (process_name.h); the watchdog's name is hvd-watchdog */
	struct hvd_step_tasks tasks; /* not open; for which it stays */
	const int *keep;             /* the detached's descriptors, besides 0, 1 and 2, which are /dev/null */
	size_t n_keep;
	int spare;                 /* the watchdog's descriptor; 0 = none */
	const struct hvd_log *log; /* prefix and level of the detached's */
	/* Called in the new process, which has all of this one's memory. It ends when the function returns. */
	void (*run)(struct hvd_detached *self, void *arg);
	void *arg;
	/* Called in the watchdog when the detached has ended before the tasks: its pid and its status as from
	 * waitpid(2), and `spare`, which is still open. May be NULL. */
	void (*lost)(pid_t pid, int status, int spare, struct hvd_step_tasks *tasks, void *arg);
};

/* Start one. Returns its pid; -1 with err set: nothing was started. */
pid_t hvd_detached_start(const struct hvd_detached_opts *opts, struct hvd_err *err);

/* How long the detached may take to end after the tasks. */
#define HVD_DETACHED_LAST_MS 500

/* In run(): close what has been kept of the process that has started this one. */
void hvd_detached_detach(struct hvd_detached *self);
/* In run(), once: have `over` called from the event loop when the tasks have ended. */
void hvd_detached_watch(struct hvd_detached *self, struct event_base *base, void (*over)(void *arg), void *arg);
/* From the event loop: have all tasks ended by now? Then `over` follows. */
bool hvd_detached_tasks_over(struct hvd_detached *self);
/* Has what had started the tasks ended before them? */
bool hvd_detached_orphaned(const struct hvd_detached *self);
/* When the event loop has ended: watch no longer. */
void hvd_detached_unwatch(struct hvd_detached *self);

#endif
