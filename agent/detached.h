/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detached.h - a process of this program that stays on a host as long as the ranks that others start there.
 *
 * hvd-agent shim or plan forks the detached process in a task of Slurm or of an MPI. The task cannot do the work
 * itself, because the user's program, or the rank shim in front of it, goes on in the task's place. The detached
 * process is in the step's control group, so scancel, time limits and accounting reach it. It is no child of the task,
 * nor of any process that the task waits for. It has a session of its own, and after the start it has none of the
 * task's descriptors, so that the reader of the task's output sees the end of the output. It ignores the signals that
 * Slurm or the user sends to all processes of the step, because the ranks may need it while they act on them.
 *
 * There are two processes. The watchdog only waits for the end of the tasks (step_tasks.h) or of the detached process.
 * If the detached process has not ended HVD_DETACHED_LAST_MS after the tasks, the watchdog kills it. Otherwise a
 * detached process that hangs, or that somebody has stopped, would stay on the host with its ports, because Slurm with
 * proctrack/linuxproc does not find it. The detached process also waits for the end of the tasks, and then kills the
 * watchdog. So both end at once, unless both were stopped; then Slurm kills them, or they end when they are continued.
 *
 * If the detached process is stopped while tasks run, the watchdog sends SIGCONT after a while. If Slurm suspends a job, it
 * stops the watchdog, too, well before that. If somebody kills the watchdog, it is not replaced, and the detached process
 * goes on, because the ranks need it.
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
	struct hvd_step_tasks tasks; /* for which it stays */
	/* Private: */
	int err; /* standard error of what has started it; 0 = closed */
	struct event *ended;
	pid_t watchdog; /* 0: there is none */
	void (*over)(void *arg);
	void *arg;
};

struct hvd_detached_opts {
	const char *purpose; /* that ps(1) shows behind the name hvd-agent; the watchdog's name is hvd-watchdog */
	struct hvd_step_tasks tasks; /* not open; for which it stays */
	const int *keep;             /* the detached's descriptors, besides 0, 1 and 2, which are /dev/null */
	size_t n_keep;
	int backup_fd;             /* the watchdog's descriptor; 0 = none */
	const struct hvd_log *log; /* prefix and level of the detached's */
	/* Called in the new process, which has all of this process's memory. The new process ends when the function
	 * returns. */
	void (*run)(struct hvd_detached *self, void *arg);
	void *arg;
	/* Called in the watchdog when the detached process has ended before the tasks: its pid, its status as from
	 * waitpid(2), and `backup_fd`, which is still open. May be NULL. */
	void (*lost)(pid_t pid, int status, int backup_fd, struct hvd_step_tasks *tasks, void *arg);
};

/* Start a detached process. Returns its pid; -1 with err set: nothing was started. */
pid_t hvd_detached_start(const struct hvd_detached_opts *opts, struct hvd_err *err);

/* How long the detached process may take to end after the tasks. */
#define HVD_DETACHED_LAST_MS 500

/* In run(): close the descriptors that were kept of the starting process, and leave its directory. */
void hvd_detached_detach(struct hvd_detached *self);
/* In run(), once: call `over` from the event loop when the tasks have ended. */
void hvd_detached_watch(struct hvd_detached *self, struct event_base *base, void (*over)(void *arg), void *arg);
/* From the event loop: have all tasks ended by now? Then `over` follows. */
bool hvd_detached_tasks_over(struct hvd_detached *self);
/* After the event loop has ended: stop watching. */
void hvd_detached_unwatch(struct hvd_detached *self);

#endif
