/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stacks_command.h - hvdrun --stacks: shows where the ranks of a running job are.
 *
 * If the process of the launch runs on this host, the command asks it (control.h), because it knows its ranks and the
 * store. Otherwise the command asks a Slurm job by a short step of its own beside the job's steps (srun --overlap),
 * with one task on each of the job's nodes, which looks for the ranks there (agent/stacks.h).
 */
#ifndef HVD_STACKS_COMMAND_H
#define HVD_STACKS_COMMAND_H

#include "lib/base/err.h"
#include "lib/base/log.h"

#include <stdbool.h>

/* Ask n times about a rank (NULL: all), with a pause between, and print the groups or, of several samples, the outliers
 * (stack_groups.h) to stdout, as JSON with `json`. `task`: the path of hvd-agent, which all hosts have. Returns 0; -1 with err
 * set: nothing is known, HVD_E_USAGE if there is no such job, or it does not run. */
int hvd_stacks_command(const char *target, const char *rank, int n, bool json, const char *task,
		       const struct hvd_log *log, struct hvd_err *err);

#endif
