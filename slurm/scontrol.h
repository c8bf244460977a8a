/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scontrol.h - what `scontrol show config` prints, for programs that were built without libslurm.
 */
#ifndef HVD_SCONTROL_H
#define HVD_SCONTROL_H

#include "slurm.h"

/* Take what *site has from the output of `scontrol show config`: lines of "Key = value". A key that is missing or whose
 * value is malformed is as if it were not set. */
void hvd_scontrol_config_parse(const char *text, struct hvd_slurm_site *site);

#endif
