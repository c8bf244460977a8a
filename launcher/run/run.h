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

#include "launcher/backends/backend.h"
#include "launcher/driver/driver.h"

struct hvd_result {
	int status;       /* exit status: the first failed rank's, else the backend's, 1 when the start failed */
	bool started;     /* every rank had its plan */
	bool rank_failed; /* … and one failed: */
	uint32_t rank;
	char host[256];
	int rank_status;      /* as from waitpid(2) */
	double start_seconds; /* until every rank had its plan */
	double seconds;       /* all of it */
	int generations;      /* of an elastic job; else 0 */
	bool limit_met;       /* … which --reset-limit has ended */
};

/* Run what the backend has prepared. `opts` gets the identity added. -1 with err set only when nothing was started. */
int hvd_run(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_driver_opts *opts,
	    struct hvd_result *result, struct hvd_err *err);

#endif
