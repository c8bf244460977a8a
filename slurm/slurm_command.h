/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurm_command.h - runs a command of Slurm: squeue, scontrol, scancel.
 *
 * The commands take the place of libslurm, whose library and structs belong to one release of Slurm. The options and
 * fields that hvd uses print the same texts in each release from 20.11 on.
 */
#ifndef HVD_SLURM_COMMAND_H
#define HVD_SLURM_COMMAND_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"

/* Run a command until it has ended, and return what it prints; the caller frees it. The variables by which users change
 * the output of Slurm's commands do not reach it, times are printed as seconds since 1970, and the end of the job that
 * this process is part of, which begins with SIGTERM, does not end it. NULL with err set: `what` ("cannot ask Slurm for
 * the job") and the reason. The code is HVD_E_NOENT if Slurm says that there is no such job or step, or that it has
 * ended; HVD_E_AUTH if this user may not know or do it; HVD_E_FAILED if the command has failed otherwise; HVD_E_SYS,
 * HVD_E_LIMIT or HVD_E_TIMEOUT if it could not be started, prints too much or does not end. */
char *hvd_slurm_command(const char *const *argv, const char *what, hvd_time deadline, struct hvd_err *err);

#endif
