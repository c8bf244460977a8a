/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launcher_process.h - hvdrun as a process, whatever the job that it runs: the event loop, the secret, the processes that it
 * starts, the terminal, the signals, and the result.
 */
#ifndef HVD_LAUNCHER_PROCESS_H
#define HVD_LAUNCHER_PROCESS_H

#include "job_result.h"
#include "launcher/hosts/driver_opts.h"
#include "launcher/start/backend.h"
#include "launcher/start/procs.h"
#include "launcher/start/terminal.h"
#include "lib/base/timer.h"
#include "lib/host/layout.h"
#include "lib/protocol/boot.h"
#include "runfunc.h"
#include "secret.h"
#include "signals.h"

struct hvd_launcher_process {
	struct event_base *base;
	struct hvd_launch *launch;
	const struct hvd_backend *backend;
	struct hvd_driver_opts *opts;
	struct hvd_result *result;
	const struct hvd_log *log;
	struct hvd_procs *procs;
	struct hvd_secret secret;
	struct hvd_terminal terminal; /* as it was at first */
	struct hvd_runfunc *func;     /* --run-func, or NULL */
	char boot[HVD_BOOT_MAX];      /* how processes that are started from now on reach the driver */

	/* launcher_process.c's own. */
	struct hvd_procs_opts procs_opts;
	struct hvd_signals *signals;
	struct hvd_timer *pause;
};

/* Set up a job with its processes' table, its secret and its signals; no process is started. `launch`, `backend`,
 * `opts` and the ops are not owned and must outlive the job; `arg` is the argument of the ops and of `on_signal`. `opts`
 * gets the identity added. `result` is cleared. -1 with err set; hvd_launcher_process_clear() is due in any case. */
int hvd_launcher_process_init(struct hvd_launcher_process *launcher, struct hvd_launch *launch,
			      const struct hvd_backend *backend, struct hvd_driver_opts *opts,
			      struct hvd_result *result, hvd_signal_fn *on_signal,
			      const struct hvd_procs_ops *procs_ops, void *arg, struct hvd_err *err);
/* The ranks have a signal: after SIGTSTP this process is about to stop, after SIGCONT it is not. */
void hvd_launcher_process_pause(struct hvd_launcher_process *launcher, int sig);
/* The job ends because of this signal: say so, and make it the result. Only the first signal counts. */
void hvd_launcher_process_ended_by(struct hvd_launcher_process *launcher, int sig);
/* The result is a failure, unless it is one already. */
void hvd_launcher_process_failed(struct hvd_launcher_process *launcher);
/* With --run-func: offer the function to the ranks. `gone` as in runfunc.h; -1 with err set. */
int hvd_launcher_process_open_func(struct hvd_launcher_process *launcher, void (*gone)(void *arg), void *arg,
				   struct hvd_err *err);
/* The loop has ended: complete the result. The ranks of the last generation had this layout; NULL: there was none. */
void hvd_launcher_process_finish(struct hvd_launcher_process *launcher, const struct hvd_layout *layout,
				 bool output_lost);
/* End the processes that are left, with what they have started in sessions of their own. */
void hvd_launcher_process_end_procs(struct hvd_launcher_process *launcher);
void hvd_launcher_process_clear(struct hvd_launcher_process *launcher); /* whatever uses the event loop is gone */

#endif
