/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - a job of hvdrun (job.h), whose starter is the processes of the backend: those that it has prepared, or in an
 * elastic job one for each host that comes.
 *
 * One event loop holds the job, the backend's processes and the signals (launcher_process.h). It ends when these processes have
 * ended. If the one process that started all ranks goes on when all of them have ended (srun may wait for ever for
 * a rank whose end it was not told of), end_timeout.h says so, or has it ended. Processes that do not end within a deadline
 * are killed (procs.h).
 *
 * Signals: where the backend is one process that starts the ranks (srun, mpirun), it gets the terminal's signals itself,
 * and run.c decides on those that hvdrun gets. Elsewhere the first SIGINT, SIGTERM or SIGHUP ends the ranks (SIGTERM,
 * --kill-wait, SIGKILL), a second one ends them at once. SIGQUIT, SIGUSR1, SIGUSR2 and SIGCONT are passed on to the ranks.
 * So is SIGTSTP in a static job, before this process stops; SIGTTIN and SIGTTOU, which rank 0 may cause at a terminal
 * (spawned_ranks.h), count as SIGTSTP.
 */
#ifndef HVD_RUN_H
#define HVD_RUN_H

#include "job_result.h"
#include "launcher/hosts/driver_opts.h"
#include "launcher/start/backend.h"

/* Run what the backend has prepared. `opts` gets the identity added. *result tells how the job ended; -1 with err set
 * only when no process was started. */
int hvd_run(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_driver_opts *opts,
	    struct hvd_result *result, struct hvd_err *err);

#endif
