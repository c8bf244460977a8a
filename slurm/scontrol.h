/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scontrol.h - the output of scontrol: `show config`, for builds without libslurm, and the steps of a job.
 */
#ifndef HVD_SCONTROL_H
#define HVD_SCONTROL_H

#include "slurm.h"

#include <sys/types.h>

/* Fill *site from the output of `scontrol show config`, lines of "Key = value". A key that is missing, or has a
 * malformed value, counts as not set. Untrusted input is fine. */
void hvd_scontrol_config_parse(const char *text, struct hvd_slurm_site *site);

/* From `scontrol --oneliner show step JOB`: "7.0 (bash on hvdn1), 7.1 (…)", the steps that srun has started. NULL if
 * there is none, or if one is that of the srun with this process id. The caller frees it. Untrusted input is fine. */
char *hvd_scontrol_steps(const char *text, pid_t srun);

#endif
