/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_wait.h - says what srun waits for, when it waits within a job to make its step.
 *
 * srun waits without a word, and without end, for CPUs that another step of the job has. That may be the very step in
 * which hvdrun runs, if hvdrun cannot see that because tmux, screen or setsid stand between them.
 */
#ifndef HVD_STEP_WAIT_H
#define HVD_STEP_WAIT_H

#include <stdint.h>

struct hvd_job;
struct hvd_step_wait;

/* After some seconds: if no task of the job runs, and neither does a step of the srun that its starter has started, a note
 * names the other steps of Slurm's job with this number. The job is not owned. */
struct hvd_step_wait *hvd_step_wait_watch(const struct hvd_job *job, uint32_t number);
void hvd_step_wait_destroy(struct hvd_step_wait *wait); /* NULL is fine */

#endif
