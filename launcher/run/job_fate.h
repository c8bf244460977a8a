/* SPDX-License-Identifier: Apache-2.0 */
/* job_fate.h - what the scheduler says of a job whose ranks were killed, or do not answer. */
#ifndef HVD_JOB_FATE_H
#define HVD_JOB_FATE_H

#include "lib/base/log.h"

#include <stdbool.h>
#include <stdint.h>

/* Why Slurm has ended job `job` or is ending it: "job 12 was cancelled (scancel)". NULL: it runs, nobody knows, or
 * `job` is 0. Asks the controller, for two seconds at most. The caller frees it. */
char *hvd_job_fate(uint32_t job);

/* Is job `job` of Slurm suspended? Asks the controller, for two seconds at most; false also when that is not known. */
bool hvd_job_paused(uint32_t job, const struct hvd_log *log);

#endif
