/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status_command.h - hvdrun --status: shows the state of the launches of a job, and what their ranks use.
 *
 * The launches on this host answer (control.h). If there is none, the hosts of a Slurm job are asked where its launches may
 * run: its first host, which runs its batch script, and those where srun runs. Each is asked by a short step, which runs
 * the same command there.
 */
#ifndef HVD_STATUS_COMMAND_H
#define HVD_STATUS_COMMAND_H

#include "control.h"
#include "lib/base/err.h"
#include "lib/base/log.h"

#include <jansson.h>
#include <stdbool.h>

/* {"launches":[STATUS,…]} of docs/status.md, with all ranks (NULL) or with one and its last lines. `program`: the
 * path of hvdrun, which all hosts have. A new reference; NULL with err set, HVD_E_USAGE if there is no such job, or it does
 * not run. */
json_t *hvd_job_status_get(const char *target, const char *rank, const char *program, const struct hvd_log *log,
			   struct hvd_err *err);

/* Print it to stdout, as JSON with `json`. -1 with err set. */
int hvd_status_command(const char *target, const char *rank, bool json, const char *program, const struct hvd_log *log,
		       struct hvd_err *err);

#endif
