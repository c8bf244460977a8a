/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - one launch of hvdrun, from the first process to the last.
 *
 * One event loop holds the driver, the rendezvous, the backend's processes and
 * the signals. It ends when the backend's processes have ended; their output
 * and input are theirs, untouched.
 *
 * Signals: where the processes get the terminal's signals themselves (srun),
 * those from the terminal are left to them and those sent to hvdrun alone are
 * passed on. Elsewhere the first SIGINT, SIGTERM or SIGHUP ends the ranks
 * (SIGTERM, five seconds, SIGKILL), a second one at once. SIGTSTP is passed on
 * to the ranks before this process stops, SIGCONT when it goes on.
 */
#ifndef HVD_RUN_H
#define HVD_RUN_H

#include "job.h"

/* Run what the backend has prepared. `opts` gets the identity added. -1 with err set only when nothing was started. */
int hvd_run(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_driver_opts *opts,
	    struct hvd_result *result, struct hvd_err *err);

#endif
