/* SPDX-License-Identifier: Apache-2.0 */
/* short_step.h - asks hosts of a running Slurm job by a short step of its own beside the job's steps (srun --overlap). */
#ifndef HVD_SHORT_STEP_H
#define HVD_SHORT_STEP_H

#include "lib/base/err.h"
#include "lib/base/strv.h"
#include "slurm/slurm.h"

#include <stddef.h>

/* Find the running job of `target`: "JOB" or "JOB.STEP". `option` (--stacks) is for messages. -1 with err set,
 * HVD_E_USAGE if there is no such job, or it does not run; *job is empty then. */
int hvd_short_step_job(const char *target, const char *option, struct hvd_slurm_job *job, struct hvd_err *err);

/* Run a command once on each of `nodes` nodes: those of `nodelist`, or (NULL) any of the job's. Returns what it prints until
 * its end or the time limit, which the caller frees, and in *messages (may be NULL) what srun says. NULL with err set if srun
 * cannot be started. */
char *hvd_short_step_run(const struct hvd_slurm_job *job, const char *nodelist, size_t nodes,
			 const struct hvd_strv *command, double seconds, size_t *len, char **messages,
			 struct hvd_err *err);

#endif
