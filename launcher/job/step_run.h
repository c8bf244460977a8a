/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_run.h - a step of `srun --hvd`, as hvd-driver sees it from its start to the end of srun: a job (job.h)
 * whose starter is the srun that has started this process.
 *
 * srun starts the tasks, passes their output on and ends them; the driver hears of the ranks from the node agents that
 * stay beside them (agent/observed.h). srun has the other end of a socket: it is told there how tasks reach the
 * driver, and when the socket is closed srun is about to end, and waits for this process. What is to be told of the
 * step is told then, as srun's last lines.
 */
#ifndef HVD_STEP_RUN_H
#define HVD_STEP_RUN_H

#include "launcher/hosts/driver_opts.h"
#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/protocol/handshake.h"

#include <event2/event.h>
#include <stdint.h>

/* Nothing is owned. */
struct hvd_step_run_opts {
	uint32_t job, step;
	int srun;        /* the socket */
	bool ends_ranks; /* srun does not end the step after a rank has failed */
	struct hvd_driver_opts *driver;
	struct hvd_session *session;
	const struct hvd_log *log;
};

/* Run the driver of the step until srun, or a SIGTERM, ends it. Returns the exit status to end with; -1 with err set:
 * it could not start. */
int hvd_step_run(const struct hvd_step_run_opts *opts, struct hvd_err *err);

#endif
