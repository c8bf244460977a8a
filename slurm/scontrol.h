/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scontrol.h - the output of `scontrol show config`, for builds without libslurm.
 */
#ifndef HVD_SCONTROL_H
#define HVD_SCONTROL_H

#include "slurm.h"

/* Fill *site from the output of `scontrol show config`, lines of "Key = value". A key that is missing, or has a
 * malformed value, counts as not set. Untrusted input is fine. */
void hvd_scontrol_config_parse(const char *text, struct hvd_slurm_site *site);

#endif
