/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurm_init.h - libslurm reads slurm.conf, once in the life of a process.
 *
 * libslurm's state is the process's own: Slurm 24.11 dies of a second
 * slurm_init() after a slurm_fini(). So slurm_fini() is never called; the state
 * goes with the process. For slurm.c only, with HVD_WITH_SLURM.
 */
#ifndef HVD_SLURM_INIT_H
#define HVD_SLURM_INIT_H

#include "lib/base/err.h"

/* Does nothing when it was done before. After an error it may be tried again. Blocks, forks, and sets SLURM_CONF in the
 * environment, so the first call is to come before there are threads; later calls may come from any. */
int hvd_slurm_init(struct hvd_err *err);

#endif
