/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_wait.h - says what srun waits for, when it waits within a job to make its step.
 *
 * srun waits without a word, and without end, for CPUs that another step of the job has. That may be the very step in
 * which hvdrun runs, if hvdrun cannot see that because tmux, screen or setsid stand between them.
 */
#ifndef HVD_STEP_WAIT_H
#define HVD_STEP_WAIT_H

#include "lib/base/log.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

struct hvd_procs;
struct hvd_step_wait;

/* After some seconds `begun` is asked whether the tasks run. If they do not, and neither does a step of the srun that
 * `procs` has started, a note names the job's other steps. Nothing is owned. */
struct hvd_step_wait *hvd_step_wait_watch(struct event_base *base, uint32_t job, const struct hvd_procs *procs,
					  bool (*begun)(void *arg), void *arg, const struct hvd_log *log);
void hvd_step_wait_destroy(struct hvd_step_wait *wait); /* NULL is fine */

#endif
