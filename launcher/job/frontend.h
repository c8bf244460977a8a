/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frontend.h - hvdrun as a process, whatever the job that it runs: the event loop, the secret, the processes that it
 * starts, the terminal, the signals, and the result.
 */
#ifndef HVD_FRONTEND_H
#define HVD_FRONTEND_H

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

struct hvd_frontend {
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

	/* frontend.c's own. */
	struct hvd_procs_opts procs_opts;
	char boot[HVD_BOOT_MAX];
	struct hvd_signals *signals;
	struct hvd_timer *pause;
};

/* Set up a job with its processes' table, its secret and its signals; no process is started. `launch`, `backend`,
 * `opts` and the ops are not owned and must outlive the job; `arg` is the argument of the ops and of `on_signal`. `opts`
 * gets the identity added. `result` is cleared. -1 with err set; hvd_frontend_clear() is due in any case. */
int hvd_frontend_init(struct hvd_frontend *fe, struct hvd_launch *launch, const struct hvd_backend *backend,
		      struct hvd_driver_opts *opts, struct hvd_result *result, hvd_signal_fn *on_signal,
		      const struct hvd_procs_ops *procs_ops, void *arg, struct hvd_err *err);
/* Tell processes that are started from now on how to reach the driver. -1 with err set. */
int hvd_frontend_set_boot(struct hvd_frontend *fe, const struct hvd_boot *boot, struct hvd_err *err);
/* The ranks have a signal: after SIGTSTP this process is about to stop, after SIGCONT it is not. */
void hvd_frontend_pause(struct hvd_frontend *fe, int sig);
/* The job ends because of this signal: say so, and make it the result. Only the first signal counts. */
void hvd_frontend_ended_by(struct hvd_frontend *fe, int sig);
/* The result is a failure, unless it is one already. */
void hvd_frontend_failed(struct hvd_frontend *fe);
/* With --run-func: offer the function to the ranks. `gone` as in runfunc.h; -1 with err set. */
int hvd_frontend_open_func(struct hvd_frontend *fe, void (*gone)(void *arg), void *arg, struct hvd_err *err);
/* The loop has ended: complete the result. The ranks of the last generation had this layout; NULL: there was none. */
void hvd_frontend_finish(struct hvd_frontend *fe, const struct hvd_layout *layout, bool output_lost);
/* End the processes that are left, with what they have started in sessions of their own. */
void hvd_frontend_end_procs(struct hvd_frontend *fe);
void hvd_frontend_clear(struct hvd_frontend *fe); /* whatever uses the event loop is gone */

#endif
