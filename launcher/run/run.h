/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - a static job of hvdrun, from the first process to the last: one generation of ranks.
 *
 * One event loop holds the driver, the rendezvous, the backend's processes and the signals (job.h). It ends when the
 * backend's processes have ended. How the job ends:
 *   - every rank has ended: the backend's processes end by themselves. If the one process that started all ranks goes
 *     on (srun may wait for ever for a rank whose end it was not told of), overdue.h says so, or has it ended
 *   - a rank has failed: the others are ended, unless the launch spec says to keep going. When all of them have ended
 *     the user is told which one failed first (launcher/diagnosis/failure_report.h)
 *   - the start has failed, a host is lost, or a signal says so: everything is ended
 * Ranks are ended through the node agents or rank shims where these supervise them, otherwise by a signal to the
 * backend's process. What is left after a deadline is killed (procs.h).
 */
#ifndef HVD_RUN_H
#define HVD_RUN_H

#include "job.h"

/* Run what the backend has prepared. `opts` gets the identity added. *result tells how the job ended; -1 with err set
 * only when no process was started. */
int hvd_run(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_driver_opts *opts,
	    struct hvd_result *result, struct hvd_err *err);

#endif
